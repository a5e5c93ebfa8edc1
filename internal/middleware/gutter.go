package middleware

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// gutterSlack is for how long behind a mark that a middleware has not seen removed yet another one may still store in the gutter; with memcached's clock, in
// seconds.
const gutterSlack = 3 * time.Second

// gutterOpen returns how long the gutter of the pool may hold keys of a server that is read again; 0: it has no gutter. A request that was planned before
// that may take as long as timeout, and again to be given up.
func (o *PoolOptions) gutterOpen(timeout time.Duration) time.Duration {
	if !o.diverts() {
		return 0
	}
	return time.Duration(max(o.Options.GutterTTL, o.Options.Former.TTL))*time.Second + 2*timeout + gutterSlack
}

// diverts reports whether the pool has a gutter, or had one that others may use.
func (o *PoolOptions) diverts() bool { return o.Options.Gutter != "" || o.Options.Former.Pool != "" }

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
func (p *pool) diverts() bool { return p.options.diverts() || p.router.IsGutter() }

// close closes the gutter of the pool while c goes on, if c says so, which may be nil.
func (c *rerouting) close(o *PoolOptions) {
	if c == nil {
		return
	}
	if former, ok := c.gutters[o.Name]; ok {
		o.Options.Closed, o.Options.Former = true, former
	}
}

// cleanGutters deletes in gutters that are about to be used what they may have held earlier of their pools' keys. Nobody stores these there now: all others have come
// as far as nearly here.
func (m *Middleware) cleanGutters(c *rerouting) {
	p := m.current.Load()
	stripped := p.router.Stripped()
	for at, q := range p.pools {
		var of []int // the pools whose gutter it is
		var placements []marker.Placement
		for i, o := range p.pools {
			if o.options.Options.Closed && o.options.Options.Gutter == q.name {
				of, placements = append(of, i), append(placements, o.of(placed{o.router, o.options.Options}, o.had), o.wantedRecord())
			}
		}
		if len(of) == 0 {
			continue
		}
		holds := func(key []byte) bool {
			in := slices.Contains(of, p.router.Table().Pool(key)) || stripped[p.pools[of[0]].name] != nil // which has a gutter of its own
			return in && !bytes.HasPrefix(key, []byte(marker.Prefix))
		}
		var mark backend.Mark
		if c.phased {
			mark = backend.Mark{Text: fmt.Sprintf("gutter %d %s", at, fingerprint(placements...)), For: m.options.ChangeStep}
		}
		for _, s := range q.servers {
			if !s.Joins() {
				c.cleaning.Go(func() { s.Purge(m.work, holds, mark) })
			}
		}
	}
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
				if s.Away() && !q.options.Options.Closed {
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
