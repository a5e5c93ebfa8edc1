package plot

import (
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// tone is a colour of the light scheme and its counterpart of the dark one.
type tone struct {
	class       string  // CSS class in the SVG
	light, dark uint32  // 0xRRGGBB
	clear       float64 // 1 - opacity
}

var (
	ink     = tone{class: "ink", light: 0x1f2328, dark: 0xe6e9ec} // text
	faint   = tone{class: "fnt", light: 0x59636e, dark: 0x9aa4ae} // axes, numbers on them, limits
	grid    = tone{class: "grd", light: 0xdde1e6, dark: 0x343a41}
	surface = tone{class: "srf", light: 0xffffff, dark: 0x16191d} // background
)

// series are the colours of series, in the order of use. Each contrasts with the background, and readers with the usual
// kinds of colour blindness can tell them apart (the tests compute both). They were found by a search that started from
// the colours of Okabe and Ito, "Color Universal Design" (2008), and maximized the smallest difference between two of
// them.
var series = []tone{
	{class: "s0", light: 0x0048da, dark: 0x5f9ef7},
	{class: "s1", light: 0xd66200, dark: 0xfa8d4e},
	{class: "s2", light: 0x0b7550, dark: 0x1ad49b},
	{class: "s3", light: 0xaf4595, dark: 0xec8cc8},
	{class: "s4", light: 0x634000, dark: 0xe7c61d},
	{class: "s5", light: 0x3b2f91, dark: 0x8470fa},
	{class: "s6", light: 0x5999cf, dark: 0xc2b9ff},
	{class: "s7", light: 0x3f3a40, dark: 0x909090},
}

func seriesTone(number int) tone { return series[number%len(series)] }

// fade returns t with another opacity, 0..1.
func (t tone) fade(opacity float64) tone {
	t.clear = 1 - opacity
	return t
}

// Style is the style sheet with the dark scheme of figures, for screens of readers who prefer it.
func Style() string {
	var b strings.Builder
	b.WriteString("@media screen and (prefers-color-scheme:dark){")
	for _, t := range append([]tone{ink, faint, grid, surface}, series...) {
		fmt.Fprintf(&b, ".mp .%s{fill:#%06x}.mp .%s-l{stroke:#%06x}", t.class, t.dark, t.class, t.dark)
	}
	b.WriteString("}")
	return b.String()
}

type point struct{ x, y float64 }

type box struct{ left, top, right, bottom float64 }

func (b box) corners() []point {
	return []point{{b.left, b.bottom}, {b.right, b.bottom}, {b.right, b.top}, {b.left, b.top}}
}

// middle is the height of the box's middle.
func (b box) middle() float64 { return (b.top + b.bottom) / 2 }

// stroke is the look of a line.
type stroke struct {
	tone   tone
	width  float64
	dashes string // of SVG
}

// canvas has the elements of an SVG. Its unit is a pixel; y grows downwards.
type canvas struct{ strings.Builder }

// path returns path data of SVG.
func path(points []point) string {
	var b strings.Builder
	for i, p := range points {
		b.WriteString("ML"[min(i, 1):][:1] + number(p.x) + " " + number(p.y))
	}
	return b.String()
}

// line draws a line through points.
func (c *canvas) line(s stroke, points ...point) { c.outline(s, path(points)) }

// outline draws a path.
func (c *canvas) outline(s stroke, path string) {
	if path == "" || s.width <= 0 {
		return
	}
	fmt.Fprintf(c, `<path class="%s-l" d="%s" fill="none" stroke="#%06x" stroke-width="%s"`, s.tone.class, path,
		s.tone.light, number(s.width))
	if s.dashes != "" {
		fmt.Fprintf(c, ` stroke-dasharray="%s"`, s.dashes)
	}
	c.WriteString("/>\n")
}

// fill fills a polygon.
func (c *canvas) fill(t tone, points ...point) { c.shape(t, `path`, `d="`+path(points)+`Z"`) }

// shape draws a filled element with these attributes.
func (c *canvas) shape(t tone, element, attributes string) {
	fmt.Fprintf(c, `<%s class="%s" %s fill="#%06x"`, element, t.class, attributes, t.light)
	if t.clear > 0 {
		fmt.Fprintf(c, ` fill-opacity="%s"`, number(1-t.clear))
	}
	c.WriteString("/>\n")
}

// polygon fills a regular polygon with its corners at a distance from the centre, the first at an angle.
func (c *canvas) polygon(t tone, at point, corners int, radius, angle float64) {
	if corners == 0 {
		c.shape(t, "circle", fmt.Sprintf(`cx="%s" cy="%s" r="%s"`, number(at.x), number(at.y), number(radius)))
		return
	}
	var points []point
	for i := range corners {
		sin, cos := math.Sincos(angle + 2*math.Pi*float64(i)/float64(corners))
		points = append(points, point{at.x + radius*cos, at.y + radius*sin})
	}
	c.fill(t, points...)
}

// markers are the shapes of markers: circle, square, triangle and diamond, and then the same with a hole.
var markers = []struct {
	corners       int
	radius, angle float64
}{{0, 3.5, 0}, {4, 4.9, math.Pi / 4}, {3, 4.7, -math.Pi / 2}, {4, 4.55, 0}}

// marker draws the marker of a series.
func (c *canvas) marker(number int, at point) {
	m := markers[number%len(markers)]
	c.polygon(seriesTone(number), at, m.corners, m.radius, m.angle)
	if number/len(markers)%2 == 1 {
		c.polygon(surface, at, m.corners, 0.6*m.radius, m.angle)
	}
}

// Where a text is relative to its point.
const (
	start  = "start"
	middle = "middle"
	end    = "end"
)

// text writes text at an angle, in degrees. It sets the length, so that the text fits into the reserved space with any
// font of the reader's.
func (c *canvas) text(t tone, size float64, anchor string, angle float64, at point, text string) {
	if text == "" {
		return
	}
	fmt.Fprintf(c, `<text class="%s" x="%s" y="%s" font-size="%s" fill="#%06x" text-anchor="%s" textLength="%s" `+
		`lengthAdjust="spacingAndGlyphs"`, t.class, number(at.x), number(at.y), number(size), t.light, anchor,
		number(textWidth(text, size)))
	if angle != 0 {
		fmt.Fprintf(c, ` transform="rotate(%s %s %s)"`, number(angle), number(at.x), number(at.y))
	}
	c.WriteString(">")
	_ = xml.EscapeText(c, []byte(text)) // writing to a strings.Builder does not fail
	c.WriteString("</text>\n")
}

// document returns the drawing as an svg element.
func (c *canvas) document(title, style string, width, height float64) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		`<svg xmlns="http://www.w3.org/2000/svg" class="mp" role="img" viewBox="0 0 %[1]s %[2]s" width="%[1]s" `+
			`height="%[2]s" font-family="'Liberation Sans',Arimo,Arial,Helvetica,sans-serif">`+"\n",
		number(width), number(height))
	if title != "" {
		b.WriteString("<title>")
		_ = xml.EscapeText(&b, []byte(title))
		b.WriteString("</title>\n")
	}
	if style != "" {
		b.WriteString("<style>" + style + "</style>\n")
	}
	b.WriteString(c.String() + "</svg>\n")
	return b.String()
}

// number returns v with at most two decimals: hundredths of a pixel.
func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100+0, 'f', -1, 64) // + 0 makes -0 a 0
}

// widths are those of the characters from the space on in Arial, thousandths of the font's size; usualWidth is that of
// others.
var widths = [...]float64{
	278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556, 556, 556,
	556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278, 500, 667, 556, 833,
	722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469, 556, 333, 556, 556, 500, 556,
	556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500, 278, 556, 500, 722, 500, 500, 500, 334,
	260, 334, 584,
}

const usualWidth = 556

// textWidth returns the width of a text in pixels.
func textWidth(text string, size float64) (width float64) {
	for _, r := range text {
		if i := int(r) - ' '; i >= 0 && i < len(widths) {
			width += widths[i]
		} else {
			width += usualWidth
		}
	}
	return width * size / 1000
}

// longest returns the width of the widest small text, in pixels.
func longest(texts []string) (width float64) {
	for _, t := range texts {
		width = max(width, textWidth(t, smallSize))
	}
	return width
}

// fitted returns the text, cut if it is wider than width.
func fitted(text string, size, width float64) string {
	if textWidth(text, size) <= width {
		return text
	}
	runes := []rune(text)
	for len(runes) > 1 && textWidth(string(runes)+"…", size) > width {
		runes = runes[:len(runes)-1]
	}
	return string(runes) + "…"
}
