// Package discover resolves the configured list of servers. Some entries are servers. Others are DNS names that are
// looked up at intervals to find servers, or endpoints that list servers.
//
//	cache1:11211                        the server itself; its name is resolved at each connection
//	dns+cache:11211                     every address of the name is a server (A and AAAA records; dns4+ and dns6+: one of them)
//	srv+_memcache._tcp.memcached.ns.svc every SRV record is a server, with its target's address and its port
//	k8s+_memcache._tcp.memcached.ns.svc every endpoint of this Kubernetes Service is a server, with the name that its SRV record gives it
//	cluster+c1.cfg.example:11211        every node is a server that this endpoint lists, of ElastiCache or Memorystore (`config get cluster`)
//
// # Names
//
// Keys are placed by a server's name and connections are made to its address, so the name must not change. A server
// found by an SRV record is named after the record's target: by the first label if the target is directly below the
// name that was asked for, such as memcached-0 of a StatefulSet, otherwise by the whole target. A port other than
// memcached's is part of the name. The name depends only on the entry and the target, never on other records, so adding
// or removing a record renames no other server. A server found by its address is named by the address, a node of a list
// by its host.
//
// # What an answer changes
//
// A server that is new in an answer is added at once, and a new address of a known server is used at once. A server
// that an answer lacks stays, at its last address, until RemoveAfter answers in a row have lacked it: a pod that
// restarts is missing from the DNS for some time, and removing its server would move its keys twice. A lookup that
// fails, or finds nothing, changes nothing. What other middlewares know is added to the first answers (Know) and
// removed from those that lack it (Drop).
//
// A list of nodes has a version that grows with each change. A node that a list with a greater version lacks was
// removed by somebody, and leaves at once. A list with a smaller version changes nothing, because not every node learns
// of a change at the same time, unless RemoveAfter answers in a row have it: then it is the list of a new cluster.
//
// # Watches
//
// The endpoints of a Service are watched instead of looked up: the API server reports each change of its EndpointSlices
// when it happens, and the channel of Changed receives. An EndpointSlice does not distinguish a pod that restarts from
// one that was removed. Answers that lack a server are counted as above, unless the StatefulSet of its pod says that
// this pod is to be there: then it stays. While the watch is not possible, or fails, the SRV records are looked up;
// they have the same servers, only later.
//
// Gates tells the pods of these endpoints whether their servers are refilled, so that the platform waits for that
// before it restarts or evicts the next one.
package discover
