// Package mctest has the environment that tests put around the middleware: real memcached processes, servers that misbehave on
// purpose, connections that fail, and a client that sends any bytes and reads exactly one reply.
//
// Only tests import it. Of this module it imports only package faulty, so that the tests of every package may
// use it; what starts the middleware itself is in its subpackage mwtest.
//
// Three sizes of double:
//
//   - Script: a server that sends what the test says, and checks what it receives;
//   - Proxy and FaultyConn: a real connection that is cut, delayed, doubled or split into single bytes;
//   - Memcached: the real program, started, stopped, frozen and restarted on the same port.
//
// Nothing here waits without a deadline.
package mctest
