// Package faults lets servers fail while a middleware serves a load, and judges what its clients get.
//
//	clients --> mcmw --> [faulty proxy] --> memcached
//	  |           |                            |
//	  judge       admin server, log            killed, suspended, restarted, cut off
//
// # What is run
//
// The middleware and the servers are processes, started as their users start them. A scenario is a table entry: what the
// system consists of, what happens, what ends it, and which errors are to be expected. A soak strikes random servers in
// random ways, from a seed. The timeline is: nothing happens, the fault, its end, the load goes on; then everything is read
// once more, by way of the middleware and from each server itself.
//
// # How it is judged
//
// The load is open: each connection sends when a request is due, answered or not, and the response time counts from then.
// Every value tells for which key it was stored, by which write of the key, and has to be whole. Each key has one writer;
// what was acknowledged is known when a read is sent, so that a read is judged exactly:
//
//   - wrong: a value that nobody stored under the key, or bytes that do not answer the request;
//   - stale: older than the last write that was acknowledged, or than a value that was read, before this read was sent. A
//     write that failed may hold or not; a miss is no lie;
//   - lost: the connection ended, or nothing came for 30 s.
//
// None of these may be, and no goroutine may be left when the load has ended, whatever fails and however busy the machine
// is. Times go into the report and decide nothing.
package faults
