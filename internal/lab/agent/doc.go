// Package agent is what the lab does on the hosts of a testbed beside the load: it looks at the host and its processes once a second,
// measures the path between hosts or makes it longer,
// and says what kind of host it is.
//
// Everything is done by a program that a testbed starts on a host (`mcmwlab agent ...`) and that writes its results to standard
// output, so that a testbed needs nothing but a way to run programs.
package agent
