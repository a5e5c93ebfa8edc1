// Package agent has the lab's helpers for the hosts of a testbed. They sample a host and its processes once a second,
// measure or delay the path between hosts, and describe a host.
//
// A testbed starts each helper as a program on the host (`mcmwlab agent ...`). The program writes its results to
// standard output. So a testbed only needs a way to run programs.
package agent
