package middleware

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/route"
	"mcmw/internal/sweep"
)

const (
	// refillLook is the time between two looks at which servers are full, refillSoon that while one is known not to be.
	refillLook = time.Second
	refillSoon = 100 * time.Millisecond
	// refillSlack is how much longer than the longest timeout a write may take to reach a server.
	refillSlack = time.Second
)

// refills reports whether servers of p that lack keys are refilled from the other holders. Nobody may read them
// meanwhile, which only marks can tell other middlewares, and copies are compared by their versions.
func (p *pool) refills(o *Options) bool {
	alone := p.options.Writers == WritersOne && p.records != nil
	return o.RefillRate > 0 && p.replicas() > 1 && p.versioned.Load() && (alone || p.marks(false))
}

// refill refills servers of t's pool that lack keys, until ctx is done or the pool is removed.
func (m *Middleware) refill(ctx context.Context, t *poolState) {
	var of *core
	var f *sweep.Refiller
	defer func() { f.Close() }()
	for last := time.Now(); backend.Pause(ctx, refillSoon); {
		c := m.current.Load()
		p := c.of(t)
		if p == nil {
			return
		}
		lacks := slices.ContainsFunc(p.servers, (*backend.Server).Lacks)
		switch {
		case !lacks && time.Since(last) < refillLook:
			continue
		case !p.refills(&c.options):
			spareAll(p.servers)
			continue
		case of != c:
			f.Close()
			of, f = c, &sweep.Refiller{
				Router: p.router, Servers: p.servers, Owner: p.records.Owner(), Rate: c.options.RefillRate,
				Replicas: p.replicas(), Settle: c.options.longestTimeout() + refillSlack, Log: p.log,
				Current: func() bool {
					now := m.current.Load()
					return now.places(p) && now.options.RefillRate == c.options.RefillRate
				},
			}
		}
		m.refillOnce(ctx, p, f)
		last = time.Now()
	}
}

// places reports whether c, the present core, places keys as p, which may be of an earlier one.
func (c *core) places(p *pool) bool {
	q := c.of(p.poolState)
	if q == nil || q.changing() || !slices.Equal(q.servers, p.servers) {
		return false
	}
	now, before := q.record(), p.record()
	return now.Equal(&before)
}

// spareAll lets servers be read that lack keys.
func spareAll(servers []*backend.Server) {
	for _, s := range servers {
		if s.Lacks() {
			s.Spare()
		}
	}
}

// refillOnce looks which servers of p lack keys, and refills the first of them.
func (m *Middleware) refillOnce(ctx context.Context, p *pool, f *sweep.Refiller) {
	full := f.Look(ctx)
	if !slices.Contains(full, sweep.FullYes) {
		// There is nothing to refill from: no middleware has been here before, or all servers were emptied.
		if p.readable() && !slices.Contains(full, sweep.FullUnknown) && !p.changing() {
			for s := range p.servers {
				_ = f.Declare(ctx, s)
			}
		}
		spareAll(p.servers)
		return
	}
	at := -1
	for s, server := range p.servers {
		if full[s] != sweep.FullNo {
			continue
		}
		switch f.Source(s, full) {
		case sweep.SourceNone:
			server.Spare()
		case sweep.SourceReady:
			if server.Readable() {
				server.Refill()
			}
			if at < 0 && server.Lacks() {
				at = s
			}
		}
	}
	if at < 0 || p.changing() || !p.servers[at].AwaitMarked(ctx) {
		return
	}
	switch err := f.Run(ctx, at); {
	case errors.Is(err, sweep.ErrClaimed):
		if progress, ok := f.Progress(ctx, at); ok {
			p.servers[at].Refilling(progress.String(), 0)
		}
	case errors.Is(err, sweep.ErrReplaced), errors.Is(err, sweep.ErrSource): // the next look uses what is in force now
	case errors.Is(err, backend.ErrNoList):
		p.log.Warn("a server is not refilled", "server", p.servers[at].Name, "error", err)
		_ = f.Declare(ctx, at)
	case err != nil && ctx.Err() == nil:
		p.log.Warn("a server could not be refilled; trying again", "server", p.servers[at].Name, "error", err)
		backend.Pause(ctx, sweepAgain)
	}
}

// Refilled returns whether servers hold the keys that they should, with their present addresses: those that are read
// do, those that are being refilled don't. Of others it is unknown.
func (m *Middleware) Refilled() map[route.Server]bool {
	known := map[route.Server]bool{}
	if !m.IsReady() {
		return known
	}
	c := m.current.Load()
	for i, b := range c.servers {
		s := c.router.Servers()[i]
		s.Addr = b.Addr()
		if readable := b.Readable(); readable || b.Lacks() {
			known[s] = readable
		}
	}
	for _, s := range c.shadows() {
		maps.Copy(known, s.inner.Refilled())
	}
	return known
}
