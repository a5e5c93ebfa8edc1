package plot_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/plot"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// throughput returns the throughput of a closed system over the clients; its bottleneck serves limit requests per
// second.
func throughput(limit float64) (points []plot.Point) {
	for _, n := range []float64{6, 12, 24, 48, 72, 96, 144, 192} {
		x := limit * (1 - math.Exp(-n/limit*250))
		points = append(points, plot.Between(n, x, x*0.97, x*1.03))
	}
	return points
}

// latencies returns the bins of a distribution around shift.
func latencies(shift float64) (bins []plot.Bin) {
	for i := range 40 {
		lower := float64(i) * 1e-4
		z := (lower - shift) / 6e-4
		count := 2000 * math.Exp(-z*z/2) * (1 + 0.2*math.Sin(float64(i)))
		bins = append(bins, plot.Bin{
			Lower: lower, Upper: lower + 1e-4, Count: math.Round(count), Low: count * 0.9,
			High: count * 1.1,
		})
	}
	return bins
}

// figures returns a figure of each kind, and some unusual ones.
func figures() map[string]plot.Figure {
	clients := plot.Axis{Label: "clients", FromZero: true, At: []float64{6, 12, 24, 48, 72, 96, 144, 192}}
	rate := plot.Axis{Label: "throughput", Unit: plot.OpsPerSecond, FromZero: true}
	stages := []string{"6", "12", "24", "48"}
	stacked := plot.Bars{}
	for i, name := range []string{"net", "queue", "worker", "server", "reply"} {
		l := plot.Layer{Name: name, Series: i}
		for n := range stages {
			l.Values = append(l.Values, 1e-4*float64(i+1)*float64(n+1))
		}
		stacked.Layers = append(stacked.Layers, l)
	}
	var trace, qq []plot.Point
	for i := range 60 {
		trace = append(trace, plot.At(float64(i), 9000+300*math.Sin(float64(i*i))))
		qq = append(qq, plot.At(float64(i)/15-2, math.Asin(float64(i)/30-1)*80))
	}
	trace[20].Y = math.NaN()
	workers := []plot.Mark{
		plot.Limit{Name: "bandwidth", Y: 12500},
		plot.Limit{X: 96, Vertical: true},
		plot.Ring{X: 96, Y: 5000 * (1 - math.Exp(-4.8)), Series: 0},
	}
	var all []plot.Mark
	for i, name := range []string{"1", "2", "4", "8", "16", "32", "64", "128"} {
		all = append(all, plot.Line{Name: name + " workers", Points: throughput(2000 + 1500*float64(i)), Series: i})
		if i < 3 {
			workers = append(workers,
				plot.Line{Name: name + " workers", Points: throughput(5000 + 3000*float64(i)), Series: i},
				plot.Line{Points: throughput(5200 + 3000*float64(i)), Look: plot.Computed, Series: i})
		}
	}
	boxes := func(slot int, by float64) plot.Boxes {
		b := plot.Boxes{Name: []string{"sharded", "not sharded"}[slot], Series: slot, Slot: slot, Slots: 2}
		for i := range 4 {
			f := by * float64(i+1)
			b.Values = append(b.Values, plot.Percentiles{
				Low: 0.4e-3 * f, P25: 0.8e-3 * f, P50: 1e-3 * f,
				P75: 1.5e-3 * f, High: 4e-3 * f, Mean: 1.3e-3 * f,
			})
		}
		return b
	}
	one := func(c plot.Chart) plot.Figure { return plot.Figure{Title: c.Title, Panels: []plot.Chart{c}} }
	time := plot.Axis{Label: "response time", Unit: plot.Seconds}
	return map[string]plot.Figure{
		"lines":   one(plot.Chart{X: clients, Y: rate, Marks: workers}),
		"palette": one(plot.Chart{X: clients, Y: rate, Marks: all}),
		"stacked": one(plot.Chart{
			X: plot.Axis{Label: "clients", Categories: stages},
			Y: plot.Axis{Label: "response time", Unit: plot.Seconds, FromZero: true}, Marks: []plot.Mark{stacked},
		}),
		"boxes": one(plot.Chart{
			X:     plot.Axis{Label: "keys per GET", Categories: []string{"1", "3", "6", "9"}},
			Y:     plot.Axis{Label: "response time", Unit: plot.Seconds, Log: true},
			Marks: []plot.Mark{boxes(0, 1), boxes(1, 1.4)},
		}),
		"histogram": one(plot.Chart{
			X: time, Y: plot.Axis{Label: "requests", FromZero: true},
			Marks: []plot.Mark{
				plot.Histogram{Name: "client", Bins: latencies(18e-4)},
				plot.Histogram{Name: "middleware", Bins: latencies(12e-4), Series: 1},
			},
		}),
		"cdf": one(plot.Chart{
			X: time, Y: plot.Axis{Label: "requests answered", Unit: plot.Ratio, FromZero: true},
			Marks: []plot.Mark{plot.Line{Name: "client", Points: plot.CDF(latencies(18e-4)), Look: plot.Trace}},
		}),
		"qq": one(plot.Chart{
			X: plot.Axis{Label: "normal quantile"},
			Y: plot.Axis{Label: "residual", Unit: plot.OpsPerSecond},
			Marks: []plot.Mark{
				plot.Line{Points: qq, Look: plot.Dots},
				plot.Line{Points: plot.QQLine(qq), Look: plot.Computed, Series: 1},
			},
		}),
		"trace": one(plot.Chart{X: plot.Axis{Label: "time", Unit: plot.Seconds}, Y: rate, Marks: []plot.Mark{
			plot.Line{Name: "client", Points: trace, Look: plot.Trace},
		}}),
		"panels": {Title: "two panels", Panels: []plot.Chart{
			{Title: "write-only", X: clients, Y: rate, Marks: workers},
			{
				Title: "a title that is far too long for the width of the chart it stands above, and is cut",
				X:     plot.Axis{Label: "rate", Log: true}, Y: plot.Axis{Log: true},
				Marks: []plot.Mark{plot.Line{Points: []plot.Point{
					plot.At(1, 1e-3), plot.At(1e5, 12),
					plot.At(-1, 5),
				}}},
			},
			{},
		}},
	}
}

func TestFiguresEqualTheirGoldenFiles(t *testing.T) {
	for name, f := range figures() {
		t.Run(name, func(t *testing.T) {
			golden := filepath.Join("testdata", name+".svg")
			if *update {
				require.NoError(t, os.WriteFile(golden, f.SVG(), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), string(f.SVG()), "go test -run %s -update rewrites it; then look at it",
				t.Name())
		})
	}
}

// requireXML fails the test unless text is well-formed XML without NaN or Inf.
func requireXML(t require.TestingT, text string) {
	decoder := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	require.NotContains(t, text, "NaN")
	require.NotContains(t, text, "Inf")
}

func TestAFigureIsWellFormedAndHasItsTitle(t *testing.T) {
	for name, f := range figures() {
		t.Run(name, func(t *testing.T) {
			requireXML(t, string(f.SVG()))
			require.Contains(t, string(f.SVG()), "prefers-color-scheme:dark")
			for _, panel := range f.Panels {
				inline := panel.Inline("<throughput>")
				requireXML(t, inline)
				require.Contains(t, inline, "<title>&lt;throughput&gt;</title>")
				require.NotContains(t, inline, "<style>", "the page has it")
			}
		})
	}
}

func TestAxesChooseThePrefixOfTheirUnit(t *testing.T) {
	for _, tc := range []struct {
		unit plot.Unit
		v    float64
		want string
	}{
		{plot.Seconds, 0.0123, "12.3 ms"},
		{plot.Seconds, 1.5e-5, "15.0 µs"},
		{plot.Seconds, 2.5, "2.50 s"},
		{plot.Seconds, 0, "0 s"},
		{plot.OpsPerSecond, 11206, "11.2 kops/s"},
		{plot.OpsPerSecond, 999.96, "1.00 kops/s"},
		{plot.OpsPerSecond, 0.25, "0.25 ops/s"},
		{plot.Ratio, 0.253, "25.3 %"},
		{plot.BytesPerSecond, 12.45e6, "12.4 MB/s"},
		{plot.None, 1234567, "1.23e+06"},
		{plot.None, math.NaN(), "–"},
	} {
		require.Equal(t, tc.want, tc.unit.Format(tc.v))
	}
}

func TestACDFCountsAllBinsAndReachesOne(t *testing.T) {
	points := plot.CDF([]plot.Bin{{Lower: 2, Upper: 3, Count: 1}, {Lower: 0, Upper: 1, Count: 3}})
	require.Equal(t, []plot.Point{plot.At(0, 0), plot.At(1, 0.75), plot.At(3, 1)}, points)
	require.Nil(t, plot.CDF(nil))
	require.Nil(t, plot.CDF([]plot.Bin{{Lower: 0, Upper: 1}}))
}

func TestNormalValuesLieOnTheLineOfTheirQQPlot(t *testing.T) {
	var points []plot.Point
	for i := range 101 {
		points = append(points, plot.At(float64(i-50)/20, 3+2*float64(i-50)/20))
	}
	line := plot.QQLine(points)
	slope := (line[1].Y - line[0].Y) / (line[1].X - line[0].X)
	require.InDelta(t, 2, slope, 1e-9)
	require.InDelta(t, 3, line[0].Y-slope*line[0].X, 1e-9)
	require.Nil(t, plot.QQLine(points[:1]))
}
