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
	margins   = 70.0 // the approximate part of the width that the x axis does not use
)

// Figure is one or more charts that belong together, in up to two columns.
type Figure struct {
	Title  string // describes the figure to readers who can't see it
	Panels []Chart
}

// Chart is a pair of axes with marks between them.
type Chart struct {
	Title string // above the chart; a figure of one panel needs none
	X, Y  Axis
	Marks []Mark
}

// ShareY gives panels that show the same quantity the same y axis, so that readers can compare them at a glance. A
// logarithmic axis then begins at the least positive value of all panels.
func ShareY(panels []Chart) {
	for _, c := range panels {
		if c.Y.Label != panels[0].Y.Label || c.Y.Log != panels[0].Y.Log {
			return
		}
	}
	x, y := emptySpan(), emptySpan()
	for _, c := range panels {
		if c.Y.Min != c.Y.Max {
			y.add(c.Y.Min, c.Y.Max)
		}
		c.extent(&x, &y)
	}
	for i := range panels {
		low := y.min
		if panels[i].Y.Log {
			low = y.positive
		}
		if low < y.max {
			panels[i].Y.Min, panels[i].Y.Max = low, y.max
		}
	}
}

// Mark is something drawn in a chart: Line, Limit, Ring, Bars, Histogram or Boxes.
type Mark interface {
	// extent widens x and y to the values that the chart must show. On an axis of categories a value is a position.
	extent(x, y *span)
	draw(p pen)
	// entries are the mark's lines in the legend.
	entries() []entry
}

// pen is the area between the axes, and where values lie in it.
type pen struct {
	draw.Canvas
	x, y       func(float64) vg.Length // position of a value
	logX, logY bool
	base       float64 // the y value where bars start
}

// sees reports whether the axes can show the pair of values.
func (p pen) sees(x, y float64) bool {
	return finite(x) && finite(y) && (!p.logX || x > 0) && (!p.logY || y > 0)
}

func (p pen) point(x, y float64) vg.Point { return vg.Point{X: p.x(x), Y: p.y(y)} }

// textHandler measures text by the shapes of its letters.
var textHandler = text.Plain{Fonts: font.DefaultCache}

func textStyle(size float64, t tone) text.Style {
	return text.Style{
		Color: t, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Length(size)}, Handler: textHandler,
		XAlign: draw.XLeft, YAlign: draw.YBottom,
	}
}

// SVG returns the figure as a self-contained file.
func (f Figure) SVG() []byte {
	columns := max(1, min(2, len(f.Panels)))
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

// Inline returns the chart as an element for a page that has [Style]. The title describes it to readers who can't see
// it.
func (c Chart) Inline(title string) string {
	canvas := newSVGCanvas(Width, Height)
	c.draw(draw.New(canvas))
	return document(title, "", canvas)
}

// document returns the drawing as an svg element.
func document(title, style string, c *svgCanvas) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" class="mp" role="img" viewBox="0 0 %s %s" width="%s" height="%s" `+
			`font-family="'Liberation Sans',Arimo,Arial,Helvetica,sans-serif">`+"\n",
		number(c.width), number(c.height), number(c.width), number(c.height))
	if title != "" {
		b.WriteString("<title>")
		_ = xml.EscapeText(&b, []byte(title)) // writing to a strings.Builder does not fail
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

// draw draws the chart: title, legend, axes, marks.
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

	x, y := emptySpan(), emptySpan()
	c.extent(&x, &y)
	p := plot.New()
	p.BackgroundColor = nil
	var logX, logY bool
	p.X.Min, p.X.Max, logX = c.X.frame(x)
	p.Y.Min, p.Y.Max, logY = c.Y.frame(y)
	c.X.style(&p.X, logX, 8)
	c.Y.style(&p.Y, logY, 5)
	if n := len(c.X.Categories); n > 0 {
		p.X.Tick.LineStyle.Width = 0
		if longest(c.X.Categories) > (Width-margins)/float64(n)-8 {
			p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = math.Pi/6, draw.XRight, draw.YTop
		}
	}
	p.Add(gridLines{}, marks{chart: c, logX: logX, logY: logY})
	p.Draw(to)
}

// extent widens x and y to the values of all marks.
func (c Chart) extent(x, y *span) {
	for _, m := range c.Marks {
		m.extent(x, y)
	}
}

// longest returns the width of the widest text, in pixels.
func longest(texts []string) (width float64) {
	style := textStyle(smallSize, ink)
	for _, t := range texts {
		width = math.Max(width, float64(style.Width(t)))
	}
	return width
}

// style sets the appearance of an axis, with approximately count ticks.
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

// gridLines draws a line at every number of the y axis.
type gridLines struct{}

func (gridLines) Plot(c draw.Canvas, p *plot.Plot) {
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
