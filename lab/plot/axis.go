package plot

import (
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
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
	case low == high:
		room = max(math.Abs(low)/2, 1e-12)
	}
	if low != 0 || !a.FromZero {
		low -= room
	}
	return low, high + room, false
}

// ticks is the plot.Ticker of an axis.
type ticks struct {
	axis  Axis
	log   bool
	scale scale
	count int // approximate number of ticks
}

// Ticks returns the ticks from low to high.
func (t ticks) Ticks(low, high float64) []plot.Tick {
	var out []plot.Tick
	switch {
	case len(t.axis.Categories) > 0:
		for i, name := range t.axis.Categories {
			out = append(out, plot.Tick{Value: float64(i), Label: name})
		}
	case t.log:
		out = t.logTicks(low, high)
	case len(t.axis.At) > 0:
		texts := make([]string, len(t.axis.At))
		for i, v := range t.axis.At {
			texts[i] = t.text(v)
		}
		apart := max(1/float64(2*t.count), (longest(texts)+8)/(Width-margins))
		for _, v := range spaced(t.axis.At, (high-low)*apart) {
			out = append(out, plot.Tick{Value: v, Label: t.text(v)})
		}
	default:
		out = t.round(low, high)
	}
	return out
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
func (t ticks) round(low, high float64) (out []plot.Tick) {
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
		out = append(out, plot.Tick{Value: v * t.scale.factor, Label: label})
	}
	return out
}

// longestLabel is the number of characters above which a label has an exponent.
const longestLabel = 10

// logTicks returns ticks at the powers of ten; where these are few, also at 2 and 5 times these.
func (t ticks) logTicks(low, high float64) (out []plot.Tick) {
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
			out = append(out, plot.Tick{Value: v * t.scale.factor, Label: label})
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

// logScale is logarithmic; values that are not positive are at the low end.
type logScale struct{}

func (logScale) Normalize(low, high, v float64) float64 {
	return math.Log(math.Max(v, low)/low) / math.Log(high/low)
}
