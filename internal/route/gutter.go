package route

import (
	"slices"

	"mcmw/internal/refusal"
)

// A gutter is a pool that stands in for another pool: while all servers of a key are down, its reads and writes go to
// the servers that hold it by the gutter's placement. Which keys these are depends on the servers' states, which a
// Router does not know.

// MaxGutterTTL bounds Options.GutterTTL, in seconds: an item in a gutter is not read once the key's own servers are
// back, so it must not stay long.
const MaxGutterTTL = 3600

// WrongGutter returns a *refusal.Error about the gutter of a pool.
func WrongGutter(pool, text string, args ...any) error {
	p := Pool{Name: pool}
	return refusal.Of(p.path("gutter"), text, args...)
}

// Standin is a gutter: the pool's name ("": none), and the longest time that an item lives there, in seconds.
type Standin struct {
	Pool string `json:"pool"`
	TTL  int    `json:"ttl"`
}

// Standin returns the gutter in o.
func (o *Options) Standin() Standin { return Standin{o.Gutter, o.GutterTTL} }

// findGutters resolves the names of the gutters of r's pools.
func (r *Router) findGutters() {
	for _, p := range r.pools {
		p.gutter, p.gutters, p.isGutter = nil, nil, false
	}
	for _, p := range r.pools {
		for _, g := range []Standin{p.wanted, p.previousGutter} {
			at := slices.Index(r.table.names, g.Pool)
			if g.Pool == "" || at < 0 || slices.Contains(p.gutters, r.pools[at]) {
				continue
			}
			p.gutters, r.pools[at].isGutter = append(p.gutters, r.pools[at]), true
			if r.n = max(r.n, 2); !p.closed {
				p.gutter = r.pools[at]
			}
		}
	}
}

// share returns what records say about the keys of the pool: those routed to it, s, and its gutter. A gutter may hold
// all keys.
func (g *Group) share(s *Share, gutter Standin) *Share {
	s.Gutter = gutter
	if g.isGutter {
		return &Share{Default: true, Routed: s}
	}
	return s
}

// Gutter returns the pool that serves a key while all its servers are down; nil: none, or the gutter is closed.
func (g *Group) Gutter() *Group { return g.gutter }

// Gutters returns the gutters that may hold a key of the pool because its servers were down recently.
func (g *Group) Gutters() []*Group { return g.gutters }

// GutterTTL is the longest time that an item lives in the gutter, in seconds.
func (g *Group) GutterTTL() int { return g.wanted.TTL }

// IsGutter reports whether the pool is the gutter of another pool.
func (g *Group) IsGutter() bool { return g.isGutter }
