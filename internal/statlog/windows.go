// Package statlog writes the statistics log (one window per line) and the request log (one request per line) as JSON,
// for analysis by programs. docs/observability.md describes every field.
package statlog

import (
	"context"
	"encoding/json"
	"io"
	"math/big"
	"time"

	"mcmw/internal/stats"
)

// step is the width of the histogram's steps.
const step = 100 * time.Microsecond

// Start is the first line of a run.
type Start struct {
	Type    string  `json:"type"` // "start"
	Time    int64   `json:"time"` // ms since 1970
	Version string  `json:"version"`
	Window  float64 `json:"window"` // s
	Workers int     `json:"workers"`
	Depth   int     `json:"depth"`
	// Processors is the number that the process may use at a time.
	Processors int      `json:"processors"`
	Servers    []string `json:"servers"`
}

// Window is a line of the log after the first: a window, or, as the last line of a run, the summary of all windows.
type Window struct {
	Type    string  `json:"type"`   // "window" or "summary"
	Number  int     `json:"number"` // of the window, from 1; in the summary the number of windows
	From    int64   `json:"from"`   // ms since 1970
	Until   int64   `json:"until"`
	Seconds float64 `json:"seconds"`

	Requests    uint64  `json:"requests"` // answered
	Throughput  float64 `json:"throughput"`
	Arrivals    uint64  `json:"arrivals"` // put on the queue
	ArrivalRate float64 `json:"arrivalRate"`
	// requests answered from memory; of the other numbers only Keys includes them
	Hot          uint64 `json:"hot"`
	ServerErrors uint64 `json:"serverErrors"` // requests answered with SERVER_ERROR
	Keys         uint64 `json:"keys"`
	Misses       uint64 `json:"misses"`

	Queue   Sampled `json:"queue"`   // waiting requests
	Service Sampled `json:"service"` // requests in service
	Busy    float64 `json:"busy"`    // mean number of busy workers

	// Times are by name: response, response:CLASS, the five stages, server:NAME. Names without times are left out.
	Times     map[string]Times `json:"times"`
	Histogram Histogram        `json:"histogram"` // of the response times
	// Distributions are the response times of each class at full resolution: the lower and the upper bound in ns, and
	// the count of every bucket that is not empty. A class without requests is left out.
	Distributions map[string][][3]int64 `json:"distributions"`
}

// Unbounded stands for the upper bound of a bucket that has none.
const Unbounded = -1

// Sampled is a number of requests that was sampled during the window.
type Sampled struct {
	Samples uint64  `json:"samples"`
	Sum     uint64  `json:"sum"`
	Mean    float64 `json:"mean"`
}

func sampledOf(samples, sum uint64) Sampled {
	return Sampled{Samples: samples, Sum: sum, Mean: float64(sum) / float64(max(samples, 1))}
}

// Times are the moments of a set of times in ns. N, Sum and Squares are exact; Mean and M2 follow from them.
type Times struct {
	N       uint64   `json:"n"`
	Mean    float64  `json:"mean"`
	M2      float64  `json:"m2"`
	Sum     uint64   `json:"sum"`
	Squares *big.Int `json:"squares"`
}

// Histogram holds the non-empty steps, as pairs of a step's number and its count. Step i counts times from i*Step up to
// (i+1)*Step.
type Histogram struct {
	Step   int64       `json:"step"` // ns
	Counts [][2]uint64 `json:"counts"`
	Beyond uint64      `json:"beyond"` // times of 200 ms and more
}

// Windows writes the statistics log.
type Windows struct {
	registry *stats.Registry
	length   time.Duration
	out      *json.Encoder

	first, last       *stats.Snapshot // cumulative
	firstTime, latest time.Time       // when first and last were taken
	number            int
}

// NewWindows writes the first line of a run to out, and returns a log whose first window begins now. length is the
// length of a window.
func NewWindows(out io.Writer, r *stats.Registry, length time.Duration, version string) (*Windows, error) {
	w := &Windows{registry: r, length: length, out: json.NewEncoder(out), first: r.Snapshot(), firstTime: time.Now()}
	w.last, w.latest = w.first, w.firstTime
	line := Start{
		Type: "start", Time: w.firstTime.UnixMilli(), Version: version, Window: length.Seconds(),
		Workers: w.first.Workers, Depth: w.first.Depth, Processors: w.first.Processors,
		Servers: []string{},
	}
	for i := range w.first.Servers {
		line.Servers = append(line.Servers, w.first.Servers[i].Name)
	}
	return w, w.out.Encode(line)
}

// Run writes a line for each window until ctx is done, and then a line for the rest and the summary. It returns early
// if a line cannot be written.
func (w *Windows) Run(ctx context.Context) error {
	tick := time.NewTicker(w.length)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := w.window(); err != nil {
				return err
			}
		case <-ctx.Done():
			return w.end()
		}
	}
}

// window writes the line for the time since the last window.
func (w *Windows) window() error {
	s, now := w.registry.Snapshot(), time.Now()
	w.number++
	line := w.line("window", s.Sub(w.last), w.latest, now)
	w.last, w.latest = s, now
	return w.out.Encode(line)
}

// end writes the last window, and the summary.
func (w *Windows) end() error {
	if err := w.window(); err != nil {
		return err
	}
	return w.out.Encode(w.line("summary", w.last.Sub(w.first), w.firstTime, w.latest))
}

// line returns the line for s, the difference of two snapshots.
func (w *Windows) line(kind string, s *stats.Snapshot, from, until time.Time) *Window {
	seconds := max(float64(s.Uptime), 1) / float64(time.Second)
	all := s.All()
	l := &Window{
		Type: kind, Number: w.number, From: from.UnixMilli(), Until: until.UnixMilli(), Seconds: seconds,
		Requests: all.Count(), Throughput: float64(all.Count()) / seconds,
		Arrivals: s.Arrived, ArrivalRate: float64(s.Arrived) / seconds,
		Hot: s.Hot(), ServerErrors: s.Ended(stats.ResultServerError), Keys: s.Keys, Misses: s.Misses,
		Queue: sampledOf(s.Samples, s.SampledWaiting), Service: sampledOf(s.Samples, s.SampledServing),
		Busy:  float64(s.BusyTime) / float64(time.Second) / seconds,
		Times: map[string]Times{}, Distributions: map[string][][3]int64{},
	}
	add := func(name string, h *stats.Histogram) {
		if h.Count() > 0 {
			m := h.Moments()
			l.Times[name] = Times{N: m.N, Mean: m.Mean, M2: m.M2, Sum: h.Sum(), Squares: h.Squares()}
		}
	}
	add("response", &all)
	for c := range stats.NumClasses {
		add("response:"+c.String(), &s.Response[c])
		if bins := binsOf(&s.Response[c]); len(bins) > 0 {
			l.Distributions[c.String()] = bins
		}
	}
	for i := range stats.NumStages {
		add(i.String(), &s.Stages[i])
	}
	for i := range s.Servers {
		add("server:"+s.Servers[i].Name, &s.Servers[i].Times)
	}
	counts, beyond, err := all.Linear(step)
	if err != nil {
		panic(err) // step is a valid step of histograms
	}
	l.Histogram = Histogram{Step: int64(step), Counts: [][2]uint64{}, Beyond: beyond}
	for i, n := range counts {
		if n > 0 {
			l.Histogram.Counts = append(l.Histogram.Counts, [2]uint64{uint64(i), n})
		}
	}
	return l
}

// binsOf returns the non-empty buckets of h.
func binsOf(h *stats.Histogram) (bins [][3]int64) {
	for i, n := range h.Buckets() {
		upper := int64(Unbounded)
		if i+1 < stats.NumBuckets {
			upper = stats.Bound(i + 1)
		}
		bins = append(bins, [3]int64{stats.Bound(i), upper, int64(n)})
	}
	return bins
}
