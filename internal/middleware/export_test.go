package middleware

import (
	"slices"
	"time"
)

// EndPhase ends the present phase of a change of placement now, and reports whether there is one.
func (m *Middleware) EndPhase() bool {
	m.applying.Lock()
	at := slices.IndexFunc(m.tiers, func(t *tier) bool { return t.change != nil })
	if at < 0 {
		m.applying.Unlock()
		return false
	}
	t := m.tiers[at]
	c := t.change
	m.applying.Unlock()
	c.cleaning.Wait()
	m.applying.Lock()
	c.due = time.Time{}
	work := m.work
	m.applying.Unlock()
	m.step(work, t)
	return true
}

// Phase returns the phase of the placement in force.
func (m *Middleware) Phase() string { return m.current.Load().router.Phase().String() }

// Advance moves the clock of migrations, and enters the phases of then.
func (m *Middleware) Advance(by time.Duration) {
	m.applying.Lock()
	defer m.applying.Unlock()
	m.ahead.Add(int64(by))
	m.enterPhases(m.work)
}

// AwaitCleaned waits until the pools that keys migrate to are clean.
func (m *Middleware) AwaitCleaned() {
	for _, g := range m.options.Migrations {
		if cleaned := m.copied.of(g.name()).cleaned; cleaned != nil {
			<-cleaned
		}
	}
}
