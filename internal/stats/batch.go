package stats

import "math/bits"

// NumBatches is the number of buckets of the sizes of rounds, the last of which has no upper bound.
const NumBatches = 14

// BatchBound returns the greatest number of requests that bucket i of a Snapshot's Batches holds: a power of two.
func BatchBound(i int) uint64 { return 1 << i }

// batchOf returns the bucket of a round that served n requests.
func batchOf(n int) int { return min(bits.Len(uint(max(n-1, 0))), NumBatches-1) }
