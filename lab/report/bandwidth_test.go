package report

import (
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/frame"
	"mcmw/lab/record"
)

func TestDifferentBandwidthLimitsAreDrawnSeparately(t *testing.T) {
	line := func(bytesPerReply ...float64) (l Line) {
		for _, bytes := range bytesPerReply {
			l.Points = append(l.Points, frame.Point{Runs: []record.Run{{State: record.Complete, Results: []record.Value{
				{Source: "client", Metric: "requests", Value: 10},
				{Source: "client", Metric: "bytes_read", Value: 10 * bytes},
			}}}, Confidence: 0.95})
		}
		return l
	}
	a := &artist{d: &Data{
		Confidence: 0.95,
		Manifest:   record.Manifest{Path: []record.Value{{Source: "path", Metric: "bandwidth", Value: 1e6}}},
	}}
	require.Equal(t, []float64{1000, 250}, a.bandwidths([]Line{line(1000, 1000), line(4000), line(1000)}))
	require.InDeltaSlice(t, []float64{(1000 + 1e6/1010) / 2}, a.bandwidths([]Line{line(1000), line(1010)}), 1e-6,
		"nearly equal limits are one line")
	require.Empty(t, a.bandwidths([]Line{{Points: []frame.Point{{Runs: []record.Run{{}}}}}}))
}
