package sweep

import (
	"slices"

	"mcmw/internal/protocol"
)

// Copy is a holder's copy of a key. The zero value: the holder lacks the key.
type Copy struct {
	Held bool
	CAS  uint64
	// Sum is a hash of value and client flags; 0 if only the cas was asked for.
	Sum uint64
}

// SameVersion reports whether the copies certainly agree: there is at most one, or all have the same version.
func SameVersion(copies []Copy) bool {
	var first Copy
	several := false
	for _, c := range copies {
		switch {
		case !c.Held:
		case !first.Held:
			first = c
		case c.CAS != first.CAS:
			return false
		default:
			several = true
		}
	}
	return !several || first.CAS >= protocol.FirstVersion
}

// Case decides what to do about a key whose copies may disagree. It is pure, so that every order in which looks,
// deletions and other clients' writes reach the servers can be explored. The zero value has seen no copies.
type Case struct {
	last []Copy // the copies in the last look, which disagreed
}

// Look gets the copies, in the order of the key's holders. It returns which of them are to be deleted, by the cas seen,
// and whether to look again, after the deletions; if not, the case is closed. No copy is deleted before two looks in a
// row have found the same disagreement.
func (c *Case) Look(copies []Copy) (cut []int, again bool) {
	first := slices.IndexFunc(copies, func(c Copy) bool { return c.Held })
	for i, held := range copies {
		if held.Held && held.Sum != copies[first].Sum {
			cut = append(cut, i)
		}
	}
	switch {
	case len(cut) == 0:
		return nil, false
	case !slices.Equal(copies, c.last):
		c.last = slices.Clone(copies)
		return nil, true
	}
	return cut, true
}
