// Package agent has the lab's helpers on the hosts of a testbed: they sample a host and its processes once a second, measure
// the path between hosts or delay it, and describe the host.
//
// Everything is done by a program that a testbed starts on a host (`mcmwlab agent ...`) and that writes its results to standard
// output, so that a testbed needs nothing but a way to run programs.
package agent
