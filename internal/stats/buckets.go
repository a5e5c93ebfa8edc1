package stats

import (
	"math/bits"
	"time"
)

// The boundaries of every histogram, in four ranges. In each a division by a constant gives the bucket index:
//
//	0 ..  100 us    steps of   1 us   100 buckets
//	  ..   10 ms    steps of  10 us   990 buckets
//	  ..  200 ms    steps of 100 us  1900 buckets
//	  ..  102.4 s   16 steps per doubling (3 to 6 %)  144 buckets
//	beyond          one bucket without an upper bound
//
// Bucket i holds the times t with Bound(i) <= t < Bound(i+1).
const (
	fineStep   = int64(time.Microsecond)
	fineEnd    = int64(100 * time.Microsecond)
	mediumStep = int64(10 * time.Microsecond)
	mediumEnd  = int64(10 * time.Millisecond)
	coarseStep = int64(100 * time.Microsecond)
	coarseEnd  = int64(200 * time.Millisecond)

	doublings   = 9
	perDoubling = 16
	tailStep    = coarseEnd / perDoubling // width of the buckets in the first doubling
	tailEnd     = coarseEnd << doublings

	mediumBase = int(fineEnd / fineStep)
	coarseBase = mediumBase + int((mediumEnd-fineEnd)/mediumStep)
	tailBase   = coarseBase + int((coarseEnd-mediumEnd)/coarseStep)

	// NumBuckets is the number of buckets, the last of which has no upper bound.
	NumBuckets = tailBase + doublings*perDoubling + 1
)

// bucketOf returns the index of the bucket that holds ns. A negative time counts as 0.
func bucketOf(ns int64) int {
	switch {
	case ns < fineEnd:
		return int(max(ns, 0) / fineStep)
	case ns < mediumEnd:
		return mediumBase + int((ns-fineEnd)/mediumStep)
	case ns < coarseEnd:
		return coarseBase + int((ns-mediumEnd)/coarseStep)
	case ns < tailEnd:
		steps := uint64(ns / tailStep) // 16 or more; its leading five bits identify the bucket
		doubling := bits.Len64(steps) - 5
		return tailBase + doubling*perDoubling + int(steps>>doubling) - perDoubling
	default:
		return NumBuckets - 1
	}
}

// Bound returns the lower boundary of bucket i in ns, for i from 0 to NumBuckets-1. It is the upper boundary of bucket
// i-1.
func Bound(i int) int64 {
	switch {
	case i < mediumBase:
		return int64(i) * fineStep
	case i < coarseBase:
		return fineEnd + int64(i-mediumBase)*mediumStep
	case i < tailBase:
		return mediumEnd + int64(i-coarseBase)*coarseStep
	default:
		i -= tailBase
		return tailStep * int64(perDoubling+i%perDoubling) << (i / perDoubling)
	}
}
