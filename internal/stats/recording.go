//go:build !nostats

package stats

// recording is false with the build tag nostats alone, which is for measuring what recording costs: make bench-stats.
const recording = true
