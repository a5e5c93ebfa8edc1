// Package shadow copies requests of a pool to another pool, its shadow, and compares the answers. No client waits for it.
//
//	worker, answer --> Copier --> parcel --> Feed, bounded --> Run: a batch --> the shadow's own queue, workers and servers
//	                                                            ^                                      |
//	                                                            '---- answers: compared, counted ------'
//
// A part of the keys is in: those whose hash is below a limit, the same ones in every middleware. A retrieval is copied key by key. The
// copies of a worker are handed over with the client's answer; if too many wait, they are dropped.
//
// # Writes
//
// A write is copied when it is answered, as what came of it: an add that stored is a set, one that was refused is nothing. So the shadow
// gets the state of the pool, not its races. Copies are sent in the order in which they were handed over, one batch at a time.
//
// # What "different" means
//
// A read and its copy are not done at the same moment. Therefore they count as different only if a later read of the key finds the same two
// answers again, and no write of it came between; a write that was under way at the first read would have come by then (Options.Within). Writes
// that the shadow did not get, or not in the order of the pool, would differ for good: until it is written again such a key is in doubt, and its
// differences are unknown. A key is in doubt after
//
//   - a write of it that was dropped, or that failed, in the pool or in the shadow
//   - two writes of it that were under way at the same time, unless a key lock ordered them
//   - a write of which the answer doesn't say what came of it, as that of an ms with I
//
// Keys in doubt are remembered by their hashes, in bounded memory: of several in one slot all are in doubt for good. What other middlewares did
// not copy nobody knows here.
package shadow
