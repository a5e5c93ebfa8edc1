package check

import (
	"math"
	"slices"

	"mcmw/internal/spell"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

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
