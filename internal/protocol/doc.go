// Package protocol implements both directions of the memcached text protocol of memcached 1.6. It has no sockets,
// clocks or metrics: it decodes requests and replies from bytes that its callers have read, and encodes requests.
//
// A decoder has three distinct outcomes besides success. Unfinished: it consumes 0 bytes, and the caller reads more.
// Invalid: the request carries memcached's error text as its answer, and the connection stays open. Error: the
// connection must be closed, because memcached closes it, or because the start of the next message can't be known.
package protocol
