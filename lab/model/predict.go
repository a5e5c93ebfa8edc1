package model

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"mcmw/lab/sample"
)

// Change describes a change of a measured setting: its numbers, which are above 0, or 0 for unchanged, and the
// round-trip time between clients and middlewares in seconds, 0 or above, or NaN for unchanged.
type Change struct {
	Clients, Workers, Middlewares, Depth, Servers, Replicas int
	RoundTrip                                               float64
}

// Forecast is the prediction for a setting.
type Forecast struct {
	Setting
	X, R, P99  sample.Estimate // the prediction, and the interval in which a measurement is expected; see spread
	Bottleneck string
	// Notes are its assumptions, as sentences.
	Notes []string
}

// Predictor predicts settings that were not measured, with the model Own.
type Predictor struct {
	data  *Data
	base  Point // the point with the largest throughput, to which a Change is applied
	alike []Point
	own   Own
	// The errors of predicting each point from the others.
	spreadX, spreadR, spreadP99 spread
}

// NewPredictor returns a Predictor for changes of the setting with the largest throughput.
func NewPredictor(d *Data) (*Predictor, error) {
	p := &Predictor{data: d, base: slices.MaxFunc(d.Points,
		func(a, b Point) int { return cmp.Compare(a.X.Mean, b.X.Mean) })}
	p.alike = alike(d.Points, p.base)
	var err error
	if p.own, err = FitOwn(p.alike); err != nil {
		return nil, err
	}
	var x, r, tail []distance
	for i, q := range p.alike {
		o, err := FitOwn(slices.Delete(slices.Clone(p.alike), i, i+1))
		if err != nil {
			return nil, fmt.Errorf("%w; intervals need one more", err)
		}
		s, err := o.Solve(q.Clients, q.AllWorkers(), q.Think)
		if err != nil {
			return nil, err
		}
		x, r = append(x, distanceOf(q.X, s.X)), append(r, distanceOf(q.R, s.R))
		if q.P99.Mean > 0 {
			tail = append(tail, distanceOf(q.P99, s.R*o.Tail))
		}
	}
	p.spreadX, p.spreadR, p.spreadP99 = spreadOf(x), spreadOf(r), spreadOf(tail)
	return p, nil
}

// distance has the ratios of a point's measurement to its prediction: above is (upper end of the confidence
// interval)/prediction, below is prediction/(lower end). Both are at least 1; below is infinite if the interval reaches
// down to 0.
type distance struct{ above, below float64 }

func distanceOf(m sample.Estimate, predicted float64) distance {
	low, high := m.Mean, m.Mean
	if m.Known() {
		low, high = max(0, m.Low), m.High
	}
	return distance{max(1, high/predicted), max(1, predicted/low)}
}

// spread is the distance within which Held of the Of points are that were predicted from the others. Held is chosen so
// that another point like them is within the distance with probability 0.9. That requires at least nine points; with
// fewer, Held is Of.
type spread struct {
	distance
	Held, Of int
}

// spreadOf is split-conformal: if n points are exchangeable, the next one is within the k-th smallest distance with
// probability k/(n+1) (V. Vovk, A. Gammerman, G. Shafer, "Algorithmic Learning in a Random World" (2005)). The distance
// for no points is NaN.
func spreadOf(all []distance) spread {
	n := len(all)
	if n == 0 {
		return spread{distance: distance{math.NaN(), math.NaN()}}
	}
	sorted := slices.SortedFunc(slices.Values(all), func(a, b distance) int {
		return cmp.Compare(max(a.above, a.below), max(b.above, b.below))
	})
	s := spread{Held: min(n, int(math.Ceil(0.9*float64(n+1)))), Of: n}
	for _, d := range sorted[:s.Held] {
		s.above, s.below = max(s.above, d.above), max(s.below, d.below)
	}
	return s
}

func (s spread) around(v float64) sample.Estimate {
	return sample.Estimate{
		Moments:  sample.Moments{Mean: v},
		Interval: sample.Interval{Low: v / s.below, High: v * s.above},
	}
}

// Predict returns the forecast for a change.
func (p *Predictor) Predict(c Change) (Forecast, error) {
	f := Forecast{Setting: p.base.Setting}
	f.Behind = "" // forecasts are shown with their servers and replicas
	f.Clients, f.Workers, f.Middlewares = cmp.Or(c.Clients, f.Clients), cmp.Or(c.Workers, f.Workers),
		cmp.Or(c.Middlewares, f.Middlewares)
	f.Depth, f.Servers, f.Replicas = cmp.Or(c.Depth, f.Depth), cmp.Or(c.Servers, f.Servers),
		cmp.Or(c.Replicas, f.Replicas)
	// If every server is a replica, the replicas change with the servers.
	if c.Replicas == 0 && p.base.Replicas == p.base.Servers {
		f.Replicas = f.Servers
	}
	if f.Replicas > f.Servers {
		return f, fmt.Errorf("%d replicas on %d servers: expected at least as many servers as replicas", f.Replicas,
			f.Servers)
	}
	own, notes, err := p.changed(&f.Setting, c.RoundTrip)
	if err != nil {
		return f, err
	}
	var s Prediction
	switch {
	case f.Depth == p.base.Depth:
		s, err = own.Solve(f.Clients, f.AllWorkers(), p.base.Think)
	case p.base.Depth != 1:
		return f,
			fmt.Errorf("a depth of %d from measurements with a depth of %d: expected measurements with a depth of 1",
				f.Depth, p.base.Depth)
	default:
		s, err = own.Simulate(f.Clients, f.AllWorkers(), f.Depth, p.base.Think)
		notes = append(notes,
			fmt.Sprintf("Workers that take up to %d requests at a time are simulated; the simulation ignores that "+
				"batches save system calls.", f.Depth))
	}
	if err != nil {
		return f, err
	}
	f.Notes = append(notes, p.beyond(&f.Setting)...)
	f.X, f.R, f.P99 = p.spreadX.around(s.X), p.spreadR.around(s.R), p.spreadP99.around(s.R*own.Tail)
	f.Bottleneck = s.Bottleneck
	return f, nil
}

// changed returns the model for the servers and replicas of s and a round-trip time, and its assumptions.
func (p *Predictor) changed(s *Setting, roundTrip float64) (own Own, notes []string, err error) {
	own = p.own
	if s.Servers != p.base.Servers || s.Replicas != p.base.Replicas {
		measured := alike(p.data.Points, Point{Setting: *s})
		if own, err = FitOwn(measured); err == nil {
			notes = append(notes,
				fmt.Sprintf("The record has %d points with %d servers and %d replicas: the model is fitted to them.",
					len(measured), s.Servers, s.Replicas))
		} else {
			own = p.own
			scale := p.callsPerServer(s) / p.callsPerServer(&p.base.Setting)
			own.Inside.Contention *= scale
			own.Inside.Coherence *= scale
			notes = append(notes,
				fmt.Sprintf("No point was measured with %d servers and %d replicas. Assumption: workers wait for "+
					"each other because they share the servers, "+
					"so that this time is proportional to the calls per server, which change by a factor of %.2f.",
					s.Servers, s.Replicas, scale))
		}
	}
	if !math.IsNaN(roundTrip) {
		if p.data.RoundTrip == 0 {
			return own, nil,
				errors.New("another round-trip time cannot be predicted: the record does not have the round-trip " +
					"time of its path")
		}
		own.Outside.Alone = max(0, own.Outside.Alone+roundTrip-p.data.RoundTrip)
		notes = append(notes,
			fmt.Sprintf("The round-trip time between clients and middlewares is %s ms instead of the measured %s ms.",
				ms(roundTrip), ms(p.data.RoundTrip)))
	}
	return own, notes, nil
}

// callsPerServer returns the mean number of calls to each server per request. A read makes one call, a write one per
// replica.
func (p *Predictor) callsPerServer(s *Setting) float64 {
	var writes, all float64
	for _, c := range p.base.Classes {
		all += c.X
		if c.Name == "set" {
			writes = c.X
		}
	}
	calls := 1.0
	if all > 0 {
		calls = (all - writes + writes*float64(s.Replicas)) / all
	}
	return calls / float64(s.Servers)
}

// beyond returns a note for each number of the setting that is outside the range of the measurements.
func (p *Predictor) beyond(s *Setting) []string {
	var notes []string
	note := func(name string, number func(Setting) int) {
		low, high := math.MaxInt, 0
		for _, q := range p.alike {
			low, high = min(low, number(q.Setting)), max(high, number(q.Setting))
		}
		if value := number(*s); value < low || value > high {
			notes = append(notes, fmt.Sprintf("%d %s are outside the measured range, %d to %d.", value, name,
				low, high))
		}
	}
	note("clients", func(s Setting) int { return s.Clients })
	note("workers in total", Setting.AllWorkers)
	note("middlewares", func(s Setting) int { return s.Middlewares })
	return notes
}

// Target is a rate of requests, and the 99th percentile of the response times that must not be exceeded at this rate.
type Target struct {
	Rate float64 // ops/s, above 0
	P99  float64 // s, above 0
}

// Costs are the costs of one worker, middleware and server, in any unit.
type Costs struct{ Worker, Middleware, Server float64 }

// Of returns the cost of a setting.
func (c Costs) Of(s Setting) float64 {
	return c.Worker*float64(s.AllWorkers()) + c.Middleware*float64(s.Middlewares) + c.Server*float64(s.Servers)
}

// Offer is a setting that meets a target, and its cost.
type Offer struct {
	Forecast
	Cost float64
}

// Meet returns the settings that meet the target, the cheapest first. It tries each measured number of workers, and up
// to twice the measured middlewares and servers, unless change fixes them. Each setting has the smallest number of
// clients that reach the rate. sure requires the target at the unfavourable ends of the intervals, too. If no setting
// meets the target, the error describes the setting that comes closest.
func (p *Predictor) Meet(t Target, costs Costs, change Change, sure bool) ([]Offer, error) {
	if math.IsNaN(p.own.Tail) || p.spreadP99.Of == 0 {
		return nil,
			errors.New("a target for the 99th percentile needs response_time_p99 of the clients, which the record " +
				"does not have")
	}
	if !(costs.Worker >= 0 && costs.Middleware >= 0 && costs.Server >= 0) {
		return nil, fmt.Errorf("costs of %v, %v and %v: expected numbers, 0 or above", costs.Worker, costs.Middleware,
			costs.Server)
	}
	var workers []int
	middlewares, servers := 1, 1
	for _, q := range p.alike {
		if !slices.Contains(workers, q.Workers) {
			workers = append(workers, q.Workers)
		}
		middlewares, servers = max(middlewares, q.Middlewares), max(servers, q.Servers)
	}
	if change.Workers > 0 {
		workers = []int{change.Workers}
	}
	// choices returns the first and the last number to try.
	choices := func(fixed, measured int) (first, last int) {
		if fixed > 0 {
			return fixed, fixed
		}
		return 1, 2 * measured
	}
	firstMiddlewares, lastMiddlewares := choices(change.Middlewares, middlewares)
	firstServers, lastServers := choices(change.Servers, servers)
	if change.Replicas > lastServers {
		return nil, fmt.Errorf("%d replicas: expected at most the %d servers that are tried", change.Replicas,
			lastServers)
	}
	var offers []Offer
	nearest := ""
	best := math.Inf(1)
	for _, w := range workers {
		for m := firstMiddlewares; m <= lastMiddlewares; m++ {
			for s := max(firstServers, change.Replicas); s <= lastServers; s++ {
				c := change
				c.Workers, c.Middlewares, c.Servers = w, m, s
				f, ok, err := p.carry(c, t.Rate, sure)
				if err != nil {
					return nil, err
				}
				tail := f.P99.Mean
				if sure {
					tail = f.P99.High
				}
				if ok && tail <= t.P99 {
					offers = append(offers, Offer{f, costs.Of(f.Setting)})
				}
				// The factor by which the setting misses the target.
				if off := max(t.Rate/f.X.Mean, tail/t.P99); off < best {
					best, nearest = off,
						fmt.Sprintf("%s on %d servers, reaches %s ops/s with %d clients and a p99 of %s ms",
							f.Configuration(), f.Servers, ops(f.X.Mean), f.Clients, ms(f.P99.Mean))
				}
			}
		}
	}
	if len(offers) == 0 {
		return nil, fmt.Errorf("no setting reaches %s ops/s with a p99 below %s ms; the nearest, %s", ops(t.Rate),
			ms(t.P99), nearest)
	}
	slices.SortStableFunc(offers, func(a, b Offer) int {
		return cmp.Or(cmp.Compare(a.Cost, b.Cost), cmp.Compare(a.P99.Mean, b.P99.Mean))
	})
	return offers, nil
}

// maxClients is the number of clients up to which carry doubles them.
const maxClients = 1024

// carry returns the forecast with the smallest number of clients that reach a rate. If none does, it returns a forecast
// with as many clients as it tried, and false.
func (p *Predictor) carry(c Change, rate float64, sure bool) (f Forecast, ok bool, err error) {
	makes := func(clients int) (Forecast, bool, error) {
		c.Clients = clients
		f, err := p.Predict(c)
		x := f.X.Mean
		if sure {
			x = f.X.Low
		}
		return f, x >= rate, err
	}
	low, high := 0, 1 // low clients do not reach the rate
	for {
		next, enough, err := makes(high)
		if err != nil {
			return next, false, err
		}
		if enough {
			f = next
			break
		}
		if high >= maxClients || next.X.Mean < f.X.Mean {
			return next, false, nil
		}
		f, low, high = next, high, 2*high
	}
	for low+1 < high {
		middle := (low + high) / 2
		next, enough, err := makes(middle)
		if err != nil {
			return next, false, err
		}
		if enough {
			f, high = next, middle
		} else {
			low = middle
		}
	}
	return f, true, nil
}
