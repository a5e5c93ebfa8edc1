// Package protocol is the memcached text protocol, both directions, as memcached 1.6 speaks it. It has no sockets, clocks
// or metrics: it decodes requests and replies from bytes that its callers have read.
//
// A decoder has three outcomes, kept apart: unfinished (0 bytes consumed: read more), invalid (a request that carries the
// text memcached answers it with, after which the connection goes on), and an error (the connection has to be closed,
// because memcached closes it, or because where the next message starts can't be known).
package protocol
