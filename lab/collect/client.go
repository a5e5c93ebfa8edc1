package collect

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"mcmw/lab/load"
	"mcmw/lab/record"
	"mcmw/lab/testbed"
)

// clients adds the measurements of the load processes, of each and of all together.
func (c *collector) clients(loads []load.Result) {
	for i := range loads {
		if len(loads) > 1 {
			c.client(numbered(record.SourceClient, i), loads[i:i+1])
		}
	}
	c.client(record.SourceClient, loads)
}

// commandOf returns the name in records of a command of a load. If the ratio has no MULTIGETs, GETs of several keys are
// multi-gets.
func commandOf(name string, l load.Result) string {
	if name == "GET" && l.MultiGets == 0 && l.KeysPerGet > 1 {
		return "multiget"
	}
	return strings.ToLower(name)
}

// Client returns the values of the clients in the result of a load.
func Client(l load.Result) []record.Value {
	c := &collector{run: &record.Run{}}
	c.client(record.SourceClient, []load.Result{l})
	return c.run.Results
}

// client adds the results and windows of load processes that ran at the same time.
func (c *collector) client(source string, loads []load.Result) {
	total := make([]load.CommandResult, len(loads))
	var cpu, read, written float64
	saturated := 0.0
	names := map[string]bool{}
	for i, l := range loads {
		total[i] = l.Total
		cpu += l.Generator.CPU().Seconds()
		read += float64(l.BytesIn)
		written += float64(l.BytesOut)
		if l.Generator.Limit != load.LimitNone {
			saturated = 1
		}
		for name := range l.Commands {
			names[name] = true
		}
	}
	c.requests(source, "", total)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		of := make([]load.CommandResult, len(loads))
		for i, l := range loads {
			of[i] = l.Commands[name]
		}
		command := commandOf(name, loads[0])
		c.requests(source, command, of)
		c.bins(source, command, of)
	}
	c.result(source, "seconds_cpu", cpu)
	c.result(source, "bytes_read", read)
	c.result(source, "bytes_written", written)
	c.result(source, "saturated", saturated)
	c.result(source, "think_time_mean", loads[0].ThinkTime.Seconds())
	c.clientSeries(source, loads)
}

// requests adds the results of one command, or of all ("").
func (c *collector) requests(source, command string, each []load.CommandResult) {
	var rate, n, hits, misses, failures, latency float64
	for _, r := range each {
		rate += r.OpsPerSec
		n += float64(r.Requests)
		hits += float64(r.Hits)
		misses += float64(r.Misses)
		failures += float64(r.Failures)
		latency += r.Latency.Mean.Seconds() * float64(r.Requests)
	}
	give := func(metric string, value float64) {
		c.result(source, strings.TrimSuffix(metric+"_"+command, "_"), value)
	}
	give("throughput", rate)
	give("requests", n)
	give("hits", hits)
	give("misses", misses)
	give("errors", failures)
	if n == 0 {
		return
	}
	give("response_time_mean", latency/n)
	h := merged(each)
	if h == nil { // the driver of the load has none
		if l := each[0].Latency; len(each) == 1 {
			for i, v := range []time.Duration{l.Min, l.P50, l.P90, l.P99, l.P999, l.Max} {
				if v > 0 {
					give("response_time_"+[]string{"min", "p50", "p90", "p99", "p999", "max"}[i], v.Seconds())
				}
			}
		}
		return
	}
	give("response_time_stddev", h.StdDev()/1e9)
	give("response_time_min", float64(h.Min())/1e9)
	for _, p := range []struct {
		name       string
		percentile float64
	}{{"p50", 50}, {"p90", 90}, {"p95", 95}, {"p99", 99}, {"p999", 99.9}} {
		give("response_time_"+p.name, float64(h.ValueAtPercentile(p.percentile))/1e9)
	}
	give("response_time_max", float64(h.Max())/1e9)
}

// merged returns the latencies of all results, ns; nil if one with requests has no histogram.
func merged(each []load.CommandResult) *hdrhistogram.Histogram {
	var all *hdrhistogram.Histogram
	for _, r := range each {
		switch {
		case r.Requests == 0:
		case r.Histogram == nil:
			return nil
		case all == nil:
			all = r.Histogram.HDR()
		default:
			all.Merge(r.Histogram.HDR())
		}
	}
	return all
}

func (c *collector) bins(source, command string, each []load.CommandResult) {
	counts := map[[2]int64]uint64{}
	for _, r := range each {
		if r.Histogram == nil {
			continue
		}
		for i, from := range r.Histogram.From {
			counts[[2]int64{from, r.Histogram.To[i]}] += r.Histogram.Counts[i]
		}
	}
	c.histogram(source, command, counts)
}

// shortestWindow is the least length of a window of the series. The last window of a load can be shorter: it has only
// the last replies.
const shortestWindow = 100 * time.Millisecond

// clientSeries adds the windows that all load processes have.
func (c *collector) clientSeries(source string, loads []load.Result) {
	for second := range len(loads[0].Windows) {
		var rate, n, latency, failures, start, seconds float64
		for _, l := range loads {
			if second >= len(l.Windows) || l.Windows[second].Length < shortestWindow {
				return
			}
			w := l.Windows[second]
			rate += w.OpsPerSec
			n += float64(w.Requests)
			latency += w.Latency.Mean.Seconds() * float64(w.Requests)
			failures += float64(w.Failures)
			start += (c.measured.from(l.Started) + float64(w.Index)) / float64(len(loads))
			seconds = max(seconds, w.Length.Seconds())
		}
		c.window(source, start, seconds, "throughput", rate)
		c.window(source, start, seconds, "errors", failures)
		if n > 0 {
			c.window(source, start, seconds, "response_time_mean", latency/n)
		}
	}
}

// LoadRun returns the run of a load from its result in JSON. If the load was interrupted, the run is a failed one.
func LoadRun(text []byte) (run record.Run, err error) {
	var l load.Result
	err = json.Unmarshal(text, &l)
	if err == nil && (l.Driver == "" || l.Connections < 1) {
		err = errors.New("driver or connections is missing")
	}
	if err != nil {
		return run, fmt.Errorf("no result of a load: %w: expected a file that mcmwlab load wrote with --json-out-file",
			err)
	}
	run = record.Run{State: record.Complete, Factors: loadFactors(&l)}
	if l.Interrupted {
		run.State, run.Error, run.Started = record.Failed, "the load was interrupted", l.Started
		return run, nil
	}
	err = Run(&testbed.Outputs{Loads: [][]byte{text}}, &run)
	return run, err
}

// loadFactors returns the properties of a load by the names of an experiment's settings.
func loadFactors(l *load.Result) map[string]string {
	f := map[string]string{
		"clients": strconv.Itoa(l.Connections), "load_threads": strconv.Itoa(l.Threads),
		"pipeline": strconv.Itoa(l.Pipeline), "ratio": fmt.Sprintf("%d:%d", l.Sets, l.Gets),
		"keys_per_get": strconv.Itoa(l.KeysPerGet),
		"value_size":   cmp.Or(l.ValueSizes, strconv.Itoa(l.ValueSize)), "key_pattern": l.KeyPattern,
		"keys": strconv.FormatUint(l.Keys, 10), "think_time": l.ThinkTime.String(),
		"rate": cmp.Or(l.Rate, "0"), "protocol": l.Protocol, "tls": strconv.FormatBool(l.TLS),
	}
	if l.MultiGets > 0 {
		f["ratio"] += ":" + strconv.Itoa(l.MultiGets)
	}
	if l.Rate != "" {
		f["arrivals"] = l.Arrivals
	}
	return f
}
