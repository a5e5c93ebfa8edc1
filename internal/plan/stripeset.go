package plan

import "mcmw/internal/keylock"

// stripeSet is a set of key-lock stripes. Its zero value is empty.
type stripeSet struct {
	bits    [keylock.Stripes / 64]uint64
	members []uint32
}

// clear removes all members.
func (s *stripeSet) clear() {
	for _, m := range s.members {
		s.bits[m/64] = 0
	}
	s.members = s.members[:0]
}

// has reports whether stripe is a member.
func (s *stripeSet) has(stripe uint32) bool { return s.bits[stripe/64]&(1<<(stripe%64)) != 0 }

// add makes stripe a member.
func (s *stripeSet) add(stripe uint32) {
	if !s.has(stripe) {
		s.bits[stripe/64] |= 1 << (stripe % 64)
		s.members = append(s.members, stripe)
	}
}
