package plot

import (
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

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
	b.each(func(l Layer, left, right, bottom, top float64) {
		low, high := p.y(max(bottom, p.base)), p.y(top)
		if math.Abs(float64(high-low)) > 0.01 {
			drawBox(p, seriesTone(l.Series), p.x(left), p.x(right), low, high)
		}
	})
}

// drawBox draws a filled box with a thin border in the colour of the background.
func drawBox(p pen, t tone, left, right, bottom, top vg.Length) {
	corners := []vg.Point{{X: left, Y: bottom}, {X: right, Y: bottom}, {X: right, Y: top}, {X: left, Y: top}}
	corners = p.ClipPolygonXY(corners)
	p.FillPolygon(t, corners)
	p.StrokeLines(draw.LineStyle{Color: surface, Width: 0.75}, append(corners, corners[:min(1, len(corners))]...))
}

func (b Bars) entries() (all []entry) {
	for _, l := range b.Layers {
		all = append(all, entry{name: l.Name, sample: func(c draw.Canvas) {
			c = draw.Crop(c, 6, -6, 0, 0)
			fill(c, seriesTone(l.Series))
		}})
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
	slots := max(1, b.Slots)
	width := barRoom / float64(slots)
	t := seriesTone(b.Series)
	line := draw.LineStyle{Color: t, Width: 1.5}
	for i, v := range b.Values {
		left := float64(i) - barRoom/2 + (float64(b.Slot)+0.1)*width
		middle := p.x(left + 0.4*width)
		l, r := p.x(left), p.x(left+0.8*width)
		for _, whisker := range [][2]float64{{v.Low, v.P25}, {v.P75, v.High}} {
			if p.sees(1, whisker[0]) && p.sees(1, whisker[1]) {
				p.StrokeLine2(line, middle, p.y(whisker[0]), middle, p.y(whisker[1]))
			}
		}
		for _, end := range []float64{v.Low, v.High} {
			if p.sees(1, end) {
				p.StrokeLine2(line, (l+middle)/2, p.y(end), (r+middle)/2, p.y(end))
			}
		}
		if p.sees(1, v.P25) && p.sees(1, v.P75) {
			corners := []vg.Point{
				{X: l, Y: p.y(v.P25)},
				{X: r, Y: p.y(v.P25)},
				{X: r, Y: p.y(v.P75)},
				{X: l, Y: p.y(v.P75)},
			}
			p.FillPolygon(t.fade(0.25), corners)
			p.StrokeLines(line, append(corners, corners[0]))
		}
		if p.sees(1, v.P50) {
			p.StrokeLine2(draw.LineStyle{Color: t, Width: 2.5}, l, p.y(v.P50), r, p.y(v.P50))
		}
		if p.sees(1, v.Mean) {
			p.DrawGlyph(draw.GlyphStyle{Color: ink, Radius: min(2.5, (r-l)/6), Shape: diamond{}},
				vg.Point{X: middle, Y: p.y(v.Mean)})
		}
	}
}

func (b Boxes) entries() []entry {
	return []entry{{name: b.Name, sample: func(c draw.Canvas) {
		c = draw.Crop(c, 6, -6, 0, 0)
		fill(c, seriesTone(b.Series).fade(0.25))
		line := draw.LineStyle{Color: seriesTone(b.Series), Width: 1.5}
		c.StrokeLines(line, []vg.Point{c.Min, {X: c.Max.X, Y: c.Min.Y}, c.Max, {X: c.Min.X, Y: c.Max.Y}, c.Min})
		c.StrokeLine2(line, c.Min.X, c.Center().Y, c.Max.X, c.Center().Y)
	}}}
}
