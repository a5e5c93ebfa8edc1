// Package sweep compares the replicas of all keys on the servers themselves, and deletes copies that differ. Normally the middleware that
// wrote a key does that right after the write; a sweep finds what a middleware left behind that was killed before.
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
// A cas from protocol.FirstVersion on is a version that a middleware gave to what it wrote: equal versions mean equal bytes. Below it is
// a number that the server gave out itself, which says nothing about other servers' copies; then the values are compared. So
// are those of keys whose versions differ: two writes of the same value are no disagreement.
//
// Nothing is ever copied: a copy could land behind a later delete. A copy is deleted only if two looks in a row have found the same
// disagreement, and only by the cas that was seen. A copy that is missing elsewhere is no disagreement: it may have been evicted or have
// expired. So a sweep may run while clients write.
package sweep
