package plan

import (
	"crypto/rand"
	"encoding/binary"

	"mcmw/internal/protocol"
)

// Versions gives out the versions of the items that a planner stores. Equal versions mean equal items, so no two may be alike: within one
// Versions they are not before 2^62 of them, and two that begin at random, with random steps, give the same one to two writes of a key
// that meet with a probability of 2^-62. Their order means nothing.
type Versions struct{ last, step uint64 }

// NewVersions returns one that begins behind start and takes odd steps.
func NewVersions(start, step uint64) *Versions { return &Versions{start, step | 1} }

// RandomVersions returns one that begins at random.
func RandomVersions() *Versions {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return NewVersions(binary.NativeEndian.Uint64(random[:]), binary.NativeEndian.Uint64(random[8:]))
}

func (v *Versions) next() uint64 {
	v.last += v.step
	return protocol.FirstVersion | v.last&(protocol.FirstVersion-1)
}
