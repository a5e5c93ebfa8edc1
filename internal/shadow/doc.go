// Package shadow copies requests of a pool to another pool, its shadow, and compares the answers. No client waits for
// it.
//
//	worker, answer --> Copier --> parcel --> Feed, bounded --> Run: a batch --> the shadow's own queue, workers and servers
//	                                                            ^                                      |
//	                                                            '---- answers: compared, counted ------'
//
// Only a share of the keys is copied: those whose hash is below a limit, the same keys in every mcmw instance. A
// retrieval is copied key by key. A worker hands its copies over with the client's answer. If too many wait, they are
// dropped.
//
// # Writes
//
// A write is copied when it is answered, as its effect: an add that was stored is copied as a set, a refused add is not
// copied. So the shadow gets the state of the pool, not its races. Copies are sent in the order in which they were
// handed over, one batch at a time.
//
// # What "different" means
//
// A read and its copy are not executed at the same moment. Therefore they count as different only if a later read of
// the key gets the same two answers again, and no write of it came between. A write that was in progress at the first
// read has taken effect by then (Options.Within). Writes that the shadow did not get, or not in the order of the pool,
// would make the answers differ permanently. So until such a key is written again it is in doubt, and its differences
// are unknown. A key is in doubt after
//
//   - a write of it that was dropped, or that failed, in the pool or in the shadow
//   - two concurrent writes of it, unless a key lock ordered them
//   - a write whose answer does not show its effect, such as an ms with I
//
// Keys in doubt are remembered by their hashes, in bounded memory. If several share a slot, all keys of the slot stay
// in doubt permanently. Whether other mcmw instances failed to copy a write is not known here.
package shadow
