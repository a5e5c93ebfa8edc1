package middleware

import "golang.org/x/sys/unix"

// otherFiles is what the process may need besides connections of clients and to servers: listeners, refused clients that are
// still being told so, the admin server, probes, and what the runtime opens.
const otherFiles = 256

// maxConnections returns how many clients may be connected. Without a limit of its own it is what the limit on open files leaves:
// clients that took the last of them would cut off the servers as soon as a connection to one has to be made again.
func (o *Options) maxConnections(p *pool) int {
	var files unix.Rlimit
	if o.MaxConnections > 0 || unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil {
		return o.MaxConnections
	}
	const most = 1 << 30 // "unlimited" is a number beyond int
	allowed := int(min(files.Cur, most))
	// Every worker, and one prober, connects to every server.
	servers := (len(p.members()) + 1) * len(p.servers)
	return max(allowed/2, allowed-servers-otherFiles)
}
