package terminal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATableIsDrawnOverThePreviousOne(t *testing.T) {
	var out bytes.Buffer
	v := NewScreen(&out)
	v.draw([]string{"one", "two", "three"}, 80, 24)
	require.Equal(t, "one\x1b[K\ntwo\x1b[K\nthree\x1b[K\n\x1b[J", out.String())
	out.Reset()
	v.draw([]string{"uno", "due"}, 80, 24)
	require.Equal(t, "\x1b[3A\runo\x1b[K\ndue\x1b[K\n\x1b[J", out.String())
	out.Reset()
	v.draw([]string{"un", "deux", "trois"}, 2, 3)
	require.Equal(t, "\x1b[2A\run\x1b[K\nde\x1b[K\n\x1b[J", out.String(), "lines are cut to the size of the terminal")
	out.Reset()
	v.draw([]string{"x"}, 2, 0)
	require.Equal(t, "\x1b[2A\r\x1b[J", out.String())
}

func TestCuttingKeepsColorsAndCountsColumns(t *testing.T) {
	line := Bold + "µ━" + Plain + "abc"
	require.Equal(t, Bold+"µ━"+Plain+"a", Cut(line, 3, true))
	require.Equal(t, "µ━a", Cut(line, 3, false))
	require.Equal(t, "a", Cut("a\x1b[2J", 3, false), "what is no color is left out")
	require.Equal(t, Bold+Plain, Cut(line, 0, true), "colors are reset even if no column is left")
}

func TestBarsAndSparksAreDrawnToAnEighth(t *testing.T) {
	require.Equal(t, "", bar(0))
	require.Equal(t, "▏", bar(1.0/shareWidth/8))
	require.Equal(t, strings.Repeat("█", shareWidth), bar(7))
	require.Equal(t, "▁▁", sparks([]float64{0, 0}))
}
