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

// clock returns the time by which migrations go.
func (m *Middleware) clock() time.Time { return time.Now().Add(time.Duration(m.ahead.Load())) }

// migrated returns router, of o's pools, as it is now that keys are on their way.
func (m *Middleware) migrated(o *Options, router *route.Router) *route.Router {
	return router.Migrate(m.moves(o))
}

// moves returns the phases of o's migrations, in the order in which they start.
func (m *Middleware) moves(o *Options) []route.Move {
	pools, now := o.pools(), m.clock()
	number := func(name string) int {
		return slices.IndexFunc(pools, func(p PoolOptions) bool { return p.Name == name })
	}
	sorted := slices.SortedFunc(slices.Values(o.Migrations), func(a, b Migration) int { return a.Start.Compare(b.Start) })
	var moves []route.Move
	for _, g := range sorted {
		phase, _, _ := g.Phase(now, o.ChangeStep)
		if phase == route.MigrationBack {
			continue
		}
		if cleaned := m.copied.of(g.name()).cleaned; phase == route.MigrationWarmUp && cleaned != nil {
			select {
			case <-cleaned:
			default:
				phase = route.MigrationCopy // in which the new pool is not read
			}
		}
		from := number(g.From)
		moves = append(moves, route.Move{From: from, To: number(g.To), Phase: phase, Missed: g.Missed, Cold: g.cold(pools[from].Servers)})
	}
	return moves
}

// checkMigrations reports what of o's migrations can't be put in force in place of those of now. Applying is held.
func (m *Middleware) checkMigrations(ctx context.Context, o *Options) error {
	now, step := m.clock(), m.options.ChangeStep
	for _, g := range m.options.Migrations {
		phase, since, _ := g.Phase(now, step)
		_, copied := g.copying(step)
		kept := g.isIn(o.Migrations)
		switch returning := phase == route.MigrationBack && now.Before(g.Back); {
		case !phase.Active() && !returning:
			continue // where keys are is compared by their routes
		case !kept && g.goesBack():
			return fmt.Errorf("%s is in phase %s since %s, and cannot be dropped before %s, when all mcmw are back at pool %q; accepted: from then on",
				g.what(), phase, moment(since), moment(g.Back), g.From)
		case g.inside() && !kept:
			ends := g.End
			if g.endless() {
				ends = later(now.Add(2*step+settling(step)), g.Start.Add(leastMigration(step)))
			}
			return fmt.Errorf("%s is in phase %s since %s, in which other mcmw may fill servers, and cannot be dropped; accepted: behind its end, which can be %s", g.what(), phase, moment(since), moment(ends))
		case g.Missed && !kept && !now.After(copied):
			return fmt.Errorf("%s is in phase %s since %s, in which other mcmw may read pool %q, and cannot be dropped; "+
				"accepted: back: %s or later, which it can be dropped from: pool %q alone is read again, from two change-steps before", g.what(), phase, moment(since), g.To,
				moment(later(now.Add(3*step), g.Start.Add(4*step))), g.From)
		case g.Missed && kept && !slices.Contains(o.Migrations, g):
			next := o.Migrations[slices.IndexFunc(o.Migrations, g.same)]
			_, ends := next.copying(step)
			if earliest := now.Add(step); (next.End != g.End || next.Back != g.Back) && (phase > route.MigrationWarmUp || copied.Before(earliest) || ends.Before(earliest)) {
				back := ""
				if !g.inside() {
					back = ", or back: " + moment(earliest.Add(2*step)) + " or later"
				}
				return fmt.Errorf("the end of %s cannot change from %s to %s; accepted: %s or later%s, as long as it is warmed up for "+
					"a step more, for other mcmw have to read of it before", g.what(), g.ending(), next.ending(), moment(earliest.Add(settling(step)+step)), back)
			}
		case !kept && now.After(copied):
			return fmt.Errorf("%s is in phase %s since %s, and cannot be dropped or changed before it ends at %s; "+
				"accepted: then another one, from %q to %q", g.what(), phase, moment(since), moment(g.End), g.To, g.From)
		case kept && o.ChangeStep != step:
			return fmt.Errorf("change-step cannot change while keys migrate; accepted: %v, until that ends (%s)", step, g.ending())
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
		for i, p := range o.pools() {
			at := slices.IndexFunc(m.tiers, func(t *tier) bool { return t.name == p.Name })
			if at < 0 || p.Name != g.From && p.Name != g.To {
				continue
			}
			wanted, err := route.New(o.pools()[i].Servers, p.Options)
			if err != nil {
				return err
			}
			is := m.current.Load().of(m.tiers[at]).wanted()
			if !is.equal(placed{wanted, p.Options}) {
				return fmt.Errorf("the list of servers of pool %q cannot change during %s; accepted: behind its end (%s)", p.Name, g.what(), g.ending())
			}
			if now, next := g.cold(is.router.Servers()), g.cold(p.Servers); now != next {
				return fmt.Errorf("the servers of %s cannot change from %s to %s while they are filled; accepted: behind its end (%s)", g.what(), now, next, g.ending())
			}
		}
	}
	return nil
}

// later returns the later one of two moments, in whole seconds that are not before it.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		a = b
	}
	return a.Add(time.Second - 1).Truncate(time.Second)
}

// checkBegin reports that g cannot begin: others have to learn of it a step before, and its keys get versions.
func (m *Middleware) checkBegin(ctx context.Context, g *Migration, o *Options) error {
	if m.work == nil {
		return nil // a start goes on where others are
	}
	if earliest := m.clock().Add(o.ChangeStep); g.Start.Before(earliest) && g.over().After(m.clock()) {
		return fmt.Errorf("%s starts at %s; accepted: %s or later, for other mcmw have to read of it before", g.what(), moment(g.Start), moment(earliest))
	}
	for _, q := range m.current.Load().pools {
		if (q.name == g.From || q.name == g.To) && !q.several.Load() && !q.haveVersions(ctx) {
			return fmt.Errorf("a migration of pool %q needs memcached 1.6.27 or later on all its servers", q.name)
		}
	}
	return nil
}

// beginMigrations has migrate look at the migrations again, which were others before, and cleans the new pools of those that are new. Applying is held.
func (m *Middleware) beginMigrations(before []Migration) {
	step := m.options.ChangeStep
	for _, h := range before {
		if phase, _, _ := h.Phase(m.clock(), step); phase.Active() && !h.isIn(m.options.Migrations) {
			m.left[h.To] = m.clock().Add(step)
		}
	}
	for i := range m.options.Migrations {
		if g := &m.options.Migrations[i]; m.work != nil && !slices.Contains(before, *g) {
			m.cleanTarget(g)
		}
	}
	select {
	case m.moving <- struct{}{}:
	default:
	}
}

// usedUntil returns when no middleware uses g's new pool any more for a migration before g; zero: there is none. What that leaves behind is deleted then.
// Applying is held.
func (m *Middleware) usedUntil(g *Migration) (until time.Time) {
	until = m.left[g.To]
	for _, h := range m.options.Migrations {
		if end := h.over().Add(m.options.ChangeStep); h.Start.Before(g.Start) && (h.From == g.To || h.To == g.To) && end.After(until) {
			until = end
		}
	}
	return until
}

// cleanTarget deletes in the background what g's new pool may have held earlier of the keys that it gets. Behind a start of g the records that the
// servers keep say so, too. Applying is held.
func (m *Middleware) cleanTarget(g *Migration) {
	c := m.current.Load()
	used := m.usedUntil(g)
	switch phase, _, _ := g.Phase(m.clock(), c.options.ChangeStep); {
	case m.clock().Before(used):
		return // enterPhases comes back to it
	case phase > route.MigrationDeleteNew, phase == route.MigrationDeleteNew && used.IsZero():
		return
	}
	from, to := c.named(g.From), c.named(g.To)
	if from < 0 || to < 0 || g.inside() || c.pools[to].options.Rejoin == backend.RejoinTrust {
		return
	}
	gained := func(key []byte) bool { return c.router.Table().Pool(key) == from }
	text := g.name()
	if !used.IsZero() {
		text += " behind another" // one that has started since, and does not know of that, may have cleaned it too early
	}
	mark := backend.Mark{Text: text, For: min(g.over().Sub(m.clock()), protocol.LongestExpiry*time.Second)}
	var cleaning sync.WaitGroup
	for _, s := range c.pools[to].servers {
		if !s.Joins() {
			cleaning.Go(func() { s.Purge(m.work, gained, mark) })
		}
	}
	cleaned := make(chan struct{})
	m.copied.change(g.name(), func(s *copyState) { s.cleaned = cleaned })
	m.background.Go(func() {
		cleaning.Wait()
		close(cleaned)
	})
}

// named returns the number of the pool called name; -1: there is none.
func (p *core) named(name string) int {
	return slices.IndexFunc(p.pools, func(q *pool) bool { return q.name == name })
}

// copies is what is known of the copying of the keys of each migration, by its name.
type copies struct {
	mu    sync.Mutex // guards the fields
	known map[string]copyState
}

type copyState struct {
	sweep.CopyProgress
	here   uint64 // keys that this middleware has copied
	why    string // what kept it from copying; "": nothing
	warned bool   // the log says that not all were copied
	cancel context.CancelFunc
	looks  []looked // what was looked for in the new pool, oldest first
	// cleaned is closed when the new pool holds nothing that it held before; nil: it was clean at the start.
	cleaned chan struct{}
}

func (c *copies) change(name string, change func(s *copyState)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string]copyState{}
	}
	s := c.known[name]
	change(&s)
	c.known[name] = s
}

func (c *copies) of(name string) copyState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known[name]
}

// migrateEvery is the longest time between two looks at how far migrations are.
const migrateEvery = time.Second

// migrate takes the keys of pools from phase to phase until ctx is done, and copies them.
func (m *Middleware) migrate(ctx context.Context) {
	for {
		m.applying.Lock()
		next := m.enterPhases(ctx)
		m.applying.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-m.moving:
		case <-time.After(next):
		}
	}
}

// enterPhases puts the phases of now in force, and begins to copy, or ends that. It returns when to look again. Applying is held.
func (m *Middleware) enterPhases(ctx context.Context) (next time.Duration) {
	if m.stopping || len(m.options.Migrations) == 0 {
		return time.Hour
	}
	o, now, step := &m.options, m.clock(), m.options.ChangeStep
	if !slices.Equal(m.moves(o), m.current.Load().router.Migrations()) {
		if err := m.replace(ctx, nil); err != nil {
			o.Log.Error("a migration cannot enter its next phase", "error", err)
		}
		for _, g := range o.Migrations {
			phase, _, until := g.Phase(now, step)
			o.Log.Info("keys migrate", "from", g.From, "to", g.Target(), "phase", phase.String(), "until", moment(until))
		}
	}
	next = migrateEvery
	for _, g := range o.Migrations {
		m.look(&g)
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
				if g.Missed {
					m.fillKeys(copying, &g)
				} else {
					m.copyKeys(copying, g)
				}
				cancel()
				m.copied.change(name, func(s *copyState) { s.cancel = nil })
			})
		case !due && running:
			m.copied.of(name).cancel()
		case g.Missed:
		case !due && now.After(until) && now.Before(g.End) && m.copied.of(name).Name == "":
			m.recall(ctx, &g)
		case !due && now.After(until) && now.Before(g.End):
			if c := m.copied.of(name); c.Items > 0 && !c.Complete && !c.warned {
				m.copied.change(name, func(s *copyState) { s.warned = true })
				o.Log.Error("not all keys were copied to the new pool in time: those that were not will be misses", "from", g.From, "to", g.To,
					"listed", c.Listed, "of", c.Items, "reads there from", moment(g.End.Add(-step)))
			}
		}
	}
	m.copied.mu.Lock()
	defer m.copied.mu.Unlock()
	for name, s := range m.copied.known {
		if s.cancel != nil && !slices.ContainsFunc(o.Migrations, func(g Migration) bool { return g.name() == name }) {
			s.cancel() // it was dropped
		}
	}
	return next
}

// recall asks the servers what they know of g's copying, which is over.
func (m *Middleware) recall(ctx context.Context, g *Migration) {
	c := m.current.Load()
	from := c.named(g.From)
	m.copied.change(g.name(), func(s *copyState) { s.Name = g.name() })
	m.background.Go(func() {
		if p, ok := sweep.RecallProgress(ctx, c.pools[from].servers, g.name()); ok {
			m.copied.change(g.name(), func(s *copyState) { s.CopyProgress = p })
		}
	})
}

// copyKeys copies the keys of g's pool until ctx is done, or waits while another middleware does.
func (m *Middleware) copyKeys(ctx context.Context, g Migration) {
	name, told := g.name(), ""
	if cleaned := m.copied.of(name).cleaned; cleaned != nil {
		<-cleaned
	}
	for ctx.Err() == nil {
		c := m.current.Load()
		from, to := c.named(g.From), c.named(g.To)
		if from < 0 || to < 0 {
			return
		}
		table, log := c.router.Table(), c.options.Log
		copier := sweep.Copier{
			Name: name, From: c.pools[from].router, To: c.pools[to].router, Servers: c.pools[from].servers, Gains: c.pools[to].servers,
			Has: func(key []byte) bool { return table.Pool(key) == from }, Rate: c.options.SweepRate, Hold: hold(c.options.ChangeStep), Pause: c.options.ChangeStep,
			Told: func(p sweep.CopyProgress) {
				m.copied.change(name, func(s *copyState) { s.CopyProgress, s.why = p, "" })
			},
			Copied: func(keys int) { m.copied.change(name, func(s *copyState) { s.here += uint64(keys) }) },
			Log:    log,
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
			m.copied.change(name, func(s *copyState) { s.why = err.Error() })
			if told != err.Error() {
				told = err.Error()
				log.Warn("keys could not be copied to another pool, and will be", "from", g.From, "to", g.To, "error", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(sweepAgain):
		}
	}
}

// looked is what reads had looked for in a new pool at a moment.
type looked struct {
	at    time.Time
	reads stats.Warming
}

// recently is how far back the hit ratios reach by which a pool is warm, and leastReads how many keys have to be looked for in that time.
const (
	recently   = time.Minute
	leastReads = 1000
)

// look remembers what reads have looked for by now in g's new pool.
func (m *Middleware) look(g *Migration) {
	c := m.current.Load()
	from := c.named(g.From)
	if !g.Missed || from < 0 {
		return
	}
	now := looked{time.Now(), c.pools[from].warming.Load()}
	m.copied.change(g.name(), func(s *copyState) {
		for len(s.looks) > 1 && now.at.Sub(s.looks[1].at) >= recently {
			s.looks = s.looks[1:]
		}
		if len(s.looks) == 0 || now.at.Sub(s.looks[len(s.looks)-1].at) >= recently/60 {
			s.looks = append(s.looks, now)
		}
	})
}

// fillKeys copies what reads of this middleware miss in g's new pool until ctx is done.
func (m *Middleware) fillKeys(ctx context.Context, g *Migration) {
	name := g.name()
	if cleaned := m.copied.of(name).cleaned; cleaned != nil {
		<-cleaned
	}
	c := m.current.Load()
	from, to := c.named(g.From), c.named(g.To)
	if from < 0 || to < 0 {
		return
	}
	source, target := c.pools[from].router, c.pools[to].router
	if g.inside() {
		source, target = source.Divide(g.cold(source.Servers()))
	}
	copier := sweep.Copier{
		Name: name, From: source, To: target, Servers: c.pools[from].servers, Gains: c.pools[to].servers,
		Rate: c.options.SweepRate, Hold: hold(c.options.ChangeStep), Log: c.options.Log,
		Copied: func(keys int) { m.copied.change(name, func(s *copyState) { s.here += uint64(keys) }) },
		Failed: func(why string) { m.copied.change(name, func(s *copyState) { s.why = why }) },
	}
	copier.Fill(ctx, c.pools[from].missing)
}

// migrations returns what is to be said of the migrations of p.
func (m *Middleware) migrations(p *core) []stats.Migration {
	var all []stats.Migration
	now, step := m.clock(), p.options.ChangeStep
	for _, g := range p.options.Migrations {
		phase, since, until := g.Phase(now, step)
		s := stats.Migration{From: g.From, To: g.Target(), Inside: g.inside(), Phase: phase.String(), Start: g.Start, End: g.End, Back: g.Back, Since: since, Until: until, Missed: g.Missed, Within: g.Within}
		s.CopyFrom, s.CopyUntil = g.copying(step)
		c := m.copied.of(g.name())
		s.Round, s.Listed, s.Items, s.Copied, s.Rate, s.Complete, s.Left, s.Here, s.Why = c.Round, c.Listed, c.Items, c.Copied, c.Rate, c.Complete, c.Left, c.here, c.why
		if s.Rate > 0 && !s.Complete {
			s.Remaining = time.Duration(float64(s.Items-min(s.Items, s.Listed)) / s.Rate * float64(time.Second))
		}
		if from := p.named(g.From); g.Missed && from >= 0 {
			s.Read = p.pools[from].warming.Load()
			if len(c.looks) > 0 {
				s.Recent = s.Read.Since(c.looks[0].reads)
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
	slices.SortFunc(all, func(a, b stats.Migration) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.From, b.From)) })
	return all
}
