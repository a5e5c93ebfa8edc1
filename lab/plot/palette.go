package plot

import (
	"fmt"
	"image/color"
	"strings"
)

// tone is a colour of the light scheme and its counterpart of the dark one.
type tone struct {
	class       string // CSS class in the SVG
	light, dark uint32 // 0xRRGGBB
	opacity     float64
}

var (
	ink     = tone{class: "ink", light: 0x1f2328, dark: 0xe6e9ec, opacity: 1} // text
	faint   = tone{class: "fnt", light: 0x59636e, dark: 0x9aa4ae, opacity: 1} // axes, numbers on them, limits
	grid    = tone{class: "grd", light: 0xdde1e6, dark: 0x343a41, opacity: 1}
	surface = tone{class: "srf", light: 0xffffff, dark: 0x16191d, opacity: 1} // background
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

func seriesTone(number int) tone {
	t := series[number%len(series)]
	t.opacity = 1
	return t
}

// fade returns t with another opacity, 0..1.
func (t tone) fade(opacity float64) tone {
	t.opacity = opacity
	return t
}

// RGBA makes a tone a color.Color. It returns the colour of the light scheme.
func (t tone) RGBA() (r, g, b, a uint32) {
	return color.RGBA{R: uint8(t.light >> 16), G: uint8(t.light >> 8), B: uint8(t.light), A: 0xff}.RGBA()
}

// toneOf returns c if it is a tone, otherwise ink.
func toneOf(c color.Color) tone {
	if t, ok := c.(tone); ok {
		return t
	}
	return ink
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
