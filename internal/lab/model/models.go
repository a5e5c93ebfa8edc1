package model

import (
	"errors"
	"fmt"
	"math"

	"mcmw/internal/lab/queueing"
)

// Parameter is a parameter of a model, and its source.
type Parameter struct {
	Name  string
	Value float64
	Unit  string // s, 1/s or nothing
	From  string
}

// Prediction is a model's prediction for a point. NaN means that it does not predict the number.
type Prediction struct {
	X, R        float64 // throughput, which open models are given; response time as the clients see it
	Wait, Queue float64 // time and number in the queue before the workers
	// Utilizations are by station, in the order of the path.
	Utilizations []Station
	Bottleneck   string // the station with the highest utilization
	Parameters   []Parameter
	// Problem says why there is no prediction; the numbers are NaN then.
	Problem string
}

// Station is the utilization of a station, by its name.
type Station struct {
	Name        string
	Utilization float64
}

// none returns the prediction of a model that has none.
func none(why string) Prediction {
	nan := math.NaN()
	return Prediction{X: nan, R: nan, Wait: nan, Queue: nan, Problem: why}
}

// Model makes predictions.
type Model struct {
	Name string
	// Open models are given the throughput and predict the response time alone.
	Open bool
	// Fit takes the model's parameters from points, all or part of a record's, and returns a function that predicts
	// others. From the predicted point it may use the setting and, if it is Open, the arrival rate.
	Fit func(d *Data, points []Point) func(p Point) Prediction
}

// Models are all models, in the order in which they are shown.
var Models = []Model{
	{Name: "M/M/1", Open: true, Fit: fitMM1},
	{Name: "M/M/m", Open: true, Fit: fitMMm},
	{Name: "M/M/m closed", Fit: fitClosed},
	{Name: "network", Fit: fitNetwork},
	{Name: "network, clients", Fit: fitNetworkOfClients},
	{Name: "multiclass", Fit: fitMulticlass},
	{Name: "own", Fit: fitOwn},
}

func sameConfiguration(points []Point, p Point) []Point {
	d := Data{Points: points}
	return d.Sweep(p.Configuration())
}

// capacity returns the largest mean throughput of a point with the configuration of p; 0 if there is none.
func capacity(points []Point, p Point) float64 {
	var x float64
	for _, q := range sameConfiguration(points, p) {
		x = max(x, q.X.Mean)
	}
	return x
}

// most returns the largest throughput of a run with the configuration of p; 0 if there is none.
func most(points []Point, p Point) float64 {
	var x float64
	for _, q := range sameConfiguration(points, p) {
		x = max(x, q.Most)
	}
	return x
}

// fitMM1 is the 2018 report's section 7.1 (and the 2016 report's section 1): the whole system is one queue with one server, lambda
// the throughput that the middlewares measure, mu the largest throughput observed with the configuration.
func fitMM1(_ *Data, points []Point) func(Point) Prediction {
	return func(p Point) Prediction {
		mu := most(points, p)
		if mu == 0 {
			return none("no other point has its configuration")
		}
		q, err := queueing.NewMM1(p.Arrivals, mu)
		if err != nil {
			return none(steady(err, p.Arrivals/mu))
		}
		return Prediction{
			X: p.Arrivals, R: q.MeanResponse(), Wait: q.MeanWait(), Queue: q.MeanQueue(),
			Utilizations: []Station{{"system", q.Rho}}, Bottleneck: "system",
			Parameters: []Parameter{lambda(p), {"mu", mu, "1/s", "largest client throughput of a run with this configuration"}},
		}
	}
}

func lambda(p Point) Parameter {
	return Parameter{"lambda", p.Arrivals, "1/s", "throughput that the middlewares measure at the point"}
}

// steady says in a few words that a queue has no steady state, and other errors as they are.
func steady(err error, rho float64) string {
	if errors.Is(err, queueing.ErrUnstable) {
		return fmt.Sprintf("no steady state: rho is %.3f", rho)
	}
	return err.Error()
}

// fitMMm is the 2018 report's section 7.2: as M/M/1, with m the workers of all middlewares and mu/m the rate of each.
func fitMMm(_ *Data, points []Point) func(Point) Prediction {
	return func(p Point) Prediction {
		mu, m := most(points, p), p.AllWorkers()
		if mu == 0 {
			return none("no other point has its configuration")
		}
		q, err := queueing.NewMMm(p.Arrivals, mu/float64(m), m)
		if err != nil {
			return none(steady(err, p.Arrivals/mu))
		}
		return Prediction{
			X: p.Arrivals, R: q.MeanResponse(), Wait: q.MeanWait(), Queue: q.MeanQueue(),
			Utilizations: []Station{{"workers", q.Rho}}, Bottleneck: "workers",
			Parameters: []Parameter{
				lambda(p),
				{"m", float64(m), "", "workers of all middlewares"},
				{"mu", mu / float64(m), "1/s", "largest client throughput of a run with this configuration, over m"},
			},
		}
	}
}

// fitClosed is M/M/m, mu from the largest mean of a point, with as many customers as there are clients, which do not send more while they wait:
// the machine repairman's model (Jain, section 32.2).
func fitClosed(_ *Data, points []Point) func(Point) Prediction {
	return func(p Point) Prediction {
		mu, m := capacity(points, p), p.AllWorkers()
		if mu == 0 {
			return none("no other point has its configuration")
		}
		n := queueing.Network{Think: p.Think, Stations: []queueing.Station{
			{Name: "workers", Kind: queueing.Multi, Visits: 1, Service: float64(m) / mu, Servers: m},
		}}
		return solve(n, p, []Parameter{
			{"N", float64(p.Clients), "", "clients"},
			{"m", float64(m), "", "workers of all middlewares"},
			{"S", float64(m) / mu, "s", "m over the largest client throughput of a point with this configuration"},
			{"Z", p.Think, "s", "think time that the clients measured, or none"},
		}, "workers")
	}
}

// solve returns the prediction of a network; pools are the names of the stations whose queues are those before the workers.
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
		for _, pool := range pools {
			if station.Name == pool {
				out.Queue += max(0, station.Q-station.Busy)
			}
		}
	}
	out.Wait = out.Queue / s.X
	if b := s.Bottleneck(n); b >= 0 {
		out.Bottleneck = s.Stations[b].Name
	}
	return out
}

// fullService returns the service time of a worker when all of them are busy: the mean over the points of p's configuration with
// more clients than workers, by their throughputs; that of the most clients if there are none.
func fullService(points []Point, p Point) (s float64, from string) {
	var sum, weight float64
	var last Point
	for _, q := range sameConfiguration(points, p) {
		if q.Clients > q.AllWorkers() {
			sum, weight = sum+q.Service*q.Arrivals, weight+q.Arrivals
		}
		last = q
	}
	if weight > 0 {
		return sum / weight, "worker, server and reply stages, at the points with more clients than workers"
	}
	return last.Service, fmt.Sprintf("worker, server and reply stages with %d clients, the most that were measured", last.Clients)
}

// fitNetwork is the 2018 report's section 7.3, figure 29: delays of half a round trip to the middlewares and from them, and for each
// middleware the net thread as a single server with the measured decoding time, and the workers as one station of many servers with the
// service time measured when all are busy.
func fitNetwork(d *Data, points []Point) func(Point) Prediction {
	return func(p Point) Prediction {
		return solveNetwork(points, p, []queueing.Station{
			{Name: "network to", Kind: queueing.Delay, Visits: 1, Service: d.RoundTrip / 2},
			{Name: "network from", Kind: queueing.Delay, Visits: 1, Service: d.RoundTrip / 2},
		}, Parameter{"S network", d.RoundTrip / 2, "s", "half of the path's round-trip time, each way"})
	}
}

// fitNetworkOfClients is that network with what the clients' response time exceeds the middleware's by in place of the round-trip time. It
// is measured under load, so it has the time in which requests and replies wait for the processors of the clients' hosts, or of one host
// that all share; it grows with the number that is there as a Curve, fitted as in Own.
func fitNetworkOfClients(_ *Data, points []Point) func(Point) Prediction {
	fits := map[string]Curve{}
	return func(p Point) Prediction {
		curve, ok := fits[p.Rest]
		if !ok {
			var outside []observation
			for _, q := range alike(points, p) {
				if beyond := q.R.Mean - q.Inside; beyond > 0 {
					outside = append(outside, observation{max(q.X.Mean*beyond, 1), beyond})
				}
			}
			curve = fitCurve(outside, 2)
			fits[p.Rest] = curve
		}
		const from = "fitted to the client's response time less the middleware's, over the number there"
		return solveNetwork(points, p, []queueing.Station{curve.station("clients and network", p.Clients)},
			Parameter{"s0 clients", curve.Alone, "s", from}, Parameter{"contention clients", curve.Contention, "s", from})
	}
}

// solveNetwork returns the prediction of a network of the stations between clients and middlewares, and of net thread and workers
// for each middleware.
func solveNetwork(points []Point, p Point, outside []queueing.Station, parameters ...Parameter) Prediction {
	s, from := fullService(points, p)
	if !(s > 0) {
		return none("no other point has its configuration")
	}
	var net, weight float64
	for _, q := range sameConfiguration(points, p) {
		net, weight = net+q.Net*q.Arrivals, weight+q.Arrivals
	}
	net /= weight
	n := queueing.Network{Think: p.Think, Stations: outside}
	visits := 1 / float64(p.Middlewares)
	var pools []string
	for i := range p.Middlewares {
		pool := fmt.Sprintf("workers %d", i+1)
		pools = append(pools, pool)
		n.Stations = append(
			n.Stations,
			queueing.Station{Name: fmt.Sprintf("net thread %d", i+1), Kind: queueing.Queue, Visits: visits, Service: net},
			queueing.Station{Name: pool, Kind: queueing.Multi, Visits: visits, Service: s, Servers: p.Workers},
		)
	}
	return solve(n, p, append(
		append([]Parameter{{"N", float64(p.Clients), "", "clients"}}, parameters...),
		Parameter{"S net thread", net, "s", "net stage, over all numbers of clients"},
		Parameter{"S workers", s, "s", from},
		Parameter{"V", visits, "", "one of the middlewares"},
		Parameter{"Z", p.Think, "s", "think time that the clients measured, or none"},
	), pools...)
}

// fitMulticlass is the 2016 report's section 3, figure 7: the network as delays of half of what the clients' response time exceeds the
// middleware's by; the receiver as a single server; reads with the server's time as a station of many servers. With workers of one
// pool writes share it; with a pool per server a write is a single server, the writer, and a delay, the servers' answers.
//
// The times are those measured with the configuration at the nearest number of clients. With the predicted point among the points
// these are its own, which is what the report did, and no prediction; without it they are another point's.
func fitMulticlass(_ *Data, points []Point) func(Point) Prediction {
	return func(p Point) Prediction {
		q, ok := nearest(sameConfiguration(points, p), p.Clients)
		switch {
		case !ok:
			return none("no other point has its configuration")
		case len(q.Classes) == 0:
			return none("what was measured by command is not known")
		}
		at := fmt.Sprintf("with %d clients, the nearest that were measured", q.Clients)
		customers := split(p.Clients, q.Classes)
		m := queueing.Multiclass{}
		var network, receiver, pool, writer, answers []float64
		var parameters []Parameter
		for i, c := range q.Classes {
			if !(c.Service > 0) {
				return none("the record has no response times of the middleware by command, or they are shorter than their stages")
			}
			m.Classes = append(m.Classes, queueing.Class{Name: c.Name, Customers: customers[i], Think: p.Think})
			network, receiver = append(network, max(0, c.R-c.Inside)), append(receiver, q.Net)
			service, write, answer := c.Service, 0.0, 0.0
			if p.PerServer && c.Name == "set" {
				service, write, answer = 0, c.Worker, max(0, c.Service-c.Worker)
			}
			pool, writer, answers = append(pool, service), append(writer, write), append(answers, answer)
			parameters = append(parameters,
				Parameter{"N " + c.Name, float64(customers[i]), "", "clients by the command's part of the requests, " + at},
				Parameter{"S network " + c.Name, (c.R - c.Inside) / 2, "s", "half of the client's response time less the middleware's, each way, " + at},
				Parameter{"S receiver " + c.Name, q.Net, "s", "net stage, " + at},
				Parameter{"S worker " + c.Name, c.Service, "s", "the middleware's response time less net and queue stages, " + at})
		}
		m.Stations = []queueing.ClassStation{{Name: "network", Kind: queueing.Delay, Demands: network}}
		parts := p.Middlewares
		if p.PerServer {
			parts *= p.Servers
		}
		share := func(demands []float64, by int) []float64 {
			out := make([]float64, len(demands))
			for i, v := range demands {
				out[i] = v / float64(by)
			}
			return out
		}
		for i := range p.Middlewares {
			m.Stations = append(m.Stations, queueing.ClassStation{Name: fmt.Sprintf("receiver %d", i+1), Demands: share(receiver, p.Middlewares)})
		}
		for i := range parts {
			m.Stations = append(m.Stations, queueing.ClassStation{
				Name: fmt.Sprintf("workers %d", i+1), Kind: queueing.Multi, Servers: p.Workers, Demands: share(pool, parts),
			})
			if p.PerServer {
				m.Stations = append(
					m.Stations,
					queueing.ClassStation{Name: fmt.Sprintf("writer %d", i+1), Demands: share(writer, parts)},
					queueing.ClassStation{Name: "answers", Kind: queueing.Delay, Demands: share(answers, parts)},
				)
			}
		}
		return solveClasses(m, parameters)
	}
}

// nearest returns the point whose number of clients has the ratio to n that is closest to 1.
func nearest(points []Point, n int) (best Point, ok bool) {
	far := math.Inf(1)
	for _, p := range points {
		if d := math.Abs(math.Log(float64(p.Clients) / float64(n))); d < far {
			best, far, ok = p, d, true
		}
	}
	return best, ok
}

// split divides clients by the throughputs of classes, at least one for each while there are enough.
func split(clients int, classes []Class) []int {
	var sum float64
	for _, c := range classes {
		sum += c.X * c.R
	}
	out := make([]int, len(classes))
	left, most := clients, 0
	for i, c := range classes {
		// Leave at least one for each of the remaining classes.
		room := max(0, left-(len(classes)-1-i))
		out[i] = min(room, max(1, int(math.Round(float64(clients)*c.X*c.R/sum))))
		left -= out[i]
		if out[i] > out[most] {
			most = i
		}
	}
	out[most] += left
	return out
}

// solveClasses returns the prediction of a network with classes: exact where that is quick, else by Linearizer.
func solveClasses(m queueing.Multiclass, parameters []Parameter) Prediction {
	how := "exact"
	states := 1
	for _, c := range m.Classes {
		states *= c.Customers + 1
	}
	const moment = 4000 // states
	solve := m.Exact
	if states*len(m.Stations) > 3*moment {
		how, solve = "Linearizer", m.Linearizer
	}
	s, err := solve()
	if err != nil {
		return none(err.Error())
	}
	out := Prediction{Wait: math.NaN(), Queue: math.NaN(), Parameters: append(parameters, Parameter{Name: "solution", Value: math.NaN(), From: how})}
	for c := range m.Classes {
		out.X += s.X[c]
		out.R += s.X[c] * s.R[c]
	}
	out.R /= out.X
	best := -1.0
	for i, station := range s.Stations {
		if m.Stations[i].Kind == queueing.Delay {
			continue
		}
		out.Utilizations = append(out.Utilizations, Station{station.Name, station.UTotal})
		if station.UTotal > best {
			best, out.Bottleneck = station.UTotal, station.Name
		}
	}
	return out
}
