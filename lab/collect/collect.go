package collect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"mcmw/internal/statlog"
	"mcmw/lab/load"
	"mcmw/lab/record"
	"mcmw/lab/testbed"
)

type span struct {
	begin, end time.Time
}

func (s span) seconds() float64 { return s.end.Sub(s.begin).Seconds() }

// from returns the time from the beginning of the span to t, seconds.
func (s span) from(t time.Time) float64 { return t.Sub(s.begin).Seconds() }

// maxSeconds, a year, is the longest time that is accepted in outputs. Broken outputs could otherwise give numbers out
// of range.
const maxSeconds = 366 * 24 * 3600

// Run sets in r the start, the length, the results, windows, histograms and host samples of a run from its outputs.
func Run(o *testbed.Outputs, r *record.Run) error {
	loads, err := readLoads(o.Loads)
	if err != nil {
		return err
	}
	measured := span{loads[0].Started, loads[0].Started.Add(loads[0].Elapsed)}
	for _, l := range loads[1:] {
		if l.Started.After(measured.begin) {
			measured.begin = l.Started
		}
		if end := l.Started.Add(l.Elapsed); end.Before(measured.end) {
			measured.end = end
		}
	}
	if s := measured.seconds(); s <= 0 || s > maxSeconds {
		return fmt.Errorf("the load processes did not measure at the same time: the last began at %v, the first "+
			"ended at %v", measured.begin, measured.end)
	}
	r.Started, r.Seconds = measured.begin.UTC(), measured.seconds()
	c := &collector{run: r, measured: measured, cpu: map[string]float64{}, calls: map[string]float64{}}
	c.clients(loads)
	var middlewares [][]logged
	for i, text := range o.Middlewares {
		start, windows, err := readLog(text, measured)
		if err != nil {
			return fmt.Errorf("statistics log of middleware:%d: %w", i, err)
		}
		middlewares = append(middlewares, windows)
		if i == 0 && start.Processors > 0 {
			c.result(record.SourceMiddleware, "processors", float64(start.Processors))
		}
		// All middlewares have the same settings. With a pool per server the log has the workers of all pools together.
		if i == 0 && start.Workers > 0 && r.Factors["pool"] != "per-server" {
			c.result(record.SourceMiddleware, "workers", float64(start.Workers))
			c.result(record.SourceMiddleware, "depth", float64(start.Depth))
		}
	}
	c.middlewares(middlewares)
	for _, name := range slices.Sorted(maps.Keys(o.Hosts)) {
		source := record.SourceHost
		if len(o.Hosts) > 1 || o.Ground != nil {
			source += ":" + name
		}
		if err := c.host(source, o.Hosts[name]); err != nil {
			return fmt.Errorf("host %s: %w", name, err)
		}
	}
	if o.Ground != nil {
		if err := c.host(record.SourceHost, o.Ground); err != nil {
			return fmt.Errorf("the machine that emulates the hosts: %w", err)
		}
	}
	c.perRequest()
	if o.Dilation > 0 {
		speedUp(r, o.Dilation)
	}
	return nil
}

func readLoads(texts [][]byte) (loads []load.Result, err error) {
	for i, text := range texts {
		var l load.Result
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("result of client:%d: %w", i, err)
		}
		if l.Elapsed < 0 || l.Elapsed.Seconds() > maxSeconds {
			return nil, fmt.Errorf("result of client:%d: it measured for %v; expected 0 to %v", i, l.Elapsed,
				time.Duration(maxSeconds*float64(time.Second)))
		}
		err := checkHistogram("all requests", l.Total.Histogram)
		for name, r := range l.Commands {
			err = cmp.Or(err, checkHistogram(name, r.Histogram))
		}
		if err != nil {
			return nil, fmt.Errorf("result of client:%d: %w", i, err)
		}
		loads = append(loads, l)
	}
	if len(loads) == 0 {
		return nil, errors.New("there is no result of a load process")
	}
	return loads, nil
}

// checkHistogram returns an error if the bins of a histogram make no sense.
func checkHistogram(command string, h *load.Histogram) error {
	if h == nil {
		return nil
	}
	if len(h.From) != len(h.To) || len(h.From) != len(h.Counts) {
		return fmt.Errorf("histogram of %s: %d lower bounds, %d upper bounds and %d counts", command, len(h.From),
			len(h.To), len(h.Counts))
	}
	for i, from := range h.From {
		if from < 0 || h.To[i] <= from || h.Counts[i] > math.MaxInt64 {
			return fmt.Errorf("histogram of %s: bin %d: %d values from %d to %d ns", command, i, h.Counts[i], from,
				h.To[i])
		}
	}
	return nil
}

// logged is a window of a statistics log that is at least partly in the measured window.
type logged struct {
	statlog.Window
	share float64 // the part in the measured window, 0 to 1
	start float64 // of that part, seconds from the beginning of the measured window
}

// readLog returns the first line of a statistics log, if it is there, and the windows that are at least partly in the
// measured window.
func readLog(text []byte, measured span) (start statlog.Start, windows []logged, err error) {
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var w statlog.Window
		if err := json.Unmarshal(line, &w); err != nil {
			return start, nil, fmt.Errorf("line %d: %w", n, err)
		}
		if w.Type == "start" {
			if err := json.Unmarshal(line, &start); err != nil {
				return start, nil, fmt.Errorf("line %d: %w", n, err)
			}
		}
		if w.Type != "window" || w.Seconds <= 0 || w.Seconds > maxSeconds {
			continue
		}
		from := measured.from(time.UnixMilli(w.From))
		begin, end := max(from, 0), min(from+w.Seconds, measured.seconds())
		if end > begin {
			windows = append(windows, logged{w, min((end-begin)/w.Seconds, 1), begin})
		}
	}
	return start, windows, nil
}

type collector struct {
	run      *record.Run
	measured span
	// cpu is the processor time, seconds, and calls the number of reads and writes, of all clients, all middlewares and
	// all servers.
	cpu, calls map[string]float64
}

func (c *collector) result(source, metric string, value float64) {
	c.run.Results = append(c.run.Results, record.Value{Source: source, Metric: metric, Value: value})
}

func (c *collector) window(source string, start, seconds float64, metric string, value float64) {
	c.run.Windows = append(c.run.Windows,
		record.Window{Source: source, Start: start, Seconds: seconds, Metric: metric, Value: value})
}

// histogram adds the response times of a command. The keys of counts are the bounds of the bins, ns; the upper one may
// be statlog.Unbounded.
func (c *collector) histogram(source, command string, counts map[[2]int64]uint64) {
	for _, bounds := range slices.SortedFunc(maps.Keys(counts), func(a, b [2]int64) int {
		return slices.Compare(a[:], b[:])
	}) {
		upper := float64(bounds[1]) / 1e9
		if bounds[1] == statlog.Unbounded {
			upper = math.Inf(1)
		}
		c.run.Histograms = append(c.run.Histograms, record.Bin{
			Source: source, Metric: "response_time", Command: command, Lower: float64(bounds[0]) / 1e9, Upper: upper,
			Count: counts[bounds],
		})
	}
}

func numbered(source string, i int) string { return source + ":" + strconv.Itoa(i) }

// speedUp converts a run that was measured in real time to the time of machines with a dilation.
func speedUp(r *record.Run, dilation float64) {
	r.Seconds /= dilation
	for i := range r.Results {
		r.Results[i].Value *= record.PerTime(r.Results[i].Metric, dilation)
	}
	for _, windows := range [][]record.Window{r.Windows, r.HostSamples} {
		for i := range windows {
			w := &windows[i]
			w.Start, w.Seconds = w.Start/dilation, w.Seconds/dilation
			w.Value *= record.PerTime(w.Metric, dilation)
		}
	}
	for i := range r.Histograms {
		b := &r.Histograms[i]
		factor := record.PerTime(b.Metric, dilation)
		b.Lower, b.Upper = b.Lower*factor, b.Upper*factor
	}
}
