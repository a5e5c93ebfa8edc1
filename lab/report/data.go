package report

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mcmw/lab/capacity"
	"mcmw/lab/experiment"
	"mcmw/lab/frame"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// Data is the data of a record, with its runs grouped by point.
type Data struct {
	Manifest record.Manifest
	Dir      string // of the record
	frame.Frame
	Failed     []record.Run     // and not made again
	Warnings   []record.Warning // of the whole set; runs have their own
	Confidence float64          // of the intervals, such as 0.95
	Quality    *capacity.Rule   // the experiment's quality of service; nil: it has none

	wanted map[string]string // the selected levels, by factor
	cpus   map[string][]int  // the processors that the testbed gives the programs of a role; none: all
	store  *record.Record
	// Parts of store by run, once they have been read:
	hosts      map[int64][]record.Value // means of the samples
	histograms map[int64][]record.Bin
}

// All returns the runs, the failed ones last.
func (d *Data) All() []record.Run { return slices.Concat(d.Runs(), d.Failed) }

// sampled returns the means of the samples of the hosts during a run.
func (d *Data) sampled(run int64) ([]record.Value, error) {
	if got, ok := d.hosts[run]; ok {
		return got, nil
	}
	samples, err := d.store.HostSamples(run)
	if err == nil {
		d.hosts[run] = record.Means(samples)
	}
	return d.hosts[run], err
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
			byCommand[b.Command] = append(byCommand[b.Command],
				sample.Bin{Lower: b.Lower, Upper: b.Upper, Count: float64(b.Count)})
		}
	}
	if h, ok := byCommand[command]; ok || command != "" {
		return h, nil
	}
	return sample.MergeHistograms(slices.Collect(maps.Values(byCommand))...)
}

// Read reads the runs of a record with the wanted levels; nil means all runs. The record must stay open while the data
// is used: distributions and traces are read when they are drawn.
func Read(ctx context.Context, r *record.Record, confidence float64, wanted map[string]string) (*Data, error) {
	runs, err := r.Runs(ctx)
	if err != nil {
		return nil, err
	}
	d := &Data{
		Manifest: r.Manifest(), Dir: r.Dir(), Confidence: confidence, wanted: wanted, store: r,
		hosts: map[int64][]record.Value{}, histograms: map[int64][]record.Bin{},
	}
	if d.Warnings, err = r.Warnings(ctx); err != nil {
		return nil, err
	}
	if e, ok := experiment.Of(d.Manifest); ok {
		d.cpus = e.CPUs
		if e.Quality != nil {
			d.Quality = &e.Quality.Rule
		}
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("%s: the record has no runs; mcmwlab run makes them", r.Dir())
	}
	if d.Frame, err = frame.Of(runs, confidence).Where(wanted); err != nil {
		return nil, err
	}
	d.Points = slices.DeleteFunc(d.Points, func(p frame.Point) bool { return len(p.Runs) == 0 })
	d.Failed = slices.DeleteFunc(record.Lost(runs), func(run record.Run) bool {
		return !record.HasLevels(run.Factors, wanted)
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

// servers returns the servers that have a metric at any point, sorted.
func servers(points []frame.Point, metric string) []string {
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
