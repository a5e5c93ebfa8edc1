package route

import (
	"fmt"
	"slices"
)

// A gutter is a pool that stands in for another: reads and writes of a key whose own servers are all down go to the servers that hold it by the
// gutter's placement. Which keys that are depends on the servers' states, which a Router does not know.

// MaxGutterTTL bounds Options.GutterTTL, seconds: what is stored where nobody would look for it is not to stay.
const MaxGutterTTL = 3600

// GutterError says that a pool can't have the gutter that it is to have.
type GutterError struct {
	Pool string
	why  string
}

func (e *GutterError) Error() string { return e.why }

// CheckGutters returns what is wrong with the gutters of pools, a *GutterError.
func CheckGutters(pools []Pool) error {
	for _, p := range pools {
		name, ttl := p.Options.Gutter, p.Options.GutterTTL
		if name == "" {
			continue
		}
		wrong := func(text string, args ...any) error {
			return &GutterError{p.Name, fmt.Sprintf("route: pool %q has the gutter %q, %s", p.Name, name, fmt.Sprintf(text, args...))}
		}
		at := slices.IndexFunc(pools, func(o Pool) bool { return o.Name == name })
		switch {
		case at < 0:
			return wrong("which is no pool; accepted: another pool")
		case name == p.Name:
			return wrong("which is the pool itself; accepted: another pool")
		case pools[at].Options.Gutter != "":
			return wrong("which has a gutter itself, %q; accepted: a pool without one", pools[at].Options.Gutter)
		case ttl < 1 || ttl > MaxGutterTTL:
			return wrong("for %d s; accepted: 1 to %d", ttl, MaxGutterTTL)
		}
	}
	return nil
}

// findGutters resolves the names of the gutters of r's pools.
func (r *Router) findGutters() {
	for _, p := range r.pools {
		if at := slices.Index(r.table.names, p.wanted); at >= 0 {
			p.gutter, r.pools[at].isGutter = r.pools[at], true
			r.n = max(r.n, 2)
		}
	}
}

// Gutter returns the pool to which the keys of a pool go whose servers are all down; nil: none.
func (r *Router) Gutter() *Router { return r.gutter }

// GutterTTL is how long an item lives in the gutter, at most, seconds.
func (r *Router) GutterTTL() int { return r.ttl }

// IsGutter reports whether a pool is the gutter of another.
func (r *Router) IsGutter() bool { return r.isGutter }
