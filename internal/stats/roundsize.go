package stats

import "math/bits"

// NumRoundSizes is the number of buckets of the sizes of rounds, the last of which has no upper bound.
const NumRoundSizes = 14

// RoundSizeBound returns the greatest number of requests that bucket i of a Snapshot's RoundSizes holds: a power of two.
func RoundSizeBound(i int) uint64 { return 1 << i }

// roundSizeOf returns the bucket of a round that served n requests.
func roundSizeOf(n int) int { return min(bits.Len(uint(max(n-1, 0))), NumRoundSizes-1) }
