package model

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"

	"mcmw/lab/queueing"
	"mcmw/lab/record"
	"mcmw/lab/sample"
	"mcmw/lab/table"
)

// exactly returns a value that was measured without error.
func exactly(v float64) sample.Estimate {
	return sample.Estimate{Moments: sample.Moments{Mean: v}, Interval: sample.Interval{Low: v, High: v}}
}

// knownService has the measurements of a system whose service time does not depend on the number of busy workers:
// exactly the 2018 report's network.
func knownService() *Data {
	d := &Data{Name: "known", RoundTrip: 2e-3}
	for _, workers := range []int{8, 32} {
		for _, clients := range []int{4, 16, 48, 96} {
			const service, net = 5e-3, 3e-5
			n := queueing.Network{Stations: []queueing.Station{
				{Name: "path", Kind: queueing.Delay, Visits: 1, Service: d.RoundTrip},
				{Name: "net", Kind: queueing.Queue, Visits: 1, Service: net},
				{Name: "workers", Kind: queueing.Multi, Visits: 1, Service: service, Servers: workers},
			}}
			s, err := n.Solve(clients)
			if err != nil {
				panic(err)
			}
			inside := s.R - d.RoundTrip
			wait := s.Stations[2].R - service
			d.Points = append(d.Points, Point{
				Setting: Setting{Clients: clients, Workers: workers, Middlewares: 1, Depth: 1, Servers: 3, Replicas: 3},
				X:       exactly(s.X), R: exactly(s.R), P99: exactly(3 * s.R), Most: s.X * 1.02, Arrivals: s.X,
				Inside: inside, Net: net, Wait: wait,
				Service: service, Busy: s.Stations[2].Busy,
				Classes: []Class{
					{Name: "get", X: 0.9 * s.X, R: s.R, Inside: inside, Service: service, Worker: service / 5},
					{Name: "set", X: 0.1 * s.X, R: s.R, Inside: inside, Service: service, Worker: service / 5},
				},
			})
		}
	}
	return d
}

// sharing has the measurements of a system whose workers share a server: exactly the model Own.
func sharing(inside, outside Curve) *Data {
	d := &Data{Name: "sharing", RoundTrip: 2e-4}
	for _, workers := range []int{8, 16, 32} {
		for _, clients := range []int{2, 6, 12, 24, 48, 96} {
			p, err := Own{Inside: inside, Outside: outside, Tail: 2}.Solve(clients, workers, 0)
			if err != nil {
				panic(err)
			}
			busy := p.Utilizations[0].Utilization * float64(workers)
			d.Points = append(d.Points, Point{
				Setting: Setting{Clients: clients, Workers: workers, Middlewares: 1, Depth: 1, Servers: 3, Replicas: 3},
				X:       exactly(p.X), R: exactly(p.R), P99: exactly(2 * p.R), Most: p.X, Arrivals: p.X,
				Net: 1e-6, Wait: p.Wait, Service: busy / p.X, Busy: busy,
			})
		}
	}
	return d
}

func reportOf(t *testing.T, d *Data, name string) ModelReport {
	t.Helper()
	for _, m := range NewReport(d).Models {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no model %q", name)
	return ModelReport{}
}

func TestTheNetworkPredictsANetworkExactly(t *testing.T) {
	d := knownService()
	m := reportOf(t, d, "network")
	for i, p := range d.Points {
		require.InEpsilon(t, p.X.Mean, m.All[i].X, 1e-9)
		require.InEpsilon(t, p.R.Mean, m.All[i].R, 1e-9)
		require.InDelta(t, p.Wait, m.All[i].Wait, 1e-12)
		require.InEpsilon(t, p.X.Mean, m.LeaveOut[i].X, 1e-9, "from the other points, too")
		require.Equal(t, "workers 1", m.All[i].Bottleneck)
	}
}

func TestEachMiddlewareHasItsOwnStations(t *testing.T) {
	d := knownService()
	for i := range d.Points {
		d.Points[i].Middlewares, d.Points[i].Workers = 2, d.Points[i].Workers/2
	}
	m := reportOf(t, d, "network")
	require.Len(t, m.All[0].Utilizations, 4)
	for i, p := range d.Points {
		require.LessOrEqual(t, m.All[i].X, p.X.Mean*1.001,
			"two queues with half the workers each are not better than one queue, except for the net threads")
		require.InEpsilon(t, p.X.Mean, m.All[i].X, 0.1)
	}
}

func TestTheTimeOutsideOfTheMiddlewareIsMeasuredUnderLoad(t *testing.T) {
	d := knownService()
	d.RoundTrip = 0 // as on a path whose time is short without load
	with, without := reportOf(t, d, "network, clients"), reportOf(t, d, "network")
	for i, p := range d.Points {
		require.InEpsilon(t, p.X.Mean, with.LeaveOut[i].X, 1e-6, "%d clients", p.Clients)
	}
	require.Greater(t, without.LeaveOut[0].X, 1.3*d.Points[0].X.Mean)
}

func TestClassesArePredictedFromAnotherPoint(t *testing.T) {
	d := knownService()
	for i := range d.Points[3].Classes {
		d.Points[3].Classes[i].Service *= 2
	}
	m := reportOf(t, d, "multiclass")
	require.InEpsilon(t, d.Points[3].X.Mean/2, m.All[3].X, 0.02)
	require.InEpsilon(t, d.Points[3].X.Mean, m.LeaveOut[3].X, 0.02)
	require.Contains(t, m.LeaveOut[3].Parameters[0].From, "with 48 clients, the nearest that were measured")
}

func TestEqualClassesPredictTheNetwork(t *testing.T) {
	d := knownService()
	m := reportOf(t, d, "multiclass")
	for i, p := range d.Points {
		require.InEpsilon(t, p.X.Mean, m.All[i].X, 0.02, "%d clients", p.Clients)
	}
}

func TestAServerWithItsOwnWorkersHasAWriter(t *testing.T) {
	d := knownService()
	for i := range d.Points {
		d.Points[i].PerServer = true
	}
	m := reportOf(t, d, "multiclass")
	var writers int
	for _, s := range m.All[0].Utilizations {
		if strings.HasPrefix(s.Name, "writer") {
			writers++
		}
	}
	require.Equal(t, 3, writers)
	require.Empty(t, m.All[0].Problem)
}

func TestOpenModelsHaveTheParametersOfTheReports(t *testing.T) {
	d := knownService()
	p := d.Points[3]
	one, many := reportOf(t, d, "M/M/1").All[3], reportOf(t, d, "M/M/m").All[3]
	var mu float64
	for _, q := range d.Points[:4] {
		mu = max(mu, q.Most)
	}
	require.InEpsilon(t, 1/(mu-p.Arrivals), one.R, 1e-9)
	q, err := queueing.NewMMm(p.Arrivals, mu/8, 8)
	require.NoError(t, err)
	require.InEpsilon(t, q.MeanResponse(), many.R, 1e-9)
	require.Equal(t, "m", many.Parameters[1].Name)
	require.Contains(t, many.Parameters[2].From, "over m")
}

func TestAnOpenModelAtItsLimitHasNoSteadyState(t *testing.T) {
	d := knownService()
	for i := range d.Points {
		d.Points[i].Most = d.Points[3].Arrivals
	}
	m := reportOf(t, d, "M/M/1")
	require.Equal(t, "no steady state: rho is 1.000", m.All[3].Problem)
	require.True(t, math.IsNaN(m.All[3].R))
}

func TestOwnPredictsWorkersThatShareAServerAlsoWithFewClients(t *testing.T) {
	d := sharing(Curve{1e-3, 5e-5, 0}, Curve{1.2e-3, 2e-5, 0})
	own, network := reportOf(t, d, "own"), reportOf(t, d, "network")
	few := func(p Point) bool { return p.Clients < p.AllWorkers() }
	ownX, ownR := own.errors(d.Points, few)
	_, networkR := network.errors(d.Points, few)
	require.Less(t, stat.Mean(ownX, nil), 0.03)
	require.Less(t, stat.Mean(ownR, nil), 0.03)
	require.Greater(t, stat.Mean(networkR, nil), 0.1, "the network knows only the service time of busy workers")
	allX, _ := own.errors(d.Points, func(Point) bool { return true })
	require.Less(t, slices.Max(allX), 0.08)
}

func TestPointsWithOtherServersHaveTheirOwnFit(t *testing.T) {
	d, slow := sharing(Curve{1e-3, 5e-5, 0}, Curve{1.2e-3, 2e-5, 0}),
		sharing(Curve{4e-3, 5e-5, 0}, Curve{1.2e-3, 2e-5, 0})
	for _, p := range slow.Points {
		p.Servers, p.Replicas = 1, 1
		d.Points = append(d.Points, p)
	}
	m := reportOf(t, d, "own")
	for i, p := range d.Points {
		require.InEpsilon(t, p.X.Mean, m.All[i].X, 0.05, "%d servers, %d workers, %d clients", p.Servers, p.Workers,
			p.Clients)
	}
}

func TestFitFindsTheCurveOfItsObservations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Curve{
			rapid.Float64Range(1e-5, 1e-2).Draw(t, "alone"), rapid.Float64Range(0, 1e-3).Draw(t, "contention"),
			rapid.SampledFrom([]float64{0, 1e-7, 1e-5}).Draw(t, "coherence"),
		}
		var o []observation
		for _, n := range []float64{1, 2.5, 7, 16, 40, 64} {
			o = append(o, observation{n, c.At(n)})
		}
		found := fitCurve(o, 3)
		require.GreaterOrEqual(t, found.Contention, 0.0)
		for _, n := range []float64{1, 10, 64} {
			require.InEpsilon(t, c.At(n), found.At(n), 1e-6)
		}
	})
}

func TestACurveNeverHasANegativeCoefficient(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var o []observation
		for range rapid.IntRange(2, 12).Draw(t, "count") {
			o = append(o, observation{
				rapid.Float64Range(1, 100).Draw(t, "n"),
				rapid.Float64Range(1e-6, 1).Draw(t, "time"),
			})
		}
		c := fitCurve(o, 3)
		require.True(t, c.Alone >= 0 && c.Contention >= 0 && c.Coherence >= 0 && c.At(1) >= 0, "%+v", c)
	})
}

func TestEveryClassGetsClients(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var classes []Class
		for range rapid.IntRange(1, 3).Draw(t, "classes") {
			classes = append(classes, Class{
				X: rapid.Float64Range(0.01, 1000).Draw(t, "x"),
				R: rapid.Float64Range(1e-5, 1).Draw(t, "r"),
			})
		}
		clients := rapid.IntRange(1, 300).Draw(t, "clients")
		sum := 0
		for _, n := range split(clients, classes) {
			require.GreaterOrEqual(t, n, 0)
			if clients >= 2*len(classes) {
				require.Positive(t, n)
			}
			sum += n
		}
		require.Equal(t, clients, sum)
	})
}

func TestAPredictionFollowsTheChange(t *testing.T) {
	d := sharing(Curve{1e-3, 5e-5, 0}, Curve{1.2e-3, 2e-5, 0})
	p, err := NewPredictor(d)
	require.NoError(t, err)
	predict := func(c Change) Forecast {
		f, err := p.Predict(c)
		require.NoError(t, err)
		require.True(t, f.X.Low <= f.X.Mean && f.X.Mean <= f.X.High && f.R.Low <= f.R.Mean && f.P99.Mean >= f.R.Mean)
		return f
	}
	measured := Change{RoundTrip: math.NaN()}
	base := predict(measured)
	require.InEpsilon(t, p.base.X.Mean, base.X.Mean, 0.05)
	require.Empty(t, base.Notes)
	change := func(f func(*Change)) Change {
		c := measured
		f(&c)
		return c
	}
	require.Greater(t, predict(change(func(c *Change) { c.Clients = 8 })).R.Mean*2, 1e-3)
	require.Less(t, predict(change(func(c *Change) { c.Workers = 2 })).X.Mean, base.X.Mean)
	fewer := predict(change(func(c *Change) { c.Servers = 1 }))
	require.Less(t, fewer.X.Mean, base.X.Mean)
	require.Contains(t, fewer.Notes[0], "Assumption: workers wait for each other because they share the servers")
	faster := predict(change(func(c *Change) { c.RoundTrip = 0; c.Clients = 6 }))
	require.Greater(t, faster.X.Mean, predict(change(func(c *Change) { c.Clients = 6 })).X.Mean)
	require.Contains(t, strings.Join(predict(change(func(c *Change) { c.Clients = 500 })).Notes, " "),
		"500 clients are outside the measured range, 2 to 96.")
	_, err = p.Predict(Change{Replicas: 4})
	require.ErrorContains(t, err, "4 replicas on 3 servers")
}

func TestIntervalsAreNotNarrowerThanThoseOfTheMeasurements(t *testing.T) {
	d := sharing(Curve{1e-3, 5e-5, 0}, Curve{1.2e-3, 2e-5, 0})
	d.Points = d.Points[:6]
	for i := range d.Points {
		p := &d.Points[i]
		p.P99.Interval = sample.Interval{Low: 0.6 * p.P99.Mean, High: 1.4 * p.P99.Mean}
	}
	p, err := NewPredictor(d)
	require.NoError(t, err)
	f, err := p.Predict(Change{RoundTrip: math.NaN()})
	require.NoError(t, err)
	require.GreaterOrEqual(t, f.P99.High/f.P99.Mean, 1.38)
	require.LessOrEqual(t, f.P99.Low/f.P99.Mean, 0.62)
	notes := strings.Join(p.Table(f).Notes, " ")
	require.Contains(t, notes,
		"each of the record's 6 points is predicted from the others, such intervals contain 6 of them")

	for n, held := range map[int]int{1: 1, 6: 6, 8: 8, 9: 9, 18: 18, 19: 18, 99: 90} {
		all := make([]distance, n)
		for i := range all {
			all[i] = distance{float64(i + 1), 1}
		}
		s := spreadOf(all)
		require.Equal(t, held, s.Held)
		require.InDelta(t, float64(held), s.above, 0)
	}
}

func TestWithDepthOneSimulationAndFormulasAgree(t *testing.T) {
	own := Own{
		Inside:  Curve{Alone: 1e-3, Contention: 1e-4, Coherence: 1e-6},
		Outside: Curve{Alone: 5e-4, Contention: 2e-5},
	}
	for _, c := range []struct {
		clients, workers int
		think            float64
	}{{4, 8, 0}, {64, 8, 0}, {64, 32, 0}, {64, 8, 0.01}} {
		exact, err := own.Solve(c.clients, c.workers, c.think)
		require.NoError(t, err)
		simulated, err := own.Simulate(c.clients, c.workers, 1, c.think)
		require.NoError(t, err)
		require.InEpsilon(t, exact.X, simulated.X, 0.01, "%v", c)
		require.InEpsilon(t, exact.R, simulated.R, 0.03, "%v", c)
		require.InDelta(t, exact.Queue, simulated.Queue, 0.02*exact.Queue+0.01, "%v", c)
		require.InEpsilon(t, exact.Utilizations[0].Utilization, simulated.Utilizations[0].Utilization, 0.02, "%v", c)
		require.Equal(t, exact.Bottleneck, simulated.Bottleneck, "%v", c)
	}
}

func TestDepthReplacesWorkersThatWaitForServers(t *testing.T) {
	d := knownService()
	d.Points = slices.DeleteFunc(d.Points, func(p Point) bool { return p.Workers != 8 })
	p, err := NewPredictor(d)
	require.NoError(t, err)
	at := func(c Change) Forecast {
		c.RoundTrip = math.NaN()
		f, err := p.Predict(c)
		require.NoError(t, err)
		return f
	}
	shallow, deep, wide := at(Change{Clients: 96}), at(Change{Clients: 96, Depth: 4}),
		at(Change{Clients: 96, Workers: 32})
	require.Greater(t, deep.X.Mean, 2*shallow.X.Mean)
	require.Less(t, deep.X.Mean, 1.01*wide.X.Mean, "a batch takes as long as its last request")
	require.Contains(t, deep.Notes[0], "take up to 4 requests at a time are simulated")
	require.Contains(t, p.Table(deep).Caption, "8 workers, depth 4")

	for i := range d.Points {
		d.Points[i].Depth = 2
	}
	p, err = NewPredictor(d)
	require.NoError(t, err)
	_, err = p.Predict(Change{Depth: 4, RoundTrip: math.NaN()})
	require.ErrorContains(t, err,
		"a depth of 4 from measurements with a depth of 2: expected measurements with a depth of 1")
}

func TestMeetFindsTheCheapestSetting(t *testing.T) {
	p, err := NewPredictor(sharing(Curve{1e-3, 5e-5, 0}, Curve{1.2e-3, 2e-5, 0}))
	require.NoError(t, err)
	costs := Costs{Worker: 0.01, Middleware: 1, Server: 1}
	free := Change{RoundTrip: math.NaN()}
	offers, err := p.Meet(Target{Rate: 5000, P99: 20e-3}, costs, free, false)
	require.NoError(t, err)
	for i, o := range offers {
		require.GreaterOrEqual(t, o.X.Mean, 5000.0)
		require.LessOrEqual(t, o.P99.Mean, 20e-3)
		require.InEpsilon(t, costs.Of(o.Setting), o.Cost, 1e-12)
		if i > 0 {
			require.GreaterOrEqual(t, o.Cost, offers[i-1].Cost)
		}
	}
	sure, err := p.Meet(Target{Rate: 5000, P99: 20e-3}, costs, free, true)
	require.NoError(t, err)
	require.GreaterOrEqual(t, sure[0].X.Low, 5000.0)
	require.GreaterOrEqual(t, sure[0].Cost, offers[0].Cost)
	_, err = p.Meet(Target{Rate: 1e9, P99: 1e-3}, costs, free, false)
	require.ErrorContains(t, err, "no setting reaches 1000000000 ops/s with a p99 below 1.000 ms; the nearest, ")
	_, err = p.Meet(Target{Rate: 5000, P99: 20e-3}, costs, Change{Replicas: 99}, false)
	require.ErrorContains(t, err, "99 replicas: expected at most the ")

	d := sharing(Curve{1e-3, 5e-5, 0}, Curve{1.2e-3, 2e-5, 0})
	for i := range d.Points {
		d.Points[i].P99 = sample.Of(nil).Estimate(Confidence)
		d.Points[i].P99.Mean = math.NaN()
	}
	p, err = NewPredictor(d)
	require.NoError(t, err)
	_, err = p.Meet(Target{Rate: 1, P99: 1}, costs, free, false)
	require.ErrorContains(t, err, "needs response_time_p99 of the clients, which the record does not have")
}

// someData returns the data of two runs each of 4 and 16 connections; change can modify the runs.
func someData(change func(*record.Run)) (*Data, error) {
	var runs []record.Run
	for point, clients := range []int{4, 16} {
		for repetition := range 2 {
			x := float64(1000*(point+1) + 10*repetition)
			run := record.Run{
				Point: point, Repetition: repetition, State: record.Complete,
				Factors: map[string]string{
					"load_threads": "2", "clients": strconv.Itoa(clients), "pipeline": "2",
					"workers": "8", "middlewares": "2", "servers": "3", "replicas": "all",
					"value_size": strconv.Itoa(100 * (point / 2)),
				},
				Results: []record.Value{
					{Source: "client", Metric: "throughput", Value: x},
					{Source: "client", Metric: "response_time_mean", Value: 2 * float64(clients) / x},
					{Source: "client", Metric: "throughput_get", Value: x},
					{Source: "client", Metric: "response_time_mean_get", Value: 2 * float64(clients) / x},
					{Source: "client", Metric: "response_time_p99", Value: 0.05},
					{Source: "middleware", Metric: "throughput", Value: x},
					{Source: "middleware", Metric: "response_time_mean", Value: 5e-3},
					{Source: "middleware", Metric: "response_time_mean_get", Value: 5e-3},
					{Source: "middleware", Metric: "stage_net_mean", Value: 1e-5},
					{Source: "middleware", Metric: "stage_queue_mean", Value: 1e-3},
					{Source: "middleware", Metric: "stage_worker_mean", Value: 1e-3},
					{Source: "middleware", Metric: "stage_server_mean", Value: 2e-3},
					{Source: "middleware", Metric: "stage_reply_mean", Value: 5e-4},
				},
			}
			change(&run)
			runs = append(runs, run)
		}
	}
	return FromRuns(record.Manifest{
		Name: "some",
		Path: []record.Value{{Source: record.SourcePath, Metric: "round_trip_time_mean", Value: 1e-4}},
	}, runs)
}

func TestThePointsOfARecordAreItsData(t *testing.T) {
	d, err := someData(func(*record.Run) {})
	require.NoError(t, err)
	require.Len(t, d.Points, 2)
	p := d.Points[1]
	require.Equal(t, Setting{Clients: 32, Workers: 8, Middlewares: 2, Depth: 1, Servers: 3, Replicas: 3}, p.Setting)
	require.Equal(t, "2 x 8 workers", p.Configuration())
	require.InEpsilon(t, 2005, p.X.Mean, 1e-12)
	require.InEpsilon(t, 2010, p.Most, 1e-12)
	require.True(t, p.X.Contains(2000))
	require.InEpsilon(t, 3.5e-3, p.Service, 1e-12)
	require.InEpsilon(t, 2005*3.5e-3, p.Busy, 1e-12, "by Little's law, because it was not measured")
	require.InEpsilon(t, 5e-3-1e-5-1e-3, p.Classes[0].Service, 1e-12)
	require.InEpsilon(t, 1e-4, d.RoundTrip, 1e-12)
	require.Empty(t, d.Notes)

	var text strings.Builder
	require.NoError(t, NewReport(d).Page().Write(&text, table.Text))
	require.Contains(t, text.String(), "2 x 8 workers: measured and predicted.")
	require.Contains(t, text.String(), "Errors of predicting each point from the others")
	for name, f := range NewReport(d).Figures() {
		require.Contains(t, string(f.SVG()), "measured", name)
	}
}

func TestPointsWithOtherServersAreOtherConfigurations(t *testing.T) {
	d, err := someData(func(r *record.Run) {
		r.Factors["clients"], r.Factors["servers"] = "8", strconv.Itoa(1+2*r.Point)
		r.Factors["replicas"] = []string{"1", "all"}[r.Point]
	})
	require.NoError(t, err)
	require.Equal(t, []string{"2 x 8 workers, servers 1, replicas 1", "2 x 8 workers, servers 3, replicas all"},
		d.Configurations())
	for i, p := range d.Points {
		for _, name := range []string{"M/M/1", "M/M/m"} {
			require.InEpsilon(t, p.Arrivals/p.Most, reportOf(t, d, name).All[i].Utilizations[0].Utilization, 1e-9,
				"mu is that of its own servers")
		}
		require.Equal(t, noPoint, reportOf(t, d, "network").LeaveOut[i].Problem)
	}
	f, err := (&Predictor{data: d, base: d.Points[1]}).Predict(Change{RoundTrip: math.NaN()})
	require.NoError(t, err)
	require.Equal(t, "2 x 8 workers", f.Configuration(), "its servers can be others")
}

func TestServersWithTheirOwnWorkersHaveThemInAllModels(t *testing.T) {
	d, err := someData(func(r *record.Run) { r.Factors["pool"] = "per-server" })
	require.NoError(t, err)
	p := d.Points[0]
	require.Equal(t, "2 x 8 workers per server", p.Configuration())
	require.Equal(t, 2*3*8, p.AllWorkers(), "of two middlewares with three servers")
	m := reportOf(t, d, "M/M/m").All[0].Parameters[1]
	require.Equal(t, "m", m.Name)
	require.InEpsilon(t, 48, m.Value, 1e-12)
}

func TestDefaultsAreTheNumbersThatTheMiddlewareReports(t *testing.T) {
	d, err := someData(func(r *record.Run) {
		r.Factors["workers"], r.Factors["depth"] = "default", "default"
		r.Results = append(r.Results, record.Value{Source: "middleware", Metric: "workers", Value: 4},
			record.Value{Source: "middleware", Metric: "depth", Value: 1})
	})
	require.NoError(t, err)
	require.Equal(t, 4, d.Points[0].Workers)

	_, err = someData(func(r *record.Run) { r.Factors["workers"] = "default" })
	require.ErrorContains(t, err, "Points without the number of workers are left out: 2")
}

func TestARunLimitedByTheLoadGeneratorIsLeftOut(t *testing.T) {
	saturate := func(r *record.Run) {
		r.Results = append(r.Results, record.Value{Source: "client", Metric: "saturated", Value: 1})
	}
	d, err := someData(func(r *record.Run) {
		if r.Point == 1 && r.Repetition == 0 {
			saturate(r)
		}
	})
	require.NoError(t, err)
	require.InEpsilon(t, 2010, d.Points[1].X.Mean, 1e-12)
	require.Contains(t, d.Notes[0], "the load generator or its machine was the limit are left out: 1.")

	d, err = someData(saturate)
	require.NoError(t, err)
	require.InEpsilon(t, 2005, d.Points[1].X.Mean, 1e-12, "a point that has only such runs stays")
	require.Empty(t, d.Notes)
}

func TestPointsOfAnOpenLoopAreLeftOut(t *testing.T) {
	d, err := someData(func(r *record.Run) { r.Factors["rate"] = []string{"0", "2000"}[r.Point] })
	require.NoError(t, err)
	require.Len(t, d.Points, 1)
	require.Contains(t, d.Notes, "Points of an open loop, in which clients don't wait for replies, are left out: 1.")
}

func TestErrorsSayWhyARecordCannotBeModelled(t *testing.T) {
	for want, change := range map[string]func(*record.Run){
		`factor workers is "many"`:                    func(r *record.Run) { r.Factors["workers"] = "many" },
		`factor clients is "0"`:                       func(r *record.Run) { r.Factors["clients"] = "0" },
		`factor clients is ""`:                        func(r *record.Run) { delete(r.Factors, "clients") },
		"Points without a middleware are left out: 2": func(r *record.Run) { r.Factors["middlewares"] = "0" },
		"expected complete runs of a closed loop":     func(r *record.Run) { r.Factors["rate"] = "2000" },
		"Points without a complete run are left out: 2": func(r *record.Run) {
			r.State, r.Error = record.Failed, "it broke"
		},
		"without throughput, response time or stages": func(r *record.Run) { r.Results = r.Results[:6] },
	} {
		_, err := someData(change)
		require.ErrorContains(t, err, want)
	}
}
