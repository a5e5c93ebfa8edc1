package middleware

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mcmw/internal/refusal"
	"mcmw/internal/route"
)

// Migration moves the keys of a pool to another pool while clients are served. Its phase (see route.Phase)
// follows from the clock:
//
//	Start       + step                            End - step   End
//	  | delete-new | copy .......................... | both      | done: keys routed to From are in To
//	               | a step | keys are copied | expiring
//
// So every middleware enters a phase at the same time, except for the differences of their clocks and of their speed,
// which must be less than a step. A middleware that restarts joins the migration in its present phase.
//
// A migration that warms up the new pool is a warm-up. It needs no End until the pool is warm:
//
//	Start       + step             End - step - expiring   End - step   End
//	  | delete-new | warm-up: copies | copy: copies nothing  | both       | done
//
// Instead of an End it can get a Back. From that time on the old pool is used alone, as before the Start:
//
//	Start       + step             Back - 2 steps          Back - step   Back
//	  | delete-new | warm-up: copies | copy: copies nothing  | back        | back, and may be dropped
//
// A migration inside a pool fills some of its servers from the others. It has other phases at both ends:
//
//	Start       + step             End - step - expiring   End - step   End
//	  | undecided  | warm-up: copies | copy: copies nothing  | undecided  | done, and may be dropped
type Migration struct {
	From, To   string // names of pools
	Start, End time.Time
	Back       time.Time
	// WarmsUp: only the keys that reads miss in the new pool are copied. The pool is warm when its hit ratio is at most
	// Within below that of both pools together.
	WarmsUp bool
	Within  float64
	// Cold are names of servers of the pool From, separated by commas; Zone is the zone of such servers. If one of them
	// is not "", these servers are filled with what reads miss there; To is From then, and WarmsUp is true. Otherwise
	// keys move to another pool.
	Cold, Zone string
}

// inside reports whether the migration fills servers of a pool from the pool's other servers.
func (g *Migration) inside() bool { return g.Cold != "" || g.Zone != "" }

// uses reports whether the migration is from or to the pool with that name.
func (g *Migration) uses(pool string) bool { return g.From == pool || g.To == pool }

// cold returns the names of the servers that are filled, separated by commas; servers are those of g's pool.
func (g *Migration) cold(servers []route.Server) string {
	if g.Zone == "" {
		return g.Cold
	}
	var names []string
	for _, s := range servers {
		if s.Zone == g.Zone {
			names = append(names, s.Name)
		}
	}
	return strings.Join(names, ",")
}

// Target returns a text for what is filled: the name of a pool, or servers of a pool.
func (g *Migration) Target() string {
	switch {
	case g.Zone != "":
		return "zone " + g.Zone
	case g.inside():
		return strings.ReplaceAll(g.Cold, ",", ", ")
	}
	return g.To
}

// describe returns a text for g in messages.
func (g *Migration) describe() string {
	if g.inside() {
		return fmt.Sprintf("the warm-up of %s in pool %q", g.Target(), g.From)
	}
	return fmt.Sprintf("the migration from pool %q to pool %q", g.From, g.To)
}

// DefaultWithin is the default of Migration.Within.
const DefaultWithin = 0.01

// same reports whether h is the warm-up g, though its End, Back and Within may have changed.
func (g *Migration) same(h Migration) bool {
	return g.WarmsUp && h.WarmsUp && g.name() == h.name()
}

// isIn reports whether g, or the same warm-up with changes, is one of migrations.
func (g *Migration) isIn(migrations []Migration) bool {
	return slices.Contains(migrations, *g) || slices.ContainsFunc(migrations, g.same)
}

// over returns when g ends, whichever way; a time far in the future if it has no end.
func (g *Migration) over() time.Time {
	switch {
	case g.goesBack():
		return g.Back
	case g.endless():
		return g.Start.AddDate(1000, 0, 0)
	}
	return g.End
}

func (g *Migration) goesBack() bool { return !g.Back.IsZero() }
func (g *Migration) endless() bool  { return g.End.IsZero() && g.Back.IsZero() }

// ending returns a text for how and when g ends.
func (g *Migration) ending() string {
	switch {
	case g.goesBack():
		return "back " + moment(g.Back)
	case g.endless():
		return "none"
	}
	return moment(g.End)
}

// name identifies the migration.
func (g *Migration) name() string {
	return g.From + " -> " + g.Target() + " " + g.Start.UTC().Format(time.RFC3339)
}

// phases are g's phases, in their order, between the times in Phase.
func (g *Migration) phases() [6]route.Phase {
	const waiting, deleteNew, undecided, warmUp, copies, both, done, back = route.MigrationWaiting,
		route.MigrationDeleteNew, route.MigrationUndecided, route.MigrationWarmUp, route.MigrationCopy,
		route.MigrationBoth, route.MigrationDone, route.MigrationBack
	switch {
	case g.inside():
		return [...]route.Phase{waiting, undecided, warmUp, copies, undecided, done}
	case g.goesBack():
		return [...]route.Phase{waiting, deleteNew, warmUp, copies, back, back}
	case g.WarmsUp:
		return [...]route.Phase{waiting, deleteNew, warmUp, copies, both, done}
	}
	return [...]route.Phase{waiting, deleteNew, copies, copies, both, done}
}

// Phase returns the phase at the time now, and when it began and ends. The zero time means that it has no beginning or
// end.
func (g *Migration) Phase(now time.Time, step time.Duration) (phase route.Phase, since, until time.Time) {
	_, copied := g.copying(step)
	if !g.WarmsUp {
		copied = g.Start.Add(step) // there is no phase warm-up
	}
	phases := g.phases()
	phase = phases[0]
	for k, end := range [...]time.Time{g.Start, g.Start.Add(step), copied, g.over().Add(-step), g.over()} {
		if now.Before(end) {
			if g.endless() && phase >= route.MigrationWarmUp {
				end = time.Time{}
			}
			return phase, since, end
		}
		if next := phases[k+1]; next != phase {
			phase, since = next, end
		}
	}
	return phase, since, time.Time{}
}

// expiring is how long copying has ended before the first middleware reads the new pool alone. Another middleware may
// end a step later, and its unconfirmed copies have to expire.
func expiring(step time.Duration) time.Duration {
	return step + max(step, hold(step)+time.Second)
}

// hold is how long a copy lives that has not been confirmed; see sweep.Transfer. It expires before anybody reads it.
func hold(step time.Duration) time.Duration {
	return max(time.Second, min(step.Truncate(time.Second), 10*time.Second))
}

// copying returns the time in which keys are copied: while all middlewares are in the phase for that.
func (g *Migration) copying(step time.Duration) (from, until time.Time) {
	switch {
	case g.goesBack():
		return g.Start.Add(step), g.Back.Add(-2 * step)
	case g.WarmsUp:
		return g.Start.Add(step), g.over().Add(-step - expiring(step))
	}
	return g.Start.Add(2 * step), g.End.Add(-step - max(step, hold(step)+time.Second))
}

// leastMigration is the least time from start to end. It leaves one step for copying keys.
func leastMigration(step time.Duration) time.Duration {
	return 4*step + max(step, hold(step)+time.Second)
}

// checkMigrations returns an error, a *refusal.Error, for the first migration that is wrong.
func (o *Options) checkMigrations() error {
	step := o.ChangeStep
	for i, g := range o.Migrations {
		refuse := func(text string, args ...any) error {
			return refusal.Of(fmt.Sprintf("migrations[%d]", i), text, args...)
		}
		for _, name := range []string{g.From, g.To} {
			switch p := o.poolNamed(name); {
			case p.Name == "":
				return refuse("the pool %q is unknown; accepted: two of %q", name, o.names())
			case p.Writers != WritersSeveral:
				return refuse("pool %q has writers %s; accepted: writers several in both pools, which needs "+
					"memcached 1.6.27 or later", name, p.Writers)
			}
		}
		if why := g.checkServers(o.poolNamed(g.From)); why != "" {
			return refuse("%s", why)
		}
		switch {
		case g.From == g.To && !g.inside():
			return refuse("from and to are both pool %q; accepted: two different pools", g.From)
		case step == 0:
			return refuse("change-step is 0; accepted: more than the time between the first and the last mcmw that " +
				"enters a phase")
		case g.WarmsUp && !(g.Within >= 0 && g.Within < 1): // nor NaN
			return refuse("within is %v; accepted: from 0 to less than 1", g.Within)
		case g.goesBack() && (!g.WarmsUp || !g.End.IsZero()):
			return refuse("back is %s; accepted: only in a warm-up (copy: missed) without an end", moment(g.Back))
		case g.goesBack() && g.Back.Sub(g.Start) < 4*step:
			return refuse("back is %s; accepted: at least 4 change-steps of %v after the start, %s", moment(g.Back),
				step, moment(g.Start))
		case !g.Start.IsZero() && g.WarmsUp && g.End.IsZero():
		case g.Start.IsZero() || g.End.Sub(g.Start) < leastMigration(step):
			return refuse("it lasts from %s to %s; accepted: an end at least %v after the start, with change-step %v",
				moment(g.Start), moment(g.End), leastMigration(step), step)
		}
		for _, h := range o.Migrations[:i] {
			if !h.uses(g.From) && !h.uses(g.To) {
				continue
			}
			// the pool keeps keys after Back, which are deleted only when a new migration is applied
			if g.goesBack() || h.goesBack() {
				return refuse("it shares a pool with %s, and one of them goes back; add one of them after the other "+
					"has been dropped", h.describe())
			}
			if g.Start.Before(h.over().Add(step)) && h.Start.Before(g.over().Add(step)) {
				ends := "ends at " + moment(h.End)
				if h.endless() {
					ends = "has no end"
				}
				return refuse("it overlaps with %s, which %s; accepted: one migration of a pool at a time, with %v "+
					"between them", h.describe(), ends, step)
			}
		}
	}
	return nil
}

// checkServers returns why servers of pool, which is g's, can't be filled; "": they can, or g fills none. If the pool's
// servers have not been looked up yet, the names are not checked.
func (g *Migration) checkServers(pool PoolOptions) (why string) {
	if !g.inside() {
		return ""
	}
	var names []string
	for _, s := range pool.Servers {
		names = append(names, s.Name)
	}
	cold := g.cold(pool.Servers)
	switch {
	case g.goesBack():
		return "back is set; accepted: an end, because servers that were filled stay in use"
	case pool.Options.Replicas == 1:
		return fmt.Sprintf("pool %q has one replica; accepted: at least two, because a server is filled from the "+
			"others that hold a key", g.From)
	case len(names) == 0:
		return ""
	case cold == "":
		return fmt.Sprintf("no server of pool %q is in zone %q; accepted: a zone of some of its servers", g.From,
			g.Zone)
	}
	all := strings.Split(cold, ",")
	for i, name := range all {
		if !slices.Contains(names, name) || slices.Contains(all[:i], name) {
			return fmt.Sprintf("pool %q has no server %q, or the name is given twice; accepted: some of %q, each once",
				g.From, name, names)
		}
	}
	if len(all) == len(names) {
		return fmt.Sprintf("it fills all servers of pool %q; accepted: some, which are filled from the others", g.From)
	}
	return ""
}

// moment formats a time for messages.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
