package sweep

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/protocol"
)

// Missing are the keys that reads have missed in a pool that is warmed up, and that are to be copied there. Safe for concurrent use.
type Missing struct {
	mu      sync.Mutex // guards the fields below
	waiting map[string]struct{}
	// more: whoever adds the first key -> Take; capacity 1; never closed.
	more chan struct{}
}

// mostMissing bounds the keys that wait. What is dropped is asked for again by the next read of it.
const mostMissing = 10_000

// NewMissing returns an empty one.
func NewMissing() *Missing {
	return &Missing{waiting: map[string]struct{}{}, more: make(chan struct{}, 1)}
}

// Add adds a key, unless it waits already, or too many do.
func (m *Missing) Add(key []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, waits := m.waiting[string(key)]; waits {
		return
	}
	if len(m.waiting) == mostMissing {
		return
	}
	m.waiting[string(key)] = struct{}{}
	select {
	case m.more <- struct{}{}:
	default:
	}
}

// take waits for keys and takes up to most of them; none if ctx ends.
func (m *Missing) take(ctx context.Context, most int) (keys []string) {
	for {
		m.mu.Lock()
		for key := range m.waiting {
			if len(keys) == most {
				break
			}
			keys = append(keys, key)
			delete(m.waiting, key)
		}
		m.mu.Unlock()
		if len(keys) > 0 || ctx.Err() != nil {
			return keys
		}
		select {
		case <-ctx.Done():
		case <-m.more:
		}
	}
}

// Fill copies what is missing, while others read the servers that it is copied to, until ctx ends. Any number of middlewares may do so at a time.
func (c *Copier) Fill(ctx context.Context, missing *Missing) {
	c.connects()
	defer c.session.disconnect()
	told := ""
	for {
		begin := time.Now()
		keys := missing.take(ctx, window)
		if ctx.Err() != nil {
			return
		}
		var items []*Transfer
		for _, key := range keys {
			if t := c.fill(key); t != nil {
				items = append(items, t)
			}
		}
		err := c.transfer(ctx, items)
		why := ""
		if err != nil && ctx.Err() == nil {
			why = err.Error()
			c.session.disconnect()
			c.connects()
		}
		c.Failed(why)
		if why != "" && why != told {
			c.Log.Warn("keys could not be copied to the pool that is warmed up; reads that miss them there try it again", "error", why)
		}
		told = why
		c.rest(ctx, time.Duration(len(keys))*time.Second/time.Duration(c.Rate)-time.Since(begin))
	}
}

// fill returns the transfer of key; nil: not all of the servers that hold it, or are to hold it, can be relied on.
func (c *Copier) fill(key string) *Transfer {
	from := c.From.Replicas([]byte(key), nil)
	t := &Transfer{Key: keyText(key), Source: from[0], Ahead: from[1:], Hold: int64(c.Hold / time.Second), Provisional: func() uint64 { return protocol.FirstProvisional | rand.Uint64() }}
	for _, g := range c.To.Replicas([]byte(key), nil) {
		t.To = append(t.To, len(c.Servers)+g)
	}
	for _, s := range slices.Concat(from, t.To) {
		if !c.session.Servers[s].Readable() {
			return nil
		}
	}
	return t
}

// connects makes the session anew, of all servers.
func (c *Copier) connects() {
	servers := slices.Concat(c.Servers, c.Gains)
	c.session = Sweep{Servers: servers, links: make([]*backend.Link, len(servers))}
	if c.Rate == 0 {
		c.Rate = DefaultRate
	}
}

// rest waits for so long, or until ctx ends.
func (c *Copier) rest(ctx context.Context, pause time.Duration) {
	if pause <= 0 {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(pause):
	}
}
