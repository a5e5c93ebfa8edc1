// Command mcmw is a middleware between memcached clients and memcached servers. `mcmw help` lists its commands.
//
// The exit code is 0 on success, 1 on failure, and 2 when the flags, the environment or the
// configuration file are invalid.
package main
