package sweep

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/link"
	"mcmw/internal/protocol"
)

// Missing are the keys that reads have missed in a pool that is warmed up, and that are to be copied there. It is safe
// for concurrent use.
type Missing struct {
	mu      sync.Mutex // guards waiting
	waiting map[string]struct{}
	// more: whoever adds a key -> take; capacity 1; never closed.
	more chan struct{}
}

// mostMissing bounds the number of keys that wait. The next read of a key that was dropped adds it again.
const mostMissing = 10_000

// NewMissing returns an empty Missing.
func NewMissing() *Missing {
	return &Missing{waiting: map[string]struct{}{}, more: make(chan struct{}, 1)}
}

// Add adds a key, unless it waits already or too many keys wait.
func (m *Missing) Add(key []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, waits := m.waiting[string(key)]; waits || len(m.waiting) == mostMissing {
		return
	}
	m.waiting[string(key)] = struct{}{}
	select {
	case m.more <- struct{}{}:
	default:
	}
}

// take waits for keys and removes up to most of them, which it returns; none if ctx ends.
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

// Fill copies missing keys until ctx ends, while middlewares read the target servers. Any number of middlewares may do
// this at the same time.
func (c *Copier) Fill(ctx context.Context, missing *Missing) {
	c.begin()
	defer c.session.disconnect()
	logged := ""
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
			c.begin()
		}
		c.Failed(why)
		if why != "" && why != logged {
			c.Log.Warn("keys could not be copied to the pool that is warmed up; the next reads that miss them there "+
				"try again", "error", why)
		}
		logged = why
		backend.Pause(ctx, time.Duration(len(keys))*time.Second/time.Duration(c.Rate)-time.Since(begin))
	}
}

// fill returns the transfer of key; nil: a server that holds it, or is to hold it, may not be read now.
func (c *Copier) fill(key string) *Transfer {
	from, to := c.holders([]byte(key), nil, nil)
	t := &Transfer{
		Key: link.Key(key), Source: from[0], Others: from[1:], To: to, Hold: int64(c.Hold / time.Second),
		Provisional: func() uint64 { return protocol.FirstProvisional | rand.Uint64() },
	}
	for _, s := range slices.Concat(from, t.To) {
		if !c.session.servers[s].Readable() {
			return nil
		}
	}
	return t
}

// begin starts a new session, without connections yet, for the servers of both pools.
func (c *Copier) begin() {
	c.session = newSession(slices.Concat(c.Servers, c.Targets))
}
