package netstage

import (
	"fmt"
	"net"
	"strings"
	"time"

	"mcmw/internal/protocol"
)

// versionEpoch is the beginning of the time that versions of announcements count. Clients read them as 32-bit numbers,
// which suffices until 2094.
var versionEpoch = time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)

// announcement returns the reply to `config get cluster`: the nodes that a client shall use, which are middlewares. A
// client takes a list over if its version is greater than the last one it saw, perhaps another middleware's. So the
// version is the time at which the list began to hold. For the address that the client reached that is now: it may have
// reached another middleware before, which is gone.
func (c *conn) announcement() string {
	nodes, since := c.stage.options.Announce, c.stage.began
	if len(nodes) == 0 {
		addr, ok := c.sock.LocalAddr().(*net.TCPAddr)
		if !ok {
			return protocol.TextError // a unix socket
		}
		// Not addr.AddrPort: a listener of both families has IPv4 addresses in the form ::ffff:192.0.2.1, which clients
		// that put host and port together with a colon can't use.
		nodes, since = []string{addr.String()}, time.Now()
	}
	var list strings.Builder
	fmt.Fprintf(&list, "%d\n", int64(since.Sub(versionEpoch).Seconds()))
	for i, node := range nodes {
		if i > 0 {
			list.WriteByte(' ')
		}
		// Some clients use the first part, a name, and some the second, an address. A name in its place is resolved by
		// all that were tried.
		host, port, _ := net.SplitHostPort(node)
		fmt.Fprintf(&list, "%s|%s|%s", host, host, port)
	}
	list.WriteByte('\n')
	return fmt.Sprintf("CONFIG cluster 0 %d\r\n%s\r\nEND\r\n", list.Len(), list.String())
}
