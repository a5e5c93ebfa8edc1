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
	"mcmw/internal/protocol"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/sweep"
)

// clock returns the time that migrations follow.
func (m *Middleware) clock() time.Time { return time.Now().Add(time.Duration(m.ahead.Load())) }

// moves returns o's migrations in their present phases, in the order of their starts.
func (m *Middleware) moves(o *Options) []route.Move {
	now := m.clock()
	sorted := slices.SortedFunc(slices.Values(o.Migrations), func(a, b Migration) int {
		return a.Start.Compare(b.Start)
	})
	var moves []route.Move
	for _, g := range sorted {
		phase, _, _ := g.Phase(now, o.ChangeStep)
		if phase == route.MigrationBack {
			continue
		}
		if phase == route.MigrationWarmUp && !done(m.copied.of(g.name()).cleaned) {
			phase = route.MigrationCopy // like warm-up, but the new pool is not read
		}
		from := o.number(g.From)
		moves = append(moves, route.Move{
			From: from, To: o.number(g.To), Phase: phase, WarmsUp: g.WarmsUp, Cold: g.cold(o.Pools[from].Servers),
		})
	}
	return moves
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
			if t == nil || p.Name != g.From && p.Name != g.To {
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
		if (p.name == g.From || p.name == g.To) && !p.versioned.Load() && !p.haveVersions(ctx) {
			return fmt.Errorf("a migration of pool %q needs memcached 1.6.27 or later on all its servers", p.name)
		}
	}
	return nil
}

// beginMigrations starts to clean the new pools of migrations that are not in before, the previous migrations, and
// calls drive. applying is held.
func (m *Middleware) beginMigrations(before []Migration) {
	step := m.options.ChangeStep
	for _, h := range before {
		if phase, _, _ := h.Phase(m.clock(), step); phase.Active() && !h.isIn(m.options.Migrations) {
			m.busyUntil[h.To] = m.clock().Add(step)
		}
	}
	for i := range m.options.Migrations {
		if g := &m.options.Migrations[i]; m.work != nil && !slices.Contains(before, *g) {
			m.cleanTarget(g)
		}
	}
	m.drives()
}

// usedUntil returns the time after which no middleware uses g's new pool for an earlier migration; zero: there is no
// earlier one. The keys that the earlier migration leaves there are deleted after that time. applying is held.
func (m *Middleware) usedUntil(g *Migration) (until time.Time) {
	until = m.busyUntil[g.To]
	for _, h := range m.options.Migrations {
		if end := h.over().Add(m.options.ChangeStep); h.Start.Before(g.Start) && (h.From == g.To || h.To == g.To) &&
			end.After(until) {
			until = end
		}
	}
	return until
}

// cleanTarget starts to delete what g's new pool, and its gutter, may still hold of the keys that it gets. Of the pool
// it does nothing once g is past that phase: then the records on the servers have the keys that the pool gets, and each
// server is cleaned by its record. applying is held.
func (m *Middleware) cleanTarget(g *Migration) {
	c := m.current.Load()
	used := m.usedUntil(g)
	phase, _, _ := g.Phase(m.clock(), c.options.ChangeStep)
	from, to := c.options.number(g.From), c.options.number(g.To)
	if phase >= route.MigrationDone || from < 0 || to < 0 || g.inside() ||
		m.clock().Before(used) { // enterPhases calls cleanTarget again
		return
	}
	gained := func(key []byte) bool { return c.router.Table().Pool(key) == from }
	text := g.name()
	if !used.IsZero() {
		// A middleware that started later does not know of the earlier migration, and may have cleaned the pool too
		// early, with the mark without this suffix.
		text += " behind another"
	}
	mark := backend.Mark{Text: text, For: min(g.over().Sub(m.clock()), protocol.LongestExpiry*time.Second)}
	var cleaning []func()
	clean := func(pool int) {
		cleaning = append(cleaning, c.pools[pool].cleaning(m.work, mark, func(int) func(key []byte) bool {
			return gained
		})...)
	}
	if phase < route.MigrationDeleteNew || phase == route.MigrationDeleteNew && !used.IsZero() {
		clean(to)
	}
	for _, gutter := range c.router.Pools()[to].Gutters() {
		clean(gutter.Number())
	}
	if len(cleaning) > 0 {
		cleaned := m.clean(cleaning)
		m.copied.change(g.name(), func(s *copyState) { s.cleaned = cleaned })
	}
}

// copyStates has the state of copying for each migration, by its name.
type copyStates struct {
	mu    sync.Mutex // guards the fields
	known map[string]copyState
}

type copyState struct {
	sweep.CopyProgress
	here    uint64             // keys that this middleware has copied
	why     string             // the error that kept it from copying; "": none
	warned  bool               // the log says that not all keys were copied
	cancel  context.CancelFunc // ends the copying; nil: it does not run
	samples []warmUpSample     // oldest first
	// cleaned is closed when the new pool has been cleaned; nil: it need not be.
	cleaned <-chan struct{}
}

func (c *copyStates) change(name string, change func(s *copyState)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string]copyState{}
	}
	s := c.known[name]
	change(&s)
	c.known[name] = s
}

func (c *copyStates) of(name string) copyState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[name]
}

// migrateEvery is the longest time between two checks of the migrations' phases.
const migrateEvery = time.Second

// enterPhases applies the migrations' present phases, and starts or stops the copying of keys. It returns when to call
// it again. applying is held.
func (m *Middleware) enterPhases(ctx context.Context) (next time.Duration) {
	if len(m.options.Migrations) == 0 {
		return time.Hour
	}
	o, now, step := &m.options, m.clock(), m.options.ChangeStep
	if !slices.Equal(m.moves(o), m.current.Load().router.Migrations()) {
		if err := m.replace(ctx); err != nil {
			o.Log.Error("a migration cannot enter its next phase", "error", err)
		}
		for _, g := range o.Migrations {
			phase, _, until := g.Phase(now, step)
			o.Log.Info("keys migrate", "from", g.From, "to", g.Target(), "phase", phase.String(), "until",
				moment(until))
		}
	}
	next = migrateEvery
	for _, g := range o.Migrations {
		m.sampleWarmUp(&g)
		if !m.usedUntil(&g).IsZero() && m.copied.of(g.name()).cleaned == nil {
			m.cleanTarget(&g)
		}
		_, _, until := g.Phase(now, step)
		if !until.IsZero() {
			next = max(time.Millisecond, min(next, until.Sub(now)))
		}
		from, until := g.copying(step)
		name := g.name()
		running := m.copied.of(name).cancel != nil
		switch due := !now.Before(from) && now.Before(until); {
		case due && !running:
			copying, cancel := context.WithTimeout(ctx, until.Sub(now))
			m.copied.change(name, func(s *copyState) { s.cancel = cancel })
			m.background.Go(func() {
				if !g.WarmsUp {
					m.copyKeys(copying, g)
				} else if copier, missing := m.copier(&g); copier != nil {
					copier.Fill(copying, missing)
				}
				cancel()
				m.copied.change(name, func(s *copyState) { s.cancel = nil })
			})
		case !due && running:
			m.copied.of(name).cancel()
		case g.WarmsUp:
		case !due && now.After(until) && now.Before(g.End) && m.copied.of(name).Name == "":
			m.recall(ctx, &g)
		case !due && now.After(until) && now.Before(g.End):
			if c := m.copied.of(name); c.Items > 0 && !c.Complete && !c.warned {
				m.copied.change(name, func(s *copyState) { s.warned = true })
				o.Log.Error("the time for copying keys to the new pool has ended before all were copied: the others "+
					"will be misses", "from", g.From, "to", g.To,
					"listed", c.Listed, "of", c.Items, "reads there from", moment(g.End.Add(-step)))
			}
		}
	}
	m.copied.mu.Lock()
	defer m.copied.mu.Unlock()
	for name, s := range m.copied.known {
		if s.cancel != nil && !slices.ContainsFunc(o.Migrations, func(g Migration) bool { return g.name() == name }) {
			s.cancel() // the migration was dropped
		}
	}
	return next
}

// recall reads from the servers how far the copying for g came, which has ended.
func (m *Middleware) recall(ctx context.Context, g *Migration) {
	c := m.current.Load()
	from := c.options.number(g.From)
	m.copied.change(g.name(), func(s *copyState) { s.Name = g.name() })
	m.background.Go(func() {
		if p, ok := sweep.RecallProgress(ctx, c.pools[from].servers, g.name()); ok {
			m.copied.change(g.name(), func(s *copyState) { s.CopyProgress = p })
		}
	})
}

// copier waits until g's new pool has been cleaned, and returns what copies keys to it, and the keys that reads have
// missed there. It returns nil if one of the pools was removed.
func (m *Middleware) copier(g *Migration) (*sweep.Copier, *sweep.Missing) {
	name := g.name()
	if cleaned := m.copied.of(name).cleaned; cleaned != nil {
		<-cleaned
	}
	c := m.current.Load()
	from, to := c.options.number(g.From), c.options.number(g.To)
	if from < 0 || to < 0 {
		return nil, nil
	}
	source, target := c.pools[from].router, c.pools[to].router
	if g.inside() {
		source, target = source.Divide(g.cold(source.Servers()))
	}
	return &sweep.Copier{
		Name: name, From: source, To: target, Servers: c.pools[from].servers, Targets: c.pools[to].servers,
		Selects: func(key []byte) bool { return c.router.Table().Pool(key) == from },
		Rate:    c.options.SweepRate, Hold: hold(c.options.ChangeStep), Pause: c.options.ChangeStep, Log: c.options.Log,
		Report: func(p sweep.CopyProgress) {
			m.copied.change(name, func(s *copyState) { s.CopyProgress, s.why = p, "" })
		},
		Copied: func(keys int) { m.copied.change(name, func(s *copyState) { s.here += uint64(keys) }) },
		Failed: func(why string) { m.copied.change(name, func(s *copyState) { s.why = why }) },
	}, c.pools[from].missing
}

// copyKeys copies the keys of g's pool until ctx is done. While another middleware does that, it waits.
func (m *Middleware) copyKeys(ctx context.Context, g Migration) {
	logged := ""
	for ctx.Err() == nil {
		copier, _ := m.copier(&g)
		if copier == nil {
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
		pause(ctx, sweepAgain)
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

// sampleWarmUp records the count of reads in g's new pool, so that the counts of the last minute are known.
func (m *Middleware) sampleWarmUp(g *Migration) {
	c := m.current.Load()
	from := c.options.number(g.From)
	if !g.WarmsUp || from < 0 {
		return
	}
	now := warmUpSample{time.Now(), c.pools[from].warming.Load()}
	m.copied.change(g.name(), func(s *copyState) {
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
	for _, g := range c.options.Migrations {
		phase, since, until := g.Phase(now, step)
		s := stats.Migration{
			From: g.From, To: g.Target(), Inside: g.inside(), Phase: phase.String(), Start: g.Start,
			End: g.End, Back: g.Back, Since: since, Until: until, WarmsUp: g.WarmsUp, Within: g.Within,
		}
		s.CopyFrom, s.CopyUntil = g.copying(step)
		progress := m.copied.of(g.name())
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
