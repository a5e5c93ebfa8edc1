// Package simulate simulates a closed system whose workers serve batches of requests, event by event. Package queueing
// has formulas for workers that serve one request at a time; there are none for batches.
package simulate

import (
	"errors"
	"math/rand/v2"
)

// System is a closed system. Its customers think, spend a time outside, wait for a worker, and are served in a batch.
//
//	think --> outside --> queue --> batch of up to Depth with one of Workers --> think
//
// All times are exponential. Units are those of package queueing.
type System struct {
	Customers int
	Think     float64 // mean; 0: none
	Workers   int
	Depth     int // maximum number of waiting requests that a free worker takes at once, at least 1
	// Inside is the mean service time of a batch while n requests are in service, in all batches together. Outside is
	// the mean time of a request outside while n requests are there. Both are above 0.
	Inside, Outside func(n int) float64
}

// Result has the means of a simulation.
type Result struct {
	X     float64 // throughput
	Queue float64 // requests that wait for a worker
	Busy  float64 // busy workers
}

// passes is the number of requests that are served before counting begins. Ten times as many are counted: enough for a
// throughput with an error of some tenths of a percent, in some hundredths of a second.
const passes = 10_000

// Run simulates a system. The same system always has the same result.
func Run(s System) (Result, error) {
	r := run{System: s, random: rand.New(rand.NewPCG(1, 1))}
	r.leave(s.Customers)
	if err := r.serve(passes); err != nil {
		return Result{}, err
	}
	r.time, r.queued, r.busy, r.served = 0, 0, 0, 0
	if err := r.serve(10 * passes); err != nil {
		return Result{}, err
	}
	return Result{X: float64(r.served) / r.time, Queue: r.queued / r.time, Busy: r.busy / r.time}, nil
}

// run is the state of a simulation.
type run struct {
	System
	random *rand.Rand

	thinking, outside, waiting int   // customers
	batches                    []int // sizes of the batches in service
	inService                  int   // sum of batches

	time         float64 // since counting began
	queued, busy float64 // waiting requests and busy workers, integrated over time
	served       int     // requests
}

// serve simulates until that many more requests have been served. All times are exponential, so the time to the next
// event is exponential, too, and the rates are the odds of the kinds of event.
func (r *run) serve(requests int) error {
	for until := r.served + requests; r.served < until; {
		var rates [3]float64
		if r.thinking > 0 {
			rates[0] = float64(r.thinking) / r.Think
		}
		if r.outside > 0 {
			rates[1] = float64(r.outside) / r.Outside(r.outside)
		}
		if r.inService > 0 {
			rates[2] = float64(len(r.batches)) / r.Inside(r.inService)
		}
		rate := rates[0] + rates[1] + rates[2]
		if !(rate > 0) {
			return errors.New("simulation: nothing happens: expected at least one customer, worker and request at a " +
				"time, and times above 0")
		}
		step := r.random.ExpFloat64() / rate
		r.time += step
		r.queued += step * float64(r.waiting)
		r.busy += step * float64(len(r.batches))
		switch u := r.random.Float64() * rate; {
		case u < rates[0]:
			r.thinking--
			r.outside++
		case u < rates[0]+rates[1]:
			r.outside--
			r.waiting++
			r.take()
		default:
			r.end(r.random.IntN(len(r.batches)))
		}
	}
	return nil
}

// take gives waiting requests to a worker, if one is free.
func (r *run) take() {
	if size := min(r.waiting, r.Depth); size > 0 && len(r.batches) < r.Workers {
		r.waiting -= size
		r.inService += size
		r.batches = append(r.batches, size)
	}
}

// end finishes batch i.
func (r *run) end(i int) {
	size, last := r.batches[i], len(r.batches)-1
	r.batches[i] = r.batches[last]
	r.batches = r.batches[:last]
	r.inService -= size
	r.served += size
	r.leave(size)
	r.take()
}

// leave returns n served customers to the clients.
func (r *run) leave(n int) {
	if r.Think > 0 {
		r.thinking += n
	} else {
		r.outside += n
	}
}
