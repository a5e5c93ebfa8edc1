// Package load puts load on memcached servers, or on anything that speaks their text protocol, and measures what comes
// back.
//
// # The model
//
// Without a [Schedule] it is a closed loop: each of N connections keeps P requests (the pipeline) outstanding and sends the
// next as soon as a reply is complete, or after a think time. Throughput X, mean response time R, mean think time Z and the
// requests in circulation are bound by N*P = X*(R+Z). A server that stalls is not sent more, so the latencies are those of a
// closed system: they say what these N clients saw, not what an arrival independent of the server would have seen.
//
// With a Schedule it is an open loop: requests are due when the schedule says, whatever has become of those before.
//
// # What is timed
//
// In a closed loop the latency of a request runs from just before the write that hands it to the socket, in an open loop from
// when it was due; both to just after the read that brought the last byte of its reply. It includes the time in which a
// complete reply waits for the generator to look. Recording begins after the warm-up: requests whose reply is complete from
// then on count. At the end no more requests are sent, and those outstanding are waited for and counted; the run lasts to the
// last of their replies. With Options.CoolDown the load goes on instead, and what is outstanding doesn't count.
//
// # How it works
//
//	Options -> encoder -> one write per batch -> socket
//	socket  -> one read, all there is -> scanner -> histograms of the thread, windows -> Run -> Result
//
// Connection i belongs to thread i mod T and uses target i mod the number of targets. A thread is
// a goroutine with its own epoll instance, buffers, counters and histograms; it allocates nothing once warm and shares
// nothing but the counters that Live reads and the one-second windows that it hands over whole.
//
// The sequence of requests of a connection depends on the seed and the connection's number alone. SETs and GETs
// alternate by the ratio, deterministically (1:9 is one SET, nine GETs, one SET, ...); connections start at different
// places of that cycle, so that they do not all write at once. Which keys SETs and GETs take is up to their [KeyPattern], how
// large a value is to [Sizes].
//
// A value is the text of its key, a colon and a fixed filler, cut to the value's size; with Verify each returned value is
// compared with that byte by byte.
package load
