package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"slices"
	"time"

	"mcmw/internal/faulty"
	"mcmw/internal/lab/load"
)

// Case is a closed-loop load that both generators make.
type Case struct {
	Name string
	// delay is how long replies are held back on their way, as by a network: then the path and not a generator's processor
	// time says how many requests there can be. 0: the generators are connected to the memcached.
	delay time.Duration
	load  load.Options
}

// Cases returns the loads that are compared, all of one thread and with keys that are stored before.
func Cases() []Case {
	const path = 5 * time.Millisecond
	return []Case{
		{"SET:GET 1:9, 64 B, 50 connections, path of 5 ms", path, load.Options{Connections: 50, Sets: 1, Gets: 9, ValueSize: 64}},
		{"SET:GET 1:1, 1 KiB, 50 connections, path of 5 ms", path, load.Options{Connections: 50, Sets: 1, Gets: 1, ValueSize: 1024}},
		{"GET, 4 KiB, 20 connections, path of 5 ms", path, load.Options{Connections: 20, Gets: 1, ValueSize: 4096}},
		{"SET:GET 1:9, 64 B, 10 connections, pipeline 8, path of 5 ms", path, load.Options{Connections: 10, Pipeline: 8, Sets: 1, Gets: 9, ValueSize: 64}},
		{"SET:GET 1:9, 64 B, 50 connections", 0, load.Options{Connections: 50, Sets: 1, Gets: 9, ValueSize: 64}},
	}
}

// CompareOptions says how the generators are compared.
type CompareOptions struct {
	Target  string // host:port of the memcached
	Cases   []Case // what to compare; none means Cases()
	Mcmwlab string // path of mcmwlab
	Memtier Memtier
	Rounds  int
	// Duration is the length of a measurement, whole seconds.
	Duration time.Duration
	// Progress, when set, is called before each measurement.
	Progress func(round int, name, generator string)
}

// Comparison is what was measured of a case, by round.
type Comparison struct {
	Case         string   `json:"case"`
	Own          []Sample `json:"own"`
	Memtier      []Sample `json:"memtier"`
	OwnSaturated int      `json:"own_saturated"` // rounds in which our generator was the limit
	OwnHeldBack  int      `json:"own_held_back"` // rounds in which it waited for cores
	// MemtierSaturated counts the rounds in which memtier was the limit.
	MemtierSaturated int    `json:"memtier_saturated"`
	OwnMisses        uint64 `json:"own_misses"`
	MemtierMisses    uint64 `json:"memtier_misses"`
}

// Sample is what one generator measured in one round: throughput in requests per second, times in seconds.
type Sample struct {
	Throughput    float64 `json:"ops_per_s"`
	Mean          float64 `json:"mean_s"`
	CPUPerRequest float64 `json:"cpu_per_request_s"` // user and system time of its process, from its start on
}

// Compare measures all cases with both generators, each a process of its own. In a round the generators follow each other, in
// the next the other way round. An error that came after whole rounds leaves these in the result.
func Compare(ctx context.Context, o CompareOptions) ([]Comparison, error) {
	var all []Comparison
	if len(o.Cases) == 0 {
		o.Cases = Cases()
	}
	for _, c := range o.Cases {
		all = append(all, Comparison{Case: c.Name})
	}
	for round := range o.Rounds {
		for i, c := range o.Cases {
			own, theirs, err := o.round(ctx, c, round, &all[i])
			if err != nil {
				return all, fmt.Errorf("round %d, %s: %w", round+1, c.Name, err)
			}
			all[i].Own, all[i].Memtier = append(all[i].Own, own), append(all[i].Memtier, theirs)
		}
	}
	return all, nil
}

// round measures a case with both.
func (o *CompareOptions) round(ctx context.Context, c Case, round int, into *Comparison) (own, theirs Sample, err error) {
	l := c.load
	target := o.Target
	if c.delay > 0 {
		path, err := faulty.StartProxy(target)
		if err != nil {
			return own, theirs, err
		}
		defer path.Stop()
		path.Inject(faulty.Fault{Delay: c.delay})
		target = path.Addr()
	}
	l.Targets, l.Duration, l.Seed = []string{o.Target}, o.Duration, uint64(round)
	if l, err = l.Complete(); err != nil {
		return own, theirs, err
	}
	if err := load.Populate(ctx, l); err != nil {
		return own, theirs, err
	}
	l.Targets = []string{target}
	first, second := Name, load.DriverOwn
	if round%2 == 1 {
		first, second = second, first
	}
	for _, generator := range []string{first, second} {
		if o.Progress != nil {
			o.Progress(round+1, c.Name, generator)
		}
		if generator == Name {
			r, err := o.Memtier.Run(ctx, l)
			if err != nil {
				return own, theirs, err
			}
			theirs, into.MemtierMisses = sampleOf(r, r.Generator.CPU(), o.Duration), into.MemtierMisses+r.Total.Misses
			if r.Generator.Limit == load.LimitGenerator {
				into.MemtierSaturated++
			}
			continue
		}
		r, cpu, err := runOwn(ctx, o.Mcmwlab, l)
		if err != nil {
			return own, theirs, err
		}
		own, into.OwnMisses = sampleOf(r, cpu, o.Duration), into.OwnMisses+r.Total.Misses
		switch r.Generator.Limit {
		case load.LimitGenerator:
			into.OwnSaturated++
		case load.LimitMachine:
			into.OwnHeldBack++
		}
	}
	return own, theirs, ctx.Err()
}

// sampleOf returns what a result of so many whole seconds says. Requests are counted by the second: memtier often idles for a
// second at its end, in which each connection sends its last request, and divides by that time, too.
func sampleOf(r *load.Result, cpu, duration time.Duration) Sample {
	s := Sample{Mean: r.Total.Latency.Mean.Seconds()}
	for _, w := range r.Windows {
		if time.Duration(w.Index)*time.Second < duration {
			s.Throughput += float64(w.Requests) / duration.Seconds()
		}
	}
	if len(r.Windows) == 0 {
		s.Throughput = r.Total.OpsPerSec
	}
	if r.Total.Requests > 0 {
		s.CPUPerRequest = cpu.Seconds() / float64(r.Total.Requests)
	}
	return s
}

// runOwn runs `mcmwlab load` with a load and returns its result and the CPU time of its whole process.
func runOwn(ctx context.Context, path string, l load.Options) (*load.Result, time.Duration, error) {
	cmd := exec.CommandContext(ctx, path, "load", "--quiet", "--json-out-file=-",
		"--target="+l.Targets[0],
		fmt.Sprintf("--threads=%d", l.Threads),
		fmt.Sprintf("--clients=%d", l.Connections/l.Threads),
		fmt.Sprintf("--pipeline=%d", l.Pipeline),
		fmt.Sprintf("--ratio=%d:%d", l.Sets, l.Gets),
		fmt.Sprintf("--data-size=%d", l.ValueSize),
		fmt.Sprintf("--seed=%d", l.Seed),
		fmt.Sprintf("--test-time=%v", l.Duration),
	)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, 0, errors.Join(context.Cause(ctx), fmt.Errorf("%s load: %w: %s", path, err, lastWords(errs.Bytes())))
	}
	r := new(load.Result)
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		return nil, 0, fmt.Errorf("the result of %s load: %w", path, err)
	}
	return r, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}

// Ratios returns ours divided by memtier's, round by round.
func (c *Comparison) Ratios(of func(Sample) float64) []float64 {
	var ratios []float64
	for i := range c.Own {
		ratios = append(ratios, of(c.Own[i])/of(c.Memtier[i]))
	}
	return ratios
}

// The columns of a comparison.
var (
	throughput = func(s Sample) float64 { return s.Throughput }
	mean       = func(s Sample) float64 { return s.Mean }
	cpu        = func(s Sample) float64 { return s.CPUPerRequest }
)

// Agrees reports whether the medians of the ratios of throughput and mean response time are within a share of 1, and
// whether our CPU time per request is at most memtier's.
func (c *Comparison) Agrees(within float64) (results, cost bool) {
	results = true
	for _, column := range []func(Sample) float64{throughput, mean} {
		results = results && math.Abs(median(c.Ratios(column))-1) <= within
	}
	return results, median(c.Ratios(cpu)) <= 1
}

// WriteMarkdown writes the table: medians, and in brackets the least and the greatest ratio of a round.
func WriteMarkdown(w io.Writer, all []Comparison, within float64) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "| load | ops/s ours | memtier | ratio | mean ms ours | memtier | ratio | CPU us per request ours | memtier | ratio | within %.0f %% | generators as the limit |\n", 100*within)
	fmt.Fprintln(&b, "|---|---|---|---|---|---|---|---|---|---|---|---|")
	for _, c := range all {
		if len(c.Own) == 0 {
			continue
		}
		cells := func(of func(Sample) float64, unit float64, digits int) string {
			values := func(samples []Sample) (list []float64) {
				for _, s := range samples {
					list = append(list, of(s)*unit)
				}
				return list
			}
			ratios := c.Ratios(of)
			return fmt.Sprintf("%.*f | %.*f | %.3f (%.3f to %.3f)", digits, median(values(c.Own)), digits, median(values(c.Memtier)),
				median(ratios), slices.Min(ratios), slices.Max(ratios))
		}
		results, cost := c.Agrees(within)
		verdict := map[bool]string{true: "yes", false: "no"}[results]
		if !cost {
			verdict += ", at more CPU"
		}
		limit := "-"
		if c.OwnSaturated > 0 || c.OwnHeldBack > 0 || c.MemtierSaturated > 0 {
			limit = fmt.Sprintf("of %d rounds, memtier was the limit in %d, ours in %d; it waited for cores in %d", len(c.Own), c.MemtierSaturated,
				c.OwnSaturated, c.OwnHeldBack)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", c.Case, cells(throughput, 1, 0), cells(mean, 1e3, 3), cells(cpu, 1e6, 2), verdict, limit)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// median returns the middle of the values, NaN without any.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
