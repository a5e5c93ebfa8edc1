package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/lab/load"
	"mcmw/internal/mctest"
)

func TestAGoalIsMissedByWhatFallsShortOfIt(t *testing.T) {
	goal := Goal{Throughput: 1.1, CPUPerRequest: 0.9, P99: 1}
	r := Ratio{System: Mcmw, To: Twemproxy, Throughput: Spread{Median: 1.1}, CPUPerRequest: Spread{Median: 0.9}, P99: Spread{Median: 1}}
	require.Equal(t, "reached", goal.verdict(r).String())
	r.Throughput.Median, r.P99.Median = 1.09, 1.01
	v := goal.verdict(r)
	assert.False(t, v.Reached)
	assert.Equal(t, "missed: throughput 1.09, p99 1.01", v.String())
	r.CPUPerRequest.Median = 0.91
	assert.Equal(t, []string{"throughput 1.09", "CPU 0.91", "p99 1.01"}, goal.verdict(r).Missed)
	r.System = "variant"
	assert.Nil(t, goal.verdict(r), "goals are mcmw's")
	assert.Equal(t, "-", goal.verdict(r).String())
	assert.Nil(t, Goal{}.verdict(Ratio{System: Mcmw, To: Twemproxy}))
}

func along(xs []float64, cpu func(x float64) float64) []CurvePoint {
	var points []CurvePoint
	for _, x := range xs {
		points = append(points, CurvePoint{X: x, CPUPerRequest: Spread{Median: cpu(x)}})
	}
	return points
}

func TestGrowthIsSaidByItsLaw(t *testing.T) {
	xs := []float64{1, 10, 100, 1000}
	assert.Equal(t, "linear: 10.0 µs + 500 ns per key, within 0 %", growth("key", along(xs, func(x float64) float64 { return 10e-6 + 0.5e-6*x })))
	assert.Equal(t, "not linear: as the power 0.50 from 1 to 10, 0.50 from there to 1000",
		growth("key", along(xs, func(x float64) float64 {
			y := 1e-6
			for ; x > 1; x /= 10 {
				y *= 3.1622776601683795
			}
			return y
		})))
	assert.Empty(t, growth("key", along(xs[:2], func(float64) float64 { return 1 })), "two points lie on every law")
	assert.Empty(t, growth("key", along(xs, func(float64) float64 { return 0 })), "nothing was measured")
}

func TestTheOpenLoopIsOfferedSharesOfWhatTwemproxyDoesInAClosedOne(t *testing.T) {
	at := func(system string, x, ops float64) Measurement {
		return Measurement{Workload: "connections", System: system, X: x, OpsPerSec: ops}
	}
	before := []Measurement{at(Direct, 64, 900), at(Twemproxy, 64, 100), at(Mcmw, 64, 50), at(Twemproxy, 64, 300), at(Twemproxy, 1, 5)}
	assert.InDelta(t, 200, saturation(before), 0)
	assert.InDelta(t, 50, saturation(before[2:3]), 0, "without twemproxy, of what was measured")
	points := comparing()[1].points(before)
	require.Len(t, points, len(offeredSteps))
	assert.InDelta(t, 20, points[0].x, 1e-9)
	require.NotNil(t, points[0].workload.load.Schedule)
	assert.InDelta(t, 20, points[0].workload.load.Schedule.Pieces[0].From, 1e-9)
}

func TestEveryPointOfACurveIsAValidLoad(t *testing.T) {
	for _, c := range append(comparing(), scaling("mcmw")...) {
		before := []Measurement{{Workload: "connections", System: Twemproxy, X: 64, OpsPerSec: 1000}}
		for _, p := range c.points(before) {
			o := p.workload.load
			o.Targets, o.Duration = []string{"127.0.0.1:1"}, time.Second
			_, err := load.New(o)
			require.NoError(t, err, "%s at %s", c.Name, c.at(p.x))
		}
	}
}

func TestCurvesThatCannotBeMeasuredAreRefused(t *testing.T) {
	_, err := selectCurves([]string{"conections"}, "")
	require.ErrorContains(t, err, `curve "conections": expected one of connections, offered-load, many-connections`)
	_, err = selectCurves([]string{"offered-load"}, "")
	require.ErrorContains(t, err, "it needs the curve connections")
}

func TestACurveIsMeasuredInEveryRoundAndDrawn(t *testing.T) {
	report, err := tryRun(context.Background(), t, Options{
		Mcmw: mctest.Build(t, "mcmw/cmd/mcmw"), Systems: []string{Mcmw}, CurvesOnly: true, Curves: []string{"servers"}, Rounds: 2, WarmUp: time.Millisecond, Duration: 20 * time.Millisecond,
	})
	require.NoError(t, err)
	require.Len(t, report.Curves, 1)
	require.Len(t, report.Curves[0].Lines, 2)
	for _, line := range report.Curves[0].Lines {
		require.Len(t, line.Points, 5)
		for _, p := range line.Points {
			assert.Equal(t, 2, p.Rounds)
			assert.Positive(t, p.OpsPerSec.Median)
		}
	}
	figures := report.Figures()
	require.Len(t, figures, 1)
	assert.Contains(t, string(figures["servers"].SVG()), "replicas all")
	assert.Empty(t, children(t))
}
