package stats

import (
	"fmt"
	"time"
)

// Histogram holds the number of times in each bucket (see Bound), and their sum. It is a value read from recorders. The
// zero value is empty. Methods do not change it.
type Histogram struct {
	counts  []uint64 // NumBuckets, or nil when empty
	count   uint64
	sum     uint64  // ns
	squares uint128 // ns²
}

// Count returns the number of recorded times.
func (h *Histogram) Count() uint64 { return h.count }

// Sum returns the sum of the recorded times in ns.
func (h *Histogram) Sum() uint64 { return h.sum }

// Counts returns the number of times in each bucket; nil if there are none. The caller must not change it.
func (h *Histogram) Counts() []uint64 { return h.counts }

// Mean returns the mean of the recorded times in ns; 0 if there are none.
func (h *Histogram) Mean() float64 {
	if h.count == 0 {
		return 0
	}
	return float64(h.sum) / float64(h.count)
}

// Max returns an upper bound of the recorded times in ns: the upper boundary of the highest bucket in use, or its lower
// boundary if it has no upper one; 0 if there are no times.
func (h *Histogram) Max() int64 {
	for i := len(h.counts) - 1; i >= 0; i-- {
		if h.counts[i] != 0 {
			return Bound(min(i+1, NumBuckets-1))
		}
	}
	return 0
}

// Low returns a lower bound of the rank-th smallest recorded time (from 1) in ns: the lower boundary of its bucket; 0
// if there are fewer times.
func (h *Histogram) Low(rank uint64) int64 {
	for i, n := range h.counts {
		if n >= rank {
			return Bound(i)
		}
		rank -= n
	}
	return 0
}

// Quantile returns the time in ns below which the share q (0..1) of the recorded times lies, by linear interpolation in
// the bucket where that share is reached. Beyond the last boundary it returns that boundary; 0 if there are no times.
func (h *Histogram) Quantile(q float64) float64 {
	if h.count == 0 {
		return 0
	}
	rank := min(max(q, 0), 1) * float64(h.count)
	below := 0.0
	for i, n := range h.counts {
		if n == 0 {
			continue
		}
		if below+float64(n) >= rank {
			low := float64(Bound(i))
			if i == NumBuckets-1 {
				return low
			}
			return low + (float64(Bound(i+1))-low)*(rank-below)/float64(n)
		}
		below += float64(n)
	}
	return float64(h.Max())
}

// AtMost returns the number of recorded times below bound, in ns. It is exact if bound is a bucket boundary; otherwise
// the bucket that contains bound is not counted.
func (h *Histogram) AtMost(bound int64) uint64 {
	var n uint64
	for i, c := range h.counts {
		if i == NumBuckets-1 || Bound(i+1) > bound {
			break
		}
		n += c
	}
	return n
}

// Between returns the numbers of recorded times below the first of bounds, between each and the next, and from the last
// on. Bounds are in ns and ascend. Counts are exact if the bounds are bucket boundaries.
func (h *Histogram) Between(bounds []int64) []uint64 {
	counts := make([]uint64, len(bounds)+1)
	at := 0
	for i, n := range h.counts {
		for at < len(bounds) && Bound(i) >= bounds[at] {
			at++
		}
		counts[at] += n
	}
	return counts
}

// Linear returns exact counts for steps of equal width from 0 to 200 ms: counts[i] is the number of times from i*step
// up to (i+1)*step, and beyond is the number of times after the last step. step must be a multiple of 100 us, at most
// 200 ms.
func (h *Histogram) Linear(step time.Duration) (counts []uint64, beyond uint64, err error) {
	if step <= 0 || int64(step)%coarseStep != 0 || int64(step) > coarseEnd {
		return nil, 0, fmt.Errorf("histogram step %v: want a multiple of %v up to %v",
			step, time.Duration(coarseStep), time.Duration(coarseEnd))
	}
	counts = make([]uint64, coarseEnd/int64(step))
	for i, n := range h.counts {
		if s := Bound(i) / int64(step); s < int64(len(counts)) {
			counts[s] += n
		} else {
			beyond += n
		}
	}
	return counts, beyond, nil
}

// Plus returns the histogram of the times of both h and other.
func (h *Histogram) Plus(other *Histogram) Histogram {
	sum := Histogram{count: h.count + other.count, sum: h.sum + other.sum, squares: h.squares.plus(other.squares)}
	if h.counts != nil || other.counts != nil {
		sum.counts = make([]uint64, NumBuckets)
		copy(sum.counts, h.counts)
		for i, n := range other.counts {
			sum.counts[i] += n
		}
	}
	return sum
}

// Sub returns the histogram of the times recorded after prev, which was read earlier from the same recorders.
func (h *Histogram) Sub(prev *Histogram) Histogram {
	diff := Histogram{count: h.count - prev.count, sum: h.sum - prev.sum, squares: h.squares.minus(prev.squares)}
	if diff.count != 0 {
		diff.counts = make([]uint64, NumBuckets)
		copy(diff.counts, h.counts)
		for i, n := range prev.counts {
			diff.counts[i] -= n
		}
	}
	return diff
}
