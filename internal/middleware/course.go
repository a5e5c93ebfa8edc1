package middleware

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/route"
	"mcmw/internal/sweep"
)

// course is the progress of a change through its phases: delete-new, perhaps copy and hand-over, read-new, and settled,
// the last one, in which keys are placed as wanted but the next change must not begin yet; or late, and settled. A
// phase ends when it is due and the servers that get keys have been cleaned. Migrations go by the clock instead; see
// Migration.
type course struct {
	phase   route.Phase
	due     time.Time
	cleaned <-chan struct{} // closed when the servers that get keys have been cleaned; nil: there are none
}

// next returns the phase after the present one; more is false if that is the last one. copies: values are copied.
func (c *course) next(copies bool) (phase route.Phase, more bool) {
	switch {
	case c.phase == route.DeleteNew && !copies:
		return route.ReadNew, true
	case c.phase != route.Settled && c.phase < route.ReadNew:
		return c.phase + 1, true
	}
	return route.Settled, c.phase != route.Settled
}

// mayEnd reports whether the phase may end now.
func (c *course) mayEnd() bool { return !time.Now().Before(c.due) && done(c.cleaned) }

// done reports whether cleaned is closed, or nil.
func done(cleaned <-chan struct{}) bool {
	select {
	case <-cleaned:
		return true
	default:
		return cleaned == nil
	}
}

// lateSteps is how many steps phase late of a change of routes lasts: after them no other middleware reads by the
// previous routes.
const lateSteps = 2

// dwell is how long a middleware stays in a phase of a change at least.
func (m *Middleware) dwell(phase route.Phase) time.Duration {
	switch step := m.options.ChangeStep; phase {
	case route.DeleteNew:
		return step + m.options.longestTimeout()
	case route.HandOver:
		return settling(step)
	case route.Late:
		return lateSteps*step + m.options.longestTimeout()
	default:
		return step
	}
}

// lookEvery is the time between two looks at what other middlewares have announced.
func (m *Middleware) lookEvery() time.Duration {
	return max(m.options.ChangeStep/4, 20*time.Millisecond)
}

// drive takes changes and migrations through their phases, until ctx is done.
func (m *Middleware) drive(ctx context.Context) {
	for {
		m.applying.Lock()
		next := time.Hour
		if !m.stopping {
			next = m.enterPhases(ctx)
			for _, t := range m.poolStates {
				next = min(next, m.drivePool(ctx, t))
			}
			if c := m.routing; c != nil {
				next = min(next, m.driveRoutes(ctx, c))
			}
		}
		m.applying.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-m.driving:
		case <-time.After(next):
		}
	}
}

// drives makes drive look at once at what is under way. It is called by whoever changes that.
func (m *Middleware) drives() {
	select {
	case m.driving <- struct{}{}:
	default:
	}
}

// wait returns how long drive may wait for the end of the phase. It is called when the last server has been cleaned,
// too.
func (c *course) wait() time.Duration {
	if wait := time.Until(c.due); wait > 0 {
		return wait
	}
	return time.Hour
}

// drivePool takes the change of t's pool further if it is time, and returns how long drive may wait. From time to time,
// and before a phase ends, it looks at what other middlewares have announced; see look. Without a change it does so
// after the start. applying is held.
func (m *Middleware) drivePool(ctx context.Context, t *poolState) (wait time.Duration) {
	c, looks := t.change, !time.Now().Before(t.look)
	switch {
	case c == nil && !time.Now().Before(t.watched):
		return time.Hour
	case c == nil && looks:
		m.followOthers(ctx, t)
	case c != nil && (looks || c.mayEnd()):
		cleaned := c.cleaned
		m.look(ctx, t)
		if t.change == c && c.cleaned == cleaned && c.mayEnd() {
			m.step(ctx, t)
		}
	}
	if looks {
		t.look = time.Now().Add(m.lookEvery())
	}
	if wait = time.Until(t.look); t.change != nil {
		wait = min(wait, t.change.wait())
	}
	return wait
}

// driveRoutes is drivePool for the change of routes r. applying is held.
func (m *Middleware) driveRoutes(ctx context.Context, r *rerouting) (wait time.Duration) {
	looks := r.phased && !time.Now().Before(r.look)
	if looks || r.mayEnd() {
		m.lookAtRoutes(ctx)
		r.look = time.Now().Add(m.lookEvery())
		if r.mayEnd() {
			m.stepRoutes(ctx)
		}
	}
	if wait = r.wait(); r.phased {
		wait = min(wait, time.Until(r.look))
	}
	return wait
}

// clean runs cleaning, and returns a channel that is closed afterwards. applying is held.
func (m *Middleware) clean(cleaning []func()) <-chan struct{} {
	var running sync.WaitGroup
	for _, one := range cleaning {
		running.Go(one)
	}
	cleaned := make(chan struct{})
	m.background.Go(func() {
		running.Wait()
		close(cleaned)
		m.drives()
	})
	return cleaned
}

// cleaning returns what deletes on p's servers what they may still hold of keys that they get, unless mark says that
// this was done. gained returns which keys a server gets; nil: none. Servers that join are flushed anyway.
func (p *pool) cleaning(ctx context.Context, mark backend.Mark,
	gained func(server int) func(key []byte) bool,
) (all []func()) {
	if p.options.Rejoin == backend.RejoinTrust {
		return nil
	}
	for i, s := range p.servers {
		if s.Joins() {
			continue
		}
		if gets := gained(i); gets != nil {
			all = append(all, func() { s.Purge(ctx, gets, mark) })
		}
	}
	return all
}

// copying is the copying of values in phase copy of a change of placement. The zero value has ended.
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

// copiesMoved reports whether values of keys that move by t's change are to be copied to their new holders. It needs
// versions, and a server to copy from. A value with chunks can't be copied, nor can one that a gutter may hold instead.
// applying is held.
func (m *Middleware) copiesMoved(t *poolState) bool {
	c, p := t.change, m.current.Load().of(t)
	if c.phase != route.DeleteNew || m.options.RefillRate == 0 || !p.versioned.Load() || p.migrates || p.had != nil ||
		p.diverts() || p.options.Large.Limit > 0 {
		return false
	}
	return slices.ContainsFunc(p.servers, func(s *backend.Server) bool {
		return s.Readable() && c.from.router.Gains(s.Name, c.to.router) // it loses keys
	})
}

// beginCopying begins to copy what moves by t's change, which is in phase copy. applying is held.
func (m *Middleware) beginCopying(t *poolState) {
	ctx, stop := context.WithCancel(m.work)
	ended, name, olds := make(chan struct{}), t.change.announced(), t.change.from.router.Servers()
	t.change.copying = &copying{stop, ended}
	m.background.Go(func() {
		m.copyMoved(ctx, t, name.From+" -> "+name.To, olds)
		stop()
		close(ended)
		m.drives()
	})
}

// stopCopying stops copying, and does not wait for the end. What is not confirmed by then expires; see route.HandOver.
func (c *change) stopCopying() {
	switch {
	case c.copying == nil && c.phase == route.Copy:
		c.copying = &copying{}
	case c.copying != nil && c.copying.stop != nil:
		c.copying.stop()
	}
}

// mayEnd reports whether the phase may end now.
func (c *change) mayEnd() bool {
	return c.course.mayEnd() && (c.phase != route.Copy || c.copying != nil && done(c.copying.ended))
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
		pause(ctx, sweepAgain)
	}
}
