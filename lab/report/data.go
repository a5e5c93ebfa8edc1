package report

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"mcmw/lab/capacity"
	"mcmw/lab/experiment"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// Data is the data of a record, with its runs grouped by point.
type Data struct {
	Manifest   record.Manifest
	Dir        string // of the record
	Points     []Point
	Failed     []record.Run
	Warnings   []record.Warning // of the whole set; runs have their own
	Confidence float64          // of the intervals, such as 0.95
	Quality    *capacity.Rule   // the experiment's quality of service; nil: it has none

	wanted map[string]string // the selected levels, by factor
	store  *record.Record
	// Parts of store by run, once they have been read:
	hosts      map[int64][]record.Window
	histograms map[int64][]record.Bin
}

func newData(r *record.Record, confidence float64) *Data {
	return &Data{Manifest: r.Manifest(), Dir: r.Dir(), Confidence: confidence, store: r, hosts: map[int64][]record.Window{}, histograms: map[int64][]record.Bin{}}
}

// samples returns the samples of the hosts during a run.
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

// distribution returns the histogram of a metric of a run; nil if there is none. An empty command means all commands.
func (d *Data) distribution(run int64, source, metric, command string) (sample.Histogram, error) {
	bins, ok := d.histograms[run]
	if !ok {
		var err error
		if bins, err = d.store.Histograms(run); err != nil {
			return nil, err
		}
		d.histograms[run] = bins
	}
	byCommand := map[string]sample.Histogram{}
	for _, b := range bins {
		if b.Source == source && b.Metric == metric {
			byCommand[b.Command] = append(byCommand[b.Command], sample.Bin{Lower: b.Lower, Upper: b.Upper, Count: float64(b.Count)})
		}
	}
	if h, ok := byCommand[command]; ok || command != "" {
		return h, nil
	}
	return sample.MergeHistograms(slices.Collect(maps.Values(byCommand))...)
}

// Point is a combination of factor levels, with its runs.
type Point struct {
	Levels map[string]string
	Runs   []record.Run // complete ones, by repetition

	confidence float64
}

// Has reports whether the point has these levels.
func (p Point) Has(levels map[string]string) bool { return record.HasLevels(p.Levels, levels) }

// Read reads the runs of a record with the wanted levels; nil means all runs. The record must stay open while the data is used:
// distributions and traces are read when they are drawn.
func Read(ctx context.Context, r *record.Record, confidence float64, wanted map[string]string) (*Data, error) {
	runs, err := r.Runs(ctx)
	if err != nil {
		return nil, err
	}
	d := newData(r, confidence)
	d.wanted = wanted
	if d.Warnings, err = r.Warnings(ctx); err != nil {
		return nil, err
	}
	if rule, ok := experiment.QualityOf(d.Manifest); ok {
		d.Quality = &rule
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("%s: the record has no runs; mcmwlab run makes them", r.Dir())
	}
	var all []Point
	for _, p := range record.Points(runs) {
		all = append(all, Point{Levels: p.Factors, Runs: p.Complete(), confidence: confidence})
	}
	if err := checkLevels(all, wanted); err != nil {
		return nil, err
	}
	d.Points = slices.DeleteFunc(all, func(p Point) bool { return len(p.Runs) == 0 || !p.Has(wanted) })
	d.Failed = slices.DeleteFunc(runs, func(run record.Run) bool {
		return run.State == record.Complete || !record.HasLevels(run.Factors, wanted)
	})
	if len(d.Points) == 0 {
		why := ""
		if len(d.Failed) > 0 {
			why = fmt.Sprintf("; the first error of the %d failed runs: %s", len(d.Failed), d.Failed[0].Error)
		}
		return nil, fmt.Errorf("%s: the record has no complete run to report%s", r.Dir(), why)
	}
	return d, nil
}

// checkLevels returns an error unless the points have the wanted levels.
func checkLevels(points []Point, wanted map[string]string) error {
	for _, factor := range slices.Sorted(maps.Keys(wanted)) {
		if names := factors(points); !slices.Contains(names, factor) {
			return fmt.Errorf("there is no factor %q: expected one of %s", factor, strings.Join(names, ", "))
		}
		all := slices.DeleteFunc(levels(points, factor), func(level string) bool { return level == "" })
		if !slices.Contains(all, wanted[factor]) {
			return fmt.Errorf("factor %s has no level %q: expected one of %s", factor, wanted[factor], strings.Join(all, ", "))
		}
	}
	return nil
}

// Estimate returns the estimate of a metric of a source.
func (p Point) Estimate(source, metric string) sample.Estimate {
	return p.derive(func(r record.Run) (float64, bool) { return r.Value(source, metric) })
}

// derive returns the estimate of the values that f computes from the runs; runs without a value do not count.
func (p Point) derive(f func(record.Run) (float64, bool)) sample.Estimate {
	var values []float64
	for _, run := range p.Runs {
		if v, ok := f(run); ok && !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	return sample.Of(values).Estimate(p.confidence)
}

// Number returns the level of a factor as a number, in base units.
func (p Point) Number(factor string) (float64, bool) { return record.Level(p.Levels[factor]).Number() }

// levels returns the levels of a factor at the points, sorted. A point without the factor has the level "".
func levels(points []Point, factor string) []string {
	seen := map[string]bool{}
	for _, p := range points {
		seen[p.Levels[factor]] = true
	}
	return slices.SortedFunc(maps.Keys(seen), record.CompareLevels)
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

// servers returns the servers that have a metric at any point, sorted.
func servers(points []Point, metric string) []string {
	seen := map[string]bool{}
	for _, p := range points {
		for _, r := range p.Runs {
			for _, v := range r.Results {
				if v.Metric == metric && strings.HasPrefix(v.Source, record.SourceServer) {
					seen[v.Source] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
