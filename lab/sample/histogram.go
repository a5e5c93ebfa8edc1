package sample

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Bin holds Count values from Lower up to Upper. Upper may be +Inf. A count is fractional if the bin is a part of
// another.
type Bin struct {
	Lower, Upper, Count float64
}

// Histogram has bins in ascending order that don't overlap. There are no values in the gaps between them.
type Histogram []Bin

// edgeTolerance is the largest difference, relative to their size, of edges that are considered the same: because of
// rounding, 3 times 0.1 is not 0.3.
const edgeTolerance = 1e-9

func sameEdge(a, b float64) bool {
	largest := max(math.Abs(a), math.Abs(b))
	return a == b || (!math.IsInf(largest, 1) && math.Abs(a-b) <= edgeTolerance*largest)
}

// MergeHistograms adds up histograms over the same bins, such as those of windows, threads or repetitions. A bin that
// is missing in one counts as empty there. Bins that overlap without being the same are an error: Rebin them first.
func MergeHistograms(histograms ...Histogram) (Histogram, error) {
	all := slices.Concat(histograms...)
	slices.SortStableFunc(all, func(a, b Bin) int {
		return cmp.Or(cmp.Compare(a.Lower, b.Lower), cmp.Compare(a.Upper, b.Upper))
	})
	var merged Histogram
	for _, b := range all {
		if len(merged) == 0 {
			merged = append(merged, b)
			continue
		}
		last := &merged[len(merged)-1]
		switch {
		case sameEdge(b.Lower, last.Lower) && sameEdge(b.Upper, last.Upper):
			last.Count += b.Count
		case b.Lower < last.Upper && !sameEdge(b.Lower, last.Upper):
			return nil,
				fmt.Errorf("the bins from %v to %v and from %v to %v overlap: expected the same bins in all histograms",
					last.Lower, last.Upper, b.Lower, b.Upper)
		default:
			merged = append(merged, b)
		}
	}
	return merged, nil
}

// Total returns the number of values.
func (h Histogram) Total() float64 {
	total := 0.0
	for _, b := range h {
		total += b.Count
	}
	return total
}

// Mean returns the mean of the values, as if each were in the middle of its bin, or at the lower edge of an unbounded
// bin. The error is at most half a bin if the unbounded bin is empty. It is NaN for no values.
func (h Histogram) Mean() float64 {
	sum := 0.0
	for _, b := range h {
		middle := (b.Lower + b.Upper) / 2
		if math.IsInf(b.Upper, 1) {
			middle = b.Lower
		}
		sum += b.Count * middle
	}
	return sum / h.Total()
}

// UpperQuantile returns the upper edge of the bin with the value at place ceil(n p), which is an upper bound of the
// p-quantile. It is NaN for no values.
func (h Histogram) UpperQuantile(p float64) float64 {
	i, _ := h.find(p)
	if i < 0 {
		return math.NaN()
	}
	return h[i].Upper
}

// Quantile returns the p-quantile, as if the values were spread evenly over their bins: the place where the sum of
// counts reaches n p. In an unbounded bin it returns the lower edge, which is a lower bound of the quantile. It is NaN
// for no values.
func (h Histogram) Quantile(p float64) float64 {
	i, within := h.find(p)
	switch {
	case i < 0:
		return math.NaN()
	case math.IsInf(h[i].Upper, 1):
		return h[i].Lower
	}
	return h[i].Lower + within*(h[i].Upper-h[i].Lower)
}

// find returns the bin in which the sum of counts reaches n p, and the part of the bin that is needed for that; -1 for
// no values.
func (h Histogram) find(p float64) (bin int, within float64) {
	total := h.Total()
	if !(total > 0) {
		return -1, 0
	}
	wanted, sum, last := p*total, 0.0, 0
	for i, b := range h {
		if b.Count <= 0 {
			continue
		}
		// The tolerance is for rounding in sums of fractional counts.
		if sum+b.Count >= wanted*(1-1e-12) {
			return i, min(max((wanted-sum)/b.Count, 0), 1)
		}
		sum += b.Count
		last = i
	}
	return last, 1
}

// below returns how many values of b are below an edge, as if they were spread evenly over b, or were at the lower edge
// of an unbounded bin.
func (b Bin) below(edge float64) float64 {
	switch {
	case edge <= b.Lower || sameEdge(edge, b.Lower):
		return 0
	case edge >= b.Upper || sameEdge(edge, b.Upper) || math.IsInf(b.Upper, 1):
		return b.Count
	}
	return b.Count * (edge - b.Lower) / (b.Upper - b.Lower)
}

// maxBins is the largest number of bins that Rebin makes of one bin.
const maxBins = 1 << 20

// Rebin returns the values in bins from i width to (i+1) width. A bin that covers several of these is divided among
// them in proportion, so that the total stays the same. Bins without values are left out, and an unbounded bin stays as
// it is. The width must be positive, and not tiny compared with the values.
func (h Histogram) Rebin(width float64) (Histogram, error) {
	if !(width > 0) || math.IsInf(width, 1) {
		return nil, fmt.Errorf("bins of width %v: expected more than 0", width)
	}
	counts := map[int]float64{}
	var open Histogram
	for _, b := range h {
		if math.IsInf(b.Upper, 1) {
			open = append(open, b)
			continue
		}
		first, last := math.Floor(b.Lower/width+edgeTolerance), ceil(b.Upper/width)
		if last-first > maxBins || math.Abs(last) > math.MaxInt32 {
			return nil, fmt.Errorf("bins of width %v for values up to %v: expected at most %d bins", width, b.Upper,
				maxBins)
		}
		before := 0.0
		for i := int(first); float64(i) < max(last, first+1); i++ {
			below := b.below(float64(i+1) * width)
			if float64(i+1) >= last {
				below = b.Count
			}
			if below > before {
				counts[i] += below - before
			}
			before = below
		}
	}
	rebinned := make(Histogram, 0, len(counts)+len(open))
	for _, i := range slices.Sorted(maps.Keys(counts)) {
		rebinned = append(rebinned, Bin{float64(i) * width, float64(i+1) * width, counts[i]})
	}
	return append(rebinned, open...), nil
}

// Resolution returns the precision of the values: the width of the widest bin with values up to the third quartile. The
// wider bins of larger values, which many recorders have, say nothing about most values. It is 0 for no values.
func (h Histogram) Resolution() float64 {
	widest, upTo := 0.0, h.Quantile(0.75)
	for _, b := range h {
		if b.Count > 0 && b.Lower <= upTo && !math.IsInf(b.Upper, 1) {
			widest = max(widest, b.Upper-b.Lower)
		}
	}
	return widest
}

// FreedmanDiaconis returns a good width of the bins in a plot of n values with these quartiles. It is at least the
// resolution with which the values were recorded, because finer bins would show the recorder's rounding instead of the
// distribution:
//
//	max(2 (q75 - q25) / n^(1/3), resolution)
//
// D. Freedman, P. Diaconis, "On the histogram as a density estimator: L2 theory", Zeitschrift fuer
// Wahrscheinlichkeitstheorie 57 (1981). Exact values have the resolution 0. The result is 0 for exact values that are
// all equal.
func FreedmanDiaconis(q25, q75, n, resolution float64) float64 {
	if n <= 0 {
		return resolution
	}
	return max(2*(q75-q25)/math.Cbrt(n), resolution)
}

// Width returns the width of bins in which to show the histogram, by FreedmanDiaconis. It is a multiple of the
// resolution, so that bins of equal width are not divided.
func (h Histogram) Width() float64 {
	resolution := h.Resolution()
	width := FreedmanDiaconis(h.Quantile(0.25), h.Quantile(0.75), h.Total(), resolution)
	if resolution == 0 {
		return width
	}
	return resolution * max(1, math.Round(width/resolution))
}

// ceil is math.Ceil, except that it ignores a rounding error above a whole number.
func ceil(x float64) float64 { return math.Ceil(x - 1e-9*max(1, math.Abs(x))) }
