package record

import "slices"

// Means returns the means over time of the samples of a run's hosts.
func Means(samples []Window) (means []Value) {
	at := map[Value]int{} // by source and metric
	var seconds []float64
	for _, s := range samples {
		of := Value{Source: s.Source, Metric: s.Metric}
		i, ok := at[of]
		if !ok {
			i = len(means)
			at[of] = i
			means, seconds = append(means, of), append(seconds, 0)
		}
		means[i].Value += s.Value * s.Seconds
		seconds[i] += s.Seconds
	}
	for i := range means {
		means[i].Value /= seconds[i]
	}
	return slices.DeleteFunc(means, func(v Value) bool { return !finite(v.Value) })
}

// Busy returns the mean utilization of each host's processors over a run, 0 to 1, by source: SourceHost for the only
// host, or for the one that emulates the others, and SourceHost:NAME for one of several. samples are those of the run's
// hosts. A run that was imported has results in their place.
func Busy(run Run, samples []Window) map[string]float64 {
	busy := map[string]float64{}
	for _, v := range append(Means(samples), run.Results...) {
		if v.Metric == "cpu_idle" {
			busy[v.Source] = 1 - v.Value
		}
	}
	return busy
}
