package foreign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/stat"

	"mcmw/lab/memtier"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// factorNames maps the names of settings in the folders of a report of 2018 to factors.
var factorNames = map[string]string{
	"nsvr": "servers", "nmw": "middlewares", "tmw": "workers", "wrkld": "ratio", "mgshrd": "sharded",
	"mgsize": "keys_per_get",
}

// inRequests converts a ratio of memtier, which counts the keys of GETs, to a ratio of requests. It also sets the real
// number of keys per GET: a GET has no more keys than the ratio's GETs. Other ratios stay unchanged.
func inRequests(factors map[string]string) {
	keys, err := strconv.Atoi(factors["keys_per_get"])
	sets, gets, ok := strings.Cut(factors["ratio"], ":")
	wanted, err2 := strconv.Atoi(gets)
	if err != nil || err2 != nil || !ok || keys < 2 || wanted < 1 {
		return
	}
	factors["ratio"] = fmt.Sprintf("%s:%d", sets, (wanted+keys-1)/keys)
	if sets == "0" {
		factors["ratio"] = "0:1"
	}
	factors["keys_per_get"] = strconv.Itoa(min(keys, wanted))
}

// PathFactors returns the factors in the names of a file's folders, such as workers=8. Unknown settings keep their
// names; those with the value NA are left out.
func PathFactors(name string) map[string]string {
	factors := map[string]string{}
	for folder := range strings.SplitSeq(filepath.ToSlash(filepath.Dir(name)), "/") {
		name, value, ok := strings.Cut(folder, "=")
		if !ok || value == "NA" {
			continue
		}
		if name = cmp.Or(factorNames[name], name); name == "ratio" {
			value = strings.ReplaceAll(value, "-", ":")
		}
		factors[name] = value
	}
	return factors
}

// Found is a run with the path of the output from which it was made.
type Found struct {
	Run  record.Run
	Path string
}

func result(run *record.Run, source, metric string, value float64) {
	run.Results = append(run.Results, record.Value{Source: source, Metric: metric, Value: value})
}

func addBins(run *record.Run, source, command string, bins sample.Histogram) {
	for _, b := range bins {
		run.Histograms = append(run.Histograms,
			record.Bin{
				Source: source, Metric: "response_time", Command: command, Lower: b.Lower, Upper: b.Upper,
				Count: uint64(b.Count),
			})
	}
}

// memtierRow has the name of a row of memtier and the suffix of its metrics.
type memtierRow struct{ row, suffix string }

// rowsOfMemtier returns the rows of all requests, of SETs, and of GETs, which are multi-gets if the configuration has
// several keys per GET.
func rowsOfMemtier(out *memtier.Output) []memtierRow {
	gets := memtierRow{"Gets", "_get"}
	if keys, err := strconv.Atoi(out.Configuration["multi_key_get"]); err == nil && keys > 1 {
		gets.suffix = "_multiget"
	}
	return []memtierRow{{"Totals", ""}, {"Sets", "_set"}, gets}
}

var percentileNames = map[float64]string{0.5: "p50", 0.9: "p90", 0.95: "p95", 0.99: "p99", 0.999: "p999"}

// addClients adds the throughput, the times, the hits and the misses of an output. For all requests memtier's own
// percentiles are more precise than those of its distributions.
func addClients(run *record.Run, out *memtier.Output) {
	overall := out.Overall()
	for _, kind := range rowsOfMemtier(out) {
		row, ok := overall.Row(kind.row)
		if !ok || !(row.Throughput > 0) {
			continue
		}
		result(run, record.SourceClient, "throughput"+kind.suffix, row.Throughput)
		result(run, record.SourceClient, "response_time_mean"+kind.suffix, row.Mean)
		cdfs, weights := distributions(overall, kind.row)
		for share, name := range percentileNames {
			v := mergedPercentile(cdfs, weights, share)
			if own := row.Percentile(share); kind.suffix == "" && !math.IsNaN(own) {
				v = own
			}
			result(run, record.SourceClient, "response_time_"+name+kind.suffix, v)
		}
	}
	totals, _ := overall.Row("Totals")
	result(run, record.SourceClient, "misses", math.Round(totals.Misses*run.Seconds))
	result(run, record.SourceClient, "hits", math.Round(totals.Hits*run.Seconds))
}

// distributionOf maps the rows of one kind of request to their distributions.
var distributionOf = map[string]string{"Sets": "SET", "Gets": "GET"}

// distributions returns the distributions of a row, and their throughputs. The row of all requests, Totals, has those
// of all kinds.
func distributions(r *memtier.Result, row string) (cdfs [][]memtier.Quantile, weights []float64) {
	for name, of := range distributionOf {
		part, ok := r.Row(name)
		cdf := r.Distributions[of]
		if (name == row || row == "Totals") && ok && part.Throughput > 0 && len(cdf) > 0 {
			cdfs, weights = append(cdfs, cdf), append(weights, part.Throughput)
		}
	}
	return cdfs, weights
}

// mergedPercentile returns the smallest edge of the distributions up to which the share of all requests is at least q;
// NaN without distributions.
func mergedPercentile(cdfs [][]memtier.Quantile, weights []float64, q float64) float64 {
	var all sample.Histogram
	for i, cdf := range cdfs {
		before := 0.0
		for _, step := range cdf {
			all = append(all, sample.Bin{Upper: step.Seconds, Count: weights[i] * (step.Share - before)})
			before = step.Share
		}
	}
	slices.SortFunc(all, func(a, b sample.Bin) int { return cmp.Compare(a.Upper, b.Upper) })
	return all.UpperQuantile(q)
}

// addWindow adds the values of a window by metric.
func addWindow(run *record.Run, source string, start, seconds float64, values map[string]float64) {
	for metric, value := range values {
		run.Windows = append(run.Windows,
			record.Window{Source: source, Start: start, Seconds: seconds, Metric: metric, Value: value})
	}
}

// dstatMetrics maps dstat's columns to metrics.
var dstatMetrics = map[string]string{
	"cpu usr": "cpu_user", "cpu sys": "cpu_system", "cpu idl": "cpu_idle", "cpu wai": "cpu_iowait",
	"cpu hiq": "cpu_irq", "cpu siq": "cpu_softirq",
	"cpu stl": "cpu_steal", "dsk read": "disk_read_bytes", "dsk writ": "disk_write_bytes", "net recv": "net_rx_bytes",
	"net send":    "net_tx_bytes",
	"memory used": "memory_used",
}

func addHost(run *record.Run, source string, samples []HostSample) {
	for i, sample := range samples {
		for column, value := range sample {
			if metric, ok := dstatMetrics[column]; ok {
				run.HostSamples = append(run.HostSamples,
					record.Window{Source: source, Start: float64(i), Seconds: 1, Metric: metric, Value: value})
			}
		}
	}
}

// MemtierRuns returns the runs in an output of memtier. If the output has only the average of several runs, that is one
// run, with their number as the metric runs_averaged.
func MemtierRuns(out *memtier.Output, factors map[string]string) (runs []record.Run) {
	results := out.Runs()
	if len(results) == 0 {
		results = []*memtier.Result{out.Overall()}
	}
	for _, result := range results {
		one := *out
		one.Results = []memtier.Result{*result}
		runs = append(runs, memtierRun(&one, factors))
	}
	return runs
}

func memtierRun(out *memtier.Output, factors map[string]string) record.Run {
	run := record.Run{State: record.Complete, Seconds: out.Duration, Factors: map[string]string{
		"clients": strconv.Itoa(out.Clients()), "load_threads": strconv.Itoa(out.Threads),
	}}
	overall := out.Overall()
	if !overall.Start.IsZero() {
		run.Started, run.Seconds = overall.Start, overall.Finish.Sub(overall.Start).Seconds()
	}
	for setting, factor := range map[string]string{
		"ratio": "ratio", "pipeline": "pipeline", "data_size": "value_size",
		"key_pattern": "key_pattern", "multi_key_get": "keys_per_get",
	} {
		if level, ok := out.Configuration[setting]; ok && level != "0" {
			run.Factors[factor] = level
		}
	}
	inRequests(run.Factors)
	maps.Copy(run.Factors, factors)
	totals, _ := overall.Row("Totals")
	switch {
	case overall.Interrupted:
		run.State, run.Error = record.Failed, "memtier was interrupted"
		return run
	case !(totals.Throughput > 0):
		run.State, run.Error = record.Failed, "memtier measured no request"
		return run
	}
	addClients(&run, out)
	if n := overall.Averaged(); n > 1 {
		result(&run, record.SourceClient, "runs_averaged", float64(n))
	}
	if totals.Count > 0 {
		result(&run, record.SourceClient, "requests", math.Round(float64(totals.Count)/float64(overall.Averaged())))
		result(&run, record.SourceClient, "errors", float64(totals.Errors))
	}
	result(&run, record.SourceClient, "bytes_read", totals.Received*run.Seconds)
	result(&run, record.SourceClient, "bytes_written", totals.Sent*run.Seconds)
	for _, second := range totals.Seconds {
		length := 1.0
		if run.Seconds > 0 {
			length = min(1, run.Seconds-second.Start)
		}
		if length < 0.5 {
			continue // only the last replies to requests that were sent before the end
		}
		addWindow(&run, record.SourceClient, second.Start, length,
			map[string]float64{"throughput": float64(second.Count) / length, "response_time_mean": second.Mean})
	}
	for _, kind := range rowsOfMemtier(out)[1:] {
		row, _ := overall.Row(kind.row)
		addBins(&run, record.SourceClient, strings.TrimPrefix(kind.suffix, "_"), row.Histogram)
	}
	return run
}

// MemaslapRun returns the run in an output of memaslap.
func MemaslapRun(m *Memaslap, factors map[string]string) record.Run {
	run := record.Run{State: record.Complete, Seconds: m.Seconds, Factors: map[string]string{
		"clients": strconv.FormatUint(m.Connections, 10), "load_threads": strconv.FormatUint(m.Threads, 10),
	}}
	if !math.IsNaN(m.SetShare) {
		run.Factors["ratio"] = fmt.Sprintf("%.0f:%.0f", 100*m.SetShare, 100*(1-m.SetShare))
	}
	maps.Copy(run.Factors, factors)
	for metric, value := range map[string]float64{
		"throughput": m.Throughput, "requests": float64(m.Requests), "requests_get": float64(m.Gets),
		"requests_set": float64(m.Sets), "misses": float64(m.Misses),
		"bytes_read": float64(m.Read), "bytes_written": float64(m.Written),
	} {
		result(&run, record.SourceClient, metric, value)
	}
	for name, command := range m.Commands {
		suffix, label := "_"+name, name
		if name == "total" {
			suffix, label = "", ""
		}
		if command.Requests > 0 {
			for metric, value := range map[string]float64{
				"mean": command.Mean, "min": command.Min, "max": command.Max,
				"stddev": command.StdDev,
			} {
				result(&run, record.SourceClient, "response_time_"+metric+suffix, value)
			}
		}
		for _, p := range command.Periods {
			addWindow(&run, record.SourceClient, p.End-p.Seconds, p.Seconds,
				map[string]float64{"throughput" + suffix: p.Throughput, "response_time_mean" + suffix: p.Mean})
		}
		addBins(&run, record.SourceClient, label, command.Histogram)
	}
	return run
}

// DstatRun returns a run with only the samples of a machine, and their means.
func DstatRun(samples []HostSample, factors map[string]string) record.Run {
	run := record.Run{State: record.Complete, Seconds: float64(len(samples)), Factors: map[string]string{}}
	maps.Copy(run.Factors, factors)
	addHost(&run, record.SourceHost, samples)
	for column, metric := range dstatMetrics {
		var values []float64
		for _, s := range samples {
			if v, ok := s[column]; ok && !math.IsNaN(v) {
				values = append(values, v)
			}
		}
		if len(values) > 0 {
			result(&run, record.SourceHost, metric, stat.Mean(values, nil))
		}
	}
	return run
}

// Write makes a record of runs in dir, with copies of their outputs. The runs must have their places (see Place).
func Write(ctx context.Context, dir string, m record.Manifest, found []Found) (err error) {
	r, err := record.Create(dir, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for _, f := range found {
		if err := ctx.Err(); err != nil {
			return err
		}
		raw, err := r.RawDir(f.Run.ID)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(f.Path)
		if err == nil {
			err = os.WriteFile(filepath.Join(raw, filepath.Base(f.Path)), text, 0o666)
		}
		if err == nil {
			err = r.Add(f.Run)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Place numbers the points of runs by their factors, and the runs, their repetitions and positions by their order.
func Place(found []Found) {
	points := map[string]int{}
	repetitions := map[string]int{}
	for i := range found {
		run := &found[i].Run
		key := record.Label(run.Factors, slices.Sorted(maps.Keys(run.Factors)))
		if _, ok := points[key]; !ok {
			points[key] = len(points)
		}
		run.ID, run.Point, run.Repetition, run.Position = int64(i+1), points[key], repetitions[key], i
		repetitions[key]++
	}
}
