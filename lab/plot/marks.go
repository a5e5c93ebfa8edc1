package plot

import (
	"cmp"
	"math"
	"slices"
)

// Point is a value with an error bar from Low to High. There is no bar unless Low < High and Y is between them. A bar
// with an infinite end reaches to the end of the axis.
type Point struct{ X, Y, Low, High float64 }

// At returns a point without an error bar.
func At(x, y float64) Point { return Point{X: x, Y: y} }

// Between returns a point with an error bar from low to high.
func Between(x, y, low, high float64) Point { return Point{X: x, Y: y, Low: low, High: high} }

func (p Point) bar() bool { return p.Low < p.High && p.Low <= p.Y && p.Y <= p.High }

// Look is the style of a Line.
type Look int

const (
	// Measured draws points, joined by a line. It is the default.
	Measured Look = iota
	// Computed draws a dashed line without points, for the values of a formula or a model.
	Computed
	// Modelled is like Computed, with different dashes for different models.
	Modelled
	// Trace draws a thin line without points, for many values over time.
	Trace
	// Dots draws points only.
	Dots
	// Bound draws a dotted line without points, as a Limit is drawn. A point without neighbours is a short line.
	Bound
)

// Line is a series of points.
type Line struct {
	Name   string // in the legend; "": the line is not in it
	Points []Point
	Look   Look
	// Series chooses the colour and the marker. Marks that belong together have the same Series.
	Series int
}

func (l Line) extent(x, y *span) {
	for _, p := range l.Points {
		if finite(p.X) && finite(p.Y) {
			x.add(p.X)
			y.add(p.Y)
			if p.bar() {
				y.widen(p.Low, p.High)
			}
		}
	}
}

// dashes distinguish series where colours do not.
var dashes = []string{"", "7 3", "2 2.5", "9 3 2 3", "4 2", "12 4", "6 2 2 2 2 2", "1.5 4"}

func (l Line) style() stroke {
	t := seriesTone(l.Series)
	return []stroke{
		Measured: {t, 1.75, ""}, Computed: {t, 1.25, "5 4"}, Modelled: {t, 1.5, dashes[1+l.Series%(len(dashes)-1)]},
		Trace: {t, 1, ""}, Dots: {t, 0, ""}, Bound: limitStyle,
	}[l.Look]
}

func (l Line) marked() bool { return l.Look == Measured || l.Look == Dots }

func (l Line) draw(p pen) {
	var piece []point
	flush := func() {
		if len(piece) == 1 && l.Look == Bound {
			const half = 24 // px
			at := piece[0]
			piece = []point{{at.x - half, at.y}, {at.x + half, at.y}}
		}
		if len(piece) > 1 {
			p.line(l.style(), piece...)
		}
		piece = nil
	}
	for _, one := range l.Points {
		if p.sees(one.X, one.Y) {
			piece = append(piece, p.at(one.X, one.Y))
		} else {
			flush()
		}
	}
	flush()
	errorBars(p, seriesTone(l.Series), l.Points)
	for _, one := range l.Points {
		if l.marked() && p.sees(one.X, one.Y) {
			p.marker(l.Series, p.at(one.X, one.Y))
		}
	}
}

// errorBars draws the error bars of points, with caps.
func errorBars(p pen, t tone, points []Point) {
	const cap = 3.5
	bars := ""
	for _, one := range points {
		if !p.sees(one.X, one.Y) || !one.bar() {
			continue
		}
		x, low, high := p.x.at(one.X), p.bottom, p.top
		if p.sees(one.X, one.Low) {
			low = p.y.at(one.Low)
		}
		if p.sees(one.X, one.High) {
			high = p.y.at(one.High)
		}
		bars += path([]point{{x, low}, {x, high}})
		for _, y := range []float64{low, high} {
			bars += path([]point{{x - cap, y}, {x + cap, y}})
		}
	}
	p.outline(stroke{tone: t, width: 1.25}, bars)
}

func (l Line) entries() []entry {
	return []entry{{l.Name, func(c *canvas, b box) {
		c.line(l.style(), point{b.left, b.middle()}, point{b.right, b.middle()})
		if l.marked() {
			c.marker(l.Series, point{(b.left + b.right) / 2, b.middle()})
		}
	}}}
}

// Limit is a line across the whole chart: horizontal at Y, or vertical at X.
type Limit struct {
	Name     string // in the legend, which has only horizontal limits
	X, Y     float64
	Vertical bool
}

func (l Limit) extent(x, y *span) {
	if l.Vertical {
		x.widen(l.X)
	} else {
		y.widen(l.Y)
	}
}

var limitStyle = stroke{tone: faint, width: 1.25, dashes: "1.5 3"}

func (l Limit) draw(p pen) {
	switch {
	case l.Vertical && p.sees(l.X, 1):
		p.line(limitStyle, point{p.x.at(l.X), p.bottom}, point{p.x.at(l.X), p.top})
	case !l.Vertical && p.sees(1, l.Y):
		p.line(limitStyle, point{p.left, p.y.at(l.Y)}, point{p.right, p.y.at(l.Y)})
	}
}

func (l Limit) entries() []entry {
	if l.Vertical {
		return nil
	}
	return []entry{{l.Name, func(c *canvas, b box) {
		c.line(limitStyle, point{b.left, b.middle()}, point{b.right, b.middle()})
	}}}
}

// Ring is a circle around one point of a series.
type Ring struct {
	X, Y   float64
	Series int
}

func (r Ring) extent(x, y *span) {
	if finite(r.X) && finite(r.Y) {
		x.widen(r.X)
		y.widen(r.Y)
	}
}

func (r Ring) draw(p pen) {
	if p.sees(r.X, r.Y) {
		at := p.at(r.X, r.Y)
		p.outline(stroke{tone: seriesTone(r.Series), width: 1.5},
			path([]point{{at.x - 7, at.y}})+"a7 7 0 1 0 14 0a7 7 0 1 0 -14 0Z")
	}
}

func (Ring) entries() []entry { return nil }

// Bars are stacked bars over the categories of the x axis.
type Bars struct{ Layers []Layer }

// Layer is a layer of the bars: a value for each category.
type Layer struct {
	Name   string
	Values []float64
	Series int
}

// barRoom is the part of a category's width that its bars occupy.
const barRoom = 0.76

// each calls f for every layer of every bar, with its left and right edge, bottom and top value.
func (b Bars) each(f func(l Layer, left, right, bottom, top float64)) {
	heights := map[int]float64{}
	for _, l := range b.Layers {
		for category, v := range l.Values {
			if finite(v) {
				bottom := heights[category]
				heights[category] += v
				f(l, float64(category)-barRoom/2, float64(category)+barRoom/2, bottom, bottom+v)
			}
		}
	}
}

func (b Bars) extent(x, y *span) {
	b.each(func(_ Layer, left, right, bottom, top float64) {
		x.add(left, right)
		y.add(top)
		y.widen(bottom)
	})
}

func (b Bars) draw(p pen) {
	base := max(0, p.y.low) // where bars start
	b.each(func(l Layer, left, right, bottom, top float64) {
		bar := box{p.x.at(left), p.y.at(top), p.x.at(right), p.y.at(max(bottom, base))}
		if math.Abs(bar.top-bar.bottom) > 0.01 {
			p.fill(seriesTone(l.Series), bar.corners()...)
			p.outline(stroke{tone: surface, width: 0.75}, path(bar.corners())+"Z")
		}
	})
}

// swatch is a box in the legend.
func swatch(b box) box { return box{b.left + 6, b.top, b.right - 6, b.bottom} }

func (b Bars) entries() (all []entry) {
	for _, l := range b.Layers {
		all = append(all, entry{
			l.Name,
			func(c *canvas, b box) { c.fill(seriesTone(l.Series), swatch(b).corners()...) },
		})
	}
	return all
}

// Boxes are the percentiles of distributions, one box for each category: from the 25th to the 75th with a line at the
// 50th, whiskers to Low and High, and a diamond at the mean.
type Boxes struct {
	Name   string
	Values []Percentiles // by category
	Series int
	// The width of a category is divided into Slots equal parts; the boxes are in part Slot, from 0. Slots 0 means 1.
	Slot, Slots int
}

// Percentiles describes a distribution. NaNs are not drawn.
type Percentiles struct{ Low, P25, P50, P75, High, Mean float64 }

func (b Boxes) extent(x, y *span) {
	for i, v := range b.Values {
		x.add(float64(i)-barRoom/2, float64(i)+barRoom/2)
		y.add(v.Low, v.P25, v.P50, v.P75, v.High, v.Mean)
	}
}

func (b Boxes) draw(p pen) {
	width, t := barRoom/float64(max(1, b.Slots)), seriesTone(b.Series)
	line := stroke{tone: t, width: 1.5}
	// between draws a line between two points unless a value is not drawn.
	between := func(s stroke, x1, y1, x2, y2 float64) {
		if p.sees(1, y1) && p.sees(1, y2) {
			p.line(s, point{x1, p.y.at(y1)}, point{x2, p.y.at(y2)})
		}
	}
	for i, v := range b.Values {
		left := float64(i) - barRoom/2 + (float64(b.Slot)+0.1)*width
		l, middle, r := p.x.at(left), p.x.at(left+0.4*width), p.x.at(left+0.8*width)
		between(line, middle, v.Low, middle, v.P25)
		between(line, middle, v.P75, middle, v.High)
		for _, end := range []float64{v.Low, v.High} {
			between(line, (l+middle)/2, end, (r+middle)/2, end)
		}
		if p.sees(1, v.P25) && p.sees(1, v.P75) {
			corners := box{l, p.y.at(v.P75), r, p.y.at(v.P25)}.corners()
			p.fill(t.fade(0.25), corners...)
			p.outline(line, path(corners)+"Z")
		}
		between(stroke{tone: t, width: 2.5}, l, v.P50, r, v.P50)
		if p.sees(1, v.Mean) {
			p.polygon(ink, point{middle, p.y.at(v.Mean)}, 4, min(2.5, (r-l)/6)*1.3, 0)
		}
	}
}

func (b Boxes) entries() []entry {
	return []entry{{b.Name, func(c *canvas, at box) {
		at = swatch(at)
		line := stroke{tone: seriesTone(b.Series), width: 1.5}
		c.fill(line.tone.fade(0.25), at.corners()...)
		c.outline(line, path(at.corners())+"Z"+path([]point{{at.left, at.middle()}, {at.right, at.middle()}}))
	}}}
}

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
func (h Histogram) top() (top float64) {
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
			if Between(0, b.Count, b.Low, b.High).bar() {
				y.widen(min(b.High, h.top()))
			}
		}
	}
}

func (h Histogram) style() stroke {
	return stroke{seriesTone(h.Series), 1.25, dashes[h.Series%len(dashes)]}
}

func (h Histogram) draw(p pen) {
	var outline []point
	t := seriesTone(h.Series)
	flush := func() {
		if len(outline) > 0 {
			outline = append(outline, point{outline[len(outline)-1].x, p.bottom})
			p.fill(t.fade(0.18), outline...)
			p.line(h.style(), outline...)
		}
		outline = nil
	}
	end := math.NaN()
	var errors []Point
	for _, b := range h.Bins {
		if !p.sees(b.Lower, b.Count) || !p.sees(b.Upper, b.Count) {
			continue
		}
		if !(math.Abs(b.Lower-end) <= 1e-9*math.Abs(end)) {
			flush()
			outline = append(outline, point{p.x.at(b.Lower), p.bottom})
		}
		outline = append(outline, p.at(b.Lower, b.Count), p.at(b.Upper, b.Count))
		end = b.Upper
		errors = append(errors, Between((b.Lower+b.Upper)/2, b.Count, b.Low, min(b.High, h.top())))
	}
	flush()
	if len(h.Bins) <= mostBars {
		errorBars(p, t, errors)
	}
}

// mostBars is the number of bins up to which they have error bars: those of more bins would overlap.
const mostBars = 60

func (h Histogram) entries() []entry {
	return []entry{{h.Name, func(c *canvas, b box) {
		c.fill(seriesTone(h.Series).fade(0.18), b.corners()...)
		c.line(h.style(), point{b.left, b.top}, point{b.right, b.top})
	}}}
}

// CDF returns the points of the cumulative distribution, 0..1, at the upper edges of the bins, for a Line with the look
// Trace. It returns nil if the bins are empty.
func CDF(bins []Bin) []Point {
	bins = slices.SortedFunc(slices.Values(bins), func(a, b Bin) int { return cmp.Compare(a.Upper, b.Upper) })
	total, below := 0.0, 0.0
	for _, b := range bins {
		total += b.Count
	}
	if !(total > 0) {
		return nil
	}
	points := []Point{At(bins[0].Lower, 0)}
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
