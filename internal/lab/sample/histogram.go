package sample

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Bin holds Count values from Lower up to Upper. Upper may be +Inf. A count may be fractional, where values are weighted or
// a bin was divided.
type Bin struct {
	Lower, Upper, Count float64
}

// Histogram holds values by range: bins in ascending order that don't overlap. Gaps hold nothing.
type Histogram []Bin

// edgeTolerance is how far apart edges may be, relative to their size, that are the same but for rounding: 3 times 0.1
// is not 0.3.
const edgeTolerance = 1e-9

func sameEdge(a, b float64) bool {
	largest := max(math.Abs(a), math.Abs(b))
	return a == b || (!math.IsInf(largest, 1) && math.Abs(a-b) <= edgeTolerance*largest)
}

// MergeHistograms adds up histograms over the same bins: windows, threads, repetitions. A bin that is missing in one counts as
// empty there. Weights multiply the counts; nil stands for 1 each. Bins that overlap without being the same are an error:
// Rebin them first.
func MergeHistograms(histograms []Histogram, weights []float64) (Histogram, error) {
	if weights != nil && len(weights) != len(histograms) {
		return nil, fmt.Errorf("%d weights for %d histograms: expected as many", len(weights), len(histograms))
	}
	var all Histogram
	for i, h := range histograms {
		w := 1.0
		if weights != nil {
			w = weights[i]
		}
		for _, b := range h {
			b.Count *= w
			all = append(all, b)
		}
	}
	slices.SortStableFunc(all, func(a, b Bin) int { return cmp.Or(cmp.Compare(a.Lower, b.Lower), cmp.Compare(a.Upper, b.Upper)) })
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
			return nil, fmt.Errorf("the bins from %v to %v and from %v to %v overlap: expected the same bins in all histograms",
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

// Mean returns the mean of the values, each taken to lie in the middle of its bin; in a bin without upper end, at its lower
// edge. It is off by half a bin at most, unless there are values in such a bin. It is NaN for no values.
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

// UpperQuantile returns the upper edge of the bin that the value at place ceil(n p) is in: the p-quantile is not more than that.
// It is NaN for no values.
func (h Histogram) UpperQuantile(p float64) float64 {
	i, _ := h.find(p)
	if i < 0 {
		return math.NaN()
	}
	return h[i].Upper
}

// Quantile returns the p-quantile, the values taken to be spread evenly over their bin: the place where the sum of counts is
// n p. In a bin without upper end it is the bin's lower edge, which the quantile is not less than. It is NaN for no values.
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

// find returns the bin in which the sum of counts reaches n p, and which part of the bin it takes; -1 for no values.
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
		// The tolerance is for sums of fractional counts.
		if sum+b.Count >= wanted*(1-1e-12) {
			return i, min(max((wanted-sum)/b.Count, 0), 1)
		}
		sum += b.Count
		last = i
	}
	return last, 1
}

// below returns how much of b is below an edge, the values taken to be spread evenly over it; those of a bin without
// upper end to be at its lower edge.
func (b Bin) below(edge float64) float64 {
	switch {
	case edge <= b.Lower || sameEdge(edge, b.Lower):
		return 0
	case edge >= b.Upper || sameEdge(edge, b.Upper) || math.IsInf(b.Upper, 1):
		return b.Count
	}
	return b.Count * (edge - b.Lower) / (b.Upper - b.Lower)
}

// maxBins bounds what Rebin makes of a width that is tiny against the values.
const maxBins = 1 << 20

// Rebin returns the values in bins from i width to (i+1) width. What is in a bin that reaches over several is divided among them in
// proportion, so that the total stays. Bins without values are left out, and a bin without upper end stays as it is. The
// width must be positive, and not tiny against the values.
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
			return nil, fmt.Errorf("bins of width %v for values up to %v: expected at most %d bins", width, b.Upper, maxBins)
		}
		part := Bin{b.Lower, b.Upper, b.Count}
		before := 0.0
		for i := int(first); float64(i) < max(last, first+1); i++ {
			below := part.below(float64(i+1) * width)
			if float64(i+1) >= last {
				below = b.Count
			}
			if below > before {
				counts[i] += below - before
			}
			before = below
		}
	}
	places := make([]int, 0, len(counts))
	for i := range counts {
		places = append(places, i)
	}
	slices.Sort(places)
	rebinned := make(Histogram, 0, len(places)+len(open))
	for _, i := range places {
		rebinned = append(rebinned, Bin{float64(i) * width, float64(i+1) * width, counts[i]})
	}
	return append(rebinned, open...), nil
}

// Resolution returns how exactly the values are known: the width of the widest bin that holds values up to the third quartile.
// (Many recorders' bins grow with the values; those of the tail say nothing about the bulk.) It is 0 for no values.
func (h Histogram) Resolution() float64 {
	widest, upTo := 0.0, h.Quantile(0.75)
	for _, b := range h {
		if b.Count > 0 && b.Lower <= upTo && !math.IsInf(b.Upper, 1) {
			widest = max(widest, b.Upper-b.Lower)
		}
	}
	return widest
}

// FreedmanDiaconis returns the width of bins that shows n values with these quartiles well, but not less than the resolution with
// which they were recorded, because finer bins would show where the recorder rounded, not how the values spread:
//
//	max(2 (q75 - q25) / n^(1/3), resolution)
//
// D. Freedman, P. Diaconis, "On the histogram as a density estimator: L2 theory", Zeitschrift fuer
// Wahrscheinlichkeitstheorie 57 (1981). A resolution of 0 stands for exact values. It is 0 if all that is, too.
func FreedmanDiaconis(q25, q75, n, resolution float64) float64 {
	if n <= 0 {
		return resolution
	}
	return max(2*(q75-q25)/math.Cbrt(n), resolution)
}

// Width returns the width of bins to show the histogram with, by FreedmanDiaconis. It is a multiple of the resolution, so that
// no bin is divided where all bins are equally wide.
func (h Histogram) Width() float64 {
	resolution := h.Resolution()
	width := FreedmanDiaconis(h.Quantile(0.25), h.Quantile(0.75), h.Total(), resolution)
	if resolution == 0 {
		return width
	}
	return resolution * max(1, math.Round(width/resolution))
}

// ceil is math.Ceil that takes for whole what is so but for rounding.
func ceil(x float64) float64 { return math.Ceil(x - 1e-9*max(1, math.Abs(x))) }
