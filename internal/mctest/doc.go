// Package mctest is what the tests put around the middleware: real memcached processes, servers that misbehave on
// purpose, connections that fail, and a client that sends any bytes and reads exactly one reply.
//
// Only tests import it. It imports nothing else of this module but package faulty, so that the tests of every package may
// use it; what starts the middleware itself is in its subpackage mwtest.
//
// Three sizes of double:
//
//   - Script: a server that says what it was told, and checks what it hears;
//   - Proxy and FaultyConn: a real connection that is cut, held up, doubled or chopped into single bytes;
//   - Memcached: the real program, started, stopped, frozen and restarted on the same port.
//
// Nothing here waits without a deadline.
package mctest
