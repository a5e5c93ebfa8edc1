// Package sweep compares the replicas of all keys on the servers themselves, and deletes copies that differ: what no living
// middleware will do, because the one that wrote them was killed before it looked whether they agree.
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
// Nothing is ever copied: a copy could land behind a later delete. What is deleted is exactly what was seen, twice, by its
// cas, and a copy that others lack is none that disagrees: evictions, expiry and writes that go on cost a sweep nothing but
// another look.
package sweep
