package record

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
)

// held is the content of a record that has no database, to which no run can be added.
type held struct {
	runs     []Run // in the order of Record.Runs, with all their data
	warnings []Warning
	text     bool // it is kept as text, so that its warnings can't be replaced
}

// InMemory returns a record of runs that are not stored. path says in errors where they are from. Like Add it leaves
// out values that aren't finite. It keeps the runs' slices.
func InMemory(path string, m Manifest, runs []Run) *Record {
	infinite := func(w Window) bool { return !finite(w.Value) }
	for i := range runs {
		run := &runs[i]
		renameClients(run.Factors)
		run.Results = slices.DeleteFunc(run.Results, func(v Value) bool { return !finite(v.Value) })
		run.Windows = slices.DeleteFunc(run.Windows, infinite)
		run.HostSamples = slices.DeleteFunc(run.HostSamples, infinite)
		slices.SortFunc(run.Results, func(a, b Value) int {
			return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Metric, b.Metric))
		})
		for _, windows := range [][]Window{run.Windows, run.HostSamples} {
			slices.SortFunc(windows, func(a, b Window) int {
				return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Metric, b.Metric),
					cmp.Compare(a.Start, b.Start))
			})
		}
		slices.SortFunc(run.Histograms, func(a, b Bin) int {
			return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Metric, b.Metric),
				cmp.Compare(a.Command, b.Command), cmp.Compare(a.Lower, b.Lower))
		})
	}
	slices.SortFunc(runs, func(a, b Run) int {
		return cmp.Or(a.Point-b.Point, a.Repetition-b.Repetition, cmp.Compare(a.ID, b.ID))
	})
	return &Record{dir: path, manifest: m, held: &held{runs: runs}}
}

// all returns the runs as Record.Runs does.
func (h *held) all() []Run {
	runs := slices.Clone(h.runs)
	for i := range runs {
		runs[i].Windows, runs[i].HostSamples, runs[i].Histograms = nil, nil, nil
	}
	return runs
}

// run returns a run; an empty one if there is none.
func (h *held) run(id int64) *Run {
	if at := slices.IndexFunc(h.runs, func(run Run) bool { return run.ID == id }); at >= 0 {
		return &h.runs[at]
	}
	return &Run{}
}

// setWarnings replaces the warnings of a run or, if run is 0, those of the set.
func (h *held) setWarnings(run int64, warnings []Warning) {
	if run == 0 {
		h.warnings = warnings
	} else {
		h.run(run).Warnings = warnings
	}
}

// exportHeld writes the tables of a record that has no database.
func (r *Record) exportHeld(ctx context.Context, dir, format string) (files []string, err error) {
	temporary, err := os.MkdirTemp("", "mcmwlab-record-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	filled, err := Create(temporary, r.manifest)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, filled.Close()) }()
	for _, run := range r.held.runs {
		if err := filled.Add(run); err != nil {
			return nil, err
		}
	}
	if err := filled.SetWarnings(0, r.held.warnings); err != nil {
		return nil, err
	}
	return filled.Export(ctx, dir, format)
}
