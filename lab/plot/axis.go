package plot

import (
	"math"
	"slices"
	"strconv"
)

// Axis is one axis of a chart.
type Axis struct {
	Label string // without the unit
	Unit  Unit
	// FromZero starts the axis at 0 if no value is negative.
	FromZero bool
	// Log makes the axis logarithmic; values that are not positive are not drawn.
	Log bool
	// Categories names the positions 0, 1, ...; without names the axis is numeric.
	Categories []string
	// At puts the numbers of a numeric axis at these values instead of round ones, where there is room for them.
	At []float64
	// Min and Max widen the axis to include them, unless they are equal.
	Min, Max float64
}

// span is a range of values; see emptySpan.
type span struct {
	min, max float64
	positive float64 // the least value above 0, where a logarithmic axis starts; +Inf: there is none
}

func emptySpan() span { return span{math.Inf(1), math.Inf(-1), math.Inf(1)} }

// add widens s to include those values that can be drawn.
func (s *span) add(values ...float64) {
	s.widen(values...)
	for _, v := range values {
		if v > 0 && finite(v) {
			s.positive = min(s.positive, v)
		}
	}
}

// widen is add for values that a logarithmic axis may cut off, such as the ends of error bars.
func (s *span) widen(values ...float64) {
	for _, v := range values {
		if finite(v) {
			s.min, s.max = min(s.min, v), max(s.max, v)
		}
	}
}

func (s span) empty() bool { return s.min > s.max }

// largest is the largest value that is drawn, and its inverse the least positive one on a logarithmic axis. The
// differences and ratios of two such values, and their squares, are finite.
const largest = 1e100

// finite reports whether v can be drawn.
func finite(v float64) bool { return math.Abs(v) <= largest }

// headroom is the part of an axis that stays free beyond the values.
const headroom = 0.05

// frame returns the axis's range around the values of s, and whether the axis is logarithmic.
func (a Axis) frame(s span) (low, high float64, log bool) {
	if len(a.Categories) > 0 {
		return -0.5, float64(len(a.Categories)) - 0.5, false
	}
	if a.Min < a.Max {
		s.add(a.Min, a.Max)
	}
	if s.empty() {
		return 0, 1, false
	}
	low, high = s.min, s.max
	if a.Log && finite(s.positive) {
		low = max(1/largest, min(s.positive, high))
		high = math.Max(low, high)
		if low == high {
			return low / 2, high * 2, true
		}
		room := math.Pow(high/low, headroom/2)
		return low / room, high * room, true
	}
	if a.FromZero && low > 0 {
		low = 0
	}
	room := (high - low) * headroom
	switch {
	case low == high && low == 0:
		room = 1
	case high-low < 1/largest:
		room = max(math.Abs(low)/2, 1e-12)
	}
	if low != 0 || !a.FromZero {
		low -= room
	}
	return low, high + room, false
}

// ruler is an axis of a chart: values from low to high lie between two positions.
type ruler struct {
	low, high float64
	from, to  float64 // pixels
	log       bool    // values that are not positive are at the low end
	label     string
	ticks     []tick
}

// at returns the position of a value.
func (r ruler) at(v float64) float64 {
	part := (v - r.low) / (r.high - r.low)
	if r.log {
		part = math.Log(max(v, r.low)/r.low) / math.Log(r.high/r.low)
	}
	return r.from + min(max(part, 0), 1)*(r.to-r.from)
}

func (r ruler) labels() (labels []string) {
	for _, t := range r.ticks {
		labels = append(labels, t.label)
	}
	return labels
}

// tick is a mark at an axis, longer with a label.
type tick struct {
	value float64
	label string
}

func (t tick) length() float64 {
	if t.label == "" {
		return tickLength / 2
	}
	return tickLength
}

// ruler returns the axis for the values of s, with approximately count ticks.
func (a Axis) ruler(s span, count int) (r ruler) {
	r.low, r.high, r.log = a.frame(s)
	unit := a.Unit.scaleFor(max(math.Abs(r.low), math.Abs(r.high)))
	r.label = withUnit(a.Label, unit.symbol)
	t := ticks{scale: unit, count: count}
	switch {
	case len(a.Categories) > 0:
		for i, name := range a.Categories {
			r.ticks = append(r.ticks, tick{float64(i), name})
		}
	case r.log:
		r.ticks = t.logTicks(r.low, r.high)
	case len(a.At) > 0:
		texts := make([]string, len(a.At))
		for i, v := range a.At {
			texts[i] = t.text(v)
		}
		apart := max(1/float64(2*count), (longest(texts)+8)/(Width-margins))
		for _, v := range spaced(a.At, (r.high-r.low)*apart) {
			if v >= r.low && v <= r.high {
				r.ticks = append(r.ticks, tick{v, t.text(v)})
			}
		}
	default:
		r.ticks = t.round(r.low, r.high)
	}
	return r
}

// ticks makes the ticks of a numeric axis.
type ticks struct {
	scale scale
	count int // approximate number of ticks
}

// text returns the label of a value, with an exponent only if it would be long otherwise.
func (t ticks) text(v float64) string {
	v /= t.scale.factor
	if text := strconv.FormatFloat(v, 'f', -1, 64); len(text) <= 6 {
		return text
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// round returns ticks at multiples of 1, 2 or 5 times a power of ten.
func (t ticks) round(low, high float64) (out []tick) {
	low, high = low/t.scale.factor, high/t.scale.factor
	step := niceStep((high - low) / float64(t.count))
	decimals := int(math.Max(0, -math.Floor(math.Log10(step)+1e-9)))
	first := math.Ceil(low/step - 1e-9)
	for i := range 4 * t.count {
		v := (first + float64(i)) * step
		if v > high+step*1e-9 {
			break
		}
		label := strconv.FormatFloat(v+0, 'f', decimals, 64)
		if len(label) > longestLabel {
			label = strconv.FormatFloat(v+0, 'g', 4, 64)
		}
		out = append(out, tick{v * t.scale.factor, label})
	}
	return out
}

// longestLabel is the number of characters above which a label has an exponent.
const longestLabel = 10

// logTicks returns ticks at the powers of ten; where these are few, also at 2 and 5 times these.
func (t ticks) logTicks(low, high float64) (out []tick) {
	decades := math.Log10(high / low)
	factors := []float64{1, 2, 5}
	if decades > 3 {
		factors = factors[:1]
	}
	every := int(math.Max(1, math.Ceil(decades/float64(t.count+2))))
	from, to := int(math.Floor(math.Log10(low/t.scale.factor))), int(math.Ceil(math.Log10(high/t.scale.factor)))
	for power := from; power <= to; power++ {
		for _, f := range factors {
			v := f * math.Pow10(power)
			if v*t.scale.factor < low || v*t.scale.factor > high {
				continue
			}
			label := strconv.FormatFloat(v, 'f', max(0, -power), 64)
			if power < -4 || power > 6 {
				label = strconv.FormatFloat(v, 'g', 4, 64)
			}
			if power%every != 0 {
				label = ""
			}
			out = append(out, tick{v * t.scale.factor, label})
		}
	}
	if len(out) == 0 {
		return t.round(low, high)
	}
	return out
}

// niceStep returns the least number of the form 1, 2 or 5 times a power of ten that is at least v.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if f*power >= v*(1-1e-9) {
			return f * power
		}
	}
	return 10 * power
}

// spaced returns the values in ascending order without those that are closer than gap to their predecessor. The largest
// value always stays, in place of its predecessor if necessary.
func spaced(values []float64, gap float64) (kept []float64) {
	values = slices.Compact(slices.Sorted(slices.Values(values)))
	values = slices.DeleteFunc(values, func(v float64) bool { return !finite(v) })
	for _, v := range values {
		if len(kept) == 0 || v-kept[len(kept)-1] >= gap {
			kept = append(kept, v)
		}
	}
	if n := len(values); n > 0 && kept[len(kept)-1] != values[n-1] {
		kept[len(kept)-1] = values[n-1]
	}
	return kept
}
