// Package bench compares mcmw with twemproxy (Debian's nutcracker) and with its own variants, in front of the same three
// real memcached servers, on one machine.
//
// # What one measurement is
//
//  1. a fresh process of the system is started on a free port and waited for;
//  2. every key is stored through it, so that every GET hits;
//  3. the load generator (package load) runs in this process: warm-up, then the measurement;
//  4. over exactly the time that the generator records, the CPU time of the system, of the servers and of the rest of the
//     machine is taken from the kernel;
//  5. the process is ended.
//
// The memcached servers stay the same for the whole benchmark. "direct" is the generator connected to all of them
// without anything in between: the limit of this machine with this generator.
//
// # What may be concluded
//
// Everything shares the machine's cores, so that absolute figures say little about other machines. Systems are measured in
// turn (A B C, B C A, ...), and only ratios are taken, of measurements of one round and workload; the result is the
// median of these ratios, with the least and the greatest beside it.
package bench
