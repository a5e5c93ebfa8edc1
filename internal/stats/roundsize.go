package stats

import "math/bits"

// NumRoundSizes is the number of buckets for the sizes of rounds. The last one has no upper bound.
const NumRoundSizes = 14

// RoundSizeBound returns the maximum number of requests of a round in bucket i of a Snapshot's RoundSizes: a power of
// two.
func RoundSizeBound(i int) uint64 { return 1 << i }

// roundSizeOf returns the bucket of a round that served n requests.
func roundSizeOf(n int) int { return min(bits.Len(uint(max(n-1, 0))), NumRoundSizes-1) }
