package plot

import (
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// entry is a line of the legend.
type entry struct {
	name string
	// sample draws a sample of the series into c, which is sampleWidth wide.
	sample func(c draw.Canvas)
}

const (
	sampleWidth  = 24
	entryGap     = 14 // between two entries
	legendHeight = 17
)

// drawLegend draws the entries that have names at the top of c, in as many rows as necessary, and returns the rest of
// c.
func drawLegend(c draw.Canvas, entries []entry) draw.Canvas {
	style := textStyle(smallSize, ink)
	style.YAlign = draw.YCenter
	left := c.Min.X + 8
	x, rows := left, 0
	for _, e := range entries {
		if e.name == "" {
			continue
		}
		name := fitted(style, e.name, c.Max.X-left-sampleWidth-5)
		width := sampleWidth + 5 + style.Width(name)
		if rows == 0 || x+width > c.Max.X {
			x = left
			rows++
		}
		middle := c.Max.Y - vg.Length(rows)*legendHeight + legendHeight/2
		e.sample(draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: x, Y: middle - 5}, Max: vg.Point{X: x + sampleWidth, Y: middle + 5},
		}})
		c.FillText(style, vg.Point{X: x + sampleWidth + 5, Y: middle}, name)
		x += width + entryGap
	}
	if rows > 0 {
		c.Max.Y -= vg.Length(rows)*legendHeight + 6
	}
	return c
}

// fitted returns the text, cut if it is wider than width.
func fitted(style text.Style, s string, width vg.Length) string {
	if style.Width(s) <= width {
		return s
	}
	runes := []rune(s)
	for len(runes) > 1 && style.Width(string(runes)+"…") > width {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}
