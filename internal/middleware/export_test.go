package middleware

import "time"

// EndPhase ends the present phase of a change of placement now, and reports whether there is one.
func (m *Middleware) EndPhase() bool {
	m.applying.Lock()
	t := m.tiers[0]
	c := t.change
	m.applying.Unlock()
	if c == nil {
		return false
	}
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
