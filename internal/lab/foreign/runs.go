package foreign

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"mcmw/internal/lab/memtier"
	"mcmw/internal/lab/record"
	"mcmw/internal/lab/sample"
)

// inService is a metric that only the trees have: they don't tell the worker's time from the server's.
var inService = record.Metric{Name: "time_in_service_mean", Unit: record.Seconds, Help: "mean time from the queue to the reply: worker, server and reply together"}

// factorNames are the factors that the settings of a tree stand for.
var factorNames = map[string]string{
	"nsvr": "servers", "nmw": "middlewares", "tmw": "workers", "wrkld": "ratio", "mgshrd": "sharded", "mgsize": "keys_per_get",
}

// factorsOf returns the factors that settings stand for; others keep their name, and NA is left out.
func factorsOf(params map[string]string) map[string]string {
	factors := map[string]string{}
	for name, value := range params {
		if value == "NA" {
			continue
		}
		if full, ok := factorNames[name]; ok {
			name = full
		}
		if name == "ratio" {
			value = strings.ReplaceAll(value, "-", ":")
		}
		factors[name] = value
	}
	return factors
}

// inRequests writes a ratio of memtier, which counts the keys of GETs, as one of requests, and the keys of a GET as they are: a GET ends where
// the ratio's keys do. Other ratios stay as they are.
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

// PathFactors returns the factors that the folders of a file's path name, such as workers=8.
func PathFactors(name string) map[string]string {
	return factorsOf(paramsOf(path.Dir(filepath.ToSlash(name))))
}

// Found is a run that was read, with the outputs it was made from.
type Found struct {
	Run   record.Run
	Root  fs.FS
	Files []string // below Root
}

// TreeRuns returns the runs of a tree. The factors are those of the folders' names, with clients and connections as the
// outputs have them.
func TreeRuns(root fs.FS, configurations []Configuration) []Found {
	var all []Found
	for point, c := range configurations {
		for _, r := range c.Repetitions {
			run := record.Run{
				Point: point, Repetition: r.Number - 1, Position: len(all), State: record.Complete,
				Started: writtenAt(root, r.Files[0]), Factors: factorsOf(c.Params),
			}
			for _, name := range []string{"ncli", "icli", "tcli", "vcli", "ttime"} {
				delete(run.Factors, name)
			}
			inRequests(run.Factors)
			if why := c.failure(r); why != "" {
				run.State, run.Error = record.Failed, why
				all = append(all, Found{Run: run, Root: root, Files: r.Files})
				continue
			}
			run.Seconds = r.Clients[0].Duration
			processes := 0
			for _, client := range r.Clients {
				processes += client.Threads
			}
			run.Factors["clients"], run.Factors["connections"] = strconv.Itoa(processes), strconv.Itoa(r.connections())
			addClients(&run, r.Clients)
			addMiddlewares(&run, r.Middlewares)
			for _, machine := range slices.Sorted(maps.Keys(r.Dstat)) {
				addHost(&run, record.SourceHost+":"+machine, r.Dstat[machine])
			}
			all = append(all, Found{Run: run, Root: root, Files: r.Files})
		}
	}
	return all
}

// writtenAt returns when a file was last written; the zero time if that isn't known.
func writtenAt(root fs.FS, name string) time.Time {
	if info, err := fs.Stat(root, name); err == nil {
		return info.ModTime()
	}
	return time.Time{}
}

func result(run *record.Run, source, metric string, value float64) {
	run.Results = append(run.Results, record.Value{Source: source, Metric: metric, Value: value})
}

func addBins(run *record.Run, source, command string, bins sample.Histogram) {
	for _, b := range bins {
		run.Histograms = append(run.Histograms, record.Bin{Source: source, Metric: "response_time", Command: command, Lower: b.Lower, Upper: b.Upper, Count: uint64(b.Count)})
	}
}

// memtierRow is a row of memtier, its distribution, and the suffix of the metrics that they fill.
type memtierRow struct{ row, distribution, suffix string }

// rowsOfMemtier returns the rows of all requests, of SETs, and of GETs, which have several keys where the configuration
// says so.
func rowsOfMemtier(out *memtier.Output) []memtierRow {
	gets := memtierRow{"Gets", "GET", "_get"}
	if keys, err := strconv.Atoi(out.Configuration["multi_key_get"]); err == nil && keys > 1 {
		gets.suffix = "_multiget"
	}
	return []memtierRow{{"Totals", "", ""}, {"Sets", "SET", "_set"}, gets}
}

var percentileNames = map[float64]string{0.5: "p50", 0.9: "p90", 0.95: "p95", 0.99: "p99", 0.999: "p999"}

func addClients(run *record.Run, clients []*memtier.Output) {
	for _, kind := range rowsOfMemtier(clients[0]) {
		k, ok := clientKind(clients, kind.row, kind.distribution)
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
	for i, client := range clients {
		if row, ok := client.Overall().Row("Totals"); ok && len(clients) > 1 {
			source := fmt.Sprintf("%s:%d", record.SourceClient, i)
			result(run, source, "throughput", row.Throughput)
			result(run, source, "response_time_mean", row.Mean)
		}
	}
	misses, hits := 0.0, 0.0
	for _, client := range clients {
		if row, ok := client.Overall().Row("Totals"); ok {
			misses += row.Misses * run.Seconds
			hits += row.Hits * run.Seconds
		}
	}
	result(run, record.SourceClient, "misses", math.Round(misses))
	result(run, record.SourceClient, "hits", math.Round(hits))
}

// addMiddlewares adds what the middlewares say without warm-up and cool-down: means over requests, not over seconds.
func addMiddlewares(run *record.Run, middlewares []*MiddlewareOutput) {
	if len(middlewares) == 0 {
		return
	}
	result(run, record.SourceMiddleware, "throughput", throughputOf(middlewares, trim))
	length := 0.0
	for _, l := range queueLengths(middlewares, trim) {
		length += l
	}
	result(run, record.SourceMiddleware, "queue_length_mean", length)
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
		for metric, value := range map[string]float64{
			"throughput": row.Throughput, "queue_length_mean": row.QueueLength, "stage_queue_mean": queue / requests, inService.Name: service / requests,
		} {
			run.Windows = append(run.Windows, record.Window{Source: source, Start: start, Seconds: row.Seconds, Metric: metric, Value: value})
		}
		start += row.Seconds
	}
}

// dstatMetrics are the metrics that dstat's columns stand for.
var dstatMetrics = map[string]string{
	"cpu usr": "cpu_user", "cpu sys": "cpu_system", "cpu idl": "cpu_idle", "cpu wai": "cpu_iowait", "cpu hiq": "cpu_irq", "cpu siq": "cpu_softirq",
	"cpu stl": "cpu_steal", "dsk read": "disk_read_bytes", "dsk writ": "disk_write_bytes", "net recv": "net_rx_bytes", "net send": "net_tx_bytes",
	"memory used": "memory_used",
}

func addHost(run *record.Run, source string, samples []HostSample) {
	for i, sample := range samples {
		for column, value := range sample.Values {
			if metric, ok := dstatMetrics[column]; ok {
				run.HostSamples = append(run.HostSamples, record.Window{Source: source, Start: float64(i), Seconds: 1, Metric: metric, Value: value})
			}
		}
	}
}

// MemtierRuns returns the runs that an output of memtier is of. Several that it says the average of alone are one run, which says so.
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
	for setting, factor := range map[string]string{"ratio": "ratio", "pipeline": "pipeline", "data_size": "value_size", "key_pattern": "key_pattern", "multi_key_get": "keys_per_get"} {
		if level, ok := out.Configuration[setting]; ok && level != "0" {
			run.Factors[factor] = level
		}
	}
	inRequests(run.Factors)
	maps.Copy(run.Factors, factors)
	totals, _ := overall.Row("Totals")
	switch {
	case overall.Interrupted:
		run.State, run.Error = record.Failed, "memtier was interrupted before its end"
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
		// Of all requests memtier's own percentiles are finer than those of its distributions.
		if v := totals.Percentile(share); !math.IsNaN(v) {
			run.Results = slices.DeleteFunc(run.Results, func(r record.Value) bool { return r.Metric == "response_time_"+name })
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
			continue // the last replies of requests that were sent before the end
		}
		for metric, value := range map[string]float64{"throughput": float64(second.Count) / length, "response_time_mean": second.Mean} {
			run.Windows = append(run.Windows, record.Window{Source: record.SourceClient, Start: second.Start, Seconds: length, Metric: metric, Value: value})
		}
	}
	for _, kind := range rowsOfMemtier(out)[1:] {
		row, _ := overall.Row(kind.row)
		addBins(&run, record.SourceClient, strings.TrimPrefix(kind.suffix, "_"), row.Histogram)
	}
	return run
}

// MemaslapRun returns the run that an output of memaslap is of.
func MemaslapRun(m *Memaslap, factors map[string]string) record.Run {
	run := record.Run{State: record.Complete, Seconds: m.Seconds, Factors: map[string]string{
		"clients": strconv.Itoa(m.Threads), "connections": strconv.Itoa(m.Connections),
	}}
	if !math.IsNaN(m.SetShare) {
		run.Factors["ratio"] = fmt.Sprintf("%.0f:%.0f", 100*m.SetShare, 100*(1-m.SetShare))
	}
	maps.Copy(run.Factors, factors)
	for metric, value := range map[string]float64{
		"throughput": m.Throughput, "requests": float64(m.Requests), "requests_get": float64(m.Gets), "requests_set": float64(m.Sets), "misses": float64(m.Misses),
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
			for metric, value := range map[string]float64{"mean": command.Mean, "min": command.Min, "max": command.Max, "stddev": command.StdDev} {
				result(&run, record.SourceClient, "response_time_"+metric+suffix, value)
			}
		}
		for _, period := range command.Periods {
			for metric, value := range map[string]float64{"throughput" + suffix: period.Throughput, "response_time_mean" + suffix: period.Mean} {
				run.Windows = append(run.Windows, record.Window{Source: record.SourceClient, Start: period.End - period.Seconds, Seconds: period.Seconds, Metric: metric, Value: value})
			}
		}
		addBins(&run, record.SourceClient, label, command.Histogram)
	}
	return run
}

// DstatRun returns a run of nothing but the samples of a machine.
func DstatRun(samples []HostSample, factors map[string]string) record.Run {
	run := record.Run{State: record.Complete, Seconds: float64(len(samples)), Factors: map[string]string{}}
	maps.Copy(run.Factors, factors)
	addHost(&run, record.SourceHost, samples)
	for column, metric := range dstatMetrics {
		sum, n := 0.0, 0
		for _, sample := range samples {
			if v, ok := sample.Values[column]; ok && !math.IsNaN(v) {
				sum += v
				n++
			}
		}
		if n > 0 {
			result(&run, record.SourceHost, metric, sum/float64(n))
		}
	}
	return run
}

// Write makes a record of runs at dir, with their outputs as they came. Runs without a place of their own get points by
// their factors, and repetitions as they come.
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
			if err := copyTo(f.Root, name, filepath.Join(raw, path.Base(name))); err != nil {
				return err
			}
		}
		if err := r.Add(run); err != nil {
			return err
		}
	}
	return nil
}

// Place gives runs points by their factors, and repetitions and positions as they come.
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
