package netstage

import (
	"sync"

	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/wire"
)

// textShed answers a request that the queue had no room for.
const textShed = "SERVER_ERROR overloaded: the queue is full, nothing was done\r\n"

// gathers hold the replies of batches that are shed.
var gathers = sync.Pool{New: func() any { return new(wire.Gather) }}

// shed answers all of a batch for which there was no room. Nothing of it reaches a server. The connection's batch before it is
// answered, so that the reader may write; a client that does not take the replies is stalled like any other.
func (c *conn) shed(b *request.Batch) {
	g := gathers.Get().(*wire.Gather)
	received := 0
	for i := range b.Requests {
		r := &b.Requests[i]
		received += len(r.Raw)
		if r.Has(protocol.Closes) {
			continue
		}
		c.stage.options.Net.Shed(r.Command)
		switch {
		case r.NoReply:
		case r.Answer != "" && !r.HasEffect():
			g.AddString(r.Answer)
		default:
			g.AddString(textShed)
		}
	}
	b.Release()
	size := g.Len()
	c.stage.options.Net.Bytes(received, size)
	if n := c.Reply(g); n < size {
		c.Stall(g.AppendFrom(nil, n), nil)
	} else {
		c.Finish()
	}
	g.Reset()
	gathers.Put(g)
}
