// Command mcmw is a middleware between memcached clients and memcached servers.
//
//	mcmw serve          serve clients
//	mcmw config check   check the configuration
//	mcmw config print   print the configuration
//	mcmw config explain  show which servers hold a key, and why
//	mcmw config import  translate a configuration of twemproxy or mcrouter
//	mcmw demo           run three servers, the middleware, a load and a live page
//	mcmw top            watch a running middleware
//	mcmw advise         find the bottleneck of a running middleware
//	mcmw ping           set, get and delete a value through a memcached or a middleware
//	mcmw verify-replicas  compare the replicas on the servers
//	mcmw wait           wait until all servers have been refilled
//	mcmw migrate status  show the progress of migrations of keys between pools
//	mcmw version        print version, commit and Go version
//	mcmw completion     print a completion script for a shell
//
// The exit code is 0 on success, 1 on failure, and 2 when the flags, the environment or the
// configuration file are invalid.
package main
