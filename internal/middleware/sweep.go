package middleware

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/stats"
	"mcmw/internal/sweep"
)

const (
	// sweepOwner is the sweep's owner number for key locks; workers' numbers are far lower.
	sweepOwner = 1 << 30
	// sweepAgain is how long after an incomplete sweep, or one that another middleware makes, the next one starts.
	sweepAgain = time.Second
	// sweepIdle is the time between two looks at whether the options ask for sweeps now, sweepLook the longest until the next
	// one where they do.
	sweepIdle = 5 * time.Second
	sweepLook = time.Minute
)

// sweep compares the replicas of a pool whenever it is time, until ctx is done or the pool is gone: once if the middleware before was killed,
// and every SweepEvery.
func (m *Middleware) sweep(ctx context.Context, t *tier) {
	told := map[string]bool{} // errors that the log has
	for {
		c := m.current.Load()
		p := c.of(t)
		if p == nil {
			return
		}
		every, pause := p.sweepEvery(&c.options), sweepIdle
		m.swept.Repeats(p.router.N() > 1, every)
		due := p.unswept.Load() && !p.unlisted.Load()
		switch {
		case p.changing(): // a key's servers are not those of everybody
			pause = sweepAgain
		case due:
			pause = m.sweepOnce(ctx, c, p, 0, told)
		case every > 0:
			pause = m.sweepOnce(ctx, c, p, every, told)
		}
		m.swept.Runs(m.current.Load().unswept())
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(pause, sweepLook)):
		}
	}
}

// unswept reports whether the replicas of a pool are yet to be compared behind a middleware that was killed.
func (p *core) unswept() bool {
	return slices.ContainsFunc(p.pools, func(q *pool) bool { return q.unswept.Load() && !q.unlisted.Load() })
}

// sweepEvery returns how often the replicas are compared; 0: they are not. With one writer only a restart behind a kill leaves any that differ,
// and there are no versions that would spare the values.
func (p *pool) sweepEvery(o *Options) time.Duration {
	if !p.several.Load() || p.router.N() == 1 {
		return 0
	}
	return o.SweepEvery
}

// allUp reports whether all servers of the pool are up; c is the core of now. One that is gone has none that aren't.
func (t *tier) allUp(c *core) bool {
	p := c.of(t)
	return p == nil || !slices.ContainsFunc(p.servers, func(s *backend.Server) bool { return !s.Readable() })
}

// sweepOnce compares the replicas of p, a pool of c, if it is time, and returns when to try again. What prevents it is logged once.
func (m *Middleware) sweepOnce(ctx context.Context, c *core, p *pool, every time.Duration, told map[string]bool) (again time.Duration) {
	begin := time.Now()
	before := m.swept.Snapshot()
	s := sweep.Sweep{
		Router: p.router, Servers: p.servers, Placement: p.record(), Rate: c.options.SweepRate, Counts: &m.swept, Log: p.log,
		Lock: func(key []byte) func() {
			taken, _ := m.locks.LockAll([]uint32{m.locks.Stripe(key)}, sweepOwner, true)
			return func() { m.locks.Unlock(taken[0]) }
		},
	}
	err := s.Run(ctx, every)
	if notDue, early := errors.AsType[sweep.NotDue](err); early {
		return notDue.In + time.Duration(rand.Int64N(int64(every)/10+1)) // so that not all come at once
	}
	switch {
	case ctx.Err() != nil, errors.Is(err, sweep.ErrClaimed):
		return sweepAgain
	case err == nil && m.current.Load() != c: // it may have compared by another placement
		return sweepAgain
	case err == nil:
		clear(told)
		p.unlisted.Store(false)
		p.unswept.Store(false)
		m.swept.Ended(stats.SweepComplete, "")
		after := m.swept.Snapshot()
		p.log.Info("the replicas were compared", "keys", after.Keys-before.Keys, "differed", after.Disagreements-before.Disagreements,
			"took", time.Since(begin).Round(time.Millisecond))
		return every
	}
	first := !told[err.Error()]
	told[err.Error()] = true
	if errors.Is(err, backend.ErrNoList) {
		p.unlisted.Store(true)
		m.swept.Ended(stats.SweepUnlisted, err.Error())
		if first {
			p.log.Warn("the replicas cannot be compared: what a middleware that was killed has left stays until it is overwritten", "error", err)
		}
		return max(every, sweepIdle)
	}
	outcome := stats.SweepFailed
	if errors.Is(err, sweep.ErrNotUp) {
		outcome = stats.SweepIncomplete
	}
	m.swept.Ended(outcome, err.Error())
	if first {
		p.log.Warn("the replicas could not all be compared, and will be", "error", err)
	}
	// Wait for the server that prevented it: comparing the others again and again would find nothing.
	for first := true; first || !p.allUp(m.current.Load()); first = false {
		select {
		case <-ctx.Done():
			return sweepAgain
		case <-time.After(sweepAgain):
		}
	}
	return 0
}
