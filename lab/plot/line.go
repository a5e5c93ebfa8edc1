package plot

import (
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Point is a value with an error bar from Low to High. There is no bar unless Low < High and Y is between them. A bar
// with an infinite end reaches to the end of the axis.
type Point struct{ X, Y, Low, High float64 }

// At returns a point without an error bar.
func At(x, y float64) Point { return Point{X: x, Y: y} }

// Between returns a point with an error bar from low to high.
func Between(x, y, low, high float64) Point { return Point{X: x, Y: y, Low: low, High: high} }

func (p Point) bar() bool {
	return p.Low < p.High && p.Low <= p.Y && p.Y <= p.High
}

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
var dashes = [][]vg.Length{nil, {7, 3}, {2, 2.5}, {9, 3, 2, 3}, {4, 2}, {12, 4}, {6, 2, 2, 2, 2, 2}, {1.5, 4}}

func (l Line) style() draw.LineStyle {
	s := draw.LineStyle{Color: seriesTone(l.Series), Width: 1.75}
	switch l.Look {
	case Computed:
		s.Width, s.Dashes = 1.25, []vg.Length{5, 4}
	case Modelled:
		s.Width, s.Dashes = 1.5, dashes[1+l.Series%(len(dashes)-1)]
	case Trace:
		s.Width = 1
	case Dots:
		s.Width = 0
	}
	return s
}

var shapes = []draw.GlyphDrawer{
	draw.CircleGlyph{},
	draw.BoxGlyph{},
	draw.PyramidGlyph{},
	diamond{},
	hollow{draw.CircleGlyph{}},
	hollow{draw.BoxGlyph{}},
	hollow{draw.PyramidGlyph{}},
	hollow{diamond{}},
}

func (l Line) glyph() draw.GlyphStyle {
	return draw.GlyphStyle{Color: seriesTone(l.Series), Radius: 3.5, Shape: shapes[l.Series%len(shapes)]}
}

func (l Line) marked() bool { return l.Look == Measured || l.Look == Dots }

func (l Line) draw(p pen) {
	var pieces [][]vg.Point
	joined := false
	for _, point := range l.Points {
		if !p.sees(point.X, point.Y) {
			joined = false
			continue
		}
		if !joined {
			pieces = append(pieces, nil)
			joined = true
		}
		last := &pieces[len(pieces)-1]
		*last = append(*last, p.point(point.X, point.Y))
	}
	if style := l.style(); style.Width > 0 {
		for _, piece := range pieces {
			if len(piece) > 1 {
				p.StrokeLines(style, p.ClipLinesXY(piece)...)
			}
		}
	}
	drawErrorBars(p, seriesTone(l.Series), l.Points)
	for _, point := range l.Points {
		if l.marked() && p.sees(point.X, point.Y) {
			p.DrawGlyph(l.glyph(), p.point(point.X, point.Y))
		}
	}
}

// drawErrorBars draws the error bars of points, with caps.
func drawErrorBars(p pen, t tone, points []Point) {
	const cap = 3.5
	var path vg.Path
	for _, point := range points {
		if !p.sees(point.X, point.Y) || !point.bar() {
			continue
		}
		x, bottom, top := p.x(point.X), p.Min.Y, p.Max.Y
		if p.sees(point.X, point.Low) {
			bottom = max(bottom, p.y(point.Low))
		}
		if p.sees(point.X, point.High) {
			top = min(top, p.y(point.High))
		}
		path.Move(vg.Point{X: x, Y: bottom})
		path.Line(vg.Point{X: x, Y: top})
		for _, y := range []vg.Length{bottom, top} {
			path.Move(vg.Point{X: x - cap, Y: y})
			path.Line(vg.Point{X: x + cap, Y: y})
		}
	}
	if len(path) > 0 {
		p.SetLineStyle(draw.LineStyle{Color: t, Width: 1.25})
		p.Stroke(path)
	}
}

func (l Line) entries() []entry {
	return []entry{{name: l.Name, sample: func(c draw.Canvas) {
		if style := l.style(); style.Width > 0 {
			c.StrokeLine2(style, c.Min.X, c.Center().Y, c.Max.X, c.Center().Y)
		}
		if l.marked() {
			c.DrawGlyphNoClip(l.glyph(), c.Center())
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

var limitStyle = draw.LineStyle{Color: faint, Width: 1.25, Dashes: []vg.Length{1.5, 3}}

func (l Limit) draw(p pen) {
	if l.Vertical && p.sees(l.X, 1) {
		p.StrokeLine2(limitStyle, p.x(l.X), p.Min.Y, p.x(l.X), p.Max.Y)
	}
	if !l.Vertical && p.sees(1, l.Y) {
		p.StrokeLine2(limitStyle, p.Min.X, p.y(l.Y), p.Max.X, p.y(l.Y))
	}
}

func (l Limit) entries() []entry {
	if l.Vertical {
		return nil
	}
	return []entry{{name: l.Name, sample: func(c draw.Canvas) {
		c.StrokeLine2(limitStyle, c.Min.X, c.Center().Y, c.Max.X, c.Center().Y)
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
	if !p.sees(r.X, r.Y) {
		return
	}
	const radius = 7
	center := p.point(r.X, r.Y)
	var circle vg.Path
	circle.Move(vg.Point{X: center.X + radius, Y: center.Y})
	circle.Arc(center, radius, 0, 2*math.Pi)
	circle.Close()
	p.SetLineStyle(draw.LineStyle{Color: seriesTone(r.Series), Width: 1.5})
	p.Stroke(circle)
}

func (Ring) entries() []entry { return nil }

// hollow is a marker filled with the colour of the background.
type hollow struct{ draw.GlyphDrawer }

func (h hollow) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	h.GlyphDrawer.DrawGlyph(c, sty, pt)
	sty.Color = surface
	sty.Radius *= 0.6
	h.GlyphDrawer.DrawGlyph(c, sty, pt)
}

// diamond is a marker that gonum/plot does not have.
type diamond struct{}

func (diamond) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	r := sty.Radius * 1.3
	var p vg.Path
	p.Move(vg.Point{X: pt.X, Y: pt.Y + r})
	p.Line(vg.Point{X: pt.X + r, Y: pt.Y})
	p.Line(vg.Point{X: pt.X, Y: pt.Y - r})
	p.Line(vg.Point{X: pt.X - r, Y: pt.Y})
	p.Close()
	c.SetColor(sty.Color)
	c.Fill(p)
}
