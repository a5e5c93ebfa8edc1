package admin

import (
	"time"

	"mcmw/internal/stats"
)

// Summary is a window for display: rates per second, and times in ns. If Count is 0, all times are 0.
type Summary struct {
	Count uint64  `json:"count"` // answered requests, without those answered from memory
	Rate  float64 `json:"rate"`  // answered requests, including those answered from memory
	// requests answered from memory; they are not in Count, and the times do not include theirs
	Hot      float64 `json:"hot"`
	Errors   float64 `json:"errors"`  // requests answered with SERVER_ERROR
	Keys     float64 `json:"keys"`    // keys requested by retrievals
	Misses   float64 `json:"misses"`  // of these, keys that were not found
	Large    float64 `json:"large"`   // values that were stored or read in chunks
	Received float64 `json:"in"`      // bytes from clients
	Sent     float64 `json:"out"`     // bytes to clients
	Batch    float64 `json:"batch"`   // requests per round of a worker
	Arrived  float64 `json:"arrived"` // requests put on the queue
	Waiting  float64 `json:"waiting"` // mean number of requests waiting in the queue, by Little's law
	Queued   float64 `json:"queued"`  // the same, as the mean of samples
	Serving  float64 `json:"serving"` // mean number of requests in service, from samples
	Batches  int     `json:"batches"` // batches in the queue at the window's end
	Bursts   int     `json:"bursts"`  // the previous name of Batches
	Busy     float64 `json:"busy"`    // mean number of busy workers

	Mean   float64                  `json:"mean"`
	P50    float64                  `json:"p50"`
	P90    float64                  `json:"p90"`
	P99    float64                  `json:"p99"`
	P999   float64                  `json:"p999"`
	Stages [stats.NumStages]float64 `json:"stages"` // mean per request
	// Hist holds the numbers of response times between the bounds that HistBounds returns.
	Hist    []uint64                    `json:"hist"`
	Classes [stats.NumClasses]ClassLoad `json:"classes"`
	Servers []ServerLoad                `json:"servers"`
	Shadows []ShadowLoad                `json:"shadows,omitempty"`
}

// Load is the load of one class of commands or of one server in a window: rates per second and times in ns.
type Load struct {
	Rate   float64 `json:"rate"`
	Mean   float64 `json:"mean"`
	P50    float64 `json:"p50"`
	P99    float64 `json:"p99"`
	Errors float64 `json:"errors"` // failures; only of servers
}

// ClassLoad is the load of one class of commands.
type ClassLoad struct {
	Load
	Stages [stats.NumStages]float64 `json:"stages"` // mean per request
}

// ServerLoad is the load of one server.
type ServerLoad struct {
	Name string `json:"name"` // in the window, whose servers can be others than those of a later one
	Load
	Waited float64 `json:"waited"` // mean number of workers that are blocked waiting for its replies
}

// HistBounds returns the bounds, in ns, between which Summary.Hist counts: ten per decade, from 10 us to 10 s. Hist has
// one element more: its first counts times below the first bound, its last times from the last bound on.
func HistBounds() []int64 {
	var bounds []int64
	for decade := int64(10 * time.Microsecond); decade < int64(10*time.Second); decade *= 10 {
		for _, tenths := range []int64{10, 12, 15, 20, 25, 30, 40, 50, 60, 80} {
			bounds = append(bounds, decade/10*tenths)
		}
	}
	return append(bounds, int64(10*time.Second))
}

var histBounds = HistBounds()

// Summarize returns the summary of a window that stats.Snapshot.Sub returned.
func Summarize(s *stats.Snapshot) Summary {
	elapsed := float64(max(s.Uptime, 1)) / float64(time.Second)
	rate := func(n uint64) float64 { return float64(n) / elapsed }
	load := func(h *stats.Histogram, errors uint64) Load {
		return Load{
			Rate: rate(h.Count()), Mean: h.Mean(), P50: h.Quantile(0.5), P99: h.Quantile(0.99),
			Errors: rate(errors),
		}
	}
	all := s.All()
	sum := Summary{
		Count:    all.Count(),
		Rate:     rate(all.Count() + s.Hot()),
		Hot:      rate(s.Hot()),
		Errors:   rate(s.Ended(stats.ResultServerError)),
		Keys:     rate(s.Keys),
		Misses:   rate(s.Misses),
		Large:    rate(s.Large.Stored + s.Large.Read),
		Arrived:  rate(s.Arrived),
		Received: rate(s.FromClients),
		Sent:     rate(s.ToClients),
		// By Little's law the mean number of waiting requests is the total time that requests waited, divided by the
		// length of the window.
		Waiting: float64(s.Stages[stats.StageQueue].Sum()) / float64(time.Second) / elapsed,
		Batches: s.QueueLength,
		Bursts:  s.QueueLength,
		Busy:    min(float64(s.BusyTime)/float64(time.Second)/elapsed, float64(s.Workers)),
		Mean:    all.Mean(),
		P50:     all.Quantile(0.5),
		P90:     all.Quantile(0.9),
		P99:     all.Quantile(0.99),
		P999:    all.Quantile(0.999),
		Hist:    all.Between(histBounds),
		Servers: make([]ServerLoad, len(s.Servers)),
	}
	if s.Samples > 0 {
		sum.Queued = float64(s.SampledWaiting) / float64(s.Samples)
		sum.Serving = float64(s.SampledServing) / float64(s.Samples)
	}
	if s.Rounds > 0 {
		sum.Batch = float64(s.RoundRequests) / float64(s.Rounds)
	}
	for i := range s.Stages {
		sum.Stages[i] = s.Stages[i].Mean()
	}
	for i := range s.Response {
		c := ClassLoad{Load: load(&s.Response[i], 0)}
		for stage, total := range s.ClassStages[i] {
			c.Stages[stage] = float64(total) / float64(max(s.Response[i].Count(), 1))
		}
		sum.Classes[i] = c
	}
	for i := range s.Servers {
		var errors uint64
		for _, n := range s.Servers[i].Errors {
			errors += n
		}
		sum.Servers[i] = ServerLoad{
			Name:   s.Servers[i].Name,
			Load:   load(&s.Servers[i].Times, errors),
			Waited: float64(s.Servers[i].Waited) / float64(time.Second) / elapsed,
		}
	}
	sum.Shadows = shadowLoads(s, rate)
	return sum
}
