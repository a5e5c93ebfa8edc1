package middleware

import "golang.org/x/sys/unix"

// otherFiles is the number of open files that the process may need in addition to connections to clients and servers:
// listeners, the admin server, probes, and the runtime's own.
const otherFiles = 128

// maxRefused is the largest number of refused clients that stay connected until they have read the refusal.
const maxRefused = 128

// maxClients returns how many clients may be connected, and how many more may stay connected to read that they were
// refused. Without an explicit limit the first number is derived from the limit on open files: clients that used all
// files would leave none for new connections to servers.
func (o *Options) maxClients(c *core) (clients, refused int) {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil {
		return o.MaxConnections, maxRefused
	}
	const most = 1 << 30 // "unlimited" is a number that does not fit into an int
	allowed := int(min(files.Cur, most))
	// Every worker connects to every server, and each server's prober to that server.
	connections := (len(c.members()) + 1) * len(c.servers)
	for _, s := range c.shadows {
		of := s.inner.current.Load()
		connections += (len(of.members()) + 1) * len(of.servers)
	}
	clients, refused = shareFiles(allowed, connections)
	if o.MaxConnections > 0 {
		clients = o.MaxConnections
	}
	return clients, refused
}

// shareFiles returns how many of the allowed files clients and refused clients may use, given the number of connections
// to servers. Clients get at least half of the files.
func shareFiles(allowed, servers int) (clients, refused int) {
	refused = min(maxRefused, allowed/8)
	return max(allowed/2, allowed-servers-refused-otherFiles), refused
}
