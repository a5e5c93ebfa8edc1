package route

import (
	"slices"
	"strings"
)

// Share says which keys are in a pool, as its servers store them.
type Share struct {
	// Default says whether keys that begin with none of the Prefixes are in the pool. Each prefix that a key begins
	// with turns the answer into its opposite.
	Default  bool     `json:"default"`
	Prefixes []string `json:"prefixes,omitempty"`
	// Stripped is the prefix of clients' keys that the servers' keys lack.
	Stripped string `json:"stripped,omitempty"`
	// Gutter is the gutter of the pool.
	Gutter Standin `json:"gutter,omitzero"`
	// Routed is set for a pool that is a gutter, and therefore may hold all keys: the keys that are routed to it.
	// Otherwise nil.
	Routed *Share `json:"routed,omitempty"`
}

// Share returns which keys are in the pool with that number. Equal sets of keys give equal shares.
func (t *Table) Share(pool int) *Share {
	for k, n := range t.strips {
		if n > 0 && t.pools[k] == pool {
			return t.shareBelow(k)
		}
	}
	s := &Share{Default: t.pools[0] == pool}
	for k, parent := range t.parents {
		if parent >= 0 && (t.pools[k] == pool) != (t.pools[parent] == pool) {
			s.Prefixes = append(s.Prefixes, t.prefixes[k])
		}
	}
	return s
}

// shareBelow is Share for the pool whose only prefix, the one with that index, is stripped: all keys except those with
// a longer prefix.
func (t *Table) shareBelow(number int) *Share {
	s := &Share{Default: true, Stripped: t.prefixes[number]}
	for k, parent := range t.parents {
		if parent == number {
			s.Prefixes = append(s.Prefixes, strings.TrimPrefix(t.prefixes[k], s.Stripped))
		}
	}
	return s
}

// SameNames reports whether servers that hold s and servers that hold o store each key under the same name.
func (s *Share) SameNames(o *Share) bool { return s.stripped() == o.stripped() }

func (s *Share) stripped() string {
	if s == nil {
		return ""
	}
	return s.Stripped
}

// Equal reports whether s and o have the same keys and gutters; nil has all keys.
func (s *Share) Equal(o *Share) bool {
	if s == nil || o == nil {
		return s == o
	}
	return s.Default == o.Default && s.Stripped == o.Stripped && s.Gutter == o.Gutter &&
		slices.Equal(s.Prefixes, o.Prefixes) && s.Routed.Equal(o.Routed)
}

// Own returns the keys that are routed to the pool, without those that it may hold as a gutter.
func (s *Share) Own() *Share {
	if s != nil && s.Routed != nil {
		return s.Routed
	}
	return s
}

// Of returns a Router that places the share's keys as r does, and gives other keys no server.
func (s *Share) Of(r *Router) (*Router, error) {
	name := map[bool]string{true: "in", false: "out"}
	if s.Stripped != "" {
		name[true] = "in without " + s.Stripped
	}
	routes := Routes{Default: name[s.Default]}
	for _, prefix := range s.Prefixes {
		routes.Prefixes = append(routes.Prefixes, Prefix{Prefix: prefix, Pool: name[s.has(prefix)]})
	}
	return Compose([]string{name[true], name[false]}, []*Router{r, routerOf(r.table, &Group{})}, routes)
}

// has reports whether the pool has the keys that begin with prefix and with no longer prefix of the share.
func (s *Share) has(prefix string) bool {
	has := s.Default
	for _, p := range s.Prefixes {
		if strings.HasPrefix(prefix, p) {
			has = !has
		}
	}
	return has
}
