package middleware

import (
	"context"
	"errors"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/route"
	"mcmw/internal/sweep"
)

// copying is the copying of values in a phase. The zero value has ended.
type copying struct {
	stop  context.CancelFunc
	ended <-chan struct{}
}

// mostCopyTries is how often this middleware tries to copy what moves. Then the rest is lost, as it would be without.
// After patientCopyTries it leaves out what servers hold that are stale.
const (
	mostCopyTries    = 10
	patientCopyTries = 5
)

// next leaves out the phases for copying if nothing can be copied.
func (c *change) next(m *Middleware) route.Phase {
	if c.phase == route.DeleteNew && !c.copies(m) {
		return route.ReadNew
	}
	return courseRows[c.phase].next
}

// copies reports whether values of keys that move by c are to be copied to their new holders. It needs versions,
// and a server to copy from. A value with chunks can't be copied, nor can one that a gutter may hold instead.
func (c *change) copies(m *Middleware) bool {
	p := m.current.Load().of(c.of)
	if m.options.RefillRate == 0 || !p.versioned.Load() || p.migrates || p.had != nil ||
		p.diverts() || p.options.Large.Limit > 0 {
		return false
	}
	return slices.ContainsFunc(p.servers, func(s *backend.Server) bool {
		return s.Readable() && c.from.router.Gains(s.Name, c.to.router) // it loses keys
	})
}

// beginCopying begins to copy what moves by c, which is in phase copy. applying is held.
func (m *Middleware) beginCopying(c *change) {
	name, olds := c.name(), c.from.router.Servers()
	ctx, stop := context.WithCancel(m.work)
	c.copying = &copying{stop, m.after(func() {
		defer stop()
		m.copyMoved(ctx, c.of, name.From+" -> "+name.To, olds)
	})}
}

// stopCopying stops copying, and does not wait for the end. What is not confirmed by then expires; see route.HandOver.
func (c *course) stopCopying() {
	switch {
	case c.copying == nil && c.phase == route.Copy:
		c.copying = &copying{}
	case c.copying != nil && c.copying.stop != nil:
		c.copying.stop()
	}
}

// copyMoved copies what moves from olds by a change of t's placement, until one of the middlewares has copied it, or
// ctx is done.
func (m *Middleware) copyMoved(ctx context.Context, t *poolState, name string, olds []route.Server) {
	logged := ""
	for tries := 0; ctx.Err() == nil; {
		o := &m.current.Load().options
		p := m.current.Load().of(t)
		if p == nil || p.router.Phase() != route.Copy {
			return
		}
		running, stop := context.WithCancel(ctx)
		complete := false
		copier := sweep.Copier{
			Name: name, From: p.router, Servers: p.servers, Rate: o.RefillRate, Hold: hold(p.step), Pause: p.step,
			Log: p.log, Copied: func(int) {},
			Awaits: func(s int) bool {
				named := func(old route.Server) bool { return old.Name == p.servers[s].Name }
				return tries < patientCopyTries && slices.ContainsFunc(olds, named)
			},
			Report: func(progress sweep.CopyProgress) {
				if complete = progress.Complete; complete {
					p.log.Info("keys that move were copied to their new servers", "pool", t.name, "copied",
						progress.Copied, "left", progress.Left)
					stop()
				}
			},
		}
		err := copier.Run(running, func() time.Duration {
			if complete {
				return 3 * sweepAgain // another middleware that does not see it in this time looks at all keys itself
			}
			return 0
		})
		stop()
		switch {
		case complete:
			return
		case err == nil, errors.Is(err, sweep.ErrClaimed):
		case errors.Is(err, backend.ErrNoList), tries == mostCopyTries:
			p.log.Warn("keys that move are not copied to their new servers: they will be misses", "pool", t.name,
				"error", err)
			return
		default:
			tries++
			if logged != err.Error() {
				logged = err.Error()
				p.log.Warn("keys that move could not be copied to their new servers; trying again", "pool", t.name,
					"error", err)
			}
		}
		backend.Pause(ctx, sweepAgain)
	}
}
