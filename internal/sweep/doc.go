// Package sweep compares the replicas of all keys on the servers, and deletes copies that differ. Normally the
// middleware that writes a key does this right after the write. A sweep finds the differences that a middleware left
// because it was killed before.
//
// It also copies keys to another pool (Copier, Transfer), and to a server that has lost its keys (Refiller, Refill).
//
//	server 1 -- lru_crawler metadump --> keys with their cas, a window at a time
//	                                        |  mg k u c   to the key's other holders
//	                                        v
//	                     all hold one version? --> they agree
//	                                        |  mg k u v f c   to all holders, twice
//	                                        v
//	                     same values? --> they agree         md k C<cas seen>   where a value differs from that of
//	                                                                            the first holder that has the key
//	server 2, and so on
//
// A cas from protocol.FirstVersion on is a version that a middleware gave to a value that it wrote: equal versions mean
// equal bytes. A lower cas was assigned by the server itself and says nothing about other servers' copies; then the
// values are compared. The values are also compared if versions differ, because two writes of the same value are no
// disagreement.
//
// A sweep never copies: a copy could arrive after a later delete. It deletes a copy only if two looks in a row have
// found the same disagreement, and only by the cas that it saw. A key that a server lacks is no disagreement: it may
// have been evicted or have expired. A server that lacks many, and evicts none, is refilled as one that returned
// without its keys (Refiller). So a sweep may run while clients write.
package sweep
