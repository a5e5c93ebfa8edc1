package plot

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPanelsOfOneQuantityShareTheirAxis(t *testing.T) {
	panel := func(label string, y ...float64) Chart {
		var points []Point
		for i, v := range y {
			points = append(points, At(float64(i), v))
		}
		return Chart{Y: Axis{Label: label}, Marks: []Mark{Line{Points: points}}}
	}
	same := []Chart{panel("time", 1, 20), panel("time", 3, 5)}
	ShareY(same)
	require.Equal(t, [2]float64{1, 20}, [2]float64{same[1].Y.Min, same[1].Y.Max})
	require.Equal(t, same[0].Y, same[1].Y)
	logarithmic := []Chart{panel("time", 1, 20), panel("time", 3, 50)}
	for i := range logarithmic {
		logarithmic[i].Y.Log = true
	}
	ShareY(logarithmic)
	for _, c := range logarithmic {
		x, y := emptySpan(), emptySpan()
		c.extent(&x, &y)
		low, high, _ := c.Y.frame(y)
		require.Less(t, low, 1.0)
		require.Greater(t, low, 0.5)
		require.Greater(t, high, 50.0)
	}
	different := []Chart{panel("time", 1, 20), panel("rate", 3, 5)}
	ShareY(different)
	require.Zero(t, different[1].Y.Max)
}

func TestLongErrorBarsDoNotFlattenAHistogram(t *testing.T) {
	h := Histogram{Bins: []Bin{
		{Lower: 0, Upper: 1, Count: 10, Low: 0, High: 500},
		{Lower: 1, Upper: 2, Count: 4, Low: 3, High: 5},
	}}
	x, y := emptySpan(), emptySpan()
	h.extent(&x, &y)
	require.InDelta(t, 11.5, y.max, 1e-9)
}
