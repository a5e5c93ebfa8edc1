package record

import (
	"maps"
	"slices"
	"strings"
)

// Busy returns the mean utilization of each host's processors over a run, 0 to 1, by source: SourceHost for the only
// host, or for the one that emulates the others, and SourceHost:NAME for one of several. samples are those of the run's
// hosts. A run that was imported has results in their place.
func Busy(run Run, samples []Window) map[string]float64 {
	idle, seconds := map[string]float64{}, map[string]float64{}
	for _, s := range samples {
		if s.Metric == "cpu_idle" {
			idle[s.Source] += s.Value * s.Seconds
			seconds[s.Source] += s.Seconds
		}
	}
	busy := map[string]float64{}
	for source, sum := range idle {
		if seconds[source] > 0 {
			busy[source] = 1 - sum/seconds[source]
		}
	}
	for _, v := range run.Results {
		if v.Metric == "cpu_idle" {
			busy[v.Source] = 1 - v.Value
		}
	}
	return busy
}

// MachineBusy returns the utilization of the processors that a run can exhaust: that of the host that runs everything,
// or else of the busiest of several hosts; 0 if none was measured.
func MachineBusy(busy map[string]float64) float64 {
	if share, ok := busy[SourceHost]; ok || len(busy) == 0 {
		return share
	}
	return slices.Max(slices.Collect(maps.Values(busy)))
}

// HostName returns the name of a host's source; "" for SourceHost and for other sources.
func HostName(source string) string {
	name, _ := strings.CutPrefix(source, SourceHost+":")
	if name == source {
		return ""
	}
	return name
}
