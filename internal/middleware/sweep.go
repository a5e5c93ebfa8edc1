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
	// sweepAgain is the delay before the next attempt if a sweep was incomplete, or another middleware is sweeping.
	sweepAgain = time.Second
	// sweepIdle is the time between two checks whether sweeps have become necessary, sweepLook the longest time between
	// two checks while they are.
	sweepIdle = 5 * time.Second
	sweepLook = time.Minute
)

// sweep compares the replicas of t's pool when that is due, until ctx is done or the pool is removed: once if an
// earlier middleware was killed, and every SweepEvery.
func (m *Middleware) sweep(ctx context.Context, t *poolState) {
	logged := map[string]bool{} // errors that have been logged
	swept := m.swept.Begin()
	defer m.swept.End(swept)
	for {
		c := m.current.Load()
		p := c.of(t)
		if p == nil {
			return
		}
		every, wait := p.sweepEvery(&c.options), sweepIdle
		swept.Repeats(p.replicas() > 1, every)
		due := p.unswept.Load() && !p.unlisted.Load()
		switch {
		case p.changing(): // other middlewares may place keys on other servers
			wait = sweepAgain
		case due:
			wait = m.sweepOnce(ctx, c, p, 0, swept, logged)
		case every > 0:
			wait = m.sweepOnce(ctx, c, p, every, swept, logged)
		}
		swept.Runs(false)
		if !backend.Pause(ctx, min(wait, sweepLook)) {
			return
		}
	}
}

// unswept reports whether the replicas of a pool must still be compared because an earlier middleware was killed.
func (c *core) unswept() bool {
	return slices.ContainsFunc(c.pools, func(p *pool) bool { return p.unswept.Load() && !p.unlisted.Load() })
}

// sweepEvery returns how often the replicas are compared regularly; 0: they are not. With one writer replicas differ
// only after a kill, and there are no versions, so that all values would have to be read.
func (p *pool) sweepEvery(o *Options) time.Duration {
	if !p.several.Load() || p.replicas() == 1 {
		return 0
	}
	return o.SweepEvery
}

// sweepOnce compares the replicas of p, a pool of c, if that is due, counts in swept, and returns the time until the
// next attempt. An error is logged only once; logged has the errors that were.
func (m *Middleware) sweepOnce(ctx context.Context, c *core, p *pool, every time.Duration, swept *stats.Sweep,
	logged map[string]bool,
) (again time.Duration) {
	begin := time.Now()
	before := swept.Snapshot()
	s := sweep.Sweep{
		Router: p.router, Servers: p.servers, Placement: p.record(), Rate: c.options.SweepRate, Counts: swept,
		Log:   p.log,
		Fills: func() bool { return m.current.Load().places(p) && p.refills(&c.options) },
		Lock: func(key []byte) func() {
			taken, _ := m.locks.LockAll([]uint32{m.locks.Stripe(key)}, sweepOwner, true)
			return func() { m.locks.Unlock(taken[0]) }
		},
	}
	err := s.Run(ctx, every)
	if notDue, early := errors.AsType[sweep.NotDue](err); early {
		return notDue.In + time.Duration(rand.Int64N(int64(every)/10+1)) // so that not all middlewares try at once
	}
	switch {
	case ctx.Err() != nil, errors.Is(err, sweep.ErrClaimed):
		return sweepAgain
	case err == nil && m.current.Load() != c: // it may have compared by a previous placement
		return sweepAgain
	case err == nil:
		clear(logged)
		p.unlisted.Store(false)
		p.unswept.Store(false)
		swept.Ended(stats.SweepComplete, "")
		after := swept.Snapshot()
		p.log.Info("the replicas were compared", "keys", after.Keys-before.Keys, "differed",
			after.Disagreements-before.Disagreements,
			"took", time.Since(begin).Round(time.Millisecond))
		return every
	}
	first := !logged[err.Error()]
	logged[err.Error()] = true
	if errors.Is(err, backend.ErrNoList) {
		p.unlisted.Store(true)
		swept.Ended(stats.SweepUnlisted, err.Error())
		if first {
			p.log.Warn("the replicas cannot be compared: differences that a killed mcmw has left stay until the keys "+
				"are written again", "error", err)
		}
		return max(every, sweepIdle)
	}
	outcome := stats.SweepFailed
	if errors.Is(err, sweep.ErrNotUp) {
		outcome = stats.SweepIncomplete
	}
	swept.Ended(outcome, err.Error())
	if first {
		p.log.Warn("not all replicas could be compared; trying again when the servers are up", "error", err)
	}
	// Wait for the server that prevented it: comparing the others again and again would find nothing.
	for {
		if !backend.Pause(ctx, sweepAgain) {
			return sweepAgain
		}
		if current := m.current.Load().of(p.poolState); current == nil || current.readable() {
			return 0
		}
	}
}
