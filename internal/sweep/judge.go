package sweep

import (
	"slices"

	"mcmw/internal/protocol"
)

// Copy is what one holder of a key has. The zero value: it lacks the key.
type Copy struct {
	Held bool
	CAS  uint64
	// Sum is a hash of value and client flags; 0 if only the cas was asked for.
	Sum uint64
}

// SameVersion reports whether the copies certainly agree: those held, if there are several, have one version.
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

// Case is a key whose copies may disagree: what follows from looking at them. It is pure, so that every order in which looks,
// deletions and other clients' writes reach the servers can be explored. The zero value has seen nothing.
type Case struct {
	last []Copy // what the last look found, if it disagreed and nothing was deleted since
}

// Look takes what the holders have, in the order of the key's holders. It returns which of their copies are to be deleted, by
// the cas seen, and whether to look again, behind the deletions. Nothing is deleted before two looks in a row have found the
// same disagreement.
func (c *Case) Look(copies []Copy) (cut []int, again bool) {
	first := slices.IndexFunc(copies, func(c Copy) bool { return c.Held })
	for i, held := range copies {
		if held.Held && held.Sum != copies[first].Sum {
			cut = append(cut, i)
		}
	}
	switch {
	case len(cut) == 0:
		c.last = nil
		return nil, false
	case !slices.Equal(copies, c.last):
		c.last = slices.Clone(copies)
		return nil, true
	}
	c.last = nil
	return cut, true
}
