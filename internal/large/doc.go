// Package large stores values that are larger than memcached's items, in chunks. It has the encoding of heads, and the
// keys and lifetimes of chunks; package plan decides which server is asked for what.
//
//	key                     --> head: version, total size, size of a chunk, checksums; with the client's flags, expiry and cas
//	mcmw:large:VERSION:0    --> the first chunk
//	mcmw:large:VERSION:1    --> ..
//
// # Why a value is never torn
//
// A version is random and belongs to one write. The chunks are stored once, under keys with their version, and never
// changed. The head is stored, as the key's item, after all chunks. So whoever reads a head reads chunks of that write,
// or misses some; then the whole value is a miss. Chunks whose sizes or whose common checksum are not those of the head
// are a miss as well. A writer that dies in between leaves chunks that no head names.
//
// # What decides
//
// The head alone is the item: replicas agree on it, conditions (add, replace, cas) compare it, and deletion, expiry,
// repair and invalidation apply to it. The chunks are on the servers of their head, not where their own keys would be
// placed. So a replica has a value completely or not at all, and failover, changes of servers and marks work for a
// value of any size as for one item. A server that did not get the chunks does not get the head: the key is deleted
// there.
//
// # Steps
//
//	set, add, replace, cas    chunks to all servers of the key --> the head, as any value
//	get, gets, gat, mg v      as any value --> for each head its chunks, from the server that had the head; if some are missing --> delete the head there
//
// Both steps of a write hold the key's lock, even if keys have one server, and no other write is planned after it
// meanwhile. A read whose chunks fail is repeated on another server, including the head. The memory for a value is
// reserved before its chunks are asked for. A value that does not fit is asked for again when clients have taken the
// others.
//
// # Forgery
//
// A client's value that begins like a head is stored inline, after a head. So a client's value is never taken for a
// head, provided that all clients write through mcmw. Append and prepend, which could make a head on the server, are
// refused. A value that begins like a head but is none is a miss.
//
// # What remains
//
// A head whose chunks are incomplete, for example after evictions, remains until a read finds it. The read deletes it
// before it answers a miss, so that the key is also missing for add and replace. It reads the item again and deletes it
// by its cas if it is still that head; if another value has replaced it, it reads that. Until then the value counts as
// not evicted. As with any value, each server evicts on its own, and the first server decides.
//
// An overwritten or deleted value leaves its chunks behind: they expire a minute after the value would have, or are
// evicted. To delete them, each write would have to read first. A touch changes only the head's lifetime, because
// otherwise it would have to read the head: the value is a miss once its chunks have expired.
//
// # Turning it on and off
//
// A mcmw that does not know heads hands them to clients as values. So all instances must understand heads before one
// writes any: with a limit not above the item size heads are read, and nothing is split.
package large
