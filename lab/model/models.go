package model

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"mcmw/lab/queueing"
)

// Parameter is a parameter of a model, with its source.
type Parameter struct {
	Name  string
	Value float64
	Unit  string // s, 1/s or ""
	From  string
}

// Prediction is a model's prediction for a point. NaN: the model does not predict the value.
type Prediction struct {
	X, R         float64   // throughput, which open models are given; response time at the clients
	Wait, Queue  float64   // time in the queue before the workers; number of requests in it
	Utilizations []Station // in the order of the path
	Bottleneck   string    // the station with the highest utilization
	Parameters   []Parameter
	Problem      string // why there is no prediction: all numbers are NaN
}

// Station is the utilization of a station.
type Station struct {
	Name        string
	Utilization float64
}

// none returns the prediction of a model that cannot predict the point.
func none(why string) Prediction {
	nan := math.NaN()
	return Prediction{X: nan, R: nan, Wait: nan, Queue: nan, Problem: why}
}

// noPoint is the Problem of a point whose configuration no other point has.
const noPoint = "no other point has its configuration"

// Model makes predictions.
type Model struct {
	Name string
	// Open models are given the throughput and predict only the response time.
	Open bool
	// Fit takes the model's parameters from points, which are all or some points of d, and returns a function that
	// predicts other points. That function may use the setting of the predicted point and, if the model is Open, its
	// arrival rate.
	Fit func(d *Data, points []Point) func(p Point) Prediction
}

// Models lists the models in the order of the tables.
var Models = []Model{
	{Name: "M/M/1", Open: true, Fit: fitOpen("system", func(Point) int { return 1 })},
	{Name: "M/M/m", Open: true, Fit: fitOpen("workers", func(p Point) int { return p.AllWorkers() })},
	{Name: "M/M/m closed", Fit: fitClosed},
	{Name: "network", Fit: fitNetwork},
	{Name: "network, clients", Fit: fitNetworkOfClients},
	{Name: "multiclass", Fit: fitMulticlass},
	{Name: "own", Fit: fitOwn},
}

// sameConfiguration returns the points with the configuration of p.
func sameConfiguration(points []Point, p Point) []Point {
	d := Data{Points: points}
	return d.Sweep(p.Configuration())
}

// largest returns the largest value of the points; 0 if there are none.
func largest(points []Point, value func(Point) float64) (most float64) {
	for _, p := range points {
		most = max(most, value(p))
	}
	return most
}

// weighted returns the mean of a time per request over all requests of the points; NaN if there are none.
func weighted(points []Point, time func(Point) float64) float64 {
	var sum, weight float64
	for _, p := range points {
		sum, weight = sum+time(p)*p.Arrivals, weight+p.Arrivals
	}
	return sum / weight
}

// fitOpen is the Fit of M/M/m with as many servers as servers returns, under the name station. lambda is the throughput
// that the middlewares measure, m mu the largest throughput observed with the configuration. With m = 1 it is section
// 7.1 of the 2018 report (and section 1 of the 2016 report): the whole system is one queue with one server. With m =
// the workers of all middlewares it is section 7.2.
func fitOpen(station string, servers func(Point) int) func(*Data, []Point) func(Point) Prediction {
	return func(_ *Data, points []Point) func(Point) Prediction {
		return func(p Point) Prediction {
			capacity, m := largest(sameConfiguration(points, p), func(q Point) float64 { return q.Most }), servers(p)
			if capacity == 0 {
				return none(noPoint)
			}
			q, err := queueing.NewMMm(p.Arrivals, capacity/float64(m), m)
			if errors.Is(err, queueing.ErrUnstable) {
				return none(fmt.Sprintf("no steady state: rho is %.3f", p.Arrivals/capacity))
			}
			if err != nil {
				return none(err.Error())
			}
			parameters := []Parameter{{
				"lambda", p.Arrivals, "1/s",
				"throughput that the middlewares measure at the point",
			}}
			from := "largest client throughput of a run with this configuration"
			if m > 1 {
				parameters = append(parameters, Parameter{"m", float64(m), "", "workers of all middlewares"})
				from += ", over m"
			}
			return Prediction{
				X: p.Arrivals, R: q.MeanResponse(), Wait: q.MeanWait(), Queue: q.MeanQueue(),
				Utilizations: []Station{{station, q.Rho}}, Bottleneck: station,
				Parameters: append(parameters, Parameter{"mu", q.Mu, "1/s", from}),
			}
		}
	}
}

// clients and thinkTime are parameters of the closed models.
func clients(p Point) Parameter { return Parameter{"N", float64(p.Clients), "", "clients"} }

func thinkTime(p Point) Parameter {
	return Parameter{"Z", p.Think, "s", "think time that the clients measured, or 0"}
}

// fitClosed is M/M/m with N customers, the clients, which wait for a reply before they send the next request: the
// machine repairman's model (Jain, section 32.2). m/S is the largest mean throughput of a point.
func fitClosed(_ *Data, points []Point) func(Point) Prediction {
	return func(p Point) Prediction {
		capacity, m := largest(sameConfiguration(points, p), func(q Point) float64 { return q.X.Mean }), p.AllWorkers()
		if capacity == 0 {
			return none(noPoint)
		}
		s := float64(m) / capacity
		n := queueing.Network{
			Think:    p.Think,
			Stations: []queueing.Station{{Name: "workers", Kind: queueing.Multi, Visits: 1, Service: s, Servers: m}},
		}
		return solve(n, p, []Parameter{
			clients(p),
			{"m", float64(m), "", "workers of all middlewares"},
			{"S", s, "s", "m over the largest client throughput of a point with this configuration"},
			thinkTime(p),
		}, "workers")
	}
}

// solve returns the prediction of a network. Wait and Queue are those before the stations with the names pools.
func solve(n queueing.Network, p Point, parameters []Parameter, pools ...string) Prediction {
	s, err := n.Solve(p.Clients)
	if err != nil {
		return none(err.Error())
	}
	out := Prediction{X: s.X, R: s.R, Parameters: parameters}
	for i, station := range s.Stations {
		if n.Stations[i].Kind != queueing.Delay {
			out.Utilizations = append(out.Utilizations, Station{station.Name, station.U})
		}
		if slices.Contains(pools, station.Name) {
			out.Queue += max(0, station.Q-station.Busy)
		}
	}
	out.Wait = out.Queue / s.X
	out.Bottleneck = busiest(out.Utilizations)
	return out
}

// fullService returns the service time of a worker while all workers are busy, from the points of sweep with more
// clients than workers. Without such points it is the service time with the most clients.
func fullService(sweep []Point) (s float64, from string) {
	full := slices.DeleteFunc(slices.Clone(sweep), func(q Point) bool { return q.Clients <= q.AllWorkers() })
	if len(full) > 0 {
		return weighted(full, func(q Point) float64 { return q.Service }),
			"worker, server and reply stages, at the points with more clients than workers"
	}
	last := sweep[len(sweep)-1]
	return last.Service, fmt.Sprintf("worker, server and reply stages with %d clients, the most that were measured",
		last.Clients)
}

// fitNetwork is section 7.3, figure 29, of the 2018 report: a delay of half a round trip in each direction between
// clients and middlewares, and for each middleware a single server, the net thread, with the measured decoding time,
// and a station of many servers, the workers, with the service time measured while all are busy.
func fitNetwork(d *Data, points []Point) func(Point) Prediction {
	return func(p Point) Prediction {
		return solveNetwork(points, p, []queueing.Station{
			{Name: "network to", Kind: queueing.Delay, Visits: 1, Service: d.RoundTrip / 2},
			{Name: "network from", Kind: queueing.Delay, Visits: 1, Service: d.RoundTrip / 2},
		}, Parameter{"S network", d.RoundTrip / 2, "s", "half of the path's round-trip time, each way"})
	}
}

// fitNetworkOfClients is fitNetwork with the difference between the clients' and the middleware's response time instead
// of the round-trip time. The difference is measured under load, so it includes the time for which requests and replies
// wait for the processors of the clients' hosts, or of one host that all programs share. It is a Curve over the number
// of requests there, fitted as in Own.
func fitNetworkOfClients(_ *Data, points []Point) func(Point) Prediction {
	return func(p Point) Prediction {
		var outside []observation
		for _, q := range alike(points, p) {
			if beyond := q.R.Mean - q.Inside; beyond > 0 {
				outside = append(outside, observation{max(q.X.Mean*beyond, 1), beyond})
			}
		}
		curve := fitCurve(outside, 2)
		const from = "fitted to the client's response time less the middleware's, over the number of requests there"
		return solveNetwork(points, p, []queueing.Station{curve.station("clients and network", p.Clients)},
			Parameter{"s0 clients", curve.Alone, "s", from},
			Parameter{"contention clients", curve.Contention, "s", from})
	}
}

// solveNetwork returns the prediction of a network of the stations outside, and of net thread and workers for each
// middleware.
func solveNetwork(points []Point, p Point, outside []queueing.Station, parameters ...Parameter) Prediction {
	sweep := sameConfiguration(points, p)
	if len(sweep) == 0 {
		return none(noPoint)
	}
	s, from := fullService(sweep)
	net := weighted(sweep, func(q Point) float64 { return q.Net })
	n := queueing.Network{Think: p.Think, Stations: outside}
	visits := 1 / float64(p.Middlewares)
	var pools []string
	for i := range p.Middlewares {
		pool := fmt.Sprintf("workers %d", i+1)
		pools = append(pools, pool)
		n.Stations = append(
			n.Stations,
			queueing.Station{
				Name: fmt.Sprintf("net thread %d", i+1), Kind: queueing.Queue, Visits: visits,
				Service: net,
			},
			queueing.Station{Name: pool, Kind: queueing.Multi, Visits: visits, Service: s, Servers: p.workersOfEach()},
		)
	}
	return solve(n, p, append(
		append([]Parameter{clients(p)}, parameters...),
		Parameter{"S net thread", net, "s", "net stage, over all numbers of clients"},
		Parameter{"S workers", s, "s", from},
		Parameter{"V", visits, "", "one of the middlewares"},
		thinkTime(p),
	), pools...)
}

// fitMulticlass is section 3, figure 7, of the 2016 report, with a class for each command: a delay, the network, of the
// difference between the clients' and the middleware's response time; a single server, the receiver; and a station of
// many servers, the workers, with the middleware's response time less net and queue stages. If each server has its own
// pool, its writes do not use the workers but a single server, the writer, and a delay, the servers' answers.
//
// The times are those of the configuration's point with the nearest number of clients. If the predicted point is among
// the points, the model describes it with its own times, as the report did, and predicts nothing; otherwise the times
// are another point's.
func fitMulticlass(_ *Data, points []Point) func(Point) Prediction {
	return func(p Point) Prediction {
		sweep := sameConfiguration(points, p)
		if len(sweep) == 0 {
			return none(noPoint)
		}
		q := nearest(sweep, p.Clients)
		if len(q.Classes) == 0 {
			return none("the record has no measurements by command")
		}
		at := fmt.Sprintf("with %d clients, the nearest that were measured", q.Clients)
		customers := split(p.Clients, q.Classes)
		m := queueing.Multiclass{}
		var network, receiver, pool, writer, answers []float64
		var parameters []Parameter
		for i, c := range q.Classes {
			if !(c.Service > 0) {
				return none("the record has no response times of the middleware by command, or they are shorter than " +
					"their stages")
			}
			m.Classes = append(m.Classes, queueing.Class{Name: c.Name, Customers: customers[i], Think: p.Think})
			network, receiver = append(network, max(0, c.R-c.Inside)), append(receiver, q.Net)
			service, write, answer := c.Service, 0.0, 0.0
			if p.PerServer && c.Name == "set" {
				service, write, answer = 0, c.Worker, max(0, c.Service-c.Worker)
			}
			pool, writer, answers = append(pool, service), append(writer, write), append(answers, answer)
			parameters = append(parameters,
				Parameter{
					"N " + c.Name, float64(customers[i]), "",
					"clients by the command's part of the requests, " + at,
				},
				Parameter{
					"S network " + c.Name, (c.R - c.Inside) / 2, "s",
					"half of the client's response time less the middleware's, each way, " + at,
				},
				Parameter{"S receiver " + c.Name, q.Net, "s", "net stage, " + at},
				Parameter{
					"S worker " + c.Name, c.Service, "s",
					"the middleware's response time less net and queue stages, " + at,
				})
		}
		add := func(s queueing.Station, demands []float64, of int) {
			for _, d := range demands {
				s.Demands = append(s.Demands, d/float64(of))
			}
			m.Stations = append(m.Stations, s)
		}
		add(queueing.Station{Name: "network", Kind: queueing.Delay}, network, 1)
		for i := range p.Middlewares {
			add(queueing.Station{Name: fmt.Sprintf("receiver %d", i+1), Kind: queueing.Queue}, receiver,
				p.Middlewares)
		}
		pools := p.Middlewares
		if p.PerServer {
			pools *= p.Servers
		}
		for i := range pools {
			add(queueing.Station{Name: fmt.Sprintf("workers %d", i+1), Kind: queueing.Multi, Servers: p.Workers},
				pool, pools)
			if p.PerServer {
				add(queueing.Station{Name: fmt.Sprintf("writer %d", i+1), Kind: queueing.Queue}, writer, pools)
				add(queueing.Station{Name: "answers", Kind: queueing.Delay}, answers, pools)
			}
		}
		return solveClasses(m, parameters)
	}
}

// nearest returns the point whose number of clients has the ratio to n that is closest to 1.
func nearest(points []Point, n int) Point {
	far := func(p Point) float64 { return math.Abs(math.Log(float64(p.Clients) / float64(n))) }
	return slices.MinFunc(points, func(a, b Point) int { return cmp.Compare(far(a), far(b)) })
}

// split divides clients in proportion to the numbers X R of the classes. While there are enough clients, each class
// gets at least one.
func split(clients int, classes []Class) []int {
	var sum float64
	for _, c := range classes {
		sum += c.X * c.R
	}
	out := make([]int, len(classes))
	left, most := clients, 0
	for i, c := range classes {
		room := max(0, left-(len(classes)-1-i)) // one for each of the following classes
		out[i] = min(room, max(1, int(math.Round(float64(clients)*c.X*c.R/sum))))
		left -= out[i]
		if out[i] > out[most] {
			most = i
		}
	}
	out[most] += left
	return out
}

// maxStates is the number of states times stations up to which classes are solved exactly; that takes a moment.
const maxStates = 12_000

// solveClasses returns the prediction of a network with classes: exact for few states, otherwise by Linearizer.
func solveClasses(m queueing.Multiclass, parameters []Parameter) Prediction {
	states := len(m.Stations)
	for _, c := range m.Classes {
		states *= c.Customers + 1
	}
	how, solve := "exact", m.Exact
	if states > maxStates {
		how, solve = "Linearizer", m.Linearizer
	}
	s, err := solve()
	if err != nil {
		return none(err.Error())
	}
	out := Prediction{
		Wait: math.NaN(), Queue: math.NaN(),
		Parameters: append(parameters, Parameter{Name: "solution", Value: math.NaN(), From: how}),
	}
	for c := range m.Classes {
		out.X += s.X[c]
		out.R += s.X[c] * s.R[c]
	}
	out.R /= out.X
	for i, station := range s.Stations {
		if m.Stations[i].Kind != queueing.Delay {
			out.Utilizations = append(out.Utilizations, Station{station.Name, station.U})
		}
	}
	out.Bottleneck = busiest(out.Utilizations)
	return out
}

// busiest returns the name of the station with the highest utilization.
func busiest(stations []Station) string {
	return slices.MaxFunc(stations, func(a, b Station) int { return cmp.Compare(a.Utilization, b.Utilization) }).Name
}
