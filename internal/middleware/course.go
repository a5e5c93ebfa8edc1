package middleware

import (
	"context"
	"sync"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/route"
)

// courseRows say how a middleware is in each phase of a change: the phase after it, the keys under which it announces
// the phase, and what it does if others have announced the same change under other keys: the phase ends at once, or it
// lasts until they have not. Copy and hand-over are left out if nothing can be copied.
//
// In phase settled, the last one, keys are placed as wanted, but the next change must not begin yet. Phase late has
// the same phase after it as read-new, so it lasts as that one does.
var courseRows = [route.NumPhases]struct {
	next           route.Phase
	announces      []notice
	endsFor, waits []notice
}{
	route.DeleteNew: {route.Copy, []notice{noticeDeleting}, []notice{noticeCopying, noticeReading}, nil},
	route.Copy:      {route.HandOver, []notice{noticeCopying}, []notice{noticeReading}, nil},
	route.HandOver:  {route.ReadNew, []notice{noticeCopying, noticeReading}, nil, nil},
	route.ReadNew:   {route.Settled, []notice{noticeReading}, nil, []notice{noticeDeleting, noticeCopying}},
	route.Late:      {route.Settled, nil, nil, []notice{noticeDeleting, noticeCopying}},
}

// course is the progress of a change through its phases. A phase ends when it is due, the servers that get keys have
// been cleaned, and copying has ended. Its methods are those of driven for a change that has nothing of the kind.
type course struct {
	phase   route.Phase
	alone   bool // no other middleware may be in another phase: there is only the last one, which need not last
	behind  bool // another middleware is a phase ahead and will not wait, so the phase need not last
	joined  bool // it was under way when this middleware started, and others have announced it
	due     time.Time
	look    time.Time       // when drive looks again at what others have announced
	cleaned <-chan struct{} // closed when the servers that get keys have been cleaned; nil: there are none
	copying *copying        // nil: it has not begun in this phase
}

// driven is a change that drive takes through its course: of a pool's placement (change), of routes (rerouting), or a
// migration (migrating). The phases of the first two are in courseRows and last for a dwell; those of a migration are
// in Migration.phases and go by the clock. Its functions are called while applying is held.
type driven interface {
	progress() *course
	// what is a text for what changes.
	what() string
	// board is where the change is announced; nil: it is not.
	board(m *Middleware) *board
	// lasts returns how long the present phase lasts from now on; unknown: until something else has ended.
	lasts(m *Middleware) time.Duration
	// lookEvery is the time between two looks at what other middlewares have announced, and at what heard does.
	lookEvery(m *Middleware) time.Duration
	// next returns the phase after the present one.
	next(m *Middleware) route.Phase
	// prepare is called before phase is entered, when that has been announced and others have been seen. It returns the
	// phase to enter instead.
	prepare(ctx context.Context, m *Middleware, phase route.Phase, seen sightings) route.Phase
	// gains returns what servers of the present core get, and are cleaned of in phase.
	gains(m *Middleware, phase route.Phase) []gain
	// heard acts on what others have announced, if courseRows says nothing. It returns true if it has entered a phase.
	heard(ctx context.Context, m *Middleware, seen sightings) bool
	// end is called when the last phase has ended.
	end(ctx context.Context, m *Middleware)
}

func (c *course) progress() *course { return c }

func (c *course) board(*Middleware) *board { return nil }

func (c *course) heard(context.Context, *Middleware, sightings) bool { return false }

func (c *course) end(context.Context, *Middleware) {}

// unknown is a time after which drive looks again at what makes no difference to it before.
const unknown = time.Hour

func (c *course) lasts(*Middleware) time.Duration {
	if !done(c.cleaned) || c.phase == route.Copy && (c.copying == nil || !done(c.copying.ended)) {
		return unknown
	}
	return time.Until(c.due)
}

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

// dwell is how long the middleware stays in the present phase at least, unless that goes by the clock.
func (c *course) dwell(m *Middleware) time.Duration {
	switch step := m.options.ChangeStep; {
	case c.alone, c.behind:
		return 0
	case c.phase == route.DeleteNew:
		return step + m.options.longestTimeout()
	case c.phase == route.HandOver:
		return expiring(step)
	case c.phase == route.Late:
		return lateSteps*step + m.options.longestTimeout()
	default:
		return step
	}
}

func (c *course) lookEvery(m *Middleware) time.Duration { return m.lookEvery() }

// lookEvery is the time between two looks at what other middlewares have announced.
func (m *Middleware) lookEvery() time.Duration {
	return max(m.options.ChangeStep/4, 20*time.Millisecond)
}

// announcementLasts is how long an announcement lasts: until the look after the next one, even if a phase is entered
// meanwhile, which waits for requests and connections.
func (m *Middleware) announcementLasts() time.Duration {
	return m.options.ChangeStep/2 + m.options.longestTimeout() + 2*m.options.ConnectTimeout + time.Second
}

// underWay returns the changes that are under way. applying is held.
func (m *Middleware) underWay() (all []driven) {
	for _, t := range m.poolStates {
		if t.change != nil {
			all = append(all, t.change)
		}
	}
	if m.routing != nil {
		all = append(all, m.routing)
	}
	for _, g := range m.migrating {
		all = append(all, g)
	}
	return all
}

// drive takes what is under way through its phases, until ctx is done. After the start it looks for changes that
// others have begun.
func (m *Middleware) drive(ctx context.Context) {
	for {
		m.applying.Lock()
		next := time.Hour
		if !m.stopping {
			next = m.decideAgain(ctx)
			for _, t := range m.poolStates {
				next = min(next, m.watch(ctx, t))
			}
			for _, d := range m.underWay() {
				next = min(next, m.driveOne(ctx, d))
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

// driveOne takes d further if it is time, and returns how long drive may wait. From time to time, and before a phase
// ends, it looks at what other middlewares have announced. applying is held.
func (m *Middleware) driveOne(ctx context.Context, d driven) (wait time.Duration) {
	c := d.progress()
	looks := !time.Now().Before(c.look)
	if looks || d.lasts(m) <= 0 {
		if !m.look(ctx, d) && d.lasts(m) <= 0 {
			m.step(ctx, d)
		}
	}
	if looks {
		c.look = time.Now().Add(d.lookEvery(m))
	}
	return min(time.Until(c.look), d.lasts(m))
}

// announce announces that d enters phase, or is in it, and returns what others have announced. applying is held.
func (m *Middleware) announce(ctx context.Context, d driven, phase route.Phase) (seen sightings) {
	if b := d.board(m); b != nil {
		seen = b.announce(ctx, phase, m.announcementLasts())
	}
	return seen
}

// look announces again in which phase d is, and acts on what others have announced. Until phase settled the marks of
// servers that were cleaned are kept. It returns true if d has entered a phase, or has ended. applying is held.
func (m *Middleware) look(ctx context.Context, d driven) (entered bool) {
	c := d.progress()
	seen, row := m.announce(ctx, d, c.phase), &courseRows[c.phase]
	if c.phase != route.Settled {
		for _, g := range d.gains(m, route.DeleteNew) {
			eachAnswering(g.pool.servers, func(s *backend.Server) { talk(ctx, s, g.mark.Keep) })
		}
	}
	switch soon := time.Now().Add(m.lookEvery()); {
	case seen.has(row.endsFor...):
		c.due = time.Now()
		c.stopCopying()
	case seen.has(row.waits...):
		if c.due.Before(soon) {
			c.due = soon
		}
	default:
		return d.heard(ctx, m, seen)
	}
	return false
}

// step takes d to the phase after the present one. applying is held.
func (m *Middleware) step(ctx context.Context, d driven) {
	if d.progress().phase == route.Settled {
		d.end(ctx, m)
		return
	}
	m.enterOrLog(ctx, d.next(m), d)
}

// enter makes changes enter phase, or the phases that they enter instead. It replaces the core, even if there is none.
// applying is held.
func (m *Middleware) enter(ctx context.Context, phase route.Phase, changes ...driven) error {
	for _, d := range changes {
		c, enters := d.progress(), phase
		c.stopCopying()
		var seen sightings
		if c.alone {
			enters = route.Settled
		} else if phase != route.Settled {
			seen = m.announce(ctx, d, phase)
		}
		c.behind = false
		c.phase = d.prepare(ctx, m, enters, seen)
		c.copying = nil
	}
	err := m.replace(ctx, changes...)
	for _, d := range changes {
		m.entered(ctx, d)
	}
	return err
}

// entered is called when the core for d's phase serves. applying is held.
func (m *Middleware) entered(ctx context.Context, d driven) {
	c := d.progress()
	m.beginCleaning(d)
	m.announce(ctx, d, c.phase) // also on servers that have joined, or were flushed, since it was announced
	c.due, c.look = time.Now().Add(c.dwell(m)), time.Now().Add(d.lookEvery(m))
	m.drives()
}

// beginCleaning begins to clean what d cleans in its present phase. applying is held.
func (m *Middleware) beginCleaning(d driven) {
	c := d.progress()
	if gains := d.gains(m, c.phase); len(gains) > 0 {
		c.cleaned = m.clean(gains)
	}
}

// enterOrLog is enter for one change. applying is held.
func (m *Middleware) enterOrLog(ctx context.Context, phase route.Phase, d driven) {
	if err := m.enter(ctx, phase, d); err != nil {
		m.options.Log.Error(d.what()+" cannot enter its next phase", "error", err)
	}
}

// gain is what the servers of a pool get: keys of which they may hold old values.
type gain struct {
	pool *pool
	mark backend.Mark                           // says, on a server, that it was cleaned
	keys func(server int) func(key []byte) bool // those that a server gets; nil: none
}

// clean deletes what servers may hold of keys that they get, unless their marks say that this was done, and returns a
// channel that is closed afterwards. Servers that join are flushed anyway. applying is held.
func (m *Middleware) clean(gains []gain) <-chan struct{} {
	var running sync.WaitGroup
	for _, g := range gains {
		for i, s := range g.pool.servers {
			if g.pool.options.Rejoin == backend.RejoinTrust || s.Joins() {
				continue
			}
			if keys := g.keys(i); keys != nil {
				running.Go(func() { s.Purge(m.work, keys, g.mark) })
			}
		}
	}
	return m.after(running.Wait)
}

// after runs work in the background, and returns a channel that is closed when it has ended. Then drive looks whether a
// phase has ended with it.
func (m *Middleware) after(work func()) <-chan struct{} {
	ended := make(chan struct{})
	m.background.Go(func() {
		work()
		close(ended)
		m.drives()
	})
	return ended
}
