package check

import (
	"slices"

	"mcmw/lab/frame"
	"mcmw/lab/record"
)

// needs has, by check, a test whether a run has the measurements that the check needs.
var needs = []struct {
	code    string
	can     func(record.Run, record.Manifest) bool
	through bool // the check is only for runs through middlewares
}{
	{InteractiveLaw, has(record.SourceClient, "throughput", "response_time_mean"), false},
	{InteractiveLawInner, func(run record.Run, set record.Manifest) bool {
		_, inRun := run.Value(record.SourcePath, "round_trip_time_mean")
		_, inSet := record.Find(set.Path, record.SourcePath, "round_trip_time_mean")
		return (inRun || inSet) && has(record.SourceMiddleware, "throughput", "response_time_mean")(run, set)
	}, true},
	{LittleQueue, has(record.SourceMiddleware, "throughput", "stage_queue_mean", "queue_length_mean"), true},
	{StageSum, has(record.SourceMiddleware, slices.Concat([]string{"response_time_mean"}, record.Stages)...), true},
	{FlowClient, has(record.SourceMiddleware, "throughput"), true},
	{FlowServers, func(run record.Run, _ record.Manifest) bool { _, ok := flowOf(run); return ok }, true},
	{NotStationary, steady, false},
	{WindowVariation, steady, false},
	{GeneratorSaturated, has(record.SourceClient, "saturated"), false},
	{OtherLoad, func(run record.Run, set record.Manifest) bool { _, ok := ForeignLoad(run, set); return ok }, false},
	{Misses, has(record.SourceClient, "hits", "misses"), false},
	{Errors, has(record.SourceClient, "errors"), false},
}

func has(source string, metrics ...string) func(record.Run, record.Manifest) bool {
	return func(run record.Run, _ record.Manifest) bool {
		_, ok := measured(run, source, metrics...)
		return ok
	}
}

// steady reports whether a run has enough windows for the checks of a constant load, or needs none because its load is
// not constant.
func steady(run record.Run, _ record.Manifest) bool {
	_, windows := series(run, "throughput")
	return len(windows) >= minWindows || !steadyRate(run)
}

// Unchecked returns the codes of the checks for which a run, with its windows and host samples, doesn't have the
// measurements.
func Unchecked(run record.Run, set record.Manifest) (codes []string) {
	_, through := run.Value(record.SourceMiddleware, "throughput")
	for _, n := range needs {
		if (through || !n.through) && !n.can(run, set) {
			codes = append(codes, n.code)
		}
	}
	return codes
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
