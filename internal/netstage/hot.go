package netstage

import (
	"sync"

	"mcmw/internal/hotkeys"
	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

// fromMemory holds the replies that a reader writes.
type fromMemory struct {
	text []byte
	out  wire.Gather
}

const (
	// keepFromMemory is the capacity, in bytes, up to which a text is kept for reuse.
	keepFromMemory = 64 << 10
	// maxFromMemory is roughly the maximum length of a text, in bytes. Longer replies are left to a worker, which
	// answers in portions.
	maxFromMemory = 1 << 20
)

var fromMemories = sync.Pool{New: func() any { return &fromMemory{text: []byte{}} }}

func (m *fromMemory) release() {
	m.out.Reset()
	if m.text = m.text[:0]; cap(m.text) > keepFromMemory {
		m.text = []byte{}
	}
	fromMemories.Put(m)
}

// serveHot answers b at now, ns as stats.Now, if it consists of gets of hot keys whose values are in memory, and
// reports whether it did. Otherwise it notes which replies should be kept (Wanted). The connection's previous batch is
// answered, so its writes are done and the reader may write.
func (c *conn) serveHot(b *request.Batch, now int64) bool {
	first := &b.Requests[0]
	if !isGet(first) {
		return false
	}
	var hit bool
	if _, first.Wanted, hit = c.stage.options.Hot.Append(nil, first.Keys, formOf(first), now); !hit {
		return false // the usual case, checked before a buffer is taken
	}
	m := fromMemories.Get().(*fromMemory)
	defer m.release()
	received, withCAS := 0, 0
	for i := range b.Requests {
		r := &b.Requests[i]
		if !isGet(r) {
			return false
		}
		var ok bool
		if m.text, r.Wanted, ok = c.stage.options.Hot.Append(m.text, r.Keys, formOf(r), now); !ok ||
			len(m.text) > maxFromMemory {
			return false
		}
		received += len(r.Raw)
		if r.ShowsToken() {
			withCAS++
		}
	}
	if len(m.text) > request.ReadSize && c.Crowded(len(m.text)) {
		return false
	}
	size := len(m.text)
	for i := range b.Requests {
		r := &b.Requests[i]
		if c.hot.Skips(1) {
			continue
		}
		for _, key := range c.hot.Take(r.Keys, 1, now) {
			use := stats.Use{Requests: 1, Hits: 1, Bytes: uint64(len(r.Raw) + size/len(b.Requests))}
			c.stage.options.Usage.Add(key, c.User(), use, now)
		}
	}
	// Counted before the client has the reply, so that counts read after the reply include it.
	c.arrivals.Hot(len(b.Requests)-withCAS, withCAS, received, size)
	b.Release()
	m.out.Add(m.text)
	if n := c.Reply(&m.out); n < size {
		c.begin()
		c.Stall(m.out.AppendFrom(nil, n), nil)
	}
	return true
}

// isGet reports whether r is a get or a gets of one key.
func isGet(r *request.Request) bool {
	return r.Command.IsRetrieval() && !r.Has(protocol.Writes) && r.NumKeys == 1 && r.Answer == ""
}

// formOf returns what the reply to r, a get or a gets, shows.
func formOf(r *request.Request) hotkeys.Form { return hotkeys.Form(r.ShowsToken()) }
