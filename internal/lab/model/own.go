package model

import (
	"fmt"
	"math"
	"slices"

	"mcmw/internal/lab/queueing"
	"mcmw/internal/lab/sample"
	"mcmw/internal/lab/simulate"
)

// Curve is how a time grows with the number n >= 1 of users of a shared resource:
//
//	t(n) = Alone + Contention (n-1) + Coherence n (n-1)
//
// Throughput n/t(n) is N. J. Gunther's universal scalability law ("Guerrilla Capacity Planning" (2007), chapter 4): Contention is
// the time each waits for another, as at a processor or a server, Coherence the cost of each pair.
type Curve struct{ Alone, Contention, Coherence float64 }

// At returns t(n); fewer than one are taken as one.
func (c Curve) At(n float64) float64 {
	n = max(n, 1)
	return c.Alone + c.Contention*(n-1) + c.Coherence*n*(n-1)
}

// least is the shortest time that a station's rate is made of, s: shorter than anything that is measured.
const least = 1e-9

// station returns the station where each of n customers stays for t(n), for n up to most; with more, its rate stays that of most.
func (c Curve) station(name string, most int) queueing.Station {
	time := func(n int) float64 { return max(c.At(float64(n)), least) }
	s := queueing.Station{Name: name, Kind: queueing.LoadDependent, Visits: 1, Service: time(1)}
	for n := 1; n <= most; n++ {
		s.Rates = append(s.Rates, float64(n)/time(n)*s.Service)
	}
	return s
}

// Own is the lab's own model: a closed network of two stations. Inside are the workers; the service time of a request
// grows with the number of workers that serve, because they share servers and processors. Outside is all else (network, clients, net
// stage), where a time that grows with the number there passes. Both curves are fitted to all points of a record, so that
// a point with few clients, whose workers are faster than busy ones, is predicted as well as a saturated one, and so are numbers of workers
// that were not measured.
type Own struct {
	Inside, Outside Curve
	// Tail is the 99th percentile over the mean of the response times: the median of the points.
	Tail float64
}

// FitOwn fits the model to points. It minimizes relative errors.
func FitOwn(points []Point) (Own, error) {
	var o Own
	var inside, outside []observation
	var tails []float64
	for _, p := range points {
		inside = append(inside, observation{max(p.Busy, 1), p.Service})
		rest := p.R.Mean - p.Wait - p.Service
		if rest > 0 {
			outside = append(outside, observation{max(p.X.Mean*rest, 1), rest})
		}
		if t := p.P99.Mean / p.R.Mean; t > 0 {
			tails = append(tails, t)
		}
	}
	if len(inside) < 2 || len(outside) < 2 {
		return o, fmt.Errorf("the own model is fitted to %d points: expected two at least whose response times are longer than their stages", min(len(inside), len(outside)))
	}
	// Without coherence outside: there the number is not bounded by workers, and a curve of the second degree would let
	// throughput fall without end beyond what was measured.
	o.Inside, o.Outside = fitCurve(inside, 3), fitCurve(outside, 2)
	o.Tail = sample.Quantile(slices.Sorted(slices.Values(tails)), 0.5)
	return o, nil
}

// observation is a time measured with n customers at a place.
type observation struct{ n, time float64 }

// fitCurve returns the curve without a negative coefficient that has the least sum of squared relative errors: of all choices of
// coefficients, of the first so many, that are not 0, the best of those whose least squares are not negative.
func fitCurve(observations []observation, coefficients int) Curve {
	basis := func(o observation) [3]float64 {
		return [3]float64{1 / o.time, (o.n - 1) / o.time, o.n * (o.n - 1) / o.time}
	}
	best, lowest := Curve{}, math.Inf(1)
	for chosen := 1; chosen < 1<<coefficients; chosen++ {
		var a [3][3]float64
		var b [3]float64
		for _, o := range observations {
			f := basis(o)
			for i := range f {
				for j := range f {
					a[i][j] += f[i] * f[j]
				}
				b[i] += f[i]
			}
		}
		for i := range a {
			if chosen&(1<<i) == 0 {
				a[i], b[i] = [3]float64{}, 0
				for j := range a {
					a[j][i] = 0
				}
				a[i][i] = 1
			}
		}
		x, ok := solve3(a, b)
		if !ok || x[0] < 0 || x[1] < 0 || x[2] < 0 {
			continue
		}
		var sum float64
		for _, o := range observations {
			f := basis(o)
			e := f[0]*x[0] + f[1]*x[1] + f[2]*x[2] - 1
			sum += e * e
		}
		// A coefficient more must be worth more than rounding.
		if sum < lowest*(1-1e-9) {
			best, lowest = Curve{x[0], x[1], x[2]}, sum
		}
	}
	return best
}

// solve3 solves a x = b by elimination with pivots, and reports whether that could be done.
func solve3(a [3][3]float64, b [3]float64) (x [3]float64, ok bool) {
	var scale [3]float64
	for i := range a {
		scale[i] = a[i][i]
	}
	for i := range a {
		pivot := i
		for j := i + 1; j < 3; j++ {
			if math.Abs(a[j][i]) > math.Abs(a[pivot][i]) {
				pivot = j
			}
		}
		a[i], a[pivot], b[i], b[pivot] = a[pivot], a[i], b[pivot], b[i]
		if math.Abs(a[i][i]) <= 1e-12*scale[i] {
			return x, false
		}
		for j := i + 1; j < 3; j++ {
			f := a[j][i] / a[i][i]
			for k := i; k < 3; k++ {
				a[j][k] -= f * a[i][k]
			}
			b[j] -= f * b[i]
		}
	}
	for i := 2; i >= 0; i-- {
		x[i] = b[i]
		for j := i + 1; j < 3; j++ {
			x[i] -= a[i][j] * x[j]
		}
		x[i] /= a[i][i]
	}
	return x, true
}

// Solve returns the prediction for a number of clients with that think time and a number of workers over all middlewares.
func (o Own) Solve(clients, workers int, think float64) (Prediction, error) {
	inside := o.Inside.station("workers", min(workers, clients))
	outside := o.Outside.station("clients and network", clients)
	network := queueing.Network{Think: think, Stations: []queueing.Station{inside, outside}}
	s, err := network.Solve(clients)
	if err != nil {
		return Prediction{}, err
	}
	var busy, queue float64
	for n, p := range s.Stations[0].Marginal {
		busy += p * float64(min(n, workers))
		queue += p * float64(max(n-workers, 0))
	}
	return o.prediction(clients, workers, s.X, s.R, busy, queue), nil
}

// Simulate is Solve for workers that take up to depth waiting requests at once, for which there is no formula. The time of a
// batch is that of a request with as many in service: what batching saves is not modelled.
func (o Own) Simulate(clients, workers, depth int, think float64) (Prediction, error) {
	time := func(c Curve) func(int) float64 {
		return func(n int) float64 { return max(c.At(float64(n)), least) }
	}
	s, err := simulate.Run(simulate.System{
		Customers: clients, Think: think, Workers: workers, Depth: depth, Inside: time(o.Inside), Outside: time(o.Outside),
	})
	if err != nil {
		return Prediction{}, err
	}
	return o.prediction(clients, workers, s.X, float64(clients)/s.X-think, s.Busy, s.Queue), nil
}

// prediction returns what follows from throughput, response time, and the mean numbers of busy workers and waiting requests.
func (o Own) prediction(clients, workers int, x, r, busy, queue float64) Prediction {
	out := Prediction{X: x, R: r, Queue: queue, Wait: queue / x}
	// The throughput relative to the capacity of the clients' side.
	outside := o.Outside.station("clients and network", clients)
	most, _ := queueing.Network{Stations: []queueing.Station{outside}}.Capacity(max(clients, 1))
	out.Utilizations = []Station{{"workers", busy / float64(workers)}, {outside.Name, x / most}}
	out.Bottleneck = out.Utilizations[0].Name
	if out.Utilizations[1].Utilization > out.Utilizations[0].Utilization {
		out.Bottleneck = out.Utilizations[1].Name
	}
	return out
}

// parameters returns the model's numbers and where they are from.
func (o Own) parameters() []Parameter {
	const inside, outside = "fitted to worker, server and reply stages over busy workers", "fitted to the response time less queue and service over the number there"
	return []Parameter{
		{"s0 inside", o.Inside.Alone, "s", inside},
		{"contention inside", o.Inside.Contention, "s", inside},
		{"coherence inside", o.Inside.Coherence, "s", inside},
		{"s0 outside", o.Outside.Alone, "s", outside},
		{"contention outside", o.Outside.Contention, "s", outside},
	}
}

// fitOwn fits our model to the points with the settings that the predicted one has but for clients, workers and middlewares.
func fitOwn(_ *Data, points []Point) func(Point) Prediction {
	fits := map[string]func() (Own, error){}
	return func(p Point) Prediction {
		fit, ok := fits[p.Rest]
		if !ok {
			o, err := FitOwn(alike(points, p))
			fit = func() (Own, error) { return o, err }
			fits[p.Rest] = fit
		}
		o, err := fit()
		if err != nil {
			return none(err.Error())
		}
		out, err := o.Solve(p.Clients, p.AllWorkers(), p.Think)
		if err != nil {
			return none(err.Error())
		}
		out.Parameters = o.parameters()
		return out
	}
}

// alike returns the points with the settings of p but for clients, workers and middlewares.
func alike(points []Point, p Point) []Point {
	var out []Point
	for _, q := range points {
		if q.Rest == p.Rest && q.Servers == p.Servers && q.Replicas == p.Replicas && q.PerServer == p.PerServer {
			out = append(out, q)
		}
	}
	return out
}
