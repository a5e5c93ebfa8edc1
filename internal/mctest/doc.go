// Package mctest has the environment in which tests run the middleware: real memcached processes, servers that
// misbehave on purpose, connections that fail, and a client that sends any bytes and reads exactly one reply.
//
// Only tests import it. It imports only package faulty of this module, so that the tests of every package can use it.
// Package mwtest below it starts the middleware.
//
// There are three sizes of test doubles:
//
//   - Script: a server that sends the bytes that the test says, and checks the bytes that it receives;
//   - Proxy: a real connection that is cut, delayed, doubled or split into single bytes;
//   - Server: the real memcached, started, stopped, frozen and restarted on the same port.
//
// Nothing here waits without a deadline.
package mctest
