package plot

import (
	"encoding/xml"
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Size of a chart, and of the text in it, in pixels.
const (
	Width     = 480.0
	Height    = 320.0
	textSize  = 12
	smallSize = 11
	margins   = 70.0 // about, beside the x axis
)

// Figure is one chart or several that belong together.
type Figure struct {
	Title  string // what it shows, for those who can't see it
	Panels []Chart
	// Columns is how many panels stand side by side; 0: up to two.
	Columns int
}

// Chart is a pair of axes and what is drawn between them.
type Chart struct {
	Title string // above it; where a figure has one panel it needs none
	X, Y  Axis
	Marks []Mark
}

// ShareY gives panels that show the same quantity the same y axis, so that they can be compared at a glance.
func ShareY(panels []Chart) {
	for i, c := range panels {
		if c.Y.Label != panels[0].Y.Label || c.Y.Log != panels[0].Y.Log || len(panels[i].Y.Categories) > 0 {
			return
		}
	}
	x, y := emptySpan(), emptySpan()
	for _, c := range panels {
		if c.Y.Min != c.Y.Max {
			y.add(c.Y.Min, c.Y.Max)
		}
		for _, m := range c.Marks {
			m.extent(&x, &y)
		}
	}
	for i := range panels {
		if low := y.min; y.min < y.max && (!panels[i].Y.Log || low > 0) {
			panels[i].Y.Min, panels[i].Y.Max = low, y.max
		}
	}
}

// Mark is something drawn in a chart: Line, Limit, Ring, Area, Bars, Histogram, Boxes.
type Mark interface {
	// extent adds the values that must be seen. Marks that lie on positions of categories add these.
	extent(x, y *span)
	// draw draws the mark.
	draw(p pen)
	// entries are the mark's lines in the legend.
	entries() []entry
}

type pen struct {
	draw.Canvas
	x, y       func(float64) vg.Length // where a value lies
	logX, logY bool
	base       float64 // the y value where bars stand
}

// sees reports whether a value pair can be drawn.
func (p pen) sees(x, y float64) bool {
	return finite(x) && finite(y) && (!p.logX || x > 0) && (!p.logY || y > 0)
}

// point returns where a value pair lies.
func (p pen) point(x, y float64) vg.Point { return vg.Point{X: p.x(x), Y: p.y(y)} }

// fonts has the shapes of the letters, by which text is measured.
var textHandler = text.Plain{Fonts: font.DefaultCache}

func textStyle(size float64, t tone) text.Style {
	return text.Style{
		Color: t, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Length(size)}, Handler: textHandler,
		XAlign: draw.XLeft, YAlign: draw.YBottom,
	}
}

// SVG returns the figure as a file that stands alone.
func (f Figure) SVG() []byte {
	columns := f.Columns
	if columns <= 0 {
		columns = min(2, len(f.Panels))
	}
	columns = max(1, columns)
	rows := max(1, (len(f.Panels)+columns-1)/columns)
	width, height := Width*float64(columns), Height*float64(rows)
	c := newSVGCanvas(width, height)
	all := draw.New(c)
	fill(all, surface)
	for i, panel := range f.Panels {
		left, top := vg.Length(i%columns)*Width, vg.Length(i/columns)*Height
		panel.draw(draw.Canvas{Canvas: c, Rectangle: vg.Rectangle{
			Min: vg.Point{X: left, Y: all.Max.Y - top - Height},
			Max: vg.Point{X: left + Width, Y: all.Max.Y - top},
		}})
	}
	return []byte(document(f.Title, Style(), c))
}

// Inline returns the chart as an element for a page that has [Style]. The title is said to those who can't see the
// figure.
func (c Chart) Inline(title string) string {
	canvas := newSVGCanvas(Width, Height)
	c.draw(draw.New(canvas))
	return document(title, "", canvas)
}

// document returns what was drawn as an svg element.
func document(title, style string, c *svgCanvas) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" class="mp" role="img" viewBox="0 0 %s %s" width="%s" height="%s" `+
		`font-family="'Liberation Sans',Arimo,Arial,Helvetica,sans-serif">`+"\n",
		number(c.width), number(c.height), number(c.width), number(c.height))
	if title != "" {
		b.WriteString("<title>")
		_ = xml.EscapeText(&b, []byte(title)) // a strings.Builder takes everything
		b.WriteString("</title>\n")
	}
	if style != "" {
		b.WriteString("<style>" + style + "</style>\n")
	}
	b.WriteString(c.out.String() + "</svg>\n")
	return b.String()
}

func fill(c draw.Canvas, t tone) {
	c.SetColor(t)
	c.Fill(c.Rectangle.Path())
}

// draw draws the chart into c: title, legend, axes, marks.
func (c Chart) draw(to draw.Canvas) {
	to = draw.Crop(to, 6, -10, 6, -6)
	if c.Title != "" {
		title := textStyle(textSize+1, ink)
		title.YAlign = draw.YTop
		to.FillText(title, vg.Point{X: to.Min.X + 8, Y: to.Max.Y}, fitted(title, c.Title, to.Max.X-to.Min.X-8))
		to.Max.Y -= title.Height(c.Title) + 5
	}
	var keys []entry
	for _, m := range c.Marks {
		keys = append(keys, m.entries()...)
	}
	to = drawLegend(to, keys)

	seenX, seenY, least := c.seen()
	p := plot.New()
	p.BackgroundColor = nil
	var logX, logY bool
	p.X.Min, p.X.Max, logX = c.X.frame(seenX, least.x)
	p.Y.Min, p.Y.Max, logY = c.Y.frame(seenY, least.y)
	c.X.style(&p.X, logX, 8)
	c.Y.style(&p.Y, logY, 5)
	if n := len(c.X.Categories); n > 0 {
		p.X.Tick.LineStyle.Width = 0
		if longest(c.X.Categories) > (Width-margins)/float64(n)-8 {
			p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = math.Pi/6, draw.XRight, draw.YTop
		}
	}
	p.Add(behind{}, marks{chart: c, logX: logX, logY: logY})
	p.Draw(to)
}

// longest returns the width of the longest of the texts, in pixels.
func longest(texts []string) (width float64) {
	style := textStyle(smallSize, ink)
	for _, t := range texts {
		width = math.Max(width, float64(style.Width(t)))
	}
	return width
}

// leastPositive are the least values above 0.
type leastPositive struct{ x, y float64 }

// seen returns the ranges of the values of all marks.
func (c Chart) seen() (x, y span, least leastPositive) {
	x, y = emptySpan(), emptySpan()
	least = leastPositive{math.Inf(1), math.Inf(1)}
	for _, m := range c.Marks {
		m.extent(&x, &y)
		if l, ok := m.(interface{ positive() leastPositive }); ok {
			one := l.positive()
			least = leastPositive{math.Min(least.x, one.x), math.Min(least.y, one.y)}
		}
	}
	return x, y, least
}

// style gives an axis its looks, and about count ticks.
func (a Axis) style(to *plot.Axis, log bool, count int) {
	unit := a.Unit.scaleFor(math.Max(math.Abs(to.Min), math.Abs(to.Max)))
	to.Label.Text = withUnit(a.Label, unit.symbol)
	alignX, alignY := to.Label.TextStyle.XAlign, to.Label.TextStyle.YAlign
	to.Label.TextStyle = textStyle(textSize, ink)
	to.Label.TextStyle.XAlign, to.Label.TextStyle.YAlign = alignX, alignY
	to.Label.Padding = 5
	alignX, alignY = to.Tick.Label.XAlign, to.Tick.Label.YAlign
	to.Tick.Label = textStyle(smallSize, faint)
	to.Tick.Label.XAlign, to.Tick.Label.YAlign = alignX, alignY
	to.Tick.Marker = ticks{axis: a, log: log, scale: unit, count: count}
	to.Tick.Length = 4
	to.LineStyle = draw.LineStyle{Color: faint, Width: 1}
	to.Tick.LineStyle = to.LineStyle
	to.Padding = 0
	if log {
		to.Scale = logScale{}
	}
}

// behind draws the grid: lines at the numbers of the y axis.
type behind struct{}

func (behind) Plot(c draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&c)
	for _, tick := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if at := y(tick.Value); tick.Label != "" && at > c.Min.Y+1 && at <= c.Max.Y {
			c.StrokeLine2(draw.LineStyle{Color: grid, Width: 0.75}, c.Min.X, at, c.Max.X, at)
		}
	}
}

// marks draws a chart's marks.
type marks struct {
	chart      Chart
	logX, logY bool
}

func (m marks) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	pen := pen{Canvas: c, x: x, y: y, logX: m.logX, logY: m.logY, base: math.Max(0, p.Y.Min)}
	for _, mark := range m.chart.Marks {
		mark.draw(pen)
	}
}
