package plot

import (
	"encoding/xml"
	"fmt"
	"image"
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// svgCanvas is a vg.Canvas that writes SVG whose colours have classes, for the dark scheme. (The canvas of gonum/plot
// writes fixed colours.) Its unit is a pixel of the viewBox.
type svgCanvas struct {
	width, height float64
	out           strings.Builder
	now           context
	saved         []context
}

// context is the state that Push saves and Pop restores.
type context struct {
	tone   tone
	line   float64
	dashes []vg.Length
	offset vg.Length
	matrix matrix
}

// matrix maps (x, y) to (a*x + c*y + e, b*x + d*y + f).
type matrix struct{ a, b, c, d, e, f float64 }

func (m matrix) apply(x, y float64) (float64, float64) {
	return m.a*x + m.c*y + m.e, m.b*x + m.d*y + m.f
}

// times returns the map that applies n first, then m.
func (m matrix) times(n matrix) matrix {
	e, f := m.apply(n.e, n.f)
	return matrix{
		a: m.a*n.a + m.c*n.b, b: m.b*n.a + m.d*n.b,
		c: m.a*n.c + m.c*n.d, d: m.b*n.c + m.d*n.d,
		e: e, f: f,
	}
}

// newSVGCanvas returns a canvas with its origin at the bottom left, as vg requires.
func newSVGCanvas(width, height float64) *svgCanvas {
	return &svgCanvas{
		width: width, height: height,
		now: context{tone: ink, line: 1, matrix: matrix{a: 1, d: -1, f: height}},
	}
}

func (c *svgCanvas) Size() (x, y vg.Length)   { return vg.Length(c.width), vg.Length(c.height) }
func (c *svgCanvas) SetLineWidth(w vg.Length) { c.now.line = float64(w) }
func (c *svgCanvas) SetColor(clr color.Color) { c.now.tone = toneOf(clr) }
func (c *svgCanvas) Push()                    { c.saved = append(c.saved, c.now) }
func (c *svgCanvas) Scale(x, y float64)       { c.now.matrix = c.now.matrix.times(matrix{a: x, d: y}) }

func (c *svgCanvas) Pop() { c.now, c.saved = c.saved[len(c.saved)-1], c.saved[:len(c.saved)-1] }

func (c *svgCanvas) SetLineDash(d []vg.Length, offset vg.Length) {
	c.now.dashes, c.now.offset = d, offset
}

func (c *svgCanvas) Translate(p vg.Point) {
	c.now.matrix = c.now.matrix.times(matrix{a: 1, d: 1, e: float64(p.X), f: float64(p.Y)})
}

func (c *svgCanvas) Rotate(rad float64) {
	sin, cos := math.Sincos(rad)
	c.now.matrix = c.now.matrix.times(matrix{a: cos, b: sin, c: -sin, d: cos})
}

// DrawImage does nothing: figures have only shapes and text.
func (c *svgCanvas) DrawImage(vg.Rectangle, image.Image) {}

// Stroke draws a path in the current colour and line style.
func (c *svgCanvas) Stroke(p vg.Path) {
	if c.now.line <= 0 {
		return
	}
	t := c.now.tone
	fmt.Fprintf(&c.out, `<path class="%s-l" d="%s" fill="none" stroke="#%06x" stroke-width="%s"`, t.class, c.path(p),
		t.light, number(c.now.line))
	if len(c.now.dashes) > 0 {
		lengths := make([]string, len(c.now.dashes))
		for i, d := range c.now.dashes {
			lengths[i] = number(float64(d))
		}
		fmt.Fprintf(&c.out, ` stroke-dasharray="%s"`, strings.Join(lengths, " "))
	}
	c.out.WriteString("/>\n")
}

// Fill fills a path with the current colour.
func (c *svgCanvas) Fill(p vg.Path) {
	t := c.now.tone
	fmt.Fprintf(&c.out, `<path class="%s" d="%s" fill="#%06x"`, t.class, c.path(p), t.light)
	if t.opacity < 1 {
		fmt.Fprintf(&c.out, ` fill-opacity="%s"`, number(t.opacity))
	}
	c.out.WriteString("/>\n")
}

// FillString writes text. It sets the length, so that the text fits into the reserved space with any font of the
// reader's.
func (c *svgCanvas) FillString(f font.Face, at vg.Point, text string) {
	if f.Font.Size == 0 || text == "" {
		return
	}
	x, y := c.now.matrix.apply(float64(at.X), float64(at.Y))
	t := c.now.tone
	fmt.Fprintf(&c.out,
		`<text class="%s" x="%s" y="%s" font-size="%s" fill="#%06x" textLength="%s" lengthAdjust="spacingAndGlyphs"`,
		t.class, number(x), number(y), number(float64(f.Font.Size)), t.light, number(float64(f.Width(text))))
	if angle := math.Atan2(c.now.matrix.b, c.now.matrix.a) * 180 / math.Pi; math.Abs(angle) > 0.01 {
		fmt.Fprintf(&c.out, ` transform="rotate(%s %s %s)"`, number(angle), number(x), number(y))
	}
	c.out.WriteString(">")
	_ = xml.EscapeText(&c.out, []byte(text)) // writing to a strings.Builder does not fail
	c.out.WriteString("</text>\n")
}

// path returns the path as path data of SVG.
func (c *svgCanvas) path(p vg.Path) string {
	var b strings.Builder
	to := func(command string, points ...vg.Point) {
		b.WriteString(command)
		for i, point := range points {
			if i > 0 {
				b.WriteByte(' ')
			}
			x, y := c.now.matrix.apply(float64(point.X), float64(point.Y))
			b.WriteString(number(x) + " " + number(y))
		}
	}
	for _, part := range p {
		switch part.Type {
		case vg.MoveComp:
			to("M", part.Pos)
		case vg.LineComp:
			to("L", part.Pos)
		case vg.ArcComp:
			c.arc(to, part, b.Len() == 0)
		case vg.CurveComp:
			to([]string{1: "Q", 2: "C"}[len(part.Control)],
				append(part.Control[:len(part.Control):len(part.Control)], part.Pos)...)
		case vg.CloseComp:
			b.WriteString("Z")
		}
	}
	return b.String()
}

// arc draws an arc as curves of at most a quarter turn each.
func (c *svgCanvas) arc(to func(string, ...vg.Point), part vg.PathComp, first bool) {
	at := func(angle, radius float64) vg.Point {
		sin, cos := math.Sincos(angle)
		return vg.Point{X: part.Pos.X + vg.Length(radius*cos), Y: part.Pos.Y + vg.Length(radius*sin)}
	}
	r := float64(part.Radius)
	if start := at(part.Start, r); first {
		to("M", start)
	} else {
		to("L", start)
	}
	pieces := int(math.Ceil(math.Abs(part.Angle)/(math.Pi/2) - 1e-9))
	for i := range pieces {
		step := part.Angle / float64(pieces)
		from := part.Start + float64(i)*step
		// The control points of the cubic curve that is nearest to an arc lie on its tangents.
		lever := 4.0 / 3 * math.Tan(step/4)
		reach, turn := r*math.Hypot(1, lever), math.Atan(lever)
		to("C", at(from+turn, reach), at(from+step-turn, reach), at(from+step, r))
	}
}

// number returns v with at most two decimals: hundredths of a pixel.
func number(v float64) string {
	return strconv.FormatFloat(math.Round(v*100)/100+0, 'f', -1, 64) // + 0 makes -0 a 0
}
