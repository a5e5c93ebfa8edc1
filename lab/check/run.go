package check

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"mcmw/internal/spell"
	"mcmw/lab/frame"
	"mcmw/lab/record"
)

// checks are all checks of a run. A check returns whether the run has the measurements that it needs.
var checks = []struct {
	code    string
	through bool // only for runs through middlewares
	of      func(record.Run, record.Manifest) (warnings []record.Warning, able bool)
}{
	{InteractiveLaw, false, interactiveLaw},
	{InteractiveLawInner, true, interactiveLawInner},
	{LittleQueue, true, littleQueue},
	{StageSum, true, stageSum},
	{FlowClient, true, flowClient},
	{FlowServers, true, flowServers},
	{NotStationary, false, stationary},
	{WindowVariation, false, windowVariation},
	{GeneratorSaturated, false, generatorSaturated},
	{OtherLoad, false, foreignLoad},
	{Misses, false, misses},
	{Errors, false, failures},
}

// Run makes all checks of one run. It uses the run's windows and host samples if the run has them. From the set's
// manifest it takes the number of processors, and the round-trip time of the path if the run itself has none.
func Run(run record.Run, set record.Manifest) (warnings []record.Warning) {
	if run.State == record.Failed {
		return []record.Warning{{Code: RunFailed, Message: "the run failed: " + run.Error}}
	}
	for _, check := range checks {
		found, _ := check.of(run, set)
		warnings = append(warnings, found...)
	}
	if n, ok := run.Value(record.SourceClient, "runs_averaged"); ok && n >= 2 {
		warnings = append(warnings, warn(AveragedRuns,
			"an average of %v runs, whose spread is unknown; memtier_benchmark prints each run with --print-all-runs",
			n)...)
	}
	return warnings
}

// Unchecked returns the codes of the checks for which a run, with its windows and host samples, doesn't have the
// measurements.
func Unchecked(run record.Run, set record.Manifest) (codes []string) {
	_, through := run.Value(record.SourceMiddleware, "throughput")
	for _, check := range checks {
		if _, able := check.of(run, set); !able && (through || !check.through) {
			codes = append(codes, check.code)
		}
	}
	return codes
}

// warnIf returns a warning if there is a problem.
func warnIf(problem bool, code, format string, args ...any) ([]record.Warning, bool) {
	if !problem {
		return nil, true
	}
	return warn(code, format, args...), true
}

func warn(code, format string, args ...any) []record.Warning {
	return []record.Warning{{Code: code, Message: fmt.Sprintf(format, args...)}}
}

// steadyRate reports whether the load was supposed to be constant.
func steadyRate(run record.Run) bool {
	_, number := run.Number("rate")
	return number || !frame.OpenLoop(run)
}

// measured returns the values of metrics at a source; false if the run doesn't have all of them.
func measured(run record.Run, source string, metrics ...string) (values []float64, ok bool) {
	for _, metric := range metrics {
		v, ok := run.Value(source, metric)
		if !ok {
			return nil, false
		}
		values = append(values, v)
	}
	return values, true
}

// interactiveLaw checks the clients by the interactive response time law (Jain, section 33.4),
//
//	R = N/X - Z
func interactiveLaw(run record.Run, _ record.Manifest) ([]record.Warning, bool) {
	l, closed := frame.LoopOf(run)
	v, ok := measured(run, record.SourceClient, "throughput", "response_time_mean")
	if !closed || !ok || v[0] <= 0 {
		return nil, ok
	}
	x, r := v[0], v[1]
	expected := l.ResponseTime(x)
	return warnIf(math.Abs(r-expected) > maxInteractive*max(r, expected), InteractiveLaw,
		"the clients measured a mean response time of %s; by the interactive law %v requests at %s/s with a think "+
			"time of %s take %s, which differs by %s",
		duration(r), l.N, spell.Count(x), duration(l.Z), duration(expected), percent((r-expected)/expected))
}

// interactiveLawInner checks the middlewares by the same law. For them the think time of a client includes the time in
// which its reply and its next request travel, so that Z is the clients' think time plus the round-trip time (the 2018
// report, section 4).
func interactiveLawInner(run record.Run, set record.Manifest) ([]record.Warning, bool) {
	l, closed := frame.LoopOf(run)
	v, ok := measured(run, record.SourceMiddleware, "throughput", "response_time_mean")
	trip, known := run.Value(record.SourcePath, "round_trip_time_mean")
	if !known {
		trip, known = record.Find(set.Path, record.SourcePath, "round_trip_time_mean")
	}
	if !closed || !ok || v[0] <= 0 || !known {
		return nil, ok && known
	}
	x, r := v[0], v[1]
	// Requests answered from memory took a negligible time in the middleware.
	if hot := fromMemory(run); hot > 0 {
		r *= x / (x + hot)
		x += hot
	}
	l.Z += trip
	expected := l.ResponseTime(x)
	difference := duration(expected-r) + " are spent outside the middlewares, or are not measured"
	if r > expected {
		difference = duration(r-expected) + " too much: the round-trip time or the think time is overestimated"
	}
	return warnIf(math.Abs(r-expected) > maxInteractiveInner*l.N/x+trip, InteractiveLawInner,
		"the middlewares measured a mean response time of %s; by the interactive law %v requests at %s/s with %s "+
			"between reply and next request take %s: %s",
		duration(r), l.N, spell.Count(x), duration(l.Z), duration(expected), difference)
}

// middlewares returns the sources of the single middlewares, such as middleware:0 and middleware:1, or that of all if
// there are none.
func middlewares(run record.Run) []string {
	var sources []string
	for _, v := range run.Results {
		if strings.HasPrefix(v.Source, record.SourceMiddleware+":") && !slices.Contains(sources, v.Source) {
			sources = append(sources, v.Source)
		}
	}
	if sources == nil {
		sources = []string{record.SourceMiddleware}
	}
	return sources
}

// littleQueue checks each middleware's queue by Little's law (Jain, section 30.3): its mean length is the throughput
// times the mean time in it.
func littleQueue(run record.Run, _ record.Manifest) (warnings []record.Warning, able bool) {
	for _, source := range middlewares(run) {
		v, ok := measured(run, source, "throughput", "stage_queue_mean", "queue_length_mean")
		if !ok {
			continue
		}
		x, wait, length := v[0], v[1], v[2]
		expected := x * wait
		if math.Abs(length-expected) > maxLittle*max(length, expected)+minQueue {
			warnings = append(warnings, warn(LittleQueue,
				"%s: the queue's mean length was %.1f; by Little's law %s requests/s that wait %s give %.1f",
				source, length, spell.Count(x), duration(wait), expected)...)
		}
	}
	_, able = measured(run, record.SourceMiddleware, "throughput", "stage_queue_mean", "queue_length_mean")
	return warnings, able
}

// stageSum checks that each middleware's stages add up to its response time.
func stageSum(run record.Run, _ record.Manifest) (warnings []record.Warning, able bool) {
	for _, source := range middlewares(run) {
		stages, ok := measured(run, source, record.Stages...)
		r, ok2 := run.Value(source, "response_time_mean")
		if sum := floats.Sum(stages); ok && ok2 && math.Abs(sum-r) > maxStages*r+minStages {
			warnings = append(warnings, warn(StageSum, "%s: the stages add up to %s, the response time is %s", source,
				duration(sum), duration(r))...)
		}
	}
	_, able = measured(run, record.SourceMiddleware, append([]string{"response_time_mean"}, record.Stages...)...)
	return warnings, able
}

// flowClient checks the flow balance of clients and middlewares: clients receive as many replies as the middlewares
// send.
func flowClient(run record.Run, _ record.Manifest) ([]record.Warning, bool) {
	clients, ok := run.Value(record.SourceClient, "throughput")
	middlewares, able := run.Value(record.SourceMiddleware, "throughput")
	middlewares += fromMemory(run)
	if !ok || !able {
		return nil, able
	}
	return warnIf(apart(clients, middlewares, middlewares), FlowClient,
		"the clients counted %s requests/s, the middlewares %s: %s",
		spell.Count(clients), spell.Count(middlewares), percent((clients-middlewares)/middlewares))
}

// fromMemory returns how many requests per second the middlewares answered from memory.
func fromMemory(run record.Run) float64 {
	hot, _ := run.Value(record.SourceMiddleware, "throughput_hot")
	return hot
}

// apart reports whether a flow is outside the range from least to most by more than the tolerance.
func apart(flow, least, most float64) bool {
	return flow < least*(1-maxFlow) || flow > most*(1+maxFlow)
}

// flowServers compares the requests at the servers with those at the middlewares. A set goes to all replicas of its
// key, a get to one server, a multi-get to at least one and at most one per key. If middlewares answer requests from
// memory, a get can need a second request for the item's remaining life time.
func flowServers(run record.Run, _ record.Manifest) ([]record.Warning, bool) {
	servers, count := 0.0, 0
	for _, v := range run.Results {
		if strings.HasPrefix(v.Source, record.SourceServer) && v.Metric == "throughput" {
			servers += v.Value
			count++
		}
	}
	x, _ := run.Value(record.SourceMiddleware, "throughput")
	sets, known := writeShare(run)
	each, known2 := replicas(run, count)
	if count == 0 || x <= 0 || !known || !known2 {
		return nil, false
	}
	least := x * (sets*each + (1 - sets))
	most := least
	if keys, ok := run.Number("keys_per_get"); ok && keys > 1 {
		most = x * (sets*each + (1-sets)*keys)
	}
	if fromMemory(run) > 0 {
		most += x * (1 - sets)
	}
	expected := spell.Count(least)
	if most > least {
		expected += " to " + spell.Count(most)
	}
	return warnIf(apart(servers, least, most), FlowServers,
		"the servers counted %s requests/s; the middlewares' %s, %s of them sets to %v servers each, should give %s",
		spell.Count(servers), spell.Count(x), percent(sets), each, expected)
}

// writeShare returns the share of sets in the requests: the one the middlewares counted, or else the configured one.
func writeShare(run record.Run) (share float64, ok bool) {
	x, _ := run.Value(record.SourceMiddleware, "throughput")
	if sets, ok := run.Value(record.SourceMiddleware, "throughput_set"); ok {
		return sets / x, true
	}
	return record.Level(run.Factors["ratio"]).Share()
}

// replicas returns the number of servers to which a set goes.
func replicas(run record.Run, servers int) (n float64, ok bool) {
	n, ok = run.Number("replicas")
	if ok && n >= 1 {
		return min(n, float64(servers)), true
	}
	all := run.Factors["replicas"] == "all" || run.Factors["replicas"] == "" // the default
	return float64(servers), all
}

// generatorSaturated checks that no load process reports that it was the limit.
func generatorSaturated(run record.Run, _ record.Manifest) ([]record.Warning, bool) {
	var busy []string
	for _, v := range run.Results {
		if v.Metric == "saturated" && v.Value != 0 &&
			(v.Source == record.SourceClient || strings.HasPrefix(v.Source, record.SourceClient+":")) {
			busy = append(busy, v.Source)
		}
	}
	_, able := run.Value(record.SourceClient, "saturated")
	if busy == nil {
		return nil, able
	}
	return warn(GeneratorSaturated,
		"the load generator or its machine was the limit (%s): the results don't describe the system under test",
		strings.Join(busy, ", ")), able
}

// Foreign is the processor time of programs that don't belong to the experiment, over all processors, in seconds.
type Foreign struct {
	Seconds float64
	Busy    float64 // time in which the processors were in use by any program
	All     float64 // total time of the processors, idle or not
}

// Share returns the foreign share of the busy time.
func (f Foreign) Share() float64 { return f.Seconds / max(f.Busy, f.Seconds) }

// TooMuch reports whether the foreign load can have changed the measurements.
func (f Foreign) TooMuch() bool {
	return f.matters() && f.Seconds > maxForeign*max(f.Busy, f.Seconds)
}

// matters reports whether it is more than the background load of an idle system.
func (f Foreign) matters() bool { return f.Seconds > minForeign*f.All }

// ForeignShare returns the foreign share of the busy time in a run, 0 if it is no more than the background load of an
// idle system; false if it is unknown.
func ForeignShare(run record.Run, set record.Manifest) (share float64, known bool) {
	f, known := ForeignLoad(run, record.Means(run.HostSamples), set)
	if !f.matters() {
		return 0, known
	}
	return f.Share(), known
}

// ForeignLoad compares the busy time of the processors of the only host, or of the one that emulates the others, with
// the time that the experiment's programs used; false if the run doesn't have both. shares are the means of the run's
// host samples. Seconds is a lower bound: the time of interrupts counts as nobody's, whether or not the kernel charges
// it to the interrupted program.
func ForeignLoad(run record.Run, shares []record.Value, set record.Manifest) (f Foreign, ok bool) {
	used, hasParts := map[string]float64{}, map[string]bool{}
	for _, v := range run.Results {
		if v.Metric == "seconds_cpu" {
			used[v.Source] = v.Value
			kind, _, part := strings.Cut(v.Source, ":")
			hasParts[kind] = hasParts[kind] || part
		}
	}
	if _, ok := used[record.SourceClient]; !ok {
		return f, false
	}
	for _, v := range run.Results {
		if _, ok := used[v.Source]; v.Metric == "throughput" && !ok {
			return f, false // its processor time is unknown, and would count as foreign
		}
	}
	own := 0.0
	for source, seconds := range used {
		// client and middleware are the sums of client:0, middleware:0 and so on, if the run has these.
		if !hasParts[source] {
			own += seconds
		}
	}
	if _, ok := record.Find(shares, record.SourceHost, "cpu_idle"); !ok || run.Seconds <= 0 || set.Host.Cores <= 0 {
		return f, false
	}
	// Samples are shares of all processors. Their time can differ slightly from the measured window.
	f.All = run.Seconds * max(set.Dilation, 1) * float64(set.Host.Cores)
	seconds := func(metrics ...string) (sum float64) {
		for _, m := range metrics {
			share, _ := record.Find(shares, record.SourceHost, m)
			sum += share * f.All
		}
		return sum
	}
	f.Busy = seconds("cpu_user", "cpu_system", "cpu_softirq", "cpu_irq", "cpu_steal")
	f.Seconds = max(0, seconds("cpu_user", "cpu_system")-own) + seconds("cpu_steal")
	// The samples are made by the timer's ticks, which miss short bursts; the programs' own time is counted exactly.
	f.Busy = max(f.Busy, own+f.Seconds)
	return f, true
}

// foreignLoad warns of load that did not belong to the experiment.
func foreignLoad(run record.Run, set record.Manifest) ([]record.Warning, bool) {
	f, ok := ForeignLoad(run, record.Means(run.HostSamples), set)
	if !ok {
		return nil, false
	}
	return warnIf(f.TooMuch(), OtherLoad,
		"at least %s of the processor time in use was not the experiment's: %s of %s; programs outside the "+
			"experiment, or other virtual machines on the same hardware, used them",
		percent(f.Share()), duration(f.Seconds), duration(f.Busy))
}

// misses warns of keys that were not found.
func misses(run record.Run, _ record.Manifest) ([]record.Warning, bool) {
	v, ok := measured(run, record.SourceClient, "misses", "hits")
	if !ok {
		return nil, false
	}
	missed, all := v[0], v[0]+v[1]
	return warnIf(missed > maxMisses*all, Misses,
		"%s of %s keys were missed (%s): populate the servers first, or give them more memory",
		spell.Count(missed), spell.Count(all), percent(missed/all))
}

// failures warns of requests that failed.
func failures(run record.Run, _ record.Manifest) ([]record.Warning, bool) {
	n, ok := run.Value(record.SourceClient, "errors")
	if !ok {
		return nil, false
	}
	return warnIf(n > 0, Errors, "%s requests were answered with an error, or not at all", spell.Count(n))
}

func duration(seconds float64) string {
	if seconds < 0 {
		return "-" + spell.Time(-seconds*1e9)
	}
	if seconds == 0 {
		return "0 s"
	}
	return spell.Time(seconds * 1e9)
}

func percent(ratio float64) string { return fmt.Sprintf("%.1f %%", 100*ratio) }
