package shadow

import (
	"math"

	"github.com/cespare/xxhash/v2"
)

// hash returns the hash of a key by which it is in a share or not. It has nothing to do with the hashes that place keys on servers: every
// server's keys are copied alike.
func hash(key []byte) uint64 {
	h := xxhash.Sum64(key) ^ 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// limit returns that of a share, 0 to 1: a key is in if half of its hash is below.
func limit(share float64) uint64 { return uint64(math.Ldexp(share, 63)) }

// In reports whether requests for key, as servers know it, are copied where this share of the keys is.
func In(key []byte, share float64) bool { return hash(key)>>1 < limit(share) }
