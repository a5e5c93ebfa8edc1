package route

import (
	"slices"
	"strings"
)

// side is what a Router knows that has, of each key's servers in a pool, those that are filled from the others (Move.Cold), or these others. A key of which all
// servers are cold has them on the side of the others: there is nothing to fill them from.
type side struct {
	of   *Router
	cold []bool // by server of the pool
	is   bool   // those that are filled
}

// Divide returns the Routers of both sides of r, of a pool: of its servers other than cold, names divided by commas, and of these.
func (r *Router) Divide(cold string) (others, filled *Router) {
	names, is := strings.Split(cold, ","), make([]bool, len(r.servers))
	for i, s := range r.servers {
		is[i] = slices.Contains(names, s.Name)
	}
	a, b := *r, *r
	a.side, b.side = &side{r, is, false}, &side{r, is, true}
	return &a, &b
}

// has reports whether server is one of those that are filled.
func (s *side) has(server int) bool {
	at := server - s.of.base
	return at >= 0 && at < len(s.cold) && s.cold[at]
}

// keep returns those of servers, which hold a key, that are on the side. It overwrites servers.
func (s *side) keep(servers []int) []int {
	all, kept := true, servers[:0]
	for _, server := range servers {
		all = all && s.has(server)
	}
	for _, server := range servers {
		if (s.has(server) && !all) == s.is {
			kept = append(kept, server)
		}
	}
	return kept
}

// appendReplicas is Replicas.
func (s *side) appendReplicas(key []byte, dst []int) []int {
	start := len(dst)
	dst = s.of.Replicas(key, dst)
	return dst[:start+len(s.keep(dst[start:]))]
}

// appendReaders is Readers.
func (s *side) appendReaders(key []byte, dst []int) []int {
	start := len(dst)
	dst = s.of.Readers(key, dst)
	return dst[:start+len(s.keep(dst[start:]))]
}

// appendEmptied is Emptied, of which there is one side.
func (s *side) appendEmptied(key []byte, dst []int) []int {
	if s.is {
		return dst
	}
	return s.of.Emptied(key, dst)
}
