package check

import (
	"math"

	"mcmw/internal/lab/record"
	"mcmw/internal/lab/sample"
	"mcmw/internal/spell"
)

// series returns the values of a metric over a run's whole windows, from the clients or else the middlewares. A last window that is
// shorter than the others is left out.
func series(run record.Run, metric string) (source string, windows []record.Window) {
	for _, source := range []string{record.SourceClient, record.SourceMiddleware} {
		var windows []record.Window
		longest := 0.0
		for _, w := range run.Windows {
			if w.Source == source && w.Metric == metric {
				windows = append(windows, w)
				longest = max(longest, w.Seconds)
			}
		}
		if windows == nil {
			continue
		}
		var whole []record.Window
		for _, w := range windows {
			if w.Seconds >= 0.9*longest {
				whole = append(whole, w)
			}
		}
		return source, whole
	}
	return "", nil
}

func values(windows []record.Window) []float64 {
	values := make([]float64, len(windows))
	for i, w := range windows {
		values[i] = w.Value
	}
	return values
}

// stationary looks for a trend over the windows: in the throughput, and in the mean response time.
func stationary(run record.Run) []record.Warning {
	if !steadyRate(run) {
		return nil
	}
	var warnings []record.Warning
	for _, metric := range []struct{ name, title string }{{"throughput", "throughput"}, {"response_time_mean", "mean response time"}} {
		source, windows := series(run, metric.name)
		trend := sample.TrendOf(values(windows))
		if trend.P < significant && math.Abs(trend.Drift) > maxDrift {
			direction := "rises"
			if trend.Drift < 0 {
				direction = "falls"
			}
			warnings = append(warnings, warn(NotStationary, "the %s (%s) %s by %s from the first to the last of %d windows: not a steady state; a longer warm-up may help",
				metric.title, source, direction, percent(math.Abs(trend.Drift)), len(windows))...)
		}
	}
	return warnings
}

// windowVariation looks at how much the throughput varies from window to window. A window in which n requests are counted varies by
// about 1/sqrt(n) by chance alone.
func windowVariation(run record.Run) []record.Warning {
	source, windows := series(run, "throughput")
	if len(windows) < minWindows || !steadyRate(run) {
		return nil
	}
	m := sample.Of(values(windows))
	counted := m.Mean * windows[0].Seconds
	if !(counted > 0) || m.Variation() <= math.Sqrt(maxWindowVariation*maxWindowVariation+1/counted) {
		return nil
	}
	return warn(WindowVariation, "the coefficient of variation of the throughput (%s) over %d windows is %s around %s/s",
		source, len(windows), percent(m.Variation()), spell.Count(m.Mean))
}
