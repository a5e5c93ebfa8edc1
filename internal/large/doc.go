// Package large is how a value is stored that is larger than memcached's items: in chunks. It has the encoding of heads, the chunks' keys and lives; package
// plan decides who is asked for what.
//
//	key                     --> head: version, total size, size of a chunk, checksums; the client's flags and expiry, and its cas
//	mcmw:large:VERSION:0    --> the first chunk
//	mcmw:large:VERSION:1    --> ..
//
// # Why a value is never torn
//
// A version is random and of one write alone. Chunks are stored under their version's keys, once, and never changed; the head is stored, as the key's item,
// when all chunks are. So whoever reads a head reads the chunks of that write or misses some; then the whole value is a miss. Chunks that don't have the
// size that the head tells, or together not its checksum, are a miss as well. A writer that ends in between leaves chunks that no head names.
//
// # What decides
//
// The head alone is the item: replicas agree on it, conditions (add, replace, cas) compare it, deletes, expiry, repair and invalidation are its. Chunks are on
// the servers of their head, not where their keys would be placed: so a replica has a value whole or not at all, and failover, changes of servers and marks mean for a
// value of any size what they mean for one item. Where a server didn't get the chunks it doesn't get the head, either: the key is deleted there.
//
// # Steps
//
//	set, add, replace, cas    chunks to all servers of the key --> the head, as any value
//	get, gets, gat, mg v      as any value --> for each head the chunks, from the server that had it; if some are missing --> delete the head there
//
// The key's lock is held over both steps of a write, also where keys have one server, and no write is planned behind it meanwhile. A read whose chunks fail is read
// again elsewhere, head and all. Memory for a value is taken from the round's before its chunks are asked for; what doesn't fit is asked for again when
// clients have taken the rest.
//
// # Forgery
//
// A client's value that begins like a head is stored behind a head, inline. So no value from a client is ever taken for a head, provided that all it writes
// passes here: append and prepend, which could make one in the server, are refused. What begins like a head and is none is a miss.
//
// # What is left behind
//
// A head without all of its chunks, as evictions leave it, stays until a read finds it: that deletes it before it answers a miss, so that the key is one for add and
// replace, too. It looks at the item again, and deletes it by its cas if it is still that head; if another value has taken its place, that is read. Until then the value
// is one that is not evicted yet. As with any value, each server evicts for itself, and the first one decides.
//
// An overwritten or deleted value leaves its chunks: they end with the value's expiry and a minute, or are evicted. To delete them each write would have to read
// first. A touch changes the head's life alone, since it would have to read the head, too: a value is a miss once its chunks have ended.
//
// # Turning it on and off
//
// Whoever doesn't know heads hands them to clients as values. So all must understand them before one writes any: with a limit not above the item size heads are
// read, and nothing is split.
package large
