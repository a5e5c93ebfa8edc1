package stats

import "time"

// Summary is what people look at of a window: rates per second and times in ns. With Count 0 there are no times, and
// they are 0.
type Summary struct {
	Count    uint64  `json:"count"`   // answered requests
	Rate     float64 `json:"rate"`    // answered requests
	Errors   float64 `json:"errors"`  // requests that ended with SERVER_ERROR
	Keys     float64 `json:"keys"`    // keys asked for by retrievals
	Misses   float64 `json:"misses"`  // of them not found
	Received float64 `json:"in"`      // bytes from clients
	Sent     float64 `json:"out"`     // bytes to clients
	Batch    float64 `json:"batch"`   // requests per round of a worker
	Waiting  float64 `json:"waiting"` // requests waiting in the queue, mean
	Bursts   int     `json:"bursts"`  // bursts in the queue at the window's end
	Busy     float64 `json:"busy"`    // busy workers, mean

	Mean    float64            `json:"mean"`
	P50     float64            `json:"p50"`
	P90     float64            `json:"p90"`
	P99     float64            `json:"p99"`
	P999    float64            `json:"p999"`
	Stages  [NumStages]float64 `json:"stages"` // mean per request
	Classes [NumClasses]Load   `json:"classes"`
	Servers []Load             `json:"servers"`
}

// Load is the load of one class of commands or of one server in a window: rates per second and times in ns.
type Load struct {
	Rate   float64 `json:"rate"`
	Mean   float64 `json:"mean"`
	P99    float64 `json:"p99"`
	Errors float64 `json:"errors"` // failures; of servers only
}

// Summary summarises a window that Sub has returned.
func (s *Snapshot) Summary() Summary {
	elapsed := float64(max(s.Uptime, 1)) / float64(time.Second)
	rate := func(n uint64) float64 { return float64(n) / elapsed }
	load := func(h *Histogram, errors uint64) Load {
		return Load{Rate: rate(h.Count()), Mean: h.Mean(), P99: h.Quantile(0.99), Errors: rate(errors)}
	}
	all := s.All()
	sum := Summary{
		Count:    all.Count(),
		Rate:     rate(all.Count()),
		Keys:     rate(s.Keys),
		Misses:   rate(s.Misses),
		Received: rate(s.FromClients),
		Sent:     rate(s.ToClients),
		// By Little's law the time all requests spent waiting, divided by the time it was spent in, is how many waited.
		Waiting: float64(s.Stages[StageQueue].Sum()) / float64(time.Second) / elapsed,
		Bursts:  s.QueueLength,
		Busy:    min(float64(s.BusyTime)/float64(time.Second)/elapsed, float64(s.Workers)),
		Mean:    all.Mean(),
		P50:     all.Quantile(0.5),
		P90:     all.Quantile(0.9),
		P99:     all.Quantile(0.99),
		P999:    all.Quantile(0.999),
		Servers: make([]Load, len(s.Servers)),
	}
	if s.Rounds > 0 {
		sum.Batch = float64(s.RoundRequests) / float64(s.Rounds)
	}
	for c := range s.Requests {
		sum.Errors += rate(s.Requests[c][ResultServerError])
	}
	for i := range s.Stages {
		sum.Stages[i] = s.Stages[i].Mean()
	}
	for i := range s.Response {
		sum.Classes[i] = load(&s.Response[i], 0)
	}
	for i := range s.Servers {
		var errors uint64
		for _, n := range s.Servers[i].Errors {
			errors += n
		}
		sum.Servers[i] = load(&s.Servers[i].Times, errors)
	}
	return sum
}
