// Package ssh is the testbed of hosts reached over ssh: virtual or real machines that need nothing but a memcached.
//
//	ssh HOST: a shell makes a temporary directory -> receives the programs -> runs `mcmwlab agent serve` there (package remote)
//	          and removes the directory when that ends
//
// It runs the system's ssh, so configuration, known hosts, keys, agents and jump hosts are the user's own. Each host
// has one connection with one session, over which programs are copied, started, watched and stopped. When the
// connection ends, for whatever reason, the host kills the programs and removes the copies.
package ssh
