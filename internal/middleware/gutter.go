package middleware

import (
	"errors"
	"fmt"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// gutterSlack is for how long behind a mark that a middleware has not seen removed yet another one may still store in the gutter; with memcached's clock, in
// seconds.
const gutterSlack = 3 * time.Second

// gutterOpen returns how long the gutter of the pool may hold keys of a server that is read again; 0: it has no gutter. A request that was planned before
// that may take as long as timeout, and again to be given up.
func (o *PoolOptions) gutterOpen(timeout time.Duration) time.Duration {
	if o.Options.Gutter == "" {
		return 0
	}
	return time.Duration(o.Options.GutterTTL)*time.Second + 2*timeout + gutterSlack
}

// checkGutter reports what the pool, whose router is in, can't do as one that has a gutter, or is one.
func (o *PoolOptions) checkGutter(in *route.Router) error {
	if (in.Gutter() != nil || in.IsGutter()) && o.Rejoin == backend.RejoinTrust {
		return errors.New(o.of() + "rejoin trust with a gutter, or as one; accepted: rejoin invalidate or flush")
	}
	return nil
}

// LeastForGutter returns how many servers a pool with a gutter needs: so many that, when one is away, the others can say so to all middlewares, or to the
// next start of the only one.
func LeastForGutter(w Writers) int {
	if w == WritersOne {
		return 2
	}
	return leastHeeding
}

// diverts reports whether the pool has a gutter, or is one.
func (p *pool) diverts() bool { return p.options.Options.Gutter != "" || p.router.IsGutter() }

// checkSameGutter reports that the pool, whose servers others may write, is to have another gutter, by o: others would learn of it earlier or later.
func (p *pool) checkSameGutter(o *PoolOptions) error {
	is, was := o.Options, p.options.Options
	if is.Gutter == was.Gutter && is.GutterTTL == was.GutterTTL {
		return nil
	}
	return fmt.Errorf("the gutter of pool %q, and its time to live, cannot change while clients are served and other mcmw may write its servers; "+
		"accepted: restart all at once, or writers one", o.Name)
}

// openGutters records, before the core begins to serve, that gutters may hold keys of any server: those of the middleware before, and of servers that
// held the keys until now. Others may be a phase behind for a step, or two where they start.
func (p *core) openGutters() {
	for _, q := range p.pools {
		var longer time.Duration
		if q.options.inPhases(q.step) {
			longer = lateSteps * q.step
		}
		for _, s := range q.servers {
			s.KeepOpen(longer)
		}
	}
}

// gutters describes the gutters to the registry.
func (p *core) gutters() []stats.GutterOptions {
	var all []stats.GutterOptions
	for _, q := range p.pools {
		if q.options.Options.Gutter == "" {
			continue
		}
		all = append(all, stats.GutterOptions{Pool: q.name, Gutter: q.options.Options.Gutter, Counts: &q.diverted, Servers: func() (away, open int) {
			now := stats.Now()
			for _, s := range q.servers {
				if s.Away() {
					away++
				}
				if now < s.OpenUntil() {
					open++
				}
			}
			return away, open
		}})
	}
	return all
}
