package shadow

import (
	"math"

	"github.com/cespare/xxhash/v2"
)

// hash returns the hash that decides whether a key is in a share. It is independent of the hashes that place keys on
// servers, so that all servers' keys are copied equally often.
func hash(key []byte) uint64 {
	h := xxhash.Sum64(key) ^ 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// limit returns the limit of a share, 0 to 1: a key is in the share if the upper 63 bits of its hash are below the
// limit.
func limit(share float64) uint64 { return uint64(math.Ldexp(share, 63)) }

// In reports whether requests for key, as servers know it, are copied if this share of the keys is copied.
func In(key []byte, share float64) bool { return hash(key)>>1 < limit(share) }
