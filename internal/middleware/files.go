package middleware

import "golang.org/x/sys/unix"

// otherFiles is the number of files that the process may need besides connections to clients and servers: listeners, the admin
// server, probes, and those of the runtime.
const otherFiles = 128

// maxRefused is how many refused clients are waited for where there are enough files.
const maxRefused = 128

// maxClients returns how many clients may be connected, and how many more may wait to read that they were refused. Without an
// explicit limit the first is derived from the limit on open files: clients that use all of them would leave none for new
// connections to servers.
func (o *Options) maxClients(p *core) (clients, refused int) {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil {
		return o.MaxConnections, maxRefused
	}
	const most = 1 << 30 // "unlimited" is a number that does not fit into an int
	allowed := int(min(files.Cur, most))
	// Every worker connects to every server, and so does one prober.
	connections := (len(p.members()) + 1) * len(p.servers)
	for _, s := range p.shadows {
		of := s.inner.current.Load()
		connections += (len(of.members()) + 1) * len(of.servers)
	}
	clients, refused = shareFiles(allowed, connections)
	if o.MaxConnections > 0 {
		clients = o.MaxConnections
	}
	return clients, refused
}

// shareFiles returns how many of the allowed files clients and refused clients may have beside so many connections to servers.
// Clients get half of them at least.
func shareFiles(allowed, servers int) (clients, refused int) {
	refused = min(maxRefused, allowed/8)
	return max(allowed/2, allowed-servers-refused-otherFiles), refused
}
