package middleware

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mcmw/internal/route"
)

// Migration moves the keys of a pool to another pool while clients are served. Which phase it is in (see route.MigrationPhase) follows from the clock:
//
//	Start       + step                         End - step   End
//	  | delete-new | copy ........................ | both      | done: what is routed to From is in To
//	               | a step | keys are copied | a step
//
// So every middleware enters a phase at the same time, as exactly as their clocks agree and as fast as they can, which together has to be less than a
// step; a restart goes on where it is.
//
// One that is Missed warms the new pool up, and needs no End before that is done:
//
//	Start       + step             End - step - settling   End - step   End
//	  | delete-new | warm-up: copies | copy: copies nothing  | both       | done
//
// It can be given up in place of that, so that at Back the old pool is as it was before the Start:
//
//	Start       + step             Back - 2 steps          Back - step   Back
//	  | delete-new | warm-up: copies | copy: copies nothing  | back        | back, and may be dropped
//
// One of servers of one pool, which are filled from the others, does the same with other phases at both ends:
//
//	Start       + step             End - step - settling   End - step   End
//	  | undecided  | warm-up: copies | copy: copies nothing  | undecided  | done, and may be dropped
type Migration struct {
	From, To   string
	Start, End time.Time
	Back       time.Time
	// Missed: what reads miss in the new pool is copied, and nothing else. It is warm when its hit ratio and that of both pools are not further apart than
	// Within.
	Missed bool
	Within float64
	// Cold are names of servers of the pool From, divided by commas, or Zone is that of such servers: these are filled with what reads miss there. To is From then,
	// and it is Missed. "": keys move to another pool.
	Cold, Zone string
}

// inside reports whether servers of one pool are filled.
func (g *Migration) inside() bool { return g.Cold != "" || g.Zone != "" }

// cold returns the names of those of servers, of g's pool, that are filled, divided by commas.
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

// Target says what is filled: a pool, or servers of one.
func (g *Migration) Target() string {
	switch {
	case g.Zone != "":
		return "zone " + g.Zone
	case g.inside():
		return strings.ReplaceAll(g.Cold, ",", ", ")
	}
	return g.To
}

// what begins a message about g.
func (g *Migration) what() string {
	if g.inside() {
		return fmt.Sprintf("the warm-up of %s in pool %q", g.Target(), g.From)
	}
	return fmt.Sprintf("the migration from pool %q to pool %q", g.From, g.To)
}

// DefaultWithin is the default of Migration.Within.
const DefaultWithin = 0.01

// same reports whether h is g, of which the end, either way, and when it is warm, may have changed.
func (g *Migration) same(h Migration) bool {
	return g.Missed && h.Missed && g.name() == h.name()
}

// isIn reports whether that is one of migrations.
func (g *Migration) isIn(migrations []Migration) bool {
	return slices.Contains(migrations, *g) || slices.ContainsFunc(migrations, g.same)
}

// over returns when it ends, for ever where that is not said.
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

// ending says when it ends, and how.
func (g *Migration) ending() string {
	switch {
	case g.goesBack():
		return "back " + moment(g.Back)
	case g.endless():
		return "none"
	}
	return moment(g.End)
}

// name tells migrations apart.
func (g *Migration) name() string {
	return g.From + " -> " + g.Target() + " " + g.Start.UTC().Format(time.RFC3339)
}

// Phase returns the phase at a moment, and from when until when it lasts; zero: for ever.
func (g *Migration) Phase(now time.Time, step time.Duration) (phase route.MigrationPhase, since, until time.Time) {
	_, copied := g.copying(step)
	ends := [...]time.Time{g.Start, g.Start.Add(step), copied, g.over().Add(-step), g.over()}
	next := [...]route.MigrationPhase{route.MigrationDeleteNew, route.MigrationWarmUp, route.MigrationCopy, route.MigrationBoth, route.MigrationDone}
	if !g.Missed {
		ends[2] = ends[1] // nothing is warmed up
	}
	if g.inside() {
		next[0], next[3] = route.MigrationUndecided, route.MigrationUndecided
	}
	if g.goesBack() {
		next[3], next[4] = route.MigrationBack, route.MigrationBack
	}
	for k, end := range ends {
		if now.Before(end) {
			if g.endless() && phase >= route.MigrationWarmUp {
				end = time.Time{}
			}
			return phase, since, end
		}
		if phase != next[k] {
			phase, since = next[k], end
		}
	}
	return phase, since, time.Time{}
}

// settling is how long nothing is copied before the first middleware reads the new pool alone, whatever another one has copied a step later.
func settling(step time.Duration) time.Duration {
	return step + max(step, hold(step)+time.Second)
}

// hold is how long a copy lasts that was not looked at since; see sweep.Transfer. It is over before anybody reads the copy.
func hold(step time.Duration) time.Duration {
	return max(time.Second, min(step.Truncate(time.Second), 10*time.Second))
}

// copying returns from when until when keys are copied: while all middlewares are in phase copy.
func (g *Migration) copying(step time.Duration) (from, until time.Time) {
	switch {
	case g.goesBack():
		return g.Start.Add(step), g.Back.Add(-2 * step)
	case g.Missed:
		return g.Start.Add(step), g.over().Add(-step - settling(step))
	}
	return g.Start.Add(2 * step), g.End.Add(-step - max(step, hold(step)+time.Second))
}

// leastMigration is the least time from start to end: there is a step in which keys are copied.
func leastMigration(step time.Duration) time.Duration {
	return 4*step + max(step, hold(step)+time.Second)
}

// MigrationError says which of the migrations is wrong, and why.
type MigrationError struct {
	Index int
	why   string
}

func (e *MigrationError) Error() string { return e.why }

// CheckMigrations reports the first migration that can't be: its error is a *MigrationError.
func CheckMigrations(migrations []Migration, pools []PoolOptions, step time.Duration) error {
	for i, g := range migrations {
		refuse := func(text string, args ...any) error { return &MigrationError{i, fmt.Sprintf(text, args...)} }
		var names []string
		for _, p := range pools {
			names = append(names, p.Name)
		}
		for _, name := range []string{g.From, g.To} {
			at := slices.Index(names, name)
			switch {
			case at < 0 || name == "":
				return refuse("the pool %q is unknown; accepted: two of %q", name, names)
			case pools[at].Writers != WritersSeveral:
				return refuse("pool %q has writers %s; accepted: several, which needs memcached 1.6.27, in both pools", name, pools[at].Writers)
			case pools[at].Options.Gutter != "":
				return refuse("pool %q has a gutter; accepted: pools without one", name)
			case slices.ContainsFunc(pools, func(p PoolOptions) bool { return p.Options.Gutter == name }):
				return refuse("pool %q is the gutter of another; accepted: pools that are not", name)
			}
		}
		if why := g.checkServers(pools); why != "" {
			return refuse("%s", why)
		}
		switch {
		case g.From == g.To && !g.inside():
			return refuse("from and to are pool %q; accepted: two pools", g.From)
		case step == 0:
			return refuse("change-step is 0; accepted: more than other mcmw may be behind or ahead")
		case g.Missed && (g.Within < 0 || g.Within >= 1):
			return refuse("within is %v; accepted: from 0 to less than 1", g.Within)
		case g.goesBack() && (!g.Missed || !g.End.IsZero()):
			return refuse("it goes back at %s; accepted: a warm-up (copy: missed) without an end", moment(g.Back))
		case g.goesBack() && g.Back.Sub(g.Start) < 4*step:
			return refuse("it goes back at %s; accepted: at least 4 change-steps of %v behind the start, %s", moment(g.Back), step, moment(g.Start))
		case !g.Start.IsZero() && g.Missed && g.End.IsZero():
		case g.Start.IsZero() || g.End.Sub(g.Start) < leastMigration(step):
			return refuse("it lasts from %s to %s; accepted: an end at least %v behind the start, by change-step %v", moment(g.Start), moment(g.End), leastMigration(step), step)
		}
		for _, h := range migrations[:i] {
			if h.From != g.From && h.From != g.To && h.To != g.From && h.To != g.To {
				continue
			}
			if g.goesBack() || h.goesBack() { // what the pool holds behind that is deleted when another one is new
				return refuse("it is beside %s, one of which goes back; accepted: one of the two, and the other when it is dropped", h.what())
			}
			if g.Start.Before(h.over().Add(step)) && h.Start.Before(g.over().Add(step)) {
				ends := "ends at " + moment(h.End)
				if h.endless() {
					ends = "has no end"
				}
				return refuse("it overlaps with %s, which %s; accepted: one at a time of a pool, with %v between", h.what(), ends, step)
			}
		}
	}
	return nil
}

// checkServers says why servers of g's pool can't be filled; "": they can, or none are to be. Servers that are not looked up yet are not known here.
func (g *Migration) checkServers(pools []PoolOptions) (why string) {
	if !g.inside() {
		return ""
	}
	pool := pools[slices.IndexFunc(pools, func(p PoolOptions) bool { return p.Name == g.From })]
	var names []string
	for _, s := range pool.Servers {
		names = append(names, s.Name)
	}
	cold := g.cold(pool.Servers)
	switch {
	case g.goesBack():
		return "it goes back; accepted: an end, for its servers stay in use"
	case pool.Options.Replicas == 1:
		return fmt.Sprintf("pool %q has one replica; accepted: two and more, for a server is filled from the others that hold a key", g.From)
	case len(names) == 0:
		return ""
	case cold == "":
		return fmt.Sprintf("no server of pool %q is in zone %q; accepted: a zone of some of its servers", g.From, g.Zone)
	}
	all := strings.Split(cold, ",")
	for i, name := range all {
		if !slices.Contains(names, name) || slices.Contains(all[:i], name) {
			return fmt.Sprintf("pool %q has no server %q, or it is given twice; accepted: names of %q", g.From, name, names)
		}
	}
	if len(all) == len(names) {
		return fmt.Sprintf("it fills all servers of pool %q; accepted: some, from the others", g.From)
	}
	return ""
}

// moment formats a time.
func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
