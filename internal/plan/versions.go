package plan

import (
	"crypto/rand"
	"encoding/binary"

	"mcmw/internal/protocol"
)

// Versions gives out the versions of the items that a planner stores. Equal versions mean equal items, so versions must
// be unique. One Versions repeats itself only after 2^62 of them. Two of them, which begin at random and take random
// steps, give the same version to two concurrent writes of a key with a probability of 2^-62. The order of versions
// means nothing.
type Versions struct{ last, step uint64 }

// NewVersions returns one whose versions follow start, in odd steps.
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
