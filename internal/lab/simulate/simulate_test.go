package simulate

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/lab/queueing"
)

// confident is the confidence of the intervals that exact values are held against: with the tests' fixed seeds their verdicts
// never change, and few seeds would have to be passed over.
const confident = 0.9999

// within fails unless the interval, and what the resolution of percentiles adds, holds the exact value.
func within(t *testing.T, exact float64, e Estimate, what string) {
	t.Helper()
	require.LessOrEqual(t, e.Interval.Low, exact*1.005+1e-9, what)
	require.GreaterOrEqual(t, e.Interval.High, exact*0.995-1e-9, what)
	require.InDelta(t, exact, e.Mean, 0.08*exact+1e-6, "%s: the interval is of use", what)
}

func simulated(t *testing.T, s System, passes int) Result {
	t.Helper()
	r, err := Run(context.Background(), s, Options{Seed: 7, Passes: passes, Confidence: confident})
	require.NoError(t, err)
	return r
}

func TestTheExactSolutionOfClosedNetworksIsWithinTheIntervals(t *testing.T) {
	for name, c := range map[string]struct {
		network   queueing.Network
		customers int
	}{
		"delay, queue, pool": {queueing.Network{Stations: []queueing.Station{
			{Name: "net", Kind: queueing.Delay, Visits: 1, Service: 2},
			{Name: "thread", Kind: queueing.Queue, Visits: 1, Service: 0.3},
			{Name: "pool", Kind: queueing.Multi, Visits: 0.5, Service: 5, Servers: 8},
			{Name: "pool 2", Kind: queueing.Multi, Visits: 0.5, Service: 5, Servers: 8},
		}}, 20},
		"load dependent, think time": {queueing.Network{Think: 4, Stations: []queueing.Station{
			{Name: "ld", Kind: queueing.LoadDependent, Visits: 1, Service: 0.5, Rates: []float64{1, 1.7, 2.2, 2.5}},
			{Name: "q", Kind: queueing.Queue, Visits: 2.5, Service: 0.15},
		}}, 12},
	} {
		t.Run(name, func(t *testing.T) {
			exact, err := c.network.Solve(c.customers)
			require.NoError(t, err)
			r := simulated(t, Closed(c.network, c.customers), 150_000)
			within(t, exact.X, r.X, "X")
			within(t, exact.R, r.R, "R")
			for i, s := range exact.Stations {
				within(t, s.X, r.Stations[i].X, "X of "+s.Name)
				within(t, s.U, r.Stations[i].U, "U of "+s.Name)
				within(t, s.Q, r.Stations[i].Q, "Q of "+s.Name)
				within(t, s.R, r.Stations[i].R, "R of "+s.Name)
			}
		})
	}
}

func TestTheExactSolutionOfOpenQueuesIsWithinTheIntervals(t *testing.T) {
	q, err := queueing.NewMMm(3.2, 1, 4)
	require.NoError(t, err)
	open := func(room int) System {
		return System{
			Stations: []Station{{Name: "q", Servers: 4, Service: Exponential(1), Room: room}},
			Classes:  []Class{{Arrivals: Exponential(1 / 3.2), Path: []Step{Visit{}}}},
		}
	}
	r := simulated(t, open(0), 300_000)
	within(t, 3.2, r.X, "X")
	within(t, q.MeanResponse(), r.R, "R")
	within(t, q.ResponsePercentile(0.5), r.Classes[0].P50, "p50")
	within(t, q.ResponsePercentile(0.9), r.Classes[0].P90, "p90")
	within(t, q.ResponsePercentile(0.99), r.Classes[0].P99, "p99")
	within(t, q.MeanJobs(), r.Stations[0].Q, "Q")

	full, err := queueing.NewMMmK(3.2, 1, 4, 6)
	require.NoError(t, err)
	r = simulated(t, open(6), 300_000)
	within(t, full.Throughput(), r.X, "X")
	within(t, full.LossRate(), r.Stations[0].Lost, "lost")
	within(t, full.MeanResponse(), r.R, "R")
	within(t, full.ResponsePercentile(0.95), r.Classes[0].P95, "p95")
	within(t, full.ResponsePercentile(0.5), r.Classes[0].P50, "p50")
}

func TestTheExactSolutionOfClassesIsWithinTheIntervals(t *testing.T) {
	// First come, first served: the classes have the same service time at the queue, and differ in the rest.
	m := queueing.Multiclass{
		Classes: []queueing.Class{{Customers: 5, Think: 1}, {Customers: 3, Think: 4}},
		Stations: []queueing.ClassStation{
			{Name: "q", Kind: queueing.Queue, Demands: []float64{0.4, 0.4}},
			{Name: "delay", Kind: queueing.Delay, Demands: []float64{0, 2}},
		},
	}
	exact, err := m.Exact()
	require.NoError(t, err)
	r := simulated(t, System{
		Stations: []Station{{Name: "q", Servers: 1, Service: Exponential(0.4)}, {Name: "delay", Service: Exponential(2)}},
		Classes: []Class{
			{Customers: 5, Think: Exponential(1), Path: []Step{Visit{Station: 0}}},
			{Customers: 3, Think: Exponential(4), Path: []Step{Visit{Station: 0}, Visit{Station: 1}}},
		},
	}, 150_000)
	for c := range m.Classes {
		within(t, exact.X[c], r.Classes[c].X, "X")
		within(t, exact.R[c], r.Classes[c].R, "R")
	}
}

func TestServiceThatVariesWaitsAsPollaczekAndKhinchineSay(t *testing.T) {
	// E[w] = rho S (1+c^2)/(2 (1-rho)) of an M/G/1 queue (Jain, section 31.6).
	const rho = 0.7
	measured, err := Histogram([]Bin{{0, 0.5, 10}, {0.5, 1, 0}, {1, 1, 20}, {1, 3, 10}})
	require.NoError(t, err)
	for _, c := range []float64{0, 0.25, 1, 4} {
		service, err := Variable(1, c)
		require.NoError(t, err)
		require.InDelta(t, 1, service.Mean(), 1e-12)
		r := simulated(t, System{
			Stations: []Station{{Servers: 1, Service: service}},
			Classes:  []Class{{Arrivals: Exponential(1 / rho), Path: []Step{Visit{}}}},
		}, 400_000)
		within(t, 1+rho*(1+c)/(2*(1-rho)), r.R, "R")
	}
	mean := measured.Mean()
	require.InDelta(t, (10*0.25+20+10*2)/40, mean, 1e-12)
	second := (10*(0.25*0.25+0.25/12) + 20 + 10*(4+4.0/12)) / 40
	r := simulated(t, System{
		Stations: []Station{{Servers: 1, Service: measured}},
		Classes:  []Class{{Arrivals: Exponential(mean / rho), Path: []Step{Visit{}}}},
	}, 400_000)
	within(t, mean+rho/mean*second/(2*(1-rho)), r.R, "R")
}

func TestDealingOutInTurnIsBetterThanByChance(t *testing.T) {
	// The sum of two exponential times between arrivals at each queue makes an E2/M/1 queue, whose wait follows from the root of
	// s = (2 lambda/(2 lambda + mu (1-s)))^2 (Kleinrock, "Queueing Systems" volume 1, section 6.4); in terms of lambda at one queue.
	const lambda = 0.8
	root := 0.5
	for range 200 {
		a := 2 * lambda / (2*lambda + 1 - root)
		root = a * a
	}
	ways := [][]Step{{Visit{Station: 0}}, {Visit{Station: 1}}}
	system := func(path Step) System {
		return System{
			Stations: []Station{{Servers: 1, Service: Exponential(1)}, {Servers: 1, Service: Exponential(1)}},
			Classes:  []Class{{Arrivals: Exponential(1 / (2 * lambda)), Path: []Step{path}}},
		}
	}
	inTurn := simulated(t, system(Turns{Ways: ways}), 400_000)
	within(t, 1/(1-root), inTurn.R, "in turn")
	byChance := simulated(t, system(Choose{Weights: []float64{1, 1}, Ways: ways}), 400_000)
	within(t, 1/(1-lambda), byChance.R, "by chance")
	require.Less(t, inTurn.R.Interval.High, byChance.R.Interval.Low)
}

func TestAForkWaitsForTheSlowestOrForSome(t *testing.T) {
	// Without queues the k-th of n exponential times of mean 1 is the sum of 1/n, 1/(n-1), ..., k of them.
	for needed, mean := range map[int]float64{0: 1 + 1.0/2 + 1.0/3, 1: 1.0 / 3, 2: 1.0/3 + 1.0/2, 3: 1 + 1.0/2 + 1.0/3} {
		r := simulated(t, System{
			Stations: []Station{{Service: Exponential(1)}},
			Classes:  []Class{{Customers: 2, Path: []Step{Fork{Ways: [][]Step{{Visit{}}, {Visit{}}, {Visit{}}}, Needed: needed}}}},
		}, 100_000)
		within(t, mean, r.R, "R")
		within(t, 3*r.X.Mean, r.Stations[0].X, "all ways are gone")
	}
	// Two servers with Poisson writes to both: R = (12-rho)/8 times that of one (Nelson and Tantawi, IEEE Transactions on Computers
	// 37 (1988)), exact for two.
	const rho = 0.6
	r := simulated(t, System{
		Stations: []Station{{Servers: 1, Service: Exponential(1)}, {Servers: 1, Service: Exponential(1)}},
		Classes:  []Class{{Arrivals: Exponential(1 / rho), Path: []Step{Fork{Ways: [][]Step{{Visit{Station: 0}}, {Visit{Station: 1}}}}}}},
	}, 300_000)
	within(t, (12-rho)/8/(1-rho), r.R, "R")
}

func TestAPoolOfDepthOneIsAStationOfManyServers(t *testing.T) {
	q, err := queueing.NewMMm(3.2, 1, 4)
	require.NoError(t, err)
	pool := func(depth int, service Distribution) System {
		return System{
			Stations: []Station{{Service: service}},
			Pools:    []Pool{{Name: "workers", Workers: 4, Depth: depth}},
			Classes:  []Class{{Arrivals: Exponential(1 / 3.2), Path: []Step{Within{Steps: []Step{Visit{}}}}}},
		}
	}
	one := simulated(t, pool(1, Exponential(1)), 300_000)
	within(t, q.MeanResponse(), one.R, "R")
	within(t, q.Utilization(), one.Pools[0].U, "U")
	within(t, q.MeanJobs(), one.Pools[0].Q, "Q")
	// Four at a time of a service that takes as long for all: nobody waits for the slowest, and the queue is shorter.
	constant, deep := simulated(t, pool(1, Constant(1)), 200_000), simulated(t, pool(4, Constant(1)), 200_000)
	require.Less(t, deep.R.Interval.High, constant.R.Interval.Low)
	require.Less(t, deep.Pools[0].U.Mean, constant.Pools[0].U.Mean)
}

func TestASimulationDependsOnItsSeedAlone(t *testing.T) {
	s := Closed(queueing.Network{Stations: []queueing.Station{{Kind: queueing.Queue, Visits: 1.5, Service: 1}}, Think: 2}, 4)
	run := func(seed uint64) Result {
		r, err := Run(context.Background(), s, Options{Seed: seed, Passes: 1000})
		require.NoError(t, err)
		return r
	}
	require.Equal(t, run(1), run(1))
	require.NotEqual(t, run(1).X, run(2).X)
}

func TestASimulationCanBeInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Run(ctx, Closed(queueing.Network{Think: 1}, 2), Options{Passes: math.MaxInt / 8})
	require.ErrorIs(t, err, context.Canceled)
}

func TestASystemThatMakesNoSenseIsNamed(t *testing.T) {
	visit := []Step{Visit{}}
	for want, s := range map[string]System{
		"no classes":                  {},
		"no class has customers":      {Classes: []Class{{}}},
		"a visit to station 0":        {Classes: []Class{{Customers: 1, Path: visit}}},
		"has no service time":         {Stations: []Station{{Name: "q"}}, Classes: []Class{{Customers: 1, Path: visit}}},
		"mean service time is -1":     {Stations: []Station{{Service: Exponential(-1)}}, Classes: []Class{{Customers: 1, Path: visit}}},
		"no time passes":              {Classes: []Class{{Customers: 1}}},
		"has -1 servers":              {Stations: []Station{{Servers: -1}}, Classes: []Class{{Customers: 1}}},
		"has rates and 2 servers":     {Stations: []Station{{Servers: 2, Rates: []float64{1}}}, Classes: []Class{{Customers: 1}}},
		"rate 1 is 0":                 {Stations: []Station{{Servers: 1, Rates: []float64{0}}}, Classes: []Class{{Customers: 1}}},
		"room for 1":                  {Stations: []Station{{Servers: 2, Room: 1}}, Classes: []Class{{Customers: 1}}},
		"0 workers":                   {Pools: []Pool{{Depth: 1}}, Classes: []Class{{Customers: 1}}},
		"both customers and arrivals": {Classes: []Class{{Customers: 1, Arrivals: Exponential(1)}}},
		"time between arrivals is 0":  {Classes: []Class{{Arrivals: Exponential(0)}}},
		"1 weights for 0 ways":        {Classes: []Class{{Customers: 1, Path: []Step{Choose{Weights: []float64{1}}}}}},
		"expected one above 0":        {Classes: []Class{{Customers: 1, Path: []Step{Choose{Weights: []float64{0}, Ways: [][]Step{nil}}}}}},
		"no ways":                     {Classes: []Class{{Customers: 1, Path: []Step{Turns{}}}}},
		"goes on when 2 are through":  {Classes: []Class{{Customers: 1, Path: []Step{Fork{Ways: [][]Step{nil}, Needed: 2}}}}},
		"within pool 0: expected":     {Classes: []Class{{Customers: 1, Path: []Step{Within{}}}}},
		"inside of another pool":      {Pools: []Pool{{Workers: 1, Depth: 1}}, Classes: []Class{{Customers: 1, Path: []Step{Within{Steps: []Step{Within{}}}}}}},
		"step 0 is nil":               {Classes: []Class{{Customers: 1, Path: []Step{nil}}}},
	} {
		_, err := Run(context.Background(), s, Options{Passes: 100})
		require.ErrorContains(t, err, want)
	}
	for want, o := range map[string]Options{
		"1 batches": {Batches: 1}, "10 passes": {Passes: 10}, "warm-up of -1": {WarmUp: -1}, "confidence of 2": {Confidence: 2},
	} {
		_, err := Run(context.Background(), Closed(queueing.Network{Think: 1}, 1), o)
		require.ErrorContains(t, err, want)
	}
	for _, bins := range [][]Bin{nil, {{0, 1, 0}}, {{1, 0, 1}}, {{0, math.Inf(1), 1}}, {{-1, 0, 1}}} {
		_, err := Histogram(bins)
		require.ErrorContains(t, err, "expected")
	}
	_, err := Variable(1, -1)
	require.ErrorContains(t, err, "expected numbers")
}

func TestEventsComeInOrderOfTime(t *testing.T) {
	var c calendar
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		c.push(event{time: r.Float64()})
	}
	last := 0.0
	for len(c) > 0 {
		if e := c.pop(); e.time >= last {
			last = e.time
		} else {
			t.Fatalf("%v after %v", e.time, last)
		}
		if len(c) > 500 && last < 0.5 {
			c.push(event{time: last + r.Float64()})
		}
	}
}

// BenchmarkTenMillionEvents simulates the network of two middlewares with 200 customers for 10^7 events.
func BenchmarkTenMillionEvents(b *testing.B) {
	n := queueing.Network{Stations: []queueing.Station{{Kind: queueing.Delay, Visits: 1, Service: 1.3}}}
	for range 2 {
		n.Stations = append(n.Stations,
			queueing.Station{Kind: queueing.Queue, Visits: 0.5, Service: 0.026},
			queueing.Station{Kind: queueing.Multi, Visits: 0.5, Service: 8.941, Servers: 64})
	}
	for b.Loop() {
		r, err := Run(context.Background(), Closed(n, 200), Options{Passes: 2_500_000, WarmUp: 1})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(r.Events), "events/op")
	}
}
