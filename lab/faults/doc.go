// Package faults makes servers fail while a middleware serves a load, and judges the answers that the clients get.
//
//	clients --> mcmw --> [faulty proxy] --> memcached
//	  |           |                            |
//	  judge       admin server, log            killed, suspended, restarted, cut off
//
// # What is run
//
// The middleware and the servers are processes, started as users start them. A scenario is a table entry: the system,
// the fault, the action that ends the fault, and the errors to expect. A soak makes random servers fail in random ways;
// a seed selects them. The timeline is: load without a fault, the fault, its end, load again. At the end every key is
// read once more, through the middleware and from each server.
//
// # How it is judged
//
// The load is an open loop: each connection sends a request when it is due, whether or not earlier ones are answered.
// Response times count from the due time. Every value contains its key and the number of its write, and must be
// complete. Each key has one writer. The acknowledged writes are known when a read is sent, so every read is judged
// exactly:
//
//   - wrong: a value that nobody stored under the key, or bytes that do not answer the request;
//   - stale: older than the last write that was acknowledged, or than the last value that was read, before this read
//     was sent. A write that failed may or may not take effect; a miss is allowed. In scenarios that kill mcmw, a value
//     that is older than one read before but not older than the last acknowledged write is counted separately
//     (withdrawn): until a sweep, some servers have the write that mcmw was making and others do not;
//   - lost: the connection ended, or no answer came within 30 s.
//
// None of these is allowed, and no goroutine may be left when the load has ended, whatever fails and however busy the
// machine is. Times are reported but not judged.
package faults
