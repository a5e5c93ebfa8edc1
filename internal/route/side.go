package route

import (
	"slices"
	"strings"
)

// side restricts a Router to one side of a pool: the servers that are being filled (Move.Cold), or the others, from which they are filled. If all servers
// of a key are cold, they are on the side of the others, because there is nothing to fill them from.
type side struct {
	of     *Router
	cold   []bool // by server of the pool
	filled bool   // this is the side that is filled
}

// Divide returns the Routers of the two sides of the pool r: of the servers not in cold, and of those in cold, a list of names separated by commas.
func (r *Router) Divide(cold string) (others, filled *Router) {
	names, isCold := strings.Split(cold, ","), make([]bool, len(r.servers))
	for i, s := range r.servers {
		isCold[i] = slices.Contains(names, s.Name)
	}
	a, b := *r, *r
	a.side, b.side = &side{r, isCold, false}, &side{r, isCold, true}
	return &a, &b
}

// has reports whether server is being filled.
func (s *side) has(server int) bool {
	at := server - s.of.base
	return at >= 0 && at < len(s.cold) && s.cold[at]
}

// keep returns the elements of servers, the holders of a key, that are on this side. It overwrites servers.
func (s *side) keep(servers []int) []int {
	all, kept := true, servers[:0]
	for _, server := range servers {
		all = all && s.has(server)
	}
	for _, server := range servers {
		if (s.has(server) && !all) == s.filled {
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

// appendEmptied is Emptied. All such servers belong to the side that is not filled.
func (s *side) appendEmptied(key []byte, dst []int) []int {
	if s.filled {
		return dst
	}
	return s.of.Emptied(key, dst)
}
