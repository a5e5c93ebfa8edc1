//go:build !nostats

package stats

// recording is false only with the build tag nostats, which is for measuring the cost of recording: mcmwlab bench mcmw
// PATH.
const recording = true
