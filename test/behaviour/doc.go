// Package behaviour holds mcmw to what it promises, from outside: whole middlewares, started in the test's process or as processes of
// their own, in front of real memcached and of servers that misbehave.
//
// A file, or the files with a common first word, is a suite:
//
//   - differential: generated scripts get the same replies through mcmw as from memcached itself;
//   - order, mixup: replies come in the order of the requests, and no byte of one answers another, also when servers fail;
//   - linear, divergence: histories are linearizable, and the replicas agree afterwards;
//   - placement, topology, apply: which servers a key is on, and what a new list of servers changes;
//   - clients, security: programs and libraries that others wrote, TLS and credentials;
//   - overload, flood, resources, drain: memory, files and goroutines stay bounded, and a stop loses no reply.
//
// Each has a short form, and a long one that MCMW_LONG=1 selects.
package behaviour
