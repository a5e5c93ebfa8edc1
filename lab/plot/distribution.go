package plot

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Bin is a bin of a histogram: the number of values from Lower to Upper.
type Bin struct {
	Lower, Upper, Count float64
	// Low and High are the error bar of Count, as in Point.
	Low, High float64
}

// Histogram draws the bins of a distribution as filled steps. The bins are in ascending order and do not overlap.
type Histogram struct {
	Name   string
	Bins   []Bin
	Series int
}

// errorRoom is the height up to which error bars are drawn, relative to the highest bin. Few repetitions have long
// error bars, which would flatten the bins.
const errorRoom = 1.15

// top is the value at which error bars are cut off.
func (h Histogram) top() float64 {
	top := 0.0
	for _, b := range h.Bins {
		if finite(b.Count) {
			top = max(top, errorRoom*b.Count)
		}
	}
	return top
}

func (h Histogram) extent(x, y *span) {
	for _, b := range h.Bins {
		if finite(b.Lower) && finite(b.Upper) && finite(b.Count) {
			x.add(b.Lower)
			x.widen(b.Upper)
			y.add(b.Count)
			y.widen(0)
			if p := Between(0, b.Count, b.Low, b.High); p.bar() {
				y.widen(min(b.High, h.top()))
			}
		}
	}
}

func (h Histogram) style() draw.LineStyle {
	return draw.LineStyle{Color: seriesTone(h.Series), Width: 1.25, Dashes: dashes[h.Series%len(dashes)]}
}

func (h Histogram) draw(p pen) {
	var outline []vg.Point
	t := seriesTone(h.Series)
	flush := func() {
		if len(outline) == 0 {
			return
		}
		last := outline[len(outline)-1]
		outline = append(outline, vg.Point{X: last.X, Y: p.Min.Y})
		p.FillPolygon(t.fade(0.18), p.ClipPolygonXY(outline))
		p.StrokeLines(h.style(), p.ClipLinesXY(outline)...)
		outline = nil
	}
	end := math.NaN()
	for _, b := range h.Bins {
		if !p.sees(b.Lower, b.Count) || !p.sees(b.Upper, b.Count) {
			continue
		}
		if !(math.Abs(b.Lower-end) <= 1e-9*math.Abs(end)) {
			flush()
			outline = append(outline, vg.Point{X: p.x(b.Lower), Y: p.Min.Y})
		}
		outline = append(outline, p.point(b.Lower, b.Count), p.point(b.Upper, b.Count))
		end = b.Upper
	}
	flush()
	if len(h.Bins) <= mostBars {
		var errors []Point
		for _, b := range h.Bins {
			errors = append(errors, Between((b.Lower+b.Upper)/2, b.Count, b.Low, min(b.High, h.top())))
		}
		drawErrorBars(p, t, errors)
	}
}

// mostBars is the number of bins up to which they have error bars: those of more bins would overlap.
const mostBars = 60

func (h Histogram) entries() []entry {
	return []entry{{name: h.Name, sample: func(c draw.Canvas) {
		fill(c, seriesTone(h.Series).fade(0.18))
		c.StrokeLines(h.style(), []vg.Point{{X: c.Min.X, Y: c.Max.Y}, c.Max})
	}}}
}

// CDF returns the points of the cumulative distribution, 0..1, at the upper edges of the bins, for a Line with the look
// Trace. It returns nil if the bins are empty.
func CDF(bins []Bin) []Point {
	bins = slices.SortedFunc(slices.Values(bins), func(a, b Bin) int { return cmp.Compare(a.Upper, b.Upper) })
	total := 0.0
	for _, b := range bins {
		total += b.Count
	}
	if !(total > 0) {
		return nil
	}
	points := []Point{At(bins[0].Lower, 0)}
	below := 0.0
	for _, b := range bins {
		below += b.Count
		points = append(points, At(b.Upper, below/total))
	}
	return points
}

// QQLine returns the ends of the line through the first and third quartile of the points of a Q-Q plot, on which the
// points of a normal distribution lie. It returns nil for less than two points.
func QQLine(points []Point) []Point {
	n := len(points)
	if n < 2 {
		return nil
	}
	first, third := points[n/4], points[min(n-1, n-1-n/4)]
	if third.X == first.X {
		return nil
	}
	slope := (third.Y - first.Y) / (third.X - first.X)
	at := func(x float64) Point { return At(x, first.Y+slope*(x-first.X)) }
	return []Point{at(points[0].X), at(points[n-1].X)}
}
