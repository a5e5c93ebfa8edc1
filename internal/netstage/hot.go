package netstage

import (
	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/wire"
)

// serveHot answers b at now, ns, if it consists of gets of hot keys whose values are there. The connection's batch before it is answered, so
// its writes are done, and the reader may write.
func (c *conn) serveHot(b *request.Batch, now int64) bool {
	if r := &b.Requests[0]; !isGet(r) || c.Crowded() {
		return false
	}
	g := gathers.Get().(*wire.Gather)
	defer gathers.Put(g)
	defer g.Reset()
	received := 0
	for i := range b.Requests {
		r := &b.Requests[i]
		if !isGet(r) || r.NumKeys != 1 || r.Answer != "" {
			return false
		}
		reply := c.stage.options.Hot.Get(r.Keys, now)
		if reply == nil {
			return false
		}
		g.Add(reply)
		received += len(r.Raw)
	}
	for i := range b.Requests {
		c.hot.Saw(b.Requests[i].Keys, 1, now)
	}
	size, requests := g.Len(), len(b.Requests)
	b.Release()
	if n := c.Reply(g); n < size {
		c.underway = true
		c.busy.Store(true)
		c.Stall(g.AppendFrom(nil, n), nil)
	}
	c.arrivals.Hot(requests, received, size)
	return true
}

// isGet reports whether r is a retrieval whose answer is the same whichever server gives it.
func isGet(r *request.Request) bool { return r.Command.IsRetrieval() && !r.Has(protocol.First) }
