// Package ssh is the testbed of hosts that are reached over ssh: virtual or real machines with a memcached, and nothing else of
// ours on them.
//
//	ssh HOST: a shell makes a temporary directory -> takes the programs into it -> runs `mcmwlab agent serve` there (package remote)
//	          and removes the directory when that ends
//
// It is the system's ssh that is run, so configuration, known hosts, keys, agents and jump hosts are those of the person who
// measures. Each host has one connection with one session, through which programs are copied, started, watched and stopped. When it
// ends, for whatever reason, the host's side kills what runs and removes what was copied.
package ssh
