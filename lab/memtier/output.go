package memtier

import (
	"fmt"
	"math"
	"strings"
	"time"

	"mcmw/lab/sample"
)

// Output is the output of one run of memtier_benchmark, or of several made by one command.
type Output struct {
	Threads int
	// Connections is the number per thread.
	Connections int
	// Duration is the requested duration, seconds; 0 if a number of requests was requested instead.
	Duration float64
	// Configuration has the settings by memtier's names, such as "ratio" and "data_size". Text has none.
	Configuration map[string]string
	// Results has "ALL STATS" for a single run. For several runs it has the best, the worst and the average, and before
	// them "RUN #1" and so on if memtier ran with --print-all-runs.
	Results []Result
}

// Clients returns the number of connections.
func (o *Output) Clients() int { return o.Threads * o.Connections }

// Overall returns the result of all runs: the only one, or the average.
func (o *Output) Overall() *Result {
	for i := range o.Results {
		if strings.HasPrefix(o.Results[i].Title, "AGGREGATED") {
			return &o.Results[i]
		}
	}
	return &o.Results[0]
}

// Runs returns the results of single runs; none if memtier has printed only those over several runs.
func (o *Output) Runs() (runs []*Result) {
	for i := range o.Results {
		if r := &o.Results[i]; strings.HasPrefix(r.Title, "RUN #") || len(o.Results) == 1 && r.Averaged() == 1 {
			runs = append(runs, r)
		}
	}
	return runs
}

// Averaged returns how many runs the result averages; 1 for a single run.
func (r *Result) Averaged() int {
	n := 1
	if _, err := fmt.Sscanf(r.Title, "AGGREGATED AVERAGE RESULTS (%d runs)", &n); err != nil || n < 1 {
		return 1
	}
	return n
}

// Result is one table of an output.
type Result struct {
	// Title is memtier's headline.
	Title string
	// Start and Finish are zero if memtier does not say them: in text, and in averages.
	Start, Finish time.Time
	// Interrupted says whether the run was stopped before its end.
	Interrupted bool
	Rows        []Row
	// Distributions are the cumulative distributions of response times, by command, such as "SET".
	Distributions map[string][]Quantile
}

// Row returns the row with this name: "Sets", "Gets", "Waits", "Totals", or that of an arbitrary command.
func (r *Result) Row(name string) (Row, bool) {
	for _, row := range r.Rows {
		if row.Name == name {
			return row, true
		}
	}
	return Row{}, false
}

// meanOfTotals replaces the mean of the row Totals by the mean of the other rows, weighted by throughput, if memtier
// has divided integers for it: some releases since 2.0 print whole milliseconds there.
func (r *Result) meanOfTotals() {
	totals, sum, throughput := -1, 0.0, 0.0
	for i, row := range r.Rows {
		switch {
		case row.Name == "Totals":
			totals = i
		case row.Throughput > 0:
			throughput += row.Throughput
			sum += row.Throughput * row.Mean
		}
	}
	if totals < 0 || throughput == 0 {
		return
	}
	r.Rows[totals].Mean = finer(r.Rows[totals].Mean, sum/throughput)
}

// finer returns exact in place of a mean in seconds that memtier has cut to whole milliseconds, as some releases do.
// Otherwise, and if exact is NaN, it returns the mean.
func finer(mean, exact float64) float64 {
	if math.Trunc(exact*1e3) == math.Round(mean*1e6)/1e3 {
		return exact
	}
	return mean
}

// exactMean returns the row's mean in seconds from the sums of its seconds, or else from its histogram; NaN if it has
// neither.
func (r *Row) exactMean() float64 {
	total, count := 0.0, uint64(0)
	for _, s := range r.Seconds {
		if s.Count > 0 {
			total += s.Total
			count += s.Count
		}
	}
	if count > 0 && !math.IsNaN(total) {
		return total / float64(count)
	}
	return r.Histogram.Mean()
}

// Row has the figures of one kind of request, or of all requests.
type Row struct {
	Name string
	// Count is the number of requests; 0 if an output does not say it.
	Count uint64
	// Throughput, Hits and Misses are per second. Hits and Misses count keys.
	Throughput, Hits, Misses float64
	// Errors are the failed connections in the whole run.
	Errors uint64
	// Mean, Min and Max are response times in seconds.
	Mean, Min, Max float64
	Percentiles    []Quantile
	// Received and Sent are bytes per second.
	Received, Sent float64
	// Seconds are the seconds of the run, in order.
	Seconds []Second
	// Histogram has the response times, seconds; empty if the output has none.
	Histogram sample.Histogram
}

func emptyRow(name string) Row {
	none := math.NaN()
	return Row{
		Name: name, Throughput: none, Hits: none, Misses: none, Mean: none, Min: none, Max: none, Received: none,
		Sent: none,
	}
}

// Percentile returns the response time that this share of requests did not exceed; NaN if the output lacks it.
func (r Row) Percentile(share float64) float64 { return percentileOf(r.Percentiles, share) }

func percentileOf(percentiles []Quantile, share float64) float64 {
	for _, q := range percentiles {
		if math.Abs(q.Share-share) < 1e-9 {
			return q.Seconds
		}
	}
	return math.NaN()
}

// Quantile says that this share of requests took at most this many seconds.
type Quantile struct {
	Share, Seconds float64
}

// Second is one second of a run.
type Second struct {
	// Start is in seconds since the start of the run.
	Start          float64
	Count          uint64
	Mean, Min, Max float64
	Total          float64 // sum of the response times, seconds; NaN if the output lacks it
	Percentiles    []Quantile
	Hits, Misses   uint64
}
