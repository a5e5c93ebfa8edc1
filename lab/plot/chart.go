package plot

import "math"

// Size of a chart, and of the text in it, in pixels.
const (
	Width     = 480.0
	Height    = 320.0
	textSize  = 12.0
	smallSize = 11.0
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

// entry is a line of the legend.
type entry struct {
	name string
	// sample draws a sample of the series into a box, which is sampleWidth wide.
	sample func(c *canvas, b box)
}

// pen draws between the axes, where values lie.
type pen struct {
	*canvas
	box
	x, y ruler
}

// sees reports whether the axes can show the pair of values.
func (p pen) sees(x, y float64) bool {
	return finite(x) && finite(y) && (!p.x.log || x > 0) && (!p.y.log || y > 0)
}

func (p pen) at(x, y float64) point { return point{p.x.at(x), p.y.at(y)} }

// SVG returns the figure as a self-contained file.
func (f Figure) SVG() []byte {
	columns := max(1, min(2, len(f.Panels)))
	width, height := Width*float64(columns), Height*float64(max(1, (len(f.Panels)+columns-1)/columns))
	c := &canvas{}
	c.fill(surface, box{0, 0, width, height}.corners()...)
	for i, panel := range f.Panels {
		left, top := float64(i%columns)*Width, float64(i/columns)*Height
		panel.draw(c, box{left, top, left + Width, top + Height})
	}
	return []byte(c.document(f.Title, Style(), width, height))
}

// Inline returns the chart as an element for a page that has [Style]. The title describes it to readers who can't see
// it.
func (c Chart) Inline(title string) string {
	to := &canvas{}
	c.draw(to, box{0, 0, Width, Height})
	return to.document(title, "", Width, Height)
}

// extent widens x and y to the values of all marks.
func (c Chart) extent(x, y *span) {
	for _, m := range c.Marks {
		m.extent(x, y)
	}
}

const (
	tickLength = 4.0
	tilt       = -30.0 // of the names of categories that have no room side by side, degrees
)

// draw draws the chart into a box: title, legend, axes, marks.
func (c Chart) draw(to *canvas, in box) {
	in = box{in.left + 6, in.top + 6, in.right - 10, in.bottom - 6}
	if c.Title != "" {
		to.text(ink, textSize+1, start, 0, point{in.left + 8, in.top + textSize},
			fitted(c.Title, textSize+1, in.right-in.left-8))
		in.top += textSize + 8
	}
	in.top = c.legend(to, in)
	p := pen{canvas: to}
	x, y := emptySpan(), emptySpan()
	c.extent(&x, &y)
	p.x, p.y = c.X.ruler(x, 8), c.Y.ruler(y, 5)
	tilted := len(c.X.Categories) > 0 &&
		longest(c.X.Categories) > (Width-margins)/float64(len(c.X.Categories))-8
	p.box = box{in.left + longest(p.y.labels()) + 8, in.top + 6, in.right, in.bottom - smallSize - 7}
	if p.y.label != "" {
		p.left += textSize + 5
	}
	if p.x.label != "" {
		p.bottom -= textSize + 5
	}
	if tilted {
		p.bottom -= longest(c.X.Categories) * math.Sin(-tilt*math.Pi/180)
	}
	p.x.from, p.x.to, p.y.from, p.y.to = p.left, p.right, p.bottom, p.top
	p.across(in, len(c.X.Categories) > 0, tilted)
	p.up(in)
	for _, m := range c.Marks {
		m.draw(p)
	}
}

var axisLine = stroke{tone: faint, width: 1}

// across draws the x axis.
func (p pen) across(in box, categories, tilted bool) {
	p.line(axisLine, point{p.left, p.bottom}, point{p.right, p.bottom})
	for _, t := range p.x.ticks {
		at := p.x.at(t.value)
		if !categories {
			p.line(axisLine, point{at, p.bottom}, point{at, p.bottom + t.length()})
		}
		if tilted {
			p.text(faint, smallSize, end, tilt, point{at + 4, p.bottom + smallSize + 1}, t.label)
		} else {
			p.text(faint, smallSize, middle, 0, point{at, p.bottom + smallSize + 5}, t.label)
		}
	}
	p.text(ink, textSize, middle, 0, point{(p.left + p.right) / 2, in.bottom - 3}, p.x.label)
}

// up draws the y axis, and a line across the chart at every number of it.
func (p pen) up(in box) {
	p.line(axisLine, point{p.left, p.bottom}, point{p.left, p.top})
	for _, t := range p.y.ticks {
		at := p.y.at(t.value)
		if t.label != "" && at < p.bottom-1 {
			p.line(stroke{tone: grid, width: 0.75}, point{p.left, at}, point{p.right, at})
		}
		p.line(axisLine, point{p.left - t.length(), at}, point{p.left, at})
		p.text(faint, smallSize, end, 0, point{p.left - 6, at + 4}, t.label)
	}
	p.text(ink, textSize, middle, -90, point{in.left + textSize - 1, (p.top + p.bottom) / 2}, p.y.label)
}

const (
	sampleWidth  = 24.0
	entryGap     = 14.0 // between two entries
	legendHeight = 17.0
)

// legend draws the entries that have names at the top of a box, in as many rows as necessary, and returns where the
// rest of the box begins.
func (c Chart) legend(to *canvas, in box) (top float64) {
	left := in.left + 8
	x, rows := left, 0
	for _, m := range c.Marks {
		for _, e := range m.entries() {
			if e.name == "" {
				continue
			}
			name := fitted(e.name, smallSize, in.right-left-sampleWidth-5)
			width := sampleWidth + 5 + textWidth(name, smallSize)
			if rows == 0 || x+width > in.right {
				x = left
				rows++
			}
			middle := in.top + float64(rows)*legendHeight - legendHeight/2
			e.sample(to, box{x, middle - 5, x + sampleWidth, middle + 5})
			to.text(ink, smallSize, start, 0, point{x + sampleWidth + 5, middle + 4}, name)
			x += width + entryGap
		}
	}
	if rows == 0 {
		return in.top
	}
	return in.top + float64(rows)*legendHeight + 6
}
