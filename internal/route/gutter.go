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

// NewGutterError returns what is wrong with the gutter of a pool.
func NewGutterError(pool, text string, args ...any) error {
	return &GutterError{pool, fmt.Sprintf("route: "+text, args...)}
}

// CheckGutters returns what is wrong with the gutters of pools, a *GutterError.
func CheckGutters(pools []Pool) error {
	for _, p := range pools {
		name, ttl := p.Options.Gutter, p.Options.GutterTTL
		if name == "" {
			continue
		}
		wrong := func(text string, args ...any) error {
			return NewGutterError(p.Name, "pool %q has the gutter %q, %s", p.Name, name, fmt.Sprintf(text, args...))
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

// Standin is a gutter: its name, "": none, and for how long an item lives there at most, seconds.
type Standin struct {
	Pool string `json:"pool"`
	TTL  int    `json:"ttl"`
}

// Standin returns the gutter that the pool has.
func (o *Options) Standin() Standin { return Standin{o.Gutter, o.GutterTTL} }

// findGutters resolves the names of the gutters of r's pools.
func (r *Router) findGutters() {
	for _, p := range r.pools {
		for _, g := range []Standin{p.wanted, p.former} {
			at := slices.Index(r.table.names, g.Pool)
			if at < 0 || slices.Contains(p.gutters, r.pools[at]) {
				continue
			}
			p.gutters, r.pools[at].isGutter = append(p.gutters, r.pools[at]), true
			if r.n = max(r.n, 2); !p.closed {
				p.gutter = r.pools[at]
			}
		}
	}
}

// share returns s, the keys of the pool r, with what a record of them says of its gutter, and of its being one.
func (r *Router) share(s *Share, gutter Standin) *Share {
	s.Gutter = gutter
	if r.isGutter {
		return &Share{Default: true, Routed: s}
	}
	return s
}

// Gutter returns the pool to which the keys of a pool go whose servers are all down; nil: none, or not now.
func (r *Router) Gutter() *Router { return r.gutter }

// Gutters returns the pools in which each write of a key deletes it, if its servers, or some of them, were down so lately that they may hold it: see Sides.
func (r *Router) Gutters() []*Router { return r.gutters }

// Sides returns the pools whose gutters Gutters are: r's, or, of keys that go to another pool, both.
func (r *Router) Sides() (a, b *Router) {
	if r.passing != nil {
		return r.passing.from, r.passing.to
	}
	return r, nil
}

// GutterTTL is how long an item lives in the gutter, at most, seconds.
func (r *Router) GutterTTL() int { return r.wanted.TTL }

// IsGutter reports whether a pool is the gutter of another.
func (r *Router) IsGutter() bool { return r.isGutter }
