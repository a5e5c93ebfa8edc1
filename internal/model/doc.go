// Package model computes, from the measurements of a window, the utilization of each part of the middleware, which part
// saturates first, and at which rate of requests. It is pure: no clock, no socket, no metric.
//
// The parts are the processor (which the net stage, the workers and the replies share), the workers, and each server.
// The formulas are those of operational analysis, which hold for every system that can be observed, whatever its
// distributions: P. J. Denning and J. P. Buzen, "The operational analysis of queueing network models", ACM Computing
// Surveys 10 (1978); R. Jain, "The Art of Computer Systems Performance Analysis" (1991), chapters 31 and 33. Two
// formulas are models, and their comments say so: the utilization of a server, which is seen from outside, and the wait
// of an M/M/m queue.
//
// Symbols: T length of the window, s; X throughput, requests/s; U utilization, 0 to 1; R time at a part, s; N mean
// number of requests there.
package model
