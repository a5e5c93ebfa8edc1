package memtier

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mcmw/lab/load"
	"mcmw/lab/process"
)

// Name is the driver in results of memtier_benchmark.
const Name = "memtier"

// maxMessage is how much of the end of memtier's output an error repeats, bytes.
const maxMessage = 500

// Arguments returns memtier's flags for a load, whose defaults are filled in. The error lists what memtier does not
// support.
func Arguments(o load.Options) ([]string, error) {
	var problems []error
	unsupported := func(is bool, what string) {
		if is {
			problems = append(problems, errors.New("memtier_benchmark does not support "+what))
		}
	}
	unsupported(len(o.Targets) != 1, "several targets")
	unsupported(o.Protocol == load.Meta, "memcached's meta protocol")
	unsupported(o.Password != "", "a login here: every user could read the password in its command line")
	unsupported(o.ThinkTime > 0, "a think time")
	unsupported(o.TLS != nil, "TLS here; run it directly with --tls and --cacert")
	unsupported(o.CacheAside, "cache-aside")
	unsupported(o.ReconnectAfter > 0, "reconnecting after a number of requests")
	unsupported(slices.ContainsFunc(o.Sizes.List, func(s load.WeightedSize) bool {
		return s.Weight != math.Trunc(s.Weight)
	}), "weights of sizes that are not whole numbers")
	unsupported(o.MultiGets > 0, "GETs and multi-GETs together")
	unsupported(o.Sizes.Distribution.Kind != "", "value sizes drawn from a distribution")
	unsupported(o.Verify, "verifying values during the load")
	unsupported(o.WarmUp > 0, "a warm-up")
	unsupported(o.CoolDown > 0, "a cool-down")
	unsupported(o.Duration%time.Second != 0, "a duration that is not a whole number of seconds")
	unsupported(o.Connections%o.Threads != 0, "threads with different numbers of connections")
	perConnection := 0.0
	if s := o.Schedule; s != nil {
		constant := len(s.Pieces) == 1 && s.Pieces[0].From == s.Pieces[0].To && !s.Poisson && s.Trace == nil
		unsupported(!constant, "a changing rate, Poisson arrivals or a trace")
		if constant {
			perConnection = s.Pieces[0].From / float64(o.Connections)
			unsupported(perConnection != math.Floor(perConnection) || perConnection < 1,
				"a rate that is not a whole number of requests per second and connection")
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	args := []string{"--hide-histogram", "--distinct-client-seed"}
	add := func(name string, value any) { args = append(args, fmt.Sprintf("--%s=%v", name, value)) }
	if path, ok := strings.CutPrefix(o.Targets[0], "unix:"); ok {
		add("unix-socket", path)
	} else {
		host, port, err := net.SplitHostPort(o.Targets[0])
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", o.Targets[0], err)
		}
		add("server", host)
		add("port", port)
	}
	add("protocol", o.Protocol)
	add("threads", o.Threads)
	add("clients", o.Connections/o.Threads)
	add("pipeline", o.Pipeline)
	// memtier's ratio counts keys, and a multi-GET ends with the GETs of the ratio.
	add("ratio", fmt.Sprintf("%d:%d", o.Sets, o.Gets*o.KeysPerGet))
	if o.KeysPerGet > 1 {
		add("multi-key-get", o.KeysPerGet)
	}
	switch z := o.Sizes; {
	case len(z.List) > 0:
		var items []string
		for _, item := range z.List {
			items = append(items, fmt.Sprintf("%d:%.0f", item.Size, item.Weight))
		}
		add("data-size-list", strings.Join(items, ","))
	case z.Max > 0:
		add("data-size-range", fmt.Sprintf("%d-%d", z.Min, z.Max))
		if z.ByKey {
			add("data-size-pattern", "S")
		}
	default:
		add("data-size", o.ValueSize)
	}
	if o.ExpiryMax > 0 {
		add("expiry-range", fmt.Sprintf("%d-%d", o.ExpiryMin, o.ExpiryMax))
	}
	add("key-prefix", o.KeyPrefix)
	add("key-minimum", o.KeyMin)
	add("key-maximum", o.KeyMax)
	add("key-pattern", fmt.Sprintf("%c:%c", o.SetKeys, o.GetKeys))
	if o.KeyStdDev > 0 {
		add("key-stddev", o.KeyStdDev)
	}
	if o.KeyMedian > 0 {
		add("key-median", o.KeyMedian)
	}
	if o.SetKeys == load.Zipf || o.GetKeys == load.Zipf {
		add("key-zipf-exp", o.ZipfExponent)
	}
	if o.Duration > 0 {
		add("test-time", int(o.Duration/time.Second))
	} else {
		add("requests", o.Requests)
	}
	if perConnection > 0 {
		add("rate-limiting", perConnection)
	}
	return args, nil
}

// Run runs the load with the memtier_benchmark at path ("": the one in PATH) and returns its measurements. If the load
// asks for stored keys, package load stores them first. Response times count from the write, also in an open loop. The
// processor time is that of memtier's whole process. If ctx ends, memtier is interrupted and the result is that of the
// time until then.
func Run(ctx context.Context, path string, o load.Options) (*load.Result, error) {
	o, err := o.Complete()
	if err != nil {
		return nil, err
	}
	args, err := Arguments(o)
	if err != nil {
		return nil, err
	}
	path, err = exec.LookPath(cmp.Or(path, "memtier_benchmark"))
	if err != nil {
		return nil,
			fmt.Errorf("memtier_benchmark: %w; install it (https://github.com/redis/memtier_benchmark), or set its "+
				"path with --driver memtier=PATH", err)
	}
	if o.Populate {
		if err := load.Populate(ctx, o); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp("", "mcmwlab-memtier")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "result.json")
	cmd := exec.Command(path, append(args, "--json-out-file="+file)...)
	running, err := process.Start(path, cmd)
	if err != nil {
		return nil, err
	}
	select {
	case <-running.Done():
	case <-ctx.Done():
		running.Stop(syscall.SIGINT)
	}
	if running.ExitCode() != 0 && ctx.Err() == nil {
		return nil, fmt.Errorf("%s: %s: %s", path, cmd.ProcessState, endOf(running.Log()))
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s wrote no result: %s", path, endOf(running.Log()))
	}
	out, err := ParseJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("the result of %s: %w", path, err)
	}
	r, err := resultOf(o, out.Overall())
	if err != nil {
		return nil, fmt.Errorf("the result of %s: %w", path, err)
	}
	r.Interrupted = r.Interrupted || ctx.Err() != nil
	if !r.Interrupted {
		trim(r, o.Duration)
	}
	r.Generator = load.Usage{User: cmd.ProcessState.UserTime(), System: cmd.ProcessState.SystemTime()}.Over(r.Elapsed,
		o.Threads)
	return r, nil
}

// trim bases the rates on the load's duration, whole seconds. memtier often idles for one more second, in which each
// connection sends its last request, and includes that second in its rates.
func trim(r *load.Result, duration time.Duration) {
	seconds := int(duration / time.Second)
	if seconds == 0 || r.Elapsed <= duration || len(r.Windows) < seconds {
		return
	}
	rate := func(of func(load.Window) uint64) float64 {
		n := uint64(0)
		for _, w := range r.Windows[:seconds] {
			n += of(w)
		}
		return float64(n) / duration.Seconds()
	}
	r.Elapsed = duration
	r.Total.OpsPerSec = rate(func(w load.Window) uint64 { return w.Requests })
	for name, c := range r.Commands {
		c.OpsPerSec = rate(func(w load.Window) uint64 { return w.Commands[name].Requests })
		r.Commands[name] = c
	}
}

// endOf returns the end of memtier's output, without its progress.
func endOf(output string) string {
	text := strings.TrimSpace(output[max(len(output)-maxMessage, 0):])
	if at := strings.LastIndexByte(text, '\r'); at >= 0 {
		text = text[at+1:]
	}
	return strconv.Quote(text)
}

// resultOf converts memtier's result into one of package load.
func resultOf(o load.Options, from *Result) (*load.Result, error) {
	r := load.Describe(&o)
	r.Driver = Name
	r.Started = from.Start
	r.Interrupted = from.Interrupted
	totals, ok := from.Row("Totals")
	if !ok {
		return nil, errors.New("it has no row \"Totals\"")
	}
	r.Elapsed = from.Finish.Sub(from.Start)
	if totals.Throughput > 0 {
		// Start and Finish are whole milliseconds and can be equal. The rates tell the elapsed time.
		r.Elapsed = cmp.Or(r.Elapsed, time.Duration(float64(totals.Count)/totals.Throughput*1e9))
	}
	r.Total = commandOf(totals, r.Elapsed)
	r.BytesIn = uint64(finite(totals.Received) * r.Elapsed.Seconds())
	r.BytesOut = uint64(finite(totals.Sent) * r.Elapsed.Seconds())
	names := map[string]string{"Sets": "SET", "Gets": "GET"}
	for _, row := range from.Rows {
		if name, known := names[row.Name]; known && row.Count > 0 {
			r.Commands[name] = commandOf(row, r.Elapsed)
			r.Windows = addSeconds(r.Windows, name, row.Seconds)
		}
	}
	for _, s := range totals.Seconds {
		if index := int(s.Start); index < len(r.Windows) {
			r.Windows[index].Latency = latencyOf(s.Mean, s.Min, s.Max, s.Percentiles)
		}
	}
	return r, nil
}

func commandOf(row Row, elapsed time.Duration) load.CommandResult {
	c := load.CommandResult{
		Requests:  row.Count,
		OpsPerSec: finite(row.Throughput),
		Hits:      uint64(math.Round(finite(row.Hits) * elapsed.Seconds())),
		Misses:    uint64(math.Round(finite(row.Misses) * elapsed.Seconds())),
		Failures:  row.Errors,
		Latency:   latencyOf(row.Mean, row.Min, row.Max, row.Percentiles),
	}
	var values []int64
	var counts []uint64
	for _, bin := range row.Histogram {
		values = append(values, int64(math.Round((bin.Lower+bin.Upper)/2*1e9)))
		counts = append(counts, uint64(bin.Count))
	}
	if len(values) > 0 {
		c.Histogram = load.NewHistogram(values, counts)
		h := c.Histogram.HDR()
		at := func(percentile float64) time.Duration { return time.Duration(h.ValueAtPercentile(percentile)) }
		c.Latency.P50, c.Latency.P90, c.Latency.P99, c.Latency.P999 = at(50), at(90), at(99), at(99.9)
	}
	return c
}

// latencyOf returns a summary of times in seconds; percentiles that memtier lacks stay 0.
func latencyOf(mean, least, most float64, percentiles []Quantile) load.Latency {
	ns := func(seconds float64) time.Duration { return time.Duration(math.Round(finite(seconds) * 1e9)) }
	at := func(share float64) time.Duration { return ns(percentileOf(percentiles, share)) }
	return load.Latency{
		Mean: ns(mean), Min: ns(least), Max: ns(most), P50: at(0.5), P90: at(0.9), P99: at(0.99),
		P999: at(0.999),
	}
}

func addSeconds(windows []load.Window, name string, seconds []Second) []load.Window {
	for _, s := range seconds {
		index := int(s.Start)
		for len(windows) <= index {
			windows = append(windows, load.Window{
				Index: len(windows), Length: time.Second,
				Commands: make(map[string]load.CommandResult),
			})
		}
		w := &windows[index]
		w.Commands[name] = load.CommandResult{
			Requests: s.Count, OpsPerSec: float64(s.Count), Hits: s.Hits, Misses: s.Misses,
			Latency: latencyOf(s.Mean, s.Min, s.Max, s.Percentiles),
		}
		w.Requests += s.Count
		w.Hits += s.Hits
		w.Misses += s.Misses
		w.OpsPerSec = float64(w.Requests)
	}
	return windows
}

// finite returns x; 0 if it is not a finite number.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}
