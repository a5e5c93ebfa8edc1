// Package load puts load on memcached servers, on their proxies, or on Redis, and measures the replies.
//
// # The model
//
// Without a [Schedule] the load is a closed loop. Each of N connections keeps P requests (the pipeline) outstanding and
// sends the next one as soon as a reply is complete, or after a think time. Throughput X, mean response time R, mean
// think time Z and the number of outstanding requests are related by N*P = X*(R+Z). While a server stalls it is sent no
// further requests. So the latencies are those that these N clients see, not those that arrivals independent of the
// server would see.
//
// With a Schedule the load is an open loop: requests are due at the times of the schedule, whatever happens to earlier
// requests.
//
// # What is timed
//
// In a closed loop the latency of a request begins just before the write that passes it to the socket; in an open loop
// it begins when the request is due. In both it ends just after the read that brings the last byte of the reply. It
// includes the time for which a complete reply waits for the generator. Recording begins after the warm-up: requests
// whose replies are complete from then on count. At the end the generator sends no more requests, but waits for the
// outstanding replies and counts them; the run ends with the last reply. With Options.CoolDown the load continues
// instead, and the requests outstanding at the end of recording don't count.
//
// # How it works
//
//	Options -> encoder -> one write per batch -> socket
//	socket  -> one read, all there is -> scanner -> histograms of the thread, windows -> Run -> Result
//
// Connection i belongs to thread i mod T and uses target i mod the number of targets. A thread is a goroutine with its
// own epoll instance, buffers, counters and histograms. Once warm it allocates nothing. It shares only the counters
// that Live reads, and the one-second windows that it passes on whole.
//
// The sequence of a connection's requests depends only on the seed and the connection's number. SETs, GETs and
// multi-GETs alternate deterministically by the ratio (1:9 is one SET, nine GETs, one SET, ...). Connections start at
// different positions of that cycle, so that they don't all write at once. [KeyPattern] selects the keys, and [Sizes]
// the sizes of values. With Options.CacheAside there are additional SETs after misses.
//
// A value is the text of its key, a colon and a fixed filler, cut to the value's size. With Verify, each returned value
// is compared byte by byte.
package load
