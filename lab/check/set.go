package check

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"mcmw/lab/frame"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// Set makes the checks that need all runs: whether the repetitions of each point agree.
func Set(runs []record.Run) []record.Warning {
	varying := record.Varying(runs)
	var warnings []record.Warning
	for _, point := range frame.Of(runs, 0).Points {
		where := cmp.Or(record.Label(point.Levels, varying), "the only point")
		if n := len(point.Runs); n < minRepetitions {
			warnings = append(warnings, warn(TooFewRepetitions, "%s: %d complete runs are too few for an interval",
				where, n)...)
			continue
		}
		for _, metric := range steadyMetrics {
			for _, source := range []string{record.SourceClient, record.SourceMiddleware} {
				values := point.Values(source, metric.name)
				if len(values) < minRepetitions {
					continue
				}
				if v := sample.Of(values).Variation(); v > maxRepetitionVariation {
					warnings = append(warnings, warn(RepetitionVariation,
						"%s: the coefficient of variation of the %s (%s) over %d repetitions is %s",
						where, metric.title, source, len(values), percent(v))...)
				}
				break // the middlewares' values are only used if the clients have none
			}
		}
	}
	return warnings
}

// Record makes all checks of a record, replaces the warnings in it, and returns their number.
func Record(ctx context.Context, r *record.Record) (warnings int, err error) {
	runs, err := r.Runs(ctx)
	if err != nil {
		return 0, err
	}
	for _, run := range runs {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := readSeries(r, &run); err != nil {
			return 0, err
		}
		found := Run(run, r.Manifest())
		if err := r.SetWarnings(run.ID, found); err != nil {
			return 0, fmt.Errorf("warnings of run %d: %w", run.ID, err)
		}
		warnings += len(found)
	}
	set := Set(runs)
	if err := r.SetWarnings(0, set); err != nil {
		return 0, err
	}
	return warnings + len(set), nil
}

// readSeries adds the windows and host samples of a run, which the checks need, from its record.
func readSeries(r *record.Record, run *record.Run) (err error) {
	if run.Windows, err = r.Windows(run.ID); err != nil {
		return err
	}
	run.HostSamples, err = r.HostSamples(run.ID)
	return err
}

// RecordUnchecked returns the codes of the checks for which no point of a record has the measurements. It looks at one
// complete run of each point.
func RecordUnchecked(r *record.Record, runs []record.Run) (codes []string, err error) {
	first := true
	for _, point := range frame.Of(runs, 0).Points {
		if len(point.Runs) == 0 {
			continue
		}
		run := point.Runs[0]
		if err := readSeries(r, &run); err != nil {
			return nil, err
		}
		found := Unchecked(run, r.Manifest())
		if first {
			codes, first = found, false
		} else {
			codes = slices.DeleteFunc(codes, func(c string) bool { return !slices.Contains(found, c) })
		}
		if len(codes) == 0 {
			break
		}
	}
	return codes, nil
}
