package stats

import (
	"math/bits"
	"runtime"
	"sync/atomic"
)

// pageBuckets is the number of buckets allocated together: 1 KiB of counters. A histogram has 3,000 buckets, of which a
// worker touches a few hundred, so it takes a few KiB instead of 25.
const pageBuckets = 128

const numPages = (NumBuckets + pageBuckets - 1) / pageBuckets

type page [pageBuckets]atomic.Uint64

// recorder is a histogram that one worker writes, with the sum of the squared times. Its owner keeps the sum of the
// times. It has a single writer and any number of readers.
type recorder struct {
	pages   [numPages]atomic.Pointer[page] // nil until the first time that falls into it
	squares squares
}

// count counts n times of ns each, but not their squares. It allocates only for the first time in a page.
func (r *recorder) count(ns int64, n uint64) {
	i := bucketOf(ns)
	p := r.pages[i/pageBuckets].Load()
	if p == nil {
		p = new(page)
		r.pages[i/pageBuckets].Store(p)
	}
	p[i%pageBuckets].Add(n)
}

// uint128 is a sum of squared times in ns². 64 bits are too few: a thousand requests that wait for two minutes exceed
// them.
type uint128 struct{ hi, lo uint64 }

func (a uint128) plus(b uint128) uint128 {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	return uint128{a.hi + b.hi + carry, lo}
}

func (a uint128) minus(b uint128) uint128 {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	return uint128{a.hi - b.hi - borrow, lo}
}

// square returns n times the square of ns; a negative time counts as 0.
func square(ns int64, n uint64) uint128 {
	x := uint64(max(ns, 0))
	hi, lo := bits.Mul64(x, x)
	over, product := bits.Mul64(lo, n)
	return uint128{hi*n + over, product}
}

// squares is a uint128 with a single writer and any number of readers. While it fits in 64 bits, adding to it is one
// store.
type squares struct {
	lo atomic.Uint64
	// hi is twice the upper half. It is odd while both halves change.
	hi atomic.Uint64
}

// add adds v.
func (s *squares) add(v uint128) {
	if v == (uint128{}) {
		return
	}
	sum, carry := bits.Add64(s.lo.Load(), v.lo, 0)
	hi := v.hi + carry
	if hi == 0 {
		s.lo.Store(sum)
		return
	}
	s.hi.Add(1)
	s.lo.Store(sum)
	s.hi.Add(2*hi - 1)
}

func (s *squares) load() uint128 {
	for {
		hi := s.hi.Load()
		lo := s.lo.Load()
		if hi%2 == 0 && s.hi.Load() == hi {
			return uint128{hi / 2, lo}
		}
		runtime.Gosched()
	}
}
