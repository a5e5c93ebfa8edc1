package check

import (
	"cmp"
	"context"
	"fmt"

	"mcmw/internal/lab/record"
	"mcmw/internal/lab/sample"
)

// Set makes the checks that need all runs of a set: whether the repetitions of each point agree.
func Set(runs []record.Run) []record.Warning {
	varying := record.Varying(runs)
	var warnings []record.Warning
	for _, point := range record.Points(runs) {
		where := cmp.Or(record.Label(point.Factors, varying), "the only point")
		if n := len(point.Complete()); n < minRepetitions {
			warnings = append(warnings, warn(TooFewRepetitions, "%s: %d complete runs: no interval can be given", where, n)...)
			continue
		}
		for _, metric := range []struct{ name, title string }{{"throughput", "throughput"}, {"response_time_mean", "mean response time"}} {
			for _, source := range []string{record.SourceClient, record.SourceMiddleware} {
				values := point.Values(source, metric.name)
				if len(values) < minRepetitions {
					continue
				}
				if v := sample.Of(values).Variation(); v > maxRepetitionVariation {
					warnings = append(warnings, warn(RepetitionVariation, "%s: the coefficient of variation of the %s (%s) over %d repetitions is %s",
						where, metric.title, source, len(values), percent(v))...)
				}
				break // the middlewares are asked only where the clients know nothing
			}
		}
	}
	return warnings
}

// Record makes all checks of a record and stores the warnings in it, in place of earlier ones. It returns how many there are.
func Record(ctx context.Context, r *record.Record) (warnings int, err error) {
	runs, err := r.Runs(ctx)
	if err != nil {
		return 0, err
	}
	for _, run := range runs {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if run.Windows, err = r.Windows(run.ID); err != nil {
			return 0, err
		}
		if run.HostSamples, err = r.HostSamples(run.ID); err != nil {
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
