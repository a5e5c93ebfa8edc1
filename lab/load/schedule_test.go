package load

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSchedulesReturnTheDueTimesOfRequests(t *testing.T) {
	for _, tt := range []struct {
		rate string
		due  map[float64]float64 // request -> second
	}{
		{"1000", map[float64]float64{0: 0, 1: 0.001, 2500: 2.5, -500: -0.5}},
		// N(t) = 100 t + 5 t^2 up to 10 s and 1500 requests, then 300 per second... at t = 20 the rate is 300.
		{"ramp:100-300/20s", map[float64]float64{0: 0, 1500: 10, 4000: 20, 4300: 21}},
		{"ramp:0-200/10s", map[float64]float64{0: 0, 10: 1, 250: 5, 1000: 10, 1200: 11}},
		{"ramp:200-0/10s", map[float64]float64{0: 0, 750: 5, 1000: 10, 1001: math.Inf(1)}},
		{"steps:100,200,50/2s", map[float64]float64{100: 1, 200: 2, 400: 3, 600: 4, 700: 6, 750: 7}},
		{"steps:0,100/1s", map[float64]float64{0: 1, 50: 1.5}},
		// 100 in 9 s at 10 a second and 1 s at 10: 90 + 1000 in every 10 s.
		{"burst:10,1000/10s,1s", map[float64]float64{45: 4.5, 90: 9, 590: 9.5, 1090: 10, 1135: 14.5, 2 * 1090: 20}},
	} {
		s, err := ParseSchedule(tt.rate)
		require.NoError(t, err)
		for n, want := range tt.due {
			assert.InDelta(t, want, s.Due(n), 1e-9, "%s, request %v", tt.rate, n)
			if n >= 0 && !math.IsInf(want, 1) && want != 1 {
				assert.InDelta(t, n, s.Count(want), 1e-6, "%s, second %v", tt.rate, want)
			}
		}
		assert.Equal(t, tt.rate, s.String())
	}
}

func TestTheTimesOfAScheduleAreTheInverseOfItsCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &Schedule{Repeat: rapid.Bool().Draw(t, "repeat")}
		for range rapid.IntRange(1, 4).Draw(t, "pieces") {
			s.Pieces = append(s.Pieces, Piece{
				Length: time.Duration(rapid.Int64Range(1, int64(time.Minute)).Draw(t, "length")),
				From:   rapid.Float64Range(0, 1e6).Draw(t, "from"), To: rapid.Float64Range(0, 1e6).Draw(t, "to"),
			})
		}
		if s.validate() != nil {
			t.Skip("no rate at all")
		}
		count, length := s.sums()
		if count < 1e-3 {
			t.Skip("next to no requests")
		}
		n := rapid.Float64Range(0, 1).Draw(t, "share") * count
		if s.Repeat {
			n *= 3
			length *= 3
		}
		// Rounding can move the last request beyond the last piece, where the last rate continues: infinitely far if
		// that is 0.
		var slack float64
		if last := s.Pieces[len(s.Pieces)-1].To; last > 0 {
			slack = 1e-15 * count / last
		} else {
			n *= 1 - 1e-12
		}
		due := s.Due(n)
		if due < 0 || due > length*(1+1e-9)+slack {
			t.Fatalf("request %v of %v is due at %v of %v", n, count, due, length)
		}
		// Where the rate is close to 0 a tiny difference in requests is a long time, but a difference in time is a tiny
		// one in requests.
		if back := s.Count(due); math.Abs(back-n) > 1e-6*max(count, 1) {
			t.Fatalf("request %v is due at %v, when %v have been", n, due, back)
		}
		if later := s.Due(n + count/10); later < due {
			t.Fatalf("request %v is due at %v, a later one at %v", n, due, later)
		}
	})
}

func TestMalformedRatesAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                     `rate "": "" is not a number of requests per second`,
		"fast":                 `"fast" is not a number`,
		"0":                    "the schedule's rate is always 0",
		"-5":                   "a rate of -5 requests per second: expected 0 to 1000000000",
		"NaN":                  "a rate of NaN requests per second",
		"1e12":                 "a rate of 1e+12 requests per second",
		"1,2":                  "a constant rate is one number",
		"ramp:1-2":             "a ramp has two rates and a time",
		"ramp:1-2-3/1s":        "a ramp has two rates and a time",
		"ramp:1-2/0s":          "a length of 0s: expected more than 0",
		"steps:1,x/1s":         `"x" is not a number`,
		"burst:1,2/1s,1s":      "bursts of 1s every 1s leave no time between them",
		"burst:1,2/1s":         "a burst has two rates",
		"1000/":                "a constant rate is one number",
		"sawtooth:1,2/1s":      "unknown kind",
		"ramps:1-2/1s":         "unknown kind",
		"steps:1,2/1s and 2 s": "steps have rates and the time of each step",
	} {
		_, err := ParseSchedule(text)
		assert.ErrorContains(t, err, want, text)
		assert.ErrorContains(t, err, "expected a rate such as 20000", text)
	}
}

func FuzzParseSchedule(f *testing.F) {
	for _, seed := range []string{"1000", "ramp:1-20/3s", "steps:1,2,4/10s", "burst:1,20/10s,500ms", "ramp:1e9-0/1ns"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSchedule(text)
		if err != nil {
			return
		}
		again, err := ParseSchedule(s.String())
		require.NoError(t, err, s.String())
		assert.Equal(t, s.String(), again.String())
		for _, n := range []float64{-1, 0, 0.5, 1, 1e6} {
			assert.False(t, math.IsNaN(s.Due(n)))
		}
	})
}

// arrivals returns the due times of each connection's requests up to a time, seconds.
func arrivals(t *testing.T, o Options, until float64) [][]float64 {
	t.Helper()
	o.Targets = []string{"unused:1"}
	o, err := o.Complete()
	require.NoError(t, err)
	w, p := newWorkload(&o), pacer{o: &o}
	all := make([][]float64, o.Connections)
	for id := range all {
		c := newConn(w, id, -1)
		for p.start(c); c.pace.due < int64(until*1e9); p.advance(c) {
			all[id] = append(all[id], float64(c.pace.due)/1e9)
		}
	}
	return all
}

func TestEvenArrivalsAreAssignedToConnectionsInTurn(t *testing.T) {
	all := arrivals(t, Options{Connections: 4, Schedule: Constant(1000), WarmUp: 100 * time.Millisecond}, 0.1)
	for id, times := range all {
		require.Len(t, times, 50)
		for k, time := range times {
			assert.InDelta(t, -0.1+float64(4*k+id)/1000, time, 1e-8)
		}
	}
}

func TestPoissonArrivalsHaveTheirMeanAndTheirVariance(t *testing.T) {
	s, err := ParseSchedule("ramp:1000-3000/10s")
	require.NoError(t, err)
	s.Poisson = true
	// 200 intervals of 50 ms; the numbers of arrivals in them are independent, with the mean and the variance
	// N(t+h)-N(t).
	const h = 0.05
	var counts [200]float64
	for _, times := range arrivals(t, Options{Connections: 7, Schedule: s, Seed: 3}, 10) {
		for _, time := range times {
			counts[int(time/h)]++
		}
	}
	var chi, total float64
	for i, count := range counts {
		mean := s.Count(float64(i+1)*h) - s.Count(float64(i)*h)
		chi += (count - mean) * (count - mean) / mean
		total += count
	}
	// Four standard deviations of the sums; the seed is fixed.
	assert.InDelta(t, 20_000, total, 4*math.Sqrt(20_000))
	assert.InDelta(t, 200, chi, 4*math.Sqrt(2*200), "chi-squared of 200 intervals")
}

func TestTheSameSeedMakesTheSameArrivals(t *testing.T) {
	s := &Schedule{Pieces: Constant(500).Pieces, Poisson: true}
	o := Options{Connections: 3, Schedule: s, Seed: 9}
	first := arrivals(t, o, 1)
	assert.Equal(t, first, arrivals(t, o, 1))
	o.Seed++
	assert.NotEqual(t, first, arrivals(t, o, 1))
}

func TestDrawsHaveTheirDistributions(t *testing.T) {
	const draws = 200_000
	rng := rand.NewPCG(1, 2)
	for text, want := range map[string]float64{ // the share of values of at most 100
		"exponential:50":       1 - math.Exp(-2),
		"normal:80,20":         0.5 * (1 + math.Erf(1/math.Sqrt2)),
		"lognormal:4,1":        0.5 * (1 + math.Erf((math.Log(100)-4)/math.Sqrt2)),
		"pareto:0,214.476,0.4": 1 - math.Pow(1+0.4*100/214.476, -1/0.4),
		"pareto:10,200,0":      1 - math.Exp(-90.0/200),
		"pareto:0,150,-0.5":    1 - math.Pow(1-0.5*100/150, 2),
	} {
		d, err := ParseDistribution(text)
		require.NoError(t, err)
		assert.Equal(t, text, d.String())
		below := 0
		for range draws {
			if d.draw(rng) <= 100 {
				below++
			}
		}
		assert.InDelta(t, want, float64(below)/draws, 4*math.Sqrt(0.25/draws), text)
	}
}
