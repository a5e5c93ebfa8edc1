package middleware

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/protocol"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/sweep"
)

// clock returns the time that migrations follow.
func (m *Middleware) clock() time.Time { return time.Now().Add(time.Duration(m.ahead.Load())) }

// moves returns o's migrations in their present phases, in the order of their starts.
func (m *Middleware) moves(o *Options) []route.Move {
	sorted := slices.SortedFunc(slices.Values(o.Migrations), func(a, b Migration) int {
		return a.Start.Compare(b.Start)
	})
	var moves []route.Move
	for _, g := range sorted {
		phase := m.phaseOf(&g, o.ChangeStep)
		if phase == route.MigrationBack {
			continue
		}
		from := o.number(g.From)
		moves = append(moves, route.Move{
			From: from, To: o.number(g.To), Phase: phase, WarmsUp: g.WarmsUp, Cold: g.cold(o.Pools[from].Servers),
		})
	}
	return moves
}

// phaseOf returns the phase that g is in here. applying is held.
func (m *Middleware) phaseOf(g *Migration, step time.Duration) route.Phase {
	phase, _, _ := g.Phase(m.clock(), step)
	if d := m.migratingAs(g.name()); phase == route.MigrationWarmUp && d != nil && !done(d.cleaned) {
		return route.MigrationCopy // like warm-up, but the new pool is not read
	}
	return phase
}

// checkMigrations returns an error if o's migrations can't replace the present ones now. applying is held.
func (m *Middleware) checkMigrations(ctx context.Context, o *Options) error {
	now, step := m.clock(), m.options.ChangeStep
	for _, g := range m.options.Migrations {
		phase, since, _ := g.Phase(now, step)
		_, copied := g.copying(step)
		kept := g.isIn(o.Migrations)
		switch returning := phase == route.MigrationBack && now.Before(g.Back); {
		case !phase.Active() && !returning:
			continue // checkRoutes compares the routes instead
		case !kept && g.goesBack():
			return fmt.Errorf("%s cannot be dropped before %s, when all mcmw use pool %q alone again; it is in phase "+
				"%s since %s",
				g.describe(), moment(g.Back), g.From, phase, moment(since))
		case g.inside() && !kept:
			how := "drop it after its end, " + moment(g.End)
			if g.endless() {
				how = "set end: " + moment(later(now.Add(2*step+expiring(step)), g.Start.Add(leastMigration(step)))) +
					" or later, and drop it after that time"
			}
			return fmt.Errorf("%s cannot be dropped in phase %s (since %s), because other mcmw may still fill its "+
				"servers; %s", g.describe(), phase, moment(since), how)
		case g.WarmsUp && !kept && !now.After(copied):
			return fmt.Errorf("%s cannot be dropped in phase %s (since %s), because other mcmw may read pool %q; set "+
				"back: %s or later, and drop it after that time "+
				"(only pool %q is read from two change-steps before)", g.describe(), phase, moment(since), g.To,
				moment(later(now.Add(3*step), g.Start.Add(4*step))), g.From)
		case g.WarmsUp && kept && !slices.Contains(o.Migrations, g):
			next := o.Migrations[slices.IndexFunc(o.Migrations, g.same)]
			_, ends := next.copying(step)
			if earliest := now.Add(step); (next.End != g.End || next.Back != g.Back) &&
				(phase > route.MigrationWarmUp || copied.Before(earliest) || ends.Before(earliest)) {
				back := ""
				if !g.inside() {
					back = ", or back: " + moment(earliest.Add(2*step)) + " or later"
				}
				return fmt.Errorf("the end of %s cannot change from %s to %s; accepted: end: %s or later%s, set at "+
					"least one change-step before phase warm-up ends, "+
					"so that other mcmw read it in time", g.describe(), g.ending(), next.ending(),
					moment(earliest.Add(expiring(step)+step)), back)
			}
		case !kept && now.After(copied):
			return fmt.Errorf("%s cannot be dropped or changed before it ends at %s (it is in phase %s since %s); to "+
				"undo it, add a migration from %q to %q after that",
				g.describe(), moment(g.End), phase, moment(since), g.To, g.From)
		case kept && o.ChangeStep != step:
			return fmt.Errorf("change-step cannot change while keys migrate; keep it at %v until %s has ended "+
				"(end: %s)", step, g.describe(), g.ending())
		}
	}
	for _, g := range o.Migrations {
		if !g.isIn(m.options.Migrations) {
			if err := m.checkBegin(ctx, &g, o); err != nil {
				return err
			}
		}
		if now.Add(2*step).Before(g.Start) || !now.Before(g.over()) {
			continue
		}
		for _, p := range o.Pools {
			t := m.stateNamed(p.Name)
			if t == nil || !g.uses(p.Name) {
				continue
			}
			current := m.current.Load().of(t).wanted()
			if !current.equal(p.placement()) {
				return fmt.Errorf("the list of servers of pool %q cannot change during %s; change it after its end "+
					"(end: %s)", p.Name, g.describe(), g.ending())
			}
			if now, next := g.cold(current.router.Servers()), g.cold(p.Servers); now != next {
				return fmt.Errorf("the servers of %s cannot change from %s to %s while they are filled; change them "+
					"after its end (end: %s)", g.describe(), now, next, g.ending())
			}
		}
	}
	return nil
}

// later returns the later of two times, rounded up to whole seconds.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		a = b
	}
	return a.Add(time.Second - 1).Truncate(time.Second)
}

// checkBegin returns an error if g cannot begin: other middlewares must learn of it a step before, and the servers must
// support versions.
func (m *Middleware) checkBegin(ctx context.Context, g *Migration, o *Options) error {
	if m.work == nil {
		return nil // a middleware that starts joins a migration in its present phase
	}
	if earliest := m.clock().Add(o.ChangeStep); g.Start.Before(earliest) && g.over().After(m.clock()) {
		return fmt.Errorf("%s starts at %s; accepted: %s or later, so that other mcmw read the configuration before "+
			"it starts", g.describe(), moment(g.Start), moment(earliest))
	}
	for _, p := range m.current.Load().pools {
		if !g.uses(p.name) || p.versioned.Load() {
			continue
		}
		if all, _ := p.haveVersions(ctx); !all {
			return fmt.Errorf("a migration of pool %q needs memcached 1.6.27 or later on all its servers", p.name)
		}
	}
	return nil
}

// migrating is the course of a migration. It begins when the options have the migration: the new pool is cleaned, if
// possible before the Start. When the options have it with another End, its course begins again.
type migrating struct {
	course
	g      Migration // static
	cleans bool      // the cleaning of the new pool is to begin
	copied *copied   // outlives a change of g
}

// migratingAs returns the course of the migration with that name; nil: there is none. applying is held.
func (m *Middleware) migratingAs(name string) *migrating {
	if at := slices.IndexFunc(m.migrating, func(d *migrating) bool { return d.g.name() == name }); at >= 0 {
		return m.migrating[at]
	}
	return nil
}

// applyMigrations makes the migrations of o those under way, and returns those that begin. applying is held.
func (m *Middleware) applyMigrations(o *Options) (begun []driven) {
	var all []*migrating
	for _, g := range o.Migrations {
		d := m.migratingAs(g.name())
		switch {
		case d == nil:
			d = &migrating{g: g, cleans: true, copied: new(copied)}
			d.phase = m.phaseOf(&g, o.ChangeStep)
			begun = append(begun, d)
		case d.g != g:
			d = &migrating{course: d.course, g: g, cleans: true, copied: d.copied}
			begun = append(begun, d)
		}
		all = append(all, d)
	}
	for _, d := range m.migrating {
		if phase, _, _ := d.g.Phase(m.clock(), o.ChangeStep); !d.g.isIn(o.Migrations) {
			d.stopCopying()
			if phase.Active() {
				m.busyUntil[d.g.To] = m.clock().Add(o.ChangeStep)
			}
		}
	}
	m.migrating = all
	return begun
}

// checkDropped returns a NotYet if other middlewares may still use the pool for a migration that was dropped here. then
// says what is possible afterwards. applying is held.
func (m *Middleware) checkDropped(pool, then string) error {
	until := m.busyUntil[pool]
	if !m.clock().Before(until) {
		return nil
	}
	return NotYet{fmt.Errorf("a migration to pool %q was dropped, and other mcmw may not have dropped it yet; %s from "+
		"%s on", pool, then, moment(until))}
}

// usedUntil returns the time after which no middleware uses g's new pool for an earlier migration; zero: there is no
// earlier one. The keys that the earlier migration leaves there are deleted after that time. applying is held.
func (m *Middleware) usedUntil(g *Migration) (until time.Time) {
	until = m.busyUntil[g.To]
	for _, h := range m.options.Migrations {
		if end := h.over().Add(m.options.ChangeStep); h.Start.Before(g.Start) && h.uses(g.To) && end.After(until) {
			until = end
		}
	}
	return until
}

func (d *migrating) what() string { return "a migration" }

func (d *migrating) next(m *Middleware) route.Phase { return m.phaseOf(&d.g, m.options.ChangeStep) }

func (d *migrating) prepare(_ context.Context, m *Middleware, _ route.Phase, _ sightings) route.Phase {
	phase, _, until := d.g.Phase(m.clock(), m.options.ChangeStep)
	next := d.next(m)
	if next != d.phase {
		m.options.Log.Info("keys migrate", "from", d.g.From, "to", d.g.Target(), "phase", phase.String(), "until",
			moment(until))
	}
	return next
}

// lasts goes by the clock. Phase copy instead of warm-up ends when the new pool is clean.
func (d *migrating) lasts(m *Middleware) time.Duration {
	_, _, until := d.g.Phase(m.clock(), m.options.ChangeStep)
	switch {
	case d.next(m) != d.phase:
		return 0
	case until.IsZero():
		return unknown
	}
	return until.Sub(m.clock())
}

// migrateEvery is the longest time between two looks at a migration.
const migrateEvery = time.Second

func (d *migrating) lookEvery(m *Middleware) time.Duration { return min(migrateEvery, d.copiesIn(m)) }

// copiesIn returns in which time copying is to begin; unknown: it has begun, or can't.
func (d *migrating) copiesIn(m *Middleware) time.Duration {
	from, until := d.g.copying(m.options.ChangeStep)
	now := m.clock()
	if d.copying != nil || !done(d.cleaned) || !now.Before(until) {
		return unknown
	}
	return max(0, from.Sub(now))
}

// gains returns, once, the keys that the new pool, and its gutter, get. It leaves out the pool once the migration is
// past that phase: then the records on the servers have the keys that the pool gets, and each server is cleaned by its
// record.
func (d *migrating) gains(m *Middleware, now route.Phase) (gains []gain) {
	g, c := &d.g, m.current.Load()
	used := m.usedUntil(g)
	phase, _, _ := g.Phase(m.clock(), c.options.ChangeStep)
	from, to := c.options.number(g.From), c.options.number(g.To)
	if !d.cleans || now != d.phase || phase >= route.MigrationDone || from < 0 || to < 0 || g.inside() ||
		m.clock().Before(used) {
		return nil
	}
	d.cleans = false
	gained := func(key []byte) bool { return c.router.Table().Pool(key) == from }
	text := g.name()
	if !used.IsZero() {
		// A middleware that started later does not know of the earlier migration, and may have cleaned the pool too
		// early, with the mark without this suffix.
		text += " behind another"
	}
	mark := backend.Mark{
		Key: marker.CleanMigrationKey, Text: text,
		For: min(g.over().Sub(m.clock()), protocol.LongestExpiry*time.Second),
	}
	clean := func(pool int) {
		gains = append(gains, gain{c.pools[pool], mark, func(int) func(key []byte) bool { return gained }})
	}
	if phase < route.MigrationDeleteNew || phase == route.MigrationDeleteNew && !used.IsZero() {
		clean(to)
	}
	for _, gutter := range c.router.Pools()[to].Gutters() {
		clean(gutter.Number())
	}
	return gains
}

// heard counts reads, begins to clean if that had to wait, and copies when all middlewares are in the phase for that.
func (d *migrating) heard(ctx context.Context, m *Middleware, _ sightings) (entered bool) {
	g := &d.g
	d.sampleWarmUp(m)
	m.beginCleaning(d)
	_, until := g.copying(m.options.ChangeStep)
	now := m.clock()
	switch {
	case d.copiesIn(m) == 0:
		during, stop := context.WithTimeout(ctx, until.Sub(now))
		d.copying = &copying{stop, m.after(func() {
			defer stop()
			d.copyKeys(during, m)
		})}
	case g.WarmsUp || !now.After(until) || !now.Before(g.End):
	case d.copied.now().Name == "":
		d.recall(ctx, m)
	default:
		if c := d.copied.now(); c.Items > 0 && !c.Complete && !c.warned {
			d.copied.change(func(s *copyState) { s.warned = true })
			m.options.Log.Error("the time for copying keys to the new pool has ended before all were copied: the "+
				"others will be misses", "from", g.From, "to", g.To, "listed", c.Listed, "of", c.Items, "reads there "+
				"from", moment(g.End.Add(-m.options.ChangeStep)))
		}
	}
	return false
}

// copied is what is known of a migration's copying.
type copied struct {
	mu    sync.Mutex // guards state
	state copyState
}

type copyState struct {
	sweep.CopyProgress
	here    uint64         // keys that this middleware has copied
	why     string         // the error that kept it from copying; "": none
	warned  bool           // the log says that not all keys were copied
	samples []warmUpSample // oldest first
}

func (c *copied) change(change func(s *copyState)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.state)
}

func (c *copied) now() (s copyState) {
	c.change(func(now *copyState) { s = *now })
	return s
}

// recall reads from the servers how far the copying came, which has ended.
func (d *migrating) recall(ctx context.Context, m *Middleware) {
	c := m.current.Load()
	d.copied.change(func(s *copyState) { s.Name = d.g.name() })
	m.background.Go(func() {
		p, ok := sweep.RecallProgress(ctx, c.pools[c.options.number(d.g.From)].servers, d.g.name())
		if ok {
			d.copied.change(func(s *copyState) { s.CopyProgress = p })
		}
	})
}

// copier returns what copies keys to the new pool, which is clean, and the keys that reads have missed there. It
// returns nil if one of the pools was removed.
func (d *migrating) copier(m *Middleware) (*sweep.Copier, *sweep.Missing) {
	g, c := &d.g, m.current.Load()
	from, to := c.options.number(g.From), c.options.number(g.To)
	if from < 0 || to < 0 {
		return nil, nil
	}
	source, target := c.pools[from].router, c.pools[to].router
	if g.inside() {
		source, target = source.Divide(g.cold(source.Servers()))
	}
	return &sweep.Copier{
		Name: g.name(), From: source, To: target, Servers: c.pools[from].servers, Targets: c.pools[to].servers,
		Selects: func(key []byte) bool { return c.router.Table().Pool(key) == from },
		Rate:    c.options.SweepRate, Hold: hold(c.options.ChangeStep), Pause: c.options.ChangeStep, Log: c.options.Log,
		Report: func(p sweep.CopyProgress) {
			d.copied.change(func(s *copyState) { s.CopyProgress, s.why = p, "" })
		},
		Copied: func(keys int) { d.copied.change(func(s *copyState) { s.here += uint64(keys) }) },
		Failed: func(why string) { d.copied.change(func(s *copyState) { s.why = why }) },
	}, c.pools[from].missing
}

// copyKeys copies keys until ctx is done: all of the old pool's, or those that reads miss. All keys are copied by one
// middleware, and the others wait.
func (d *migrating) copyKeys(ctx context.Context, m *Middleware) {
	g, logged := &d.g, ""
	for ctx.Err() == nil {
		copier, missing := d.copier(m)
		if copier == nil {
			return
		}
		if g.WarmsUp {
			copier.Fill(ctx, missing)
			return
		}
		err := copier.Run(ctx, func() time.Duration {
			m.applying.Lock()
			defer m.applying.Unlock()
			if _, until := g.copying(m.options.ChangeStep); m.stopping || m.clock().Before(until) {
				return 0
			}
			return g.End.Sub(m.clock())
		})
		if err != nil && !errors.Is(err, sweep.ErrClaimed) {
			copier.Failed(err.Error())
			if logged != err.Error() {
				logged = err.Error()
				copier.Log.Warn("keys could not be copied to the new pool; trying again", "from", g.From, "to", g.To,
					"error", err)
			}
		}
		backend.Pause(ctx, sweepAgain)
	}
}

// warmUpSample is the count of reads in a new pool at a time.
type warmUpSample struct {
	at    time.Time
	reads stats.Warming
}

// A pool is warm by the hit ratios of the last minute (recently), in which reads must have asked for at least
// leastReads keys.
const (
	recently   = time.Minute
	leastReads = 1000
)

// sampleWarmUp records the count of reads in the new pool, so that the counts of the last minute are known.
func (d *migrating) sampleWarmUp(m *Middleware) {
	c := m.current.Load()
	from := c.options.number(d.g.From)
	if !d.g.WarmsUp || from < 0 {
		return
	}
	now := warmUpSample{time.Now(), c.pools[from].warming.Load()}
	d.copied.change(func(s *copyState) {
		for len(s.samples) > 1 && now.at.Sub(s.samples[1].at) >= recently {
			s.samples = s.samples[1:]
		}
		if len(s.samples) == 0 || now.at.Sub(s.samples[len(s.samples)-1].at) >= recently/60 {
			s.samples = append(s.samples, now)
		}
	})
}

// migrations returns the state of c's migrations for statistics.
func (m *Middleware) migrations(c *core) []stats.Migration {
	var all []stats.Migration
	now, step := m.clock(), c.options.ChangeStep
	for _, d := range c.migrating {
		g := &d.g
		phase, since, until := g.Phase(now, step)
		s := stats.Migration{
			From: g.From, To: g.Target(), Inside: g.inside(), Phase: phase.String(), Start: g.Start,
			End: g.End, Back: g.Back, Since: since, Until: until, WarmsUp: g.WarmsUp, Within: g.Within,
		}
		s.CopyFrom, s.CopyUntil = g.copying(step)
		progress := d.copied.now()
		s.Round, s.Listed, s.Items, s.Copied, s.Rate, s.Complete, s.Left, s.Here, s.Why = progress.Round,
			progress.Listed, progress.Items, progress.Copied, progress.Rate, progress.Complete, progress.Left,
			progress.here, progress.why
		if s.Rate > 0 && !s.Complete {
			s.Remaining = time.Duration(float64(s.Items-min(s.Items, s.Listed)) / s.Rate * float64(time.Second))
		}
		if from := c.options.number(g.From); g.WarmsUp && from >= 0 {
			s.Read = c.pools[from].warming.Load()
			if len(progress.samples) > 0 {
				s.Recent = s.Read.Since(progress.samples[0].reads)
			}
			newPool, both := s.Recent.Ratios()
			s.Warm = s.Recent.New+s.Recent.Old+s.Recent.Neither >= leastReads && both-newPool <= g.Within
			all = append(all, s)
			continue
		}
		switch {
		case s.Complete || phase < route.MigrationCopy || phase == route.MigrationDone || now.Before(s.CopyFrom):
		case s.Rate > 0:
			s.Late = now.Add(s.Remaining).After(s.CopyUntil)
		default:
			s.Late = now.After(s.CopyFrom.Add(s.CopyUntil.Sub(s.CopyFrom) / 2))
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b stats.Migration) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.From, b.From))
	})
	return all
}
