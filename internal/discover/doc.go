// Package discover resolves the configured list of servers: some entries are servers, others are DNS names that are looked
// up for servers at intervals.
//
//	cache1:11211                        the server; its name is resolved by whoever dials it
//	dns+cache:11211                     every address of the name is a server (A and AAAA; dns4+ and dns6+ one of them)
//	srv+_memcache._tcp.memcached.ns.svc every SRV record is a server: its target's name, the record's port
//	k8s+_memcache._tcp.memcached.ns.svc every endpoint of this service of Kubernetes is a server; the names are those of its SRV records
//
// # Names
//
// Keys are hashed to a server's name and connections are made to its address, so the name must not change. A server found by
// an SRV record is named after its target: by the first label if the target is directly below the name asked for, as for
// memcached-0 of a StatefulSet, else by the whole target; a port other than memcached's is part of the name. The name
// depends only on the entry and the target, never on the other records, so that no record that is added or removed renames
// another one's server. A server found by its address is named by the address.
//
// # What an answer changes
//
// A server that is new in an answer is added at once, and so is a new address of a known one. A server that an answer lacks
// stays, at its last address, until RemoveAfter answers in a row have lacked it: a pod that restarts is missing from the DNS
// for some time, and removing its server would move its keys twice. A lookup that fails, or finds nothing, changes nothing.
//
// # Watches
//
// The endpoints of a service are not looked up but watched: the API server reports each change of its EndpointSlices when it happens, and Changed
// says that. An EndpointSlice does not tell a pod that restarts from one that was taken away, so answers are counted as above. Where
// the watch is not possible, or for as long as it fails, the SRV records are looked up, which say the same later.
package discover
