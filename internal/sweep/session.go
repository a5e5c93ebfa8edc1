package sweep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/link"
	"mcmw/internal/marker"
)

// session is a connection to each of some servers, made when it is needed. It is used by one goroutine.
type session struct {
	servers []*backend.Server
	lines   []backend.Line // by server
}

func newSession(servers []*backend.Server) session {
	c := session{servers: servers}
	for _, s := range servers {
		c.lines = append(c.lines, s.Line())
	}
	return c
}

// link returns the connection to server s.
func (c *session) link(ctx context.Context, s int) (*link.Link, error) { return c.lines[s].Link(ctx) }

func (c *session) disconnect() {
	for s := range c.lines {
		c.hangUp(s)
	}
}

func (c *session) hangUp(s int) { c.lines[s].HangUp() }

// named returns err with the name of server s.
func (c *session) named(s int, err error) error {
	return fmt.Errorf("%s: %w", c.servers[s].Name, err)
}

// clock returns the time of server s, in seconds, and the number of items that it holds.
func (c *session) clock(ctx context.Context, s int) (now int64, items uint64, err error) {
	l, err := c.link(ctx, s)
	if err != nil {
		return 0, 0, err
	}
	told, err := l.Stats("", "time", "curr_items")
	if err == nil && told["time"] == 0 {
		err = errors.New("its statistics don't have the time")
	}
	return int64(told["time"]), told["curr_items"], err
}

// full reports whether server s says that it holds all keys that it should.
func (c *session) full(ctx context.Context, s int) (bool, error) {
	l, err := c.link(ctx, s)
	if err != nil {
		return false, err
	}
	value, _, err := l.Get(marker.RefilledKey)
	return value != nil, err
}

// lease is the right to compare replicas, or to copy keys, which one middleware at a time has, so that only one causes
// load. A server holds it.
type lease struct {
	in      *session
	key     string
	home    int       // the server
	renewed time.Time // or taken
}

const (
	// claimFor is how long a lease lasts. One that died keeps others waiting for this time. claimEvery is the time
	// after which a lease is renewed.
	claimFor   = 15 * time.Second
	claimEvery = 3 * time.Second
)

// take takes the lease called key, with a value, on the first of servers that can be read. It returns ErrClaimed, and
// the other's value, if another middleware has it. The servers are the first of the session's.
func (c *session) take(ctx context.Context, servers []*backend.Server, key string, value []byte) (taken *lease,
	other []byte, err error,
) {
	home := slices.IndexFunc(servers, (*backend.Server).Readable)
	if home < 0 {
		return nil, nil, fmt.Errorf("all servers: %w", ErrNotUp)
	}
	return c.takeOn(ctx, home, key, value)
}

// takeOn is take on server home.
func (c *session) takeOn(ctx context.Context, home int, key string, value []byte) (taken *lease, other []byte,
	err error,
) {
	l, err := c.link(ctx, home)
	if err != nil {
		return nil, nil, c.named(home, err)
	}
	taken = &lease{c, key, home, time.Now()}
	added, err := l.Add(key, value, claimFor)
	if err == nil && !added {
		other, _, _ = l.Get(key)
		err = ErrClaimed
	}
	if err != nil {
		return nil, other, c.named(home, err)
	}
	return taken, nil, nil
}

// due reports whether it is time to renew the lease.
func (c *lease) due() bool { return time.Since(c.renewed) >= claimEvery }

// renew renews the lease with a value if it is time, or if now is true.
func (c *lease) renew(ctx context.Context, value func() []byte, now bool) error {
	if !c.due() && !now {
		return nil
	}
	c.renewed = time.Now()
	l, err := c.in.link(ctx, c.home)
	if err != nil {
		return err
	}
	err = l.Set(c.key, value(), claimFor)
	if err != nil {
		c.in.hangUp(c.home)
	}
	return err
}

// release gives the lease back, even if ctx has ended, and leaves a value on the server for a time; 0: none. If that
// fails, the lease expires.
func (c *lease) release(ctx context.Context, value []byte, keep time.Duration) {
	if ctx.Err() != nil {
		c.in.hangUp(c.home)
	}
	l, err := c.in.link(context.WithoutCancel(ctx), c.home)
	switch {
	case err != nil:
	case keep > 0:
		_ = l.Set(c.key, value, keep)
	default:
		_ = l.Delete(c.key)
	}
}
