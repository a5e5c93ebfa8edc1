package netstage

import (
	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/stats"
)

// textShed is the reply to a request for which the queue had no room.
const textShed = "SERVER_ERROR overloaded: the queue is full, nothing was done\r\n"

// shed answers all requests of a batch for which the queue had no room. None of them reaches a server. The connection's
// previous batch is answered, so the reader may write. A client that does not read the replies is handled like any slow
// client.
func (c *conn) shed(b *request.Batch) {
	m := fromMemories.Get().(*fromMemory)
	defer m.release()
	g := &m.out
	received := 0
	for i := range b.Requests {
		r := &b.Requests[i]
		received += len(r.Raw)
		if r.Has(protocol.Closes) {
			continue
		}
		switch {
		case r.NoReply:
		case r.Answer != "" && !r.HasEffect():
			g.AddString(r.Answer)
		default:
			g.AddString(textShed)
		}
	}
	size := g.Len()
	c.stage.options.Net.Change(func(n *stats.NetRecord) {
		for i := range b.Requests {
			if r := &b.Requests[i]; !r.Has(protocol.Closes) {
				n.Requests[r.Command][stats.ResultShed]++
			}
		}
		n.FromClients += uint64(received)
		n.ToClients += uint64(size)
	})
	b.Release()
	if n := c.Reply(g); n < size {
		c.Stall(g.AppendFrom(nil, n), nil)
	} else {
		c.Finish()
	}
}
