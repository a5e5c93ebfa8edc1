// Package discover turns the configured list of servers into servers: some entries are servers, others are names of the
// DNS under which servers are found, again and again.
//
//	cache1:11211                        the server; its name is resolved by whoever dials it
//	dns+cache:11211                     every address of the name is a server (A and AAAA; dns4+ and dns6+ one of them)
//	srv+_memcache._tcp.memcached.ns.svc every SRV record is a server: its target's name, the record's port
//
// # Names
//
// Keys are hashed to a server's name and a connection is made to its address, so what matters is that the name stays. An SRV
// record's server is called by its target: by the first label if the target lies directly below the name asked for, as
// memcached-0 of a StatefulSet does, else by the whole target; a port other than memcached's is part of the name. Which of
// them it is depends on the entry and on the target alone, never on the other records, so that no record that comes or goes
// renames another one's server. Of a server found by its address there is no other name than the address.
//
// # What an answer changes
//
// A server that is new in an answer is found at once, and so is a new address of a known one. A server that an answer lacks
// stays, at its last address, until RemoveAfter answers in a row have lacked it: a pod that restarts leaves the DNS for
// some time, and to remove its server would move its keys twice. A lookup that fails, or finds nothing, changes nothing.
package discover
