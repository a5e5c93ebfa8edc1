package plot

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// linear returns the linear red, green and blue of an sRGB colour, 0..1 (IEC 61966-2-1).
func linear(rgb uint32) [3]float64 {
	var out [3]float64
	for i, shift := range []int{16, 8, 0} {
		v := float64(rgb>>shift&0xff) / 255
		if v <= 0.04045 {
			out[i] = v / 12.92
		} else {
			out[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return out
}

func times(m [3][3]float64, v [3]float64) (out [3]float64) {
	for i, row := range m {
		out[i] = row[0]*v[0] + row[1]*v[1] + row[2]*v[2]
	}
	return out
}

// visions map linear colours to the colours that people with a colour vision deficiency see (Machado, Oliveira and
// Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency", 2009, severity 1).
var visions = map[string][3][3]float64{
	"usual":        {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

// lab returns the CIE L*a*b* coordinates of a linear colour, white D65.
func lab(rgb [3]float64) [3]float64 {
	xyz := times([3][3]float64{{0.4124, 0.3576, 0.1805}, {0.2126, 0.7152, 0.0722}, {0.0193, 0.1192, 0.9505}}, rgb)
	f := func(v float64) float64 {
		if v > 216.0/24389 {
			return math.Cbrt(v)
		}
		return (24389.0/27*v + 16) / 116
	}
	x, y, z := f(xyz[0]/0.95047), f(xyz[1]), f(xyz[2]/1.08883)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

// contrast returns the contrast ratio of two colours (WCAG 2.2).
func contrast(a, b uint32) float64 {
	luminance := func(rgb uint32) float64 {
		v := linear(rgb)
		return 0.2126*v[0] + 0.7152*v[1] + 0.0722*v[2]
	}
	la, lb := luminance(a), luminance(b)
	return (math.Max(la, lb) + 0.05) / (math.Min(la, lb) + 0.05)
}

func TestColoursStandOutFromTheSurface(t *testing.T) {
	for _, tone := range append([]tone{ink, faint}, series...) {
		least := 3.0 // WCAG 2.2, 1.4.11: graphical objects
		if tone.class == ink.class || tone.class == faint.class {
			least = 4.5 // 1.4.3: text
		}
		require.GreaterOrEqual(t, contrast(tone.light, surface.light), least, "%s, light", tone.class)
		require.GreaterOrEqual(t, contrast(tone.dark, surface.dark), least, "%s, dark", tone.class)
	}
}

// apart is the required distance between the colours of two series in L*a*b*; 2.3 is a just noticeable difference.
const apart = 16.0

func TestSeriesStayApartForColourBlindReaders(t *testing.T) {
	for vision, matrix := range visions {
		for scheme, of := range map[string]func(tone) uint32{
			"light": func(t tone) uint32 { return t.light },
			"dark":  func(t tone) uint32 { return t.dark },
		} {
			for i := range series {
				for j := range i {
					a, b := lab(times(matrix, linear(of(series[i])))), lab(times(matrix, linear(of(series[j]))))
					distance := math.Hypot(math.Hypot(a[0]-b[0], a[1]-b[1]), a[2]-b[2])
					require.GreaterOrEqual(t, distance, apart,
						fmt.Sprintf("%s and %s, %s scheme, %s", series[i].class, series[j].class, scheme, vision))
				}
			}
		}
	}
}
