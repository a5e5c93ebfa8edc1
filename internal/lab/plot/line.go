package plot

import (
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Point is a value with, where Low < High and Y is between them, an error bar. An end that is infinite is drawn to the end of the axis.
type Point struct{ X, Y, Low, High float64 }

// At returns a point without an error bar.
func At(x, y float64) Point { return Point{X: x, Y: y} }

// Between returns a point with an error bar from low to high.
func Between(x, y, low, high float64) Point { return Point{X: x, Y: y, Low: low, High: high} }

func (p Point) bar() bool {
	return p.Low < p.High && p.Low <= p.Y && p.Y <= p.High
}

// Look is how a Line is drawn.
type Look int

const (
	// Measured is points, joined by a line: the default.
	Measured Look = iota
	// Computed is a dashed line without points: what a formula or a model says.
	Computed
	// Modelled is like Computed, with dashes that tell several models apart.
	Modelled
	// Trace is a thin line without points: many values in time.
	Trace
	// Dots is points alone.
	Dots
	// Steps is a line that goes on level until the next point.
	Steps
)

// Line is a series of points.
type Line struct {
	Name   string // in the legend; none: not there
	Points []Point
	Look   Look
	// Series is the number of the colour and the marker. Marks that belong together have the same.
	Series int
}

func (l Line) extent(x, y *span) {
	for _, p := range l.Points {
		if finite(p.X) && finite(p.Y) {
			x.add(p.X)
			y.add(p.Y)
			if p.bar() {
				y.add(p.Low, p.High)
			}
		}
	}
}

func (l Line) positive() leastPositive {
	least := leastPositive{math.Inf(1), math.Inf(1)}
	for _, p := range l.Points {
		if finite(p.X) && p.X > 0 {
			least.x = math.Min(least.x, p.X)
		}
		if finite(p.Y) && p.Y > 0 {
			least.y = math.Min(least.y, p.Y)
		}
	}
	return least
}

// dashes tell the lines of measured series apart where colour does not.
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
	case Steps:
		s.Dashes = dashes[l.Series%len(dashes)]
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
		at := p.point(point.X, point.Y)
		switch n := len(pieces); {
		case !joined:
			pieces = append(pieces, []vg.Point{at})
		case l.Look == Steps:
			last := pieces[n-1]
			pieces[n-1] = append(last, vg.Point{X: at.X, Y: last[len(last)-1].Y}, at)
		default:
			pieces[n-1] = append(pieces[n-1], at)
		}
		joined = true
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

// drawErrorBars draws the error bars of the points that have them, with their caps.
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

// Limit is a line across the whole chart: at Y, or at X where Vertical is set.
type Limit struct {
	Name     string
	X, Y     float64
	Vertical bool
	// Series is the colour's number plus one; 0: a grey of its own.
	Series int
}

func (l Limit) extent(x, y *span) {
	if l.Vertical {
		x.add(l.X)
	} else {
		y.add(l.Y)
	}
}

func (l Limit) style() draw.LineStyle {
	s := draw.LineStyle{Color: faint, Width: 1.25, Dashes: []vg.Length{1.5, 3}}
	if l.Series > 0 {
		s.Color = seriesTone(l.Series - 1)
	}
	return s
}

func (l Limit) draw(p pen) {
	if l.Vertical {
		if p.sees(l.X, 1) {
			x := p.x(l.X)
			p.StrokeLine2(l.style(), x, p.Min.Y, x, p.Max.Y)
		}
		return
	}
	if p.sees(1, l.Y) {
		y := p.y(l.Y)
		p.StrokeLine2(l.style(), p.Min.X, y, p.Max.X, y)
	}
}

func (l Limit) entries() []entry {
	return []entry{{name: l.Name, sample: func(c draw.Canvas) {
		if l.Vertical {
			c.StrokeLine2(l.style(), c.Center().X, c.Min.Y-1, c.Center().X, c.Max.Y+1)
		} else {
			c.StrokeLine2(l.style(), c.Min.X, c.Center().Y, c.Max.X, c.Center().Y)
		}
	}}}
}

// Ring marks one point of a series.
type Ring struct {
	Name   string
	X, Y   float64
	Series int
}

func (r Ring) extent(x, y *span) {
	if finite(r.X) && finite(r.Y) {
		x.add(r.X)
		y.add(r.Y)
	}
}

func (r Ring) drawAt(c draw.Canvas, at vg.Point) {
	var p vg.Path
	p.Move(vg.Point{X: at.X + ringRadius, Y: at.Y})
	p.Arc(at, ringRadius, 0, 2*math.Pi)
	p.Close()
	c.SetLineStyle(draw.LineStyle{Color: seriesTone(r.Series), Width: 1.5})
	c.Stroke(p)
}

const ringRadius = 7

func (r Ring) draw(p pen) {
	if p.sees(r.X, r.Y) {
		r.drawAt(p.Canvas, p.point(r.X, r.Y))
	}
}

func (r Ring) entries() []entry {
	return []entry{{name: r.Name, sample: func(c draw.Canvas) { r.drawAt(c, c.Center()) }}}
}

// hollow is a marker with the surface inside.
type hollow struct{ draw.GlyphDrawer }

func (h hollow) DrawGlyph(c *draw.Canvas, sty draw.GlyphStyle, pt vg.Point) {
	h.GlyphDrawer.DrawGlyph(c, sty, pt)
	sty.Color = surface
	sty.Radius *= 0.6
	h.GlyphDrawer.DrawGlyph(c, sty, pt)
}

// diamond is a marker gonum/plot has not.
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
