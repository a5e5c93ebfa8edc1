package memtier

import (
	"fmt"
	"math"
	"strings"
	"time"

	"mcmw/internal/lab/sample"
)

// Output is the report of one call of memtier_benchmark.
type Output struct {
	Threads int
	// Connections is the number per thread.
	Connections int
	// Duration is the time that the load was to take, in seconds; 0 if RequestsPerConnection bounds it.
	Duration              float64
	RequestsPerConnection int
	// Configuration has the settings by memtier's names, "ratio" and "data_size" among them. Text has none.
	Configuration map[string]string
	// Results are "ALL STATS" of a single run; of several "RUN #1" and so on, if memtier was told --print-all-runs, and the best, the worst and
	// the average of all.
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

// Runs returns the runs one by one; of several that memtier didn't print none.
func (o *Output) Runs() (runs []*Result) {
	for i := range o.Results {
		if r := &o.Results[i]; strings.HasPrefix(r.Title, "RUN #") || len(o.Results) == 1 && r.Averaged() == 1 {
			runs = append(runs, r)
		}
	}
	return runs
}

// Averaged returns of how many runs the result is the average: 1 if it is that of a run.
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
	// Start and Finish are zero where memtier doesn't say them: in text, and in averages.
	Start, Finish time.Time
	// Interrupted says that the run was stopped before its end.
	Interrupted bool
	Rows        []Row
	// Distributions are the cumulative distributions of response times by the command's name, such as "SET".
	Distributions map[string][]Quantile
}

// Row returns the row of this name: "Sets", "Gets", "Waits", "Totals", or that of an arbitrary command.
func (r *Result) Row(name string) (Row, bool) {
	for _, row := range r.Rows {
		if row.Name == name {
			return row, true
		}
	}
	return Row{}, false
}

// meanOfTotals puts the mean of the other rows, each weighted by its throughput, into the row Totals where memtier (some releases from 2.0 on)
// divides integers there and prints whole milliseconds.
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
	// Comparisons that are false for NaN.
	if mean := sum / throughput; math.Trunc(mean*1e3) == math.Round(r.Rows[totals].Mean*1e6)/1e3 {
		r.Rows[totals].Mean = mean
	}
}

// Row has the figures of one kind of request, or of all.
type Row struct {
	Name string
	// Count is the number of requests, 0 where an output doesn't say it.
	Count uint64
	// Throughput, Hits and Misses are per second; hits and misses count keys.
	Throughput, Hits, Misses float64
	// Errors are failed connections, in the whole run.
	Errors uint64
	// Mean, Min and Max are response times in seconds.
	Mean, Min, Max float64
	Percentiles    []Quantile
	// Bytes, Received and Sent are per second.
	Bytes, Received, Sent float64
	// Seconds is the course of the run, by time.
	Seconds []Second
	// Histogram has the response times, in seconds; empty where the output has none.
	Histogram sample.Histogram
}

func emptyRow(name string) Row {
	none := math.NaN()
	return Row{Name: name, Throughput: none, Hits: none, Misses: none, Mean: none, Min: none, Max: none, Bytes: none, Received: none, Sent: none}
}

// Percentile returns the response time that the share of requests did not exceed, NaN if the output doesn't have it.
func (r Row) Percentile(share float64) float64 {
	for _, q := range r.Percentiles {
		if math.Abs(q.Share-share) < 1e-9 {
			return q.Seconds
		}
	}
	return math.NaN()
}

// Quantile says that the share of requests took at most so many seconds.
type Quantile struct {
	Share, Seconds float64
}

// Second is a second of a run.
type Second struct {
	// Start is in seconds from the start of the run.
	Start                    float64
	Count                    uint64
	Received, Sent           uint64 // bytes
	Mean, Min, Max           float64
	Percentiles              []Quantile
	Hits, Misses, ConnErrors uint64
}
