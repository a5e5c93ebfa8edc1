package worker

import "mcmw/internal/keylock"

// stripeSet is a set of key locks' stripes that is emptied at no cost. Its zero value is empty.
type stripeSet struct {
	slots []uint64 // generation and stripe, found by linear probing; their number is a power of two
	// generation is that of the members; what is left of earlier ones counts as free.
	generation uint64
	members    int
}

const (
	stripeBits = 16
	_          = uint(1<<stripeBits - keylock.Stripes) // a stripe has its place in a slot
	fewStripes = 64
)

// clear takes all members out.
func (s *stripeSet) clear() {
	s.generation++
	s.members = 0
}

// has reports whether stripe is a member.
func (s *stripeSet) has(stripe uint32) bool {
	if s.members == 0 {
		return false
	}
	_, found := s.find(stripe)
	return found
}

// add makes stripe a member.
func (s *stripeSet) add(stripe uint32) {
	if 2*(s.members+1) > len(s.slots) {
		s.grow()
	}
	at, found := s.find(stripe)
	if !found {
		s.slots[at] = s.generation<<stripeBits | uint64(stripe)
		s.members++
	}
}

// find returns the slot that stripe is in, or that it belongs in.
func (s *stripeSet) find(stripe uint32) (at int, found bool) {
	mask := len(s.slots) - 1
	for at = int(stripe) & mask; s.slots[at]>>stripeBits == s.generation; at = (at + 1) & mask {
		if uint32(s.slots[at])&(1<<stripeBits-1) == stripe {
			return at, true
		}
	}
	return at, false
}

// grow doubles the number of slots.
func (s *stripeSet) grow() {
	before := s.slots
	s.slots = make([]uint64, max(fewStripes, 2*len(before)))
	if s.generation == 0 {
		s.generation = 1 // a slot that was never used is of generation 0
	}
	for _, slot := range before {
		if slot>>stripeBits == s.generation {
			at, _ := s.find(uint32(slot) & (1<<stripeBits - 1))
			s.slots[at] = slot
		}
	}
}
