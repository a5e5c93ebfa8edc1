package report

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcmw/internal/lab/capacity"
	"mcmw/internal/lab/experiment"
	"mcmw/internal/lab/record"
	"mcmw/internal/lab/sample"
)

// Data is a record's data, with its runs grouped by point.
type Data struct {
	Manifest record.Manifest
	Dir      string // of the record
	Points   []Point
	Failed   []record.Run
	// Warnings are those of the whole set; runs have their own.
	Warnings []record.Warning
	// Confidence is the confidence of the intervals, such as 0.95.
	Confidence float64
	// Quality is the experiment's definition of a quality of service; nil: it has none.
	Quality *capacity.Rule

	wanted     map[string]string // the selection of levels
	store      *record.Record
	hosts      map[int64][]record.Window // by run, as they are read
	histograms map[int64][]record.Bin
}

// selected returns the selection as "factor=level" each, sorted.
func (d *Data) selected() (all []string) {
	for _, f := range slices.Sorted(maps.Keys(d.wanted)) {
		all = append(all, f+"="+d.wanted[f])
	}
	return all
}

func (d *Data) samples(run int64) ([]record.Window, error) {
	if got, ok := d.hosts[run]; ok {
		return got, nil
	}
	got, err := d.store.HostSamples(run)
	if err == nil {
		d.hosts[run] = got
	}
	return got, err
}

// distribution returns the histogram of a metric of a run; nil if there is none.
func (d *Data) distribution(run int64, source, metric, command string) (sample.Histogram, error) {
	bins, ok := d.histograms[run]
	if !ok {
		var err error
		if bins, err = d.store.Histograms(run); err != nil {
			return nil, err
		}
		d.histograms[run] = bins
	}
	var parts []sample.Histogram
	byCommand := map[string]sample.Histogram{}
	for _, b := range bins {
		if b.Source == source && b.Metric == metric {
			byCommand[b.Command] = append(byCommand[b.Command], sample.Bin{Lower: b.Lower, Upper: b.Upper, Count: float64(b.Count)})
		}
	}
	if h, ok := byCommand[command]; ok || command != "" {
		return h, nil
	}
	for _, c := range slices.Sorted(maps.Keys(byCommand)) {
		parts = append(parts, byCommand[c])
	}
	return sample.MergeHistograms(parts...)
}

// Point is a combination of factor levels, with its runs.
type Point struct {
	Levels map[string]string
	Runs   []record.Run // complete ones, by repetition

	confidence float64
}

// Read reads the runs of a record with the wanted levels; nil means all. The record must stay open while the data
// is used: distributions and traces are read when they are drawn.
func Read(ctx context.Context, r *record.Record, confidence float64, wanted map[string]string) (*Data, error) {
	runs, err := r.Runs(ctx)
	if err != nil {
		return nil, err
	}
	d := &Data{Manifest: r.Manifest(), Dir: r.Dir(), Confidence: confidence, wanted: wanted, store: r, hosts: map[int64][]record.Window{}, histograms: map[int64][]record.Bin{}}
	if d.Warnings, err = r.Warnings(ctx); err != nil {
		return nil, err
	}
	if rule, ok := experiment.QualityOf(d.Manifest); ok {
		d.Quality = &rule
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("%s: there are no runs in it; mcmwlab run makes them", r.Dir())
	}
	if err := known(runs, wanted); err != nil {
		return nil, err
	}
	places := map[string]int{}
	for _, run := range runs {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(wanted)), func(f string) bool { return run.Factors[f] != wanted[f] }) {
			if run.State != record.Complete {
				d.Failed = append(d.Failed, run)
				continue
			}
			key := fmt.Sprint(run.Factors) // fmt prints maps in the order of their keys
			at, ok := places[key]
			if !ok {
				at = len(d.Points)
				places[key] = at
				d.Points = append(d.Points, Point{Levels: run.Factors, confidence: confidence})
			}
			d.Points[at].Runs = append(d.Points[at].Runs, run)
		}
	}
	if len(d.Points) == 0 {
		why := ""
		if len(d.Failed) > 0 {
			why = fmt.Sprintf("; the first of %d that failed: %s", len(d.Failed), d.Failed[0].Error)
		}
		return nil, fmt.Errorf("%s: no complete run to report%s", r.Dir(), why)
	}
	return d, nil
}

// known says what is wrong with a selection of levels, if anything.
func known(runs []record.Run, wanted map[string]string) error {
	for _, factor := range slices.Sorted(maps.Keys(wanted)) {
		levels := map[string]bool{}
		names := map[string]bool{}
		for _, run := range runs {
			for name, level := range run.Factors {
				names[name] = true
				if name == factor {
					levels[level] = true
				}
			}
		}
		if len(levels) == 0 {
			return fmt.Errorf("there is no factor %q: expected one of %s", factor, strings.Join(slices.Sorted(maps.Keys(names)), ", "))
		}
		if !levels[wanted[factor]] {
			return fmt.Errorf("factor %s has no level %q: expected one of %s", factor, wanted[factor], strings.Join(sortLevels(slices.Collect(maps.Keys(levels))), ", "))
		}
	}
	return nil
}

// Estimate is a metric's mean over the repetitions of a point.
type Estimate struct {
	sample.Moments
	Interval sample.Interval // confidence interval of the mean; without ends for less than two repetitions
}

// OK reports whether there is a value at all.
func (e Estimate) OK() bool { return e.N > 0 }

// Estimate returns the estimate of a metric of a source.
func (p Point) Estimate(source, metric string) Estimate {
	return p.derive(func(r record.Run) (float64, bool) { return r.Value(source, metric) })
}

// derive returns the estimate of what f computes from every run; runs where it can't do not count.
func (p Point) derive(f func(record.Run) (float64, bool)) Estimate {
	var values []float64
	for _, run := range p.Runs {
		if v, ok := f(run); ok && !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	m := sample.Of(values)
	return Estimate{Moments: m, Interval: sample.MeanInterval(m, p.confidence)}
}

// Number returns the level of a factor as a number, in base units.
func (p Point) Number(factor string) (float64, bool) { return levelNumber(p.Levels[factor]) }

// levelNumber reads a level that is a number or a duration, such as 64 or 10ms.
func levelNumber(level string) (float64, bool) {
	if v, err := strconv.ParseFloat(level, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
		return v, true
	}
	if d, err := time.ParseDuration(level); err == nil {
		return d.Seconds(), true
	}
	return 0, false
}

// sortLevels sorts levels by their numbers, ratios such as 1:9 by the share of the first, others as text.
func sortLevels(levels []string) []string {
	number := func(level string) float64 {
		if v, ok := levelNumber(level); ok {
			return v
		}
		first, second, ok := strings.Cut(level, ":")
		a, okA := levelNumber(first)
		b, okB := levelNumber(second)
		if ok && okA && okB && a+b > 0 {
			return a / (a + b)
		}
		return math.Inf(1)
	}
	slices.SortFunc(levels, func(a, b string) int { return cmp.Or(cmp.Compare(number(a), number(b)), cmp.Compare(a, b)) })
	return levels
}

// levels returns the levels of a factor that points have, sorted. A point that has not the factor has the level "".
func levels(points []Point, factor string) []string {
	seen := map[string]bool{}
	for _, p := range points {
		seen[p.Levels[factor]] = true
	}
	return sortLevels(slices.Collect(maps.Keys(seen)))
}

// factors returns the names of all factors, sorted.
func factors(points []Point) []string {
	seen := map[string]bool{}
	for _, p := range points {
		for name := range p.Levels {
			seen[name] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// sources returns the sources with a prefix that have a metric at any of the points, sorted.
func sources(points []Point, prefix, metric string) []string {
	seen := map[string]bool{}
	for _, p := range points {
		for _, r := range p.Runs {
			for _, v := range r.Results {
				if v.Metric == metric && strings.HasPrefix(v.Source, prefix) {
					seen[v.Source] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
