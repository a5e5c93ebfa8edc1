// Package faults makes servers fail while a middleware serves a load, and judges what its clients get.
//
//	clients --> mcmw --> [faulty proxy] --> memcached
//	  |           |                            |
//	  judge       admin server, log            killed, suspended, restarted, cut off
//
// # What is run
//
// The middleware and the servers are processes, started as users start them. A scenario is a table entry: the system, the
// fault, what ends it, and the errors to expect. A soak makes random servers fail in random ways, from a seed. The timeline
// is: load without a fault, the fault, its end, load again; then every key is read once more, through the middleware and
// from each server.
//
// # How it is judged
//
// The load is an open loop: each connection sends a request when it is due, whether or not earlier ones are answered, and
// the response time counts from then. Every value contains its key and the number of its write, and must be complete. Each
// key has one writer; the acknowledged writes are known when a read is sent, so that a read is judged exactly:
//
//   - wrong: a value that nobody stored under the key, or bytes that do not answer the request;
//   - stale: older than the last write that was acknowledged, or than a value that was read, before this read was sent. A
//     write that failed may or may not take effect; a miss is allowed. Where mcmw is killed, values that are older than what was read, but not than
//     what was acknowledged, are counted apart: what it was writing is on a part of the servers until a sweep;
//   - lost: the connection ended, or nothing came for 30 s.
//
// None of these may happen, and no goroutine may be left when the load has ended, whatever fails and however busy the
// machine is. Times are reported, but not judged.
package faults
