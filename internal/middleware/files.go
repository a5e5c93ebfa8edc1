package middleware

import "golang.org/x/sys/unix"

// otherFiles is the number of files that the process may need besides connections to clients and servers: listeners,
// connections being refused, the admin server, probes, and those of the runtime.
const otherFiles = 256

// maxConnections returns how many clients may be connected. Without an explicit limit, it is derived from the limit on open
// files: clients that use all of them would leave none for new connections to servers.
func (o *Options) maxConnections(p *core) int {
	var files unix.Rlimit
	if o.MaxConnections > 0 || unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil {
		return o.MaxConnections
	}
	const most = 1 << 30 // "unlimited" is a number that does not fit into an int
	allowed := int(min(files.Cur, most))
	// Every worker connects to every server, and so does one prober.
	servers := (len(p.members()) + 1) * len(p.servers)
	return max(allowed/2, allowed-servers-otherFiles)
}
