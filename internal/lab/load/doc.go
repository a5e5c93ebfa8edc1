// Package load puts load on memcached servers, on proxies of these, or on Redis, and measures the replies.
//
// # The model
//
// Without a [Schedule] it is a closed loop: each of N connections keeps P requests (the pipeline) outstanding and sends the
// next as soon as a reply is complete, or after a think time. Throughput X, mean response time R, mean think time Z and the
// requests in circulation are related by N*P = X*(R+Z). A server that stalls is not sent more, so the latencies are those of
// a closed system: what these N clients saw, not what an arrival independent of the server would have seen.
//
// With a Schedule it is an open loop: requests are due when the schedule says, whatever happens to those before.
//
// # What is timed
//
// In a closed loop the latency of a request runs from just before the write that hands it to the socket, in an open loop from
// when it was due; both to just after the read that brought the last byte of its reply. It includes the time that a complete
// reply waits for the generator. Recording begins after the warm-up: requests whose reply is complete from then on count. At
// the end no more requests are sent, and the outstanding ones are awaited and counted; the run ends with the last of their
// replies. With Options.CoolDown the load continues instead, and outstanding requests don't count.
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
// The sequence of requests of a connection depends only on the seed and the connection's number. SETs, GETs and multi-GETs
// alternate by the ratio, deterministically (1:9 is one SET, nine GETs, one SET, ...); connections start at different places
// of that cycle, so that they do not all write at once. Their [KeyPattern] selects the keys, [Sizes] the sizes of values.
// With Options.CacheAside SETs after misses are in addition.
//
// A value is the text of its key, a colon and a fixed filler, cut to the value's size; with Verify each returned value is
// compared with that byte by byte.
package load
