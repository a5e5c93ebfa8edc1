package foreign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/gonum/floats"

	"mcmw/lab/memtier"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// inService is a metric that only trees have: their middlewares don't separate the worker's time from the server's.
var inService = record.Metric{
	Name: "time_in_service_mean", Unit: record.Seconds,
	Help: "mean time from the queue to the reply: worker, server and reply together",
}

// factorNames maps the settings of a tree to factors.
var factorNames = map[string]string{
	"nsvr": "servers", "nmw": "middlewares", "tmw": "workers", "wrkld": "ratio", "mgshrd": "sharded",
	"mgsize": "keys_per_get",
}

// factorsOf returns the factors of a tree's settings. Unknown settings keep their names; those with the value NA are
// left out.
func factorsOf(params map[string]string) map[string]string {
	factors := map[string]string{}
	for name, value := range params {
		if value == "NA" {
			continue
		}
		if name = cmp.Or(factorNames[name], name); name == "ratio" {
			value = strings.ReplaceAll(value, "-", ":")
		}
		factors[name] = value
	}
	return factors
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

// PathFactors returns the factors in the names of a file's folders, such as workers=8.
func PathFactors(name string) map[string]string {
	return factorsOf(paramsOf(path.Dir(filepath.ToSlash(name))))
}

// Found is a run with the outputs from which it was made.
type Found struct {
	Run   record.Run
	Root  fs.FS
	Files []string // below Root
}

// TreeRuns returns the runs of a tree. The factors are from the names of the folders, except clients and connections,
// which are from the outputs.
func TreeRuns(root fs.FS, configurations []Configuration) []Found {
	var all []Found
	for point, c := range configurations {
		for _, r := range c.Repetitions {
			run := record.Run{
				Point: point, Repetition: r.Number - 1, Position: len(all), State: record.Complete,
				Factors: factorsOf(c.Params),
			}
			if info, err := fs.Stat(root, r.Files[0]); err == nil {
				run.Started = info.ModTime()
			}
			for _, name := range []string{"ncli", "icli", "tcli", "vcli", "ttime"} {
				delete(run.Factors, name)
			}
			inRequests(run.Factors)
			if why := c.failure(r); why != "" {
				run.State, run.Error = record.Failed, why
			} else {
				r.measurements(&run)
			}
			all = append(all, Found{Run: run, Root: root, Files: r.Files})
		}
	}
	return all
}

// measurements adds the measurements in the outputs to a run.
func (r *Repetition) measurements(run *record.Run) {
	run.Seconds = r.Clients[0].Duration
	processes := 0
	for _, client := range r.Clients {
		processes += client.Threads
	}
	run.Factors["clients"], run.Factors["connections"] = strconv.Itoa(processes), strconv.Itoa(r.connections())
	addClients(run, r.Clients)
	addMiddlewares(run, r.Middlewares)
	for _, machine := range slices.Sorted(maps.Keys(r.Dstat)) {
		addHost(run, record.SourceHost+":"+machine, r.Dstat[machine])
	}
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

func addClients(run *record.Run, clients []*memtier.Output) {
	for _, kind := range rowsOfMemtier(clients[0]) {
		k, ok := clientKind(clients, kind.row)
		if !ok {
			continue
		}
		result(run, record.SourceClient, "throughput"+kind.suffix, k.Throughput)
		result(run, record.SourceClient, "response_time_mean"+kind.suffix, k.Response)
		for q, name := range percentileNames {
			if v, ok := k.Percentiles[q]; ok {
				result(run, record.SourceClient, "response_time_"+name+kind.suffix, v)
			}
		}
	}
	misses, hits := 0.0, 0.0
	for i, client := range clients {
		row, ok := client.Overall().Row("Totals")
		if !ok {
			continue
		}
		misses += row.Misses * run.Seconds
		hits += row.Hits * run.Seconds
		if len(clients) > 1 {
			source := fmt.Sprintf("%s:%d", record.SourceClient, i)
			result(run, source, "throughput", row.Throughput)
			result(run, source, "response_time_mean", row.Mean)
		}
	}
	result(run, record.SourceClient, "misses", math.Round(misses))
	result(run, record.SourceClient, "hits", math.Round(hits))
}

// addMiddlewares adds the measurements of the middlewares without warm-up and cool-down. Means are over requests, not
// over seconds.
func addMiddlewares(run *record.Run, middlewares []*MiddlewareOutput) {
	if len(middlewares) == 0 {
		return
	}
	result(run, record.SourceMiddleware, "throughput", throughputOf(middlewares, trim))
	result(run, record.SourceMiddleware, "queue_length_mean", floats.Sum(queueLengths(middlewares, trim)))
	requests, queue, service := 0.0, 0.0, 0.0
	for _, kind := range kinds {
		k, ok := middlewareKind(middlewares, kind.name)
		addBins(run, record.SourceMiddleware, kind.name, k.Histogram)
		if !ok {
			continue
		}
		requests += k.Throughput
		queue += k.Throughput * k.QueueWeighted
		service += k.Throughput * k.ServiceWeighted
		result(run, record.SourceMiddleware, "throughput_"+kind.name, k.Throughput)
		result(run, record.SourceMiddleware, "stage_queue_mean_"+kind.name, k.QueueWeighted)
		result(run, record.SourceMiddleware, "response_time_mean_"+kind.name, k.QueueWeighted+k.ServiceWeighted)
	}
	result(run, record.SourceMiddleware, "stage_queue_mean", queue/requests)
	result(run, record.SourceMiddleware, inService.Name, service/requests)
	result(run, record.SourceMiddleware, "response_time_mean", (queue+service)/requests)
	for i, mw := range middlewares {
		addWindows(run, fmt.Sprintf("%s:%d", record.SourceMiddleware, i), cut(mw.Rows, trim))
	}
}

func addWindows(run *record.Run, source string, seconds []MiddlewareRow) {
	start := 0.0
	for _, row := range seconds {
		requests, queue, service := 0.0, 0.0, 0.0
		for _, k := range row.Kinds {
			if k.Count > 0 {
				requests += k.Count
				queue += k.Count * k.Queue
				service += k.Count * k.Service
			}
		}
		addWindow(run, source, start, row.Seconds, map[string]float64{
			"throughput": row.Throughput, "queue_length_mean": row.QueueLength, "stage_queue_mean": queue / requests,
			inService.Name: service / requests,
		})
		start += row.Seconds
	}
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
		"clients": strconv.Itoa(out.Threads), "connections": strconv.Itoa(out.Clients()),
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
	addClients(&run, []*memtier.Output{out})
	if n := overall.Averaged(); n > 1 {
		result(&run, record.SourceClient, "runs_averaged", float64(n))
	}
	for share, name := range percentileNames {
		// For all requests memtier's own percentiles are more precise than those of its distributions.
		if v := totals.Percentile(share); !math.IsNaN(v) {
			run.Results = slices.DeleteFunc(run.Results, func(r record.Value) bool {
				return r.Metric == "response_time_"+name
			})
			result(&run, record.SourceClient, "response_time_"+name, v)
		}
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
		"clients": strconv.FormatUint(m.Threads, 10), "connections": strconv.FormatUint(m.Connections, 10),
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
		mean := meanOver(samples, func(s HostSample) float64 {
			if v, ok := s[column]; ok {
				return v
			}
			return math.NaN()
		})
		if !math.IsNaN(mean) {
			result(&run, record.SourceHost, metric, mean)
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
	if err := r.Define(inService); err != nil {
		return err
	}
	for _, f := range found {
		if err := ctx.Err(); err != nil {
			return err
		}
		run := f.Run
		if run.ID, err = r.NextID(ctx); err != nil {
			return err
		}
		raw, err := r.RawDir(run.ID)
		if err != nil {
			return err
		}
		for _, name := range f.Files {
			text, err := fs.ReadFile(f.Root, name)
			if err == nil {
				err = os.WriteFile(filepath.Join(raw, path.Base(name)), text, 0o666)
			}
			if err != nil {
				return err
			}
		}
		if err := r.Add(run); err != nil {
			return err
		}
	}
	return nil
}

// Place numbers the points of runs by their factors, and their repetitions and positions by their order.
func Place(found []Found) {
	points := map[string]int{}
	repetitions := map[string]int{}
	for i := range found {
		run := &found[i].Run
		key := record.Label(run.Factors, slices.Sorted(maps.Keys(run.Factors)))
		if _, ok := points[key]; !ok {
			points[key] = len(points)
		}
		run.Point, run.Repetition, run.Position = points[key], repetitions[key], i
		repetitions[key]++
	}
}
