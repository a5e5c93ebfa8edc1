// Command mcmw is a middleware between memcached clients and memcached servers.
//
//	mcmw serve          serve clients
//	mcmw config check   say whether the configuration is accepted
//	mcmw config print   write the configuration, with --show-origin where each value comes from
//	mcmw demo           try it: three servers, the middleware, a load and a live page
//	mcmw top            watch a running middleware
//	mcmw advise         say what limits a running middleware
//	mcmw ping           set, get and delete a value through a memcached or a middleware
//	mcmw version        say which version this is
//	mcmw completion     write a shell's completion script
//
// It exits with 0 when it did what it was asked, 1 when that failed, and 2 when the flags, the environment or the
// configuration file ask for something that is not accepted.
package main
