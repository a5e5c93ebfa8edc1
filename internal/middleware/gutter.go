package middleware

import (
	"fmt"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/stats"
)

// gutterSlack is how long another middleware may still store in the gutter after the mark of a server was removed,
// because it has not seen that yet. It includes the granularity of memcached's clock, one second.
const gutterSlack = 3 * time.Second

// gutterOpen returns how long the pool's gutter may hold keys of a server after the server is read again; 0: the pool
// has no gutter. A request that was planned before that may take up to timeout, and up to timeout again until it is
// given up.
func (o *PoolOptions) gutterOpen(timeout time.Duration) time.Duration {
	if !o.diverts() {
		return 0
	}
	return time.Duration(max(o.Options.GutterTTL, o.Options.PreviousGutter.TTL))*time.Second + 2*timeout + gutterSlack
}

// diverts reports whether the pool has a gutter, or had one that other middlewares may still use.
func (o *PoolOptions) diverts() bool {
	return o.Options.Gutter != "" || o.Options.PreviousGutter.Pool != ""
}

// LeastForGutter returns how many servers a pool with a gutter needs. When one is away, the others must be enough to
// record that for all middlewares, or for the next start of the only one.
func LeastForGutter(w Writers) int {
	if w == WritersOne {
		return 2
	}
	return 3
}

// diverts reports whether the pool has a gutter, had one that others may still use, or is one.
func (p *pool) diverts() bool { return p.options.diverts() || p.router.Of(0).IsGutter() }

// close sets in o that the gutter of its pool is closed, if the change r closes it. r may be nil.
func (r *rerouting) close(o *PoolOptions) {
	if r == nil {
		return
	}
	if previous, ok := r.gutters[o.Name]; ok {
		o.Options.Closed, o.Options.PreviousGutter = true, previous
	}
}

// gutterGains returns the keys that gutters get which are about to be used: those of their pools. Nobody stores such
// keys there at this time: the other middlewares are at most one phase away, and closed their gutters as well.
func (m *Middleware) gutterGains(r *rerouting) (gains []gain) {
	c := m.current.Load()
	stripped := c.router.Stripped()
	for at, p := range c.pools {
		var of []int // the pools whose gutter p is
		var placements []marker.Placement
		for i, o := range c.pools {
			if o.options.Options.Closed && o.options.Options.Gutter == p.name {
				of, placements = append(of, i),
					append(placements, marker.Placement{Share: o.had}, marker.Placement{Share: o.share})
			}
		}
		if len(of) == 0 {
			continue
		}
		holds := func(key []byte) bool {
			// a pool that strips has a gutter for itself alone
			return slices.Contains(of, c.router.Table().Pool(key)) || stripped[c.pools[of[0]].name] != nil
		}
		var mark backend.Mark
		if !r.alone {
			mark = backend.Mark{
				Key: marker.CleanGutterKey, Text: fmt.Sprintf("%d %s", at, fingerprint(placements...)),
				For: m.options.ChangeStep,
			}
		}
		gains = append(gains, gain{p, mark, func(int) func(key []byte) bool { return holds }})
	}
	return gains
}

// openGutters records, before the core begins to serve, that gutters may hold keys of any server: keys that an earlier
// middleware stored there, and keys that other servers held until now. Another middleware may be a phase behind for one
// step, or for lateSteps if it has just started.
func (c *core) openGutters() {
	for _, p := range c.pools {
		var longer time.Duration
		if p.options.inPhases(p.step) {
			longer = lateSteps * p.step
		}
		for _, s := range p.servers {
			s.KeepOpen(longer)
		}
	}
}

// gutters returns the state of the gutters of the pools that have one.
func (c *core) gutters() (all []stats.GutterSnapshot) {
	now := stats.Now()
	for _, p := range c.pools {
		if p.options.Options.Gutter == "" {
			continue
		}
		g := stats.GutterSnapshot{Pool: p.name, Gutter: p.options.Options.Gutter, Diverted: p.diverted.Load()}
		for _, s := range p.servers {
			if s.Away() && !p.options.Options.Closed {
				g.Away++
			}
			if now < s.OpenUntil() {
				g.Open++
			}
		}
		all = append(all, g)
	}
	return all
}
