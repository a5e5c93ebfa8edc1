package middleware

import (
	"time"

	"mcmw/internal/route"
)

// EndPhase ends the present phase of a change of placement, or else of a change of routes, and reports whether there is
// one.
func (m *Middleware) EndPhase() bool {
	m.applying.Lock()
	defer m.applying.Unlock()
	d := m.first()
	if d == nil {
		return false
	}
	awaited := *d.progress()
	m.applying.Unlock()
	if awaited.cleaned != nil {
		<-awaited.cleaned
	}
	m.applying.Lock()
	m.awaitCopied()
	// otherwise the phase has ended
	if d = m.first(); d != nil && d.progress().phase == awaited.phase && d.progress().cleaned == awaited.cleaned {
		m.step(m.work, d)
	}
	return true
}

// awaitCopied lets copying begin, if a change is in phase copy, and waits for its end. applying is held.
func (m *Middleware) awaitCopied() {
	for _, t := range m.poolStates {
		for c := t.change; c != nil && t.change == c && c.phase == route.Copy && c.lasts(m) > 0; {
			c.due = time.Now()
			if c.copying == nil {
				m.look(m.work, c) // asks the servers whether another is still in delete-new
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

// AwaitsOthers looks at what other middlewares have announced, as at the end of the dwell of the present phase of a
// change of placement, and reports whether the phase has to last longer because of that. Otherwise it lasts as before.
func (m *Middleware) AwaitsOthers() bool {
	m.applying.Lock()
	defer m.applying.Unlock()
	now := time.Now()
	d := m.first()
	before := d.progress().due
	d.progress().due = now
	m.look(m.work, d)
	if d.progress().due.Equal(now) {
		d.progress().due = before
		return false
	}
	return m.first().progress().due.After(now.Add(time.Second))
}

// FollowOthers begins the change that other middlewares have announced, as a middleware does that has just started.
func (m *Middleware) FollowOthers() {
	m.applying.Lock()
	defer m.applying.Unlock()
	m.followOthers(m.work, m.poolStates[0])
}

// first returns a change that is under way; nil: there is none. applying is held.
func (m *Middleware) first() driven {
	for _, d := range m.underWay() {
		if _, migrates := d.(*migrating); !migrates {
			return d
		}
	}
	return nil
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
	for _, d := range m.migrating {
		for range 2 { // it enters its phase, then it copies
			d.look = time.Time{}
			m.driveOne(m.work, d)
		}
	}
}

// AwaitCleaned waits until the new pools of migrations have been cleaned.
func (m *Middleware) AwaitCleaned() {
	m.applying.Lock()
	all := m.migrating
	m.applying.Unlock()
	for _, d := range all {
		m.applying.Lock()
		cleaned := d.cleaned
		m.applying.Unlock()
		if cleaned != nil {
			<-cleaned
		}
	}
}
