package check

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"mcmw/internal/spell"
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

// steadyMetrics are the metrics that should be the same in all windows of a run, and in all repetitions of a point.
var steadyMetrics = []struct{ name, title string }{
	{"throughput", "throughput"},
	{"response_time_mean", "mean response time"},
}

// series returns a metric's windows from the clients or, if they have none, from the middlewares. Windows that are
// shorter than the others, such as the last one, are left out.
func series(run record.Run, metric string) (source string, windows []record.Window) {
	longest := 0.0
	for _, source = range []string{record.SourceClient, record.SourceMiddleware} {
		for _, w := range run.Windows {
			if w.Source == source && w.Metric == metric {
				windows = append(windows, w)
				longest = max(longest, w.Seconds)
			}
		}
		if windows != nil {
			break
		}
	}
	return source, slices.DeleteFunc(windows, func(w record.Window) bool { return w.Seconds < 0.9*longest })
}

func values(windows []record.Window) []float64 {
	values := make([]float64, len(windows))
	for i, w := range windows {
		values[i] = w.Value
	}
	return values
}

// stationary looks for a trend of the throughput and of the mean response time over the windows.
func stationary(run record.Run, _ record.Manifest) (warnings []record.Warning, able bool) {
	if !steadyRate(run) {
		return nil, true // it needs no windows
	}
	for _, metric := range steadyMetrics {
		source, windows := series(run, metric.name)
		trend := sample.TrendOf(values(windows))
		if trend.P < significant && math.Abs(trend.Drift) > maxDrift {
			direction := "rises"
			if trend.Drift < 0 {
				direction = "falls"
			}
			warnings = append(warnings, warn(NotStationary,
				"the %s (%s) %s by %s from the first to the last of %d windows: not a steady state; a longer warm-up "+
					"may help",
				metric.title, source, direction, percent(math.Abs(trend.Drift)), len(windows))...)
		}
	}
	_, windows := series(run, "throughput")
	return warnings, len(windows) >= minWindows
}

// windowVariation checks the variation of the throughput from window to window. The throughput of windows with n
// requests varies by about 1/sqrt(n) by chance.
func windowVariation(run record.Run, _ record.Manifest) ([]record.Warning, bool) {
	source, windows := series(run, "throughput")
	if len(windows) < minWindows || !steadyRate(run) {
		return nil, !steadyRate(run)
	}
	m := sample.Of(values(windows))
	counted := m.Mean * windows[0].Seconds
	return warnIf(counted > 0 && m.Variation() > math.Sqrt(maxWindowVariation*maxWindowVariation+1/counted),
		WindowVariation, "the coefficient of variation of the throughput (%s) over %d windows is %s around %s/s",
		source, len(windows), percent(m.Variation()), spell.Count(m.Mean))
}
