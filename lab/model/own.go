package model

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"mcmw/lab/queueing"
	"mcmw/lab/sample"
	"mcmw/lab/simulate"
)

// Curve is the growth of a time with the number n >= 1 of users of a shared resource:
//
//	t(n) = Alone + Contention (n-1) + Coherence n (n-1)
//
// Throughput n/t(n) is N. J. Gunther's universal scalability law ("Guerrilla Capacity Planning" (2007), chapter 4):
// Contention is the time for which a user waits for each other user, as at a processor or a server; Coherence is the
// cost of each pair of users.
type Curve struct{ Alone, Contention, Coherence float64 }

// At returns t(n), and t(1) for n < 1.
func (c Curve) At(n float64) float64 {
	n = max(n, 1)
	return c.Alone + c.Contention*(n-1) + c.Coherence*n*(n-1)
}

// least is the shortest time of a station, s. It is shorter than any measured time and keeps rates finite.
const least = 1e-9

func (c Curve) time(n int) float64 { return max(c.At(float64(n)), least) }

// station returns a station where each of n customers stays for t(n). For more than most customers it has the rate of
// most.
func (c Curve) station(name string, most int) queueing.Station {
	s := queueing.Station{Name: name, Kind: queueing.LoadDependent, Visits: 1, Service: c.time(1)}
	for n := 1; n <= most; n++ {
		s.Rates = append(s.Rates, float64(n)/c.time(n)*s.Service)
	}
	return s
}

// Own is the lab's own model: a closed network of two stations. Inside are the workers: the service time of a request
// grows with the number of busy workers, because they share servers and processors. Outside is everything else
// (network, clients, net stage): the time there grows with the number of requests there. Both curves are fitted to all
// points of a record. So the model also predicts points with few clients, whose workers are faster than when all are
// busy, and numbers of workers that were not measured.
type Own struct {
	Inside, Outside Curve
	// Tail is the ratio of the 99th percentile of the response times to their mean: the median of the points.
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
		return o,
			fmt.Errorf("the own model has %d points to fit: expected at least two whose response times are longer "+
				"than their stages", min(len(inside), len(outside)))
	}
	// Outside has no coherence: the number of requests there is not limited by workers, and with a curve of the second
	// degree the throughput would fall without end beyond the measurements.
	o.Inside, o.Outside = fitCurve(inside, 3), fitCurve(outside, 2)
	slices.Sort(tails)
	o.Tail = sample.Quantile(tails, 0.5)
	return o, nil
}

// observation is a time measured with n customers at a station.
type observation struct{ n, time float64 }

// maxCondition is the condition number above which the equations of a curve do not determine its coefficients.
const maxCondition = 1e12

// fitCurve returns the curve with the least sum of squared relative errors, of those whose coefficients are not
// negative. Coefficients after the first so many are 0. It tries every choice of coefficients that are not 0.
func fitCurve(observations []observation, coefficients int) Curve {
	ones := mat.NewVecDense(max(1, len(observations)), nil)
	for i := range ones.Len() {
		ones.SetVec(i, 1)
	}
	best, lowest := Curve{}, math.Inf(1)
	for chosen := 1; chosen < 1<<coefficients; chosen++ {
		var columns []int
		for i := range coefficients {
			if chosen&(1<<i) != 0 {
				columns = append(columns, i)
			}
		}
		if len(observations) < len(columns) {
			continue
		}
		terms := mat.NewDense(len(observations), len(columns), nil)
		for i, o := range observations {
			for j, column := range columns {
				terms.Set(i, j, []float64{1, o.n - 1, o.n * (o.n - 1)}[column]/o.time)
			}
		}
		var qr mat.QR
		qr.Factorize(terms)
		var x, errors mat.VecDense
		if qr.Cond() > maxCondition || qr.SolveVecTo(&x, false, ones) != nil || mat.Min(&x) < 0 {
			continue
		}
		errors.MulVec(terms, &x)
		errors.SubVec(&errors, ones)
		// Another coefficient must improve the fit by more than rounding does.
		if sum := mat.Dot(&errors, &errors); sum < lowest*(1-1e-9) {
			var c [3]float64
			for j, column := range columns {
				c[column] = x.AtVec(j)
			}
			best, lowest = Curve{c[0], c[1], c[2]}, sum
		}
	}
	return best
}

// Solve returns the prediction for clients with a think time and for the number of workers of all middlewares.
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

// Simulate is Solve for workers that take up to depth waiting requests at once, for which there is no formula. A batch
// takes the time of one request while as many requests are in service: the model ignores that batches save work.
func (o Own) Simulate(clients, workers, depth int, think float64) (Prediction, error) {
	s, err := simulate.Run(simulate.System{
		Customers: clients, Think: think, Workers: workers, Depth: depth, Inside: o.Inside.time,
		Outside: o.Outside.time,
	})
	if err != nil {
		return Prediction{}, err
	}
	return o.prediction(clients, workers, s.X, float64(clients)/s.X-think, s.Busy, s.Queue), nil
}

// prediction returns the prediction with throughput x, response time r, and the mean numbers of busy workers and
// waiting requests.
func (o Own) prediction(clients, workers int, x, r, busy, queue float64) Prediction {
	out := Prediction{X: x, R: r, Queue: queue, Wait: queue / x}
	outside := o.Outside.station("clients and network", max(clients, 1))
	capacity := slices.Max(outside.Rates) / outside.Service
	out.Utilizations = []Station{{"workers", busy / float64(workers)}, {outside.Name, x / capacity}}
	out.Bottleneck = busiest(out.Utilizations)
	return out
}

func (o Own) parameters() []Parameter {
	const inside = "fitted to worker, server and reply stages, over busy workers"
	const outside = "fitted to the response time less queue and service, over the number of requests there"
	return []Parameter{
		{"s0 inside", o.Inside.Alone, "s", inside},
		{"contention inside", o.Inside.Contention, "s", inside},
		{"coherence inside", o.Inside.Coherence, "s", inside},
		{"s0 outside", o.Outside.Alone, "s", outside},
		{"contention outside", o.Outside.Contention, "s", outside},
	}
}

// fitOwn fits Own to the points whose settings differ from the predicted one only in clients, workers and middlewares.
func fitOwn(_ *Data, points []Point) func(Point) Prediction {
	return func(p Point) Prediction {
		o, err := FitOwn(alike(points, p))
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

// alike returns the points whose settings differ from that of p only in clients, workers and middlewares.
func alike(points []Point, p Point) []Point {
	return slices.DeleteFunc(slices.Clone(points), func(q Point) bool {
		return q.Rest != p.Rest || q.Servers != p.Servers || q.Replicas != p.Replicas || q.PerServer != p.PerServer
	})
}
