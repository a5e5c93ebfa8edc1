package report

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"mcmw/lab/plot"
)

func along(xs []float64, cpu func(x float64) float64) []plot.Point {
	var points []plot.Point
	for _, x := range xs {
		points = append(points, plot.At(x, cpu(x)))
	}
	return points
}

func TestGrowthNamesTheLaw(t *testing.T) {
	xs := []float64{1, 10, 100, 1000}
	assert.Equal(t, "linear: 10.0 µs + 500 ns for each of keys, within 0 %",
		growth("keys", along(xs, func(x float64) float64 { return 10e-6 + 0.5e-6*x })))
	assert.Equal(t, "not linear: as the power 0.50 from 1 to 10, 0.50 from there to 1000",
		growth("keys", along(xs, func(x float64) float64 { return 1e-6 * math.Sqrt(x) })))
	assert.Empty(t, growth("keys", along(xs[:2], func(float64) float64 { return 1 })), "two points fit every law")
	assert.Empty(t, growth("keys", along(xs, func(float64) float64 { return 0 })), "nothing was measured")
}
