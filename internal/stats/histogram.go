package stats

import (
	"fmt"
	"iter"
	"math/bits"
	"time"
)

// pageBuckets is the number of buckets allocated together: 1 KiB of counts. A histogram has 3,000 buckets, of which a
// few hundred are used, so it takes a few KiB instead of 25.
const pageBuckets = 128

type page [pageBuckets]uint64

// Histogram holds the number of times in each bucket (see Bound), their sum, and the sum of their squares. The zero
// value is empty. Exported methods do not change it.
type Histogram struct {
	pages   [(NumBuckets + pageBuckets - 1) / pageBuckets]*page // nil: no time falls into it
	count   uint64
	sum     uint64  // ns
	squares uint128 // ns²
}

// uint128 is a sum of squared times in ns². 64 bits are too few: a thousand requests that wait for two minutes exceed
// them.
type uint128 struct{ hi, lo uint64 }

// plus returns a + b; less returns a - b.
func (a uint128) plus(b uint128) uint128 {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	return uint128{a.hi + b.hi + carry, lo}
}

func (a uint128) less(b uint128) uint128 {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	return uint128{a.hi - b.hi - borrow, lo}
}

// record counts n times of ns each; negative ones count as 0. It allocates only for the first time in a page.
func (h *Histogram) record(ns int64, n uint64) {
	b := uint(bucketOf(ns))
	p := h.pages[b/pageBuckets]
	if p == nil {
		p = new(page)
		h.pages[b/pageBuckets] = p
	}
	p[b%pageBuckets] += n
	h.count += n
	x := uint64(max(ns, 0))
	h.sum += x * n
	hi, lo := bits.Mul64(x, x)
	if n > 1 {
		over, product := bits.Mul64(lo, n)
		hi, lo = hi*n+over, product
	}
	h.squares = h.squares.plus(uint128{hi, lo})
}

// add adds the times of o.
func (h *Histogram) add(o *Histogram) {
	for i, from := range o.pages {
		if from == nil {
			continue
		}
		if h.pages[i] == nil {
			h.pages[i] = new(page)
		}
		add(h.pages[i], from)
	}
	h.count, h.sum, h.squares = h.count+o.count, h.sum+o.sum, h.squares.plus(o.squares)
}

// Buckets returns the buckets that hold times, in ascending order: their indexes, and the numbers of times.
func (h *Histogram) Buckets() iter.Seq2[int, uint64] {
	return func(yield func(int, uint64) bool) {
		for i, p := range h.pages {
			if p == nil {
				continue
			}
			for j, n := range p {
				if n > 0 && !yield(i*pageBuckets+j, n) {
					return
				}
			}
		}
	}
}

// Count returns the number of recorded times.
func (h *Histogram) Count() uint64 { return h.count }

// Sum returns the sum of the recorded times in ns.
func (h *Histogram) Sum() uint64 { return h.sum }

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
	highest := -1
	for i := range h.Buckets() {
		highest = i
	}
	return Bound(min(highest+1, NumBuckets-1))
}

// Low returns a lower bound of the rank-th smallest recorded time (from 1) in ns: the lower boundary of its bucket; 0
// if there are fewer times.
func (h *Histogram) Low(rank uint64) int64 {
	for i, n := range h.Buckets() {
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
	rank := min(max(q, 0), 1) * float64(h.count)
	below := 0.0
	for i, n := range h.Buckets() {
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

// Between returns the numbers of recorded times below the first of bounds, between each and the next, and from the last
// on. Bounds are in ns and ascend. Counts are exact if the bounds are bucket boundaries.
func (h *Histogram) Between(bounds []int64) []uint64 {
	counts := make([]uint64, len(bounds)+1)
	at := 0
	for i, n := range h.Buckets() {
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
	bounds := make([]int64, coarseEnd/int64(step))
	for i := range bounds {
		bounds[i] = int64(i+1) * int64(step)
	}
	counts = h.Between(bounds)
	return counts[:len(bounds)], counts[len(bounds)], nil
}

// Plus returns the histogram of the times of both h and other.
func (h *Histogram) Plus(other *Histogram) (sum Histogram) {
	sum.add(h)
	sum.add(other)
	return sum
}

// Sub returns the histogram of the times recorded after prev, which was read earlier from the same recorders.
func (h *Histogram) Sub(prev *Histogram) Histogram {
	diff := Histogram{count: h.count - prev.count, sum: h.sum - prev.sum, squares: h.squares.less(prev.squares)}
	for i, now := range h.pages {
		switch before := prev.pages[i]; {
		case now == nil:
		case before == nil:
			diff.pages[i] = new(*now)
		case *now != *before:
			diff.pages[i] = new(difference(*now, *before))
		}
	}
	return diff
}
