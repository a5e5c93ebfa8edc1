package middleware

import (
	"context"
	"slices"
	"time"

	"mcmw/internal/route"
)

// EndPhase ends the present phase of a change of placement, or else of a change of routes, and reports whether there is
// one.
func (m *Middleware) EndPhase() bool {
	m.applying.Lock()
	defer m.applying.Unlock()
	c, step := m.currentCourse()
	if c == nil {
		return false
	}
	awaited := *c
	m.applying.Unlock()
	if awaited.cleaned != nil {
		<-awaited.cleaned
	}
	m.applying.Lock()
	m.awaitCopied()
	c, _ = m.currentCourse()
	if c != nil && c.phase == awaited.phase && c.cleaned == awaited.cleaned { // otherwise the phase has ended
		step(m.work)
	}
	return true
}

// awaitCopied lets copying begin, if a change is in phase copy, and waits for its end. applying is held.
func (m *Middleware) awaitCopied() {
	for _, t := range m.poolStates {
		for c := t.change; c != nil && t.change == c && c.phase == route.Copy && !c.mayEnd(); {
			c.due = time.Now()
			if c.copying == nil {
				m.look(m.work, t) // asks the servers whether another is still in delete-new
			}
			begun := c.copying
			m.applying.Unlock()
			if begun != nil && begun.ended != nil {
				<-begun.ended
			}
			m.applying.Lock()
		}
	}
}

// AwaitsOthers ends the dwell of the present phase of a change of placement, looks at what other middlewares have
// announced, and reports whether the phase has to last longer because of that.
func (m *Middleware) AwaitsOthers() bool {
	m.applying.Lock()
	defer m.applying.Unlock()
	now := time.Now()
	c, _ := m.currentCourse()
	c.due = now
	if m.routing != nil {
		m.lookAtRoutes(m.work)
	} else {
		m.look(m.work, m.poolStates[0])
	}
	c, _ = m.currentCourse()
	return c.due.After(now.Add(time.Second))
}

// FollowOthers begins the change that other middlewares have announced, as a middleware does that has just started.
func (m *Middleware) FollowOthers() {
	m.applying.Lock()
	defer m.applying.Unlock()
	m.followOthers(m.work, m.poolStates[0])
}

// currentCourse returns the course of the present change, nil if there is none, and the function that enters its next
// phase. applying is held.
func (m *Middleware) currentCourse() (c *course, step func(context.Context)) {
	if at := slices.IndexFunc(m.poolStates, func(t *poolState) bool { return t.change != nil }); at >= 0 {
		t := m.poolStates[at]
		return &t.change.course, func(ctx context.Context) { m.step(ctx, t) }
	}
	if m.routing != nil {
		return &m.routing.course, m.stepRoutes
	}
	return nil, nil
}

// Phase returns the phase of the current core's router.
func (m *Middleware) Phase() string { return m.current.Load().router.Phase().String() }

// RespectsMarks reports whether servers of a pool that other middlewares have marked are not read.
func (m *Middleware) RespectsMarks(pool string) bool {
	m.applying.Lock()
	defer m.applying.Unlock()
	c := m.current.Load()
	return c.pools[c.options.number(pool)].records.RespectsMarks()
}

// Advance puts the clock of migrations forward, and makes them enter their phases.
func (m *Middleware) Advance(by time.Duration) {
	m.applying.Lock()
	defer m.applying.Unlock()
	m.ahead.Add(int64(by))
	m.enterPhases(m.work)
}

// AwaitCleaned waits until the new pools of migrations have been cleaned.
func (m *Middleware) AwaitCleaned() {
	for _, g := range m.options.Migrations {
		if cleaned := m.copied.of(g.name()).cleaned; cleaned != nil {
			<-cleaned
		}
	}
}
