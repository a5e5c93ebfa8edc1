package report

import (
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/frame"
	"mcmw/lab/plot"
	"mcmw/lab/record"
)

func TestTheLoadOfSeveralHostsTakesMoreThanTheOnePathThatWasMeasured(t *testing.T) {
	ssh := record.Manifest{Testbed: "ssh", Inventory: []string{
		"a (a) at 10.0.0.1: load", "b (user@b) at ::1: load, server", "c (c) at 10.0.0.3: middleware",
		"d (d) at 10.0.0.4: middleware", "e (e) at 10.0.0.5: load",
	}}
	vm := record.Manifest{Testbed: "vm", Machines: []record.Machine{
		{Name: "load-0", Upload: 1e6},
		{Name: "load-1", Upload: 1e6},
		{Name: "load-2", Upload: 1e6},
		{Name: "middleware-0", Download: 4e6},
		{Name: "middleware-1", Download: 4e6},
	}}
	for name, tc := range map[string]struct {
		set                                     record.Manifest
		loads, middlewares, servers, mostOfPath string
	}{
		"hosts of both":        {ssh, "6", "2", "1", "path, 95.0 %"},
		"one middleware":       {ssh, "6", "1", "1", "path comes to 190 %"},
		"one load process":     {ssh, "1", "2", "1", "path comes to 190 %"},
		"one host of servers":  {ssh, "6", "0", "3", "path comes to 190 %"},
		"pods":                 {record.Manifest{Testbed: "kubernetes"}, "2", "0", "3", "path, 95.0 %"},
		"one host of all":      {record.Manifest{Testbed: "local"}, "6", "2", "3", "path comes to 190 %"},
		"machines with limits": {vm, "6", "2", "3", "load machines, 63.0 %"},
	} {
		set := tc.set
		set.Name, set.Path = "hosts", []record.Value{{Source: "path", Metric: "bandwidth", Value: 1e6}}
		run := record.Run{
			State: record.Complete, Seconds: 10,
			Factors: map[string]string{
				"clients": "6", "load_processes": tc.loads, "middlewares": tc.middlewares, "servers": tc.servers,
			},
			Results: []record.Value{
				{Source: "client", Metric: "throughput", Value: 1000},
				{Source: "client", Metric: "requests", Value: 10000},
				{Source: "client", Metric: "bytes_written", Value: 19e6},
			},
		}
		if set.Machines != nil {
			run.HostSamples = []record.Window{
				{Source: "host:load-1", Seconds: 1, Metric: "net_tx_bytes", Value: 0.63e6},
			}
		}
		r, err := record.Create(filepath.Join(t.TempDir(), "hosts"), set)
		require.NoError(t, err)
		require.NoError(t, r.Add(run))
		d, err := Read(t.Context(), r, DefaultConfidence, nil)
		require.NoError(t, err)
		words := d.Limit(d.Points[0]).Words
		require.Contains(t, words, tc.mostOfPath, name)
		require.Equal(t, set.Machines == nil, strings.Contains(words, "path"), words)
		require.NoError(t, r.Close())
	}
}

func TestDifferentBandwidthLimitsAreDrawnSeparately(t *testing.T) {
	point := func(x string, bytes float64) frame.Point {
		return frame.Point{Levels: map[string]string{"size": x}, Runs: []record.Run{{
			State: record.Complete, Results: []record.Value{
				{Source: "client", Metric: "requests", Value: 10},
				{Source: "client", Metric: "bytes_read", Value: 10 * bytes},
			},
		}}, Confidence: 0.95}
	}
	line := func(bytesPerReply ...float64) (l Line) {
		for i, bytes := range bytesPerReply {
			l.Points = append(l.Points, point(strconv.Itoa(i+1), bytes))
		}
		return l
	}
	a := &artist{v: View{X: "size"}, d: &Data{
		Confidence: 0.95,
		Manifest:   record.Manifest{Path: []record.Value{{Source: "path", Metric: "bandwidth", Value: 1e6}}},
	}}
	require.Equal(t, []plot.Mark{plot.Limit{Name: "bandwidth", Y: 1000}, plot.Limit{Y: 250}},
		a.bandwidths([]Line{line(1000, 1000), line(4000, 4000), line(1000)}, 1000))
	require.Equal(t, []plot.Mark{plot.Limit{Name: "bandwidth", Y: 250}},
		a.bandwidths([]Line{line(1000, 1000), line(4000, 4000)}, 999), "a high limit is left out")
	nearly := a.bandwidths([]Line{line(1000), line(1010)}, 1e6)
	require.Len(t, nearly, 1, "nearly equal limits are one line")
	require.InDelta(t, (1000+1e6/1010)/2, nearly[0].(plot.Limit).Y, 1e-6)
	require.Empty(t, a.bandwidths([]Line{{Points: []frame.Point{{Runs: []record.Run{{}}}}}}, 1e6))

	varies := a.bandwidths([]Line{line(1000, 2000, 4000), line(1000, 2000, 4000)}, 500)
	require.Len(t, varies, 1)
	bound := varies[0].(plot.Line)
	require.Equal(t, plot.Bound, bound.Look)
	require.True(t, math.IsNaN(bound.Points[0].Y), "a high limit is left out")
	require.Equal(t, []plot.Point{plot.At(2, 500), plot.At(3, 250)}, bound.Points[1:])
}
