// Package behaviour tests mcmw's promises from outside: whole middlewares, in the test's process or as separate
// processes, in front of real memcached servers and of servers that misbehave.
//
// A file, or the files with a common first word, is a suite:
//
//   - differential: generated scripts get the same replies through mcmw as from memcached itself;
//   - order: replies come in the order of the requests, many connections each get those of a memcached of their
//     own, and no byte of one answers another, even when servers fail;
//   - history: verified loads stay legal, and the replicas agree, while servers and middlewares fail;
//   - reconfigure: the same, while the configuration changes as well; it has only a long form;
//   - linear, divergence: histories are linearizable, and the replicas agree afterwards;
//   - placement, apply: the servers of a key, and the effect of a new list of servers;
//   - clients, security: third-party programs and libraries, TLS and credentials;
//   - overload, flood, resources, drain: memory, files and goroutines are bounded, and a stop loses no reply.
//
// Each has a short form, and a long one that MCMW_LONG=1 selects.
package behaviour
