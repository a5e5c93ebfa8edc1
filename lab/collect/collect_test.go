package collect

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/statlog"
	"mcmw/lab/agent"
	"mcmw/lab/kernel"
	"mcmw/lab/load"
	"mcmw/lab/record"
	"mcmw/lab/testbed"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// loadResult is the result of a load process that recorded for two seconds and started later than began.
func loadResult(after time.Duration, rate uint64, mean time.Duration) []byte {
	get := load.CommandResult{
		Requests: rate * 2, OpsPerSec: float64(rate), Hits: rate * 2, Misses: 4,
		Latency: load.Latency{
			Mean: mean, Min: mean / 2, P50: mean, P90: mean * 2, P99: mean * 3, P999: mean * 4,
			Max: mean * 5,
		},
	}
	get.Histogram = load.NewHistogram([]int64{int64(mean)}, []uint64{rate * 2})
	r := load.Result{
		Started: began.Add(after), Elapsed: 2 * time.Second, KeysPerGet: 1, Total: get, BytesIn: 10, BytesOut: 20,
		Commands:  map[string]load.CommandResult{"GET": get},
		Generator: load.Usage{User: time.Second, System: time.Second / 2, Limit: load.LimitNone},
	}
	for i := range 2 {
		r.Windows = append(r.Windows, load.Window{
			Index: i, Length: time.Second,
			CommandResult: load.CommandResult{
				Requests: rate, OpsPerSec: float64(rate),
				Latency: load.Latency{Mean: mean},
			},
		})
	}
	r.Windows = append(r.Windows, load.Window{
		Index: 2, Length: time.Millisecond,
		CommandResult: load.CommandResult{Requests: 1, OpsPerSec: 1000},
	})
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return text
}

// statistics is a statistics log of windows of half a second, the first at began, with these numbers of requests.
func statistics(requests ...uint64) []byte {
	var text strings.Builder
	text.WriteString(`{"type":"start","time":1,"workers":2,"depth":128,"processors":1}` + "\n")
	for i, n := range requests {
		w := statlog.Window{
			Type: "window", Number: i + 1, From: began.UnixMilli() + int64(i)*500,
			Until: began.UnixMilli() + int64(i+1)*500, Seconds: 0.5,
			Requests: n, Hot: n / 2, Keys: n, Misses: 1, Queue: statlog.Sampled{Samples: 50, Sum: 100}, Busy: 3,
			Times: map[string]statlog.Times{
				"response": {N: n, Sum: n * 2e6}, "response:get": {N: n, Sum: n * 2e6}, "queue": {N: n, Sum: n * 1e6},
				"server:s1":       {N: n, Sum: n * 5e5},
				"response:delete": {N: 1, Sum: 1},
			},
			Distributions: map[string][][3]int64{"get": {
				{1e6, 2e6, int64(n) - 1},
				{102_400_000_000, statlog.Unbounded, 1},
			}, "delete": {{0, 1000, 1}}},
		}
		line, err := json.Marshal(w)
		if err != nil {
			panic(err)
		}
		text.Write(append(line, '\n'))
	}
	text.WriteString(`{"type":"summary","seconds":9,"requests":99999}` + "\n")
	return []byte(text.String())
}

// samples are n samples of a host with three processes, one a second, the first at began.
func samples(n int) []byte {
	var text []byte
	for i := range n {
		f := float64(i)
		line, err := json.Marshal(agent.Reading{
			At:       began.Add(time.Duration(i) * time.Second),
			CPU:      kernel.CPU{User: f * 0.5, System: f * 0.3, SoftIRQ: f * 0.2, Idle: f},
			Received: uint64(i) * 1000, Sent: uint64(i) * 500,
			Processes: map[string]float64{"server:s1": f * 0.25, "middleware:0": f * 0.75, "client:0": f},
			Memory:    map[string]float64{"middleware:0": 1 << 20}, Calls: map[string]float64{"middleware:0": 3000 * f},
		})
		if err != nil {
			panic(err)
		}
		text = append(append(text, line...), '\n')
	}
	return text
}

// value returns a result that the run must have.
func value(t *testing.T, r *record.Run, source, metric string) float64 {
	t.Helper()
	v, ok := r.Value(source, metric)
	require.True(t, ok, "%s %s", source, metric)
	return v
}

func TestARunOfOneOfEachIsCollected(t *testing.T) {
	var r record.Run
	require.NoError(t, Run(&testbed.Outputs{
		Loads: [][]byte{loadResult(500*time.Millisecond, 1000, time.Millisecond)},
		// the first and the last are outside the measured window
		Middlewares: [][]byte{statistics(7, 400, 500, 600, 500, 7)},
		Hosts:       map[string][]byte{"here": samples(5)},
	}, &r))
	assert.Equal(t, began.Add(500*time.Millisecond), r.Started)
	assert.InDelta(t, 2, r.Seconds, 1e-9)
	for _, want := range []struct {
		source, metric string
		value          float64
	}{
		{"client", "throughput", 1000},
		{"client", "throughput_get", 1000},
		{"client", "requests", 2000},
		{"client", "response_time_mean", 0.001},
		{"client", "response_time_stddev", 0},
		{"client", "think_time_mean", 0},
		{"client", "misses", 4},
		{"client", "errors", 0},
		{"client", "seconds_cpu", 1.5},
		{"client", "saturated", 0},
		{"client", "bytes_written", 20},
		{"middleware", "throughput", 1000},
		{"middleware", "throughput_get", 1000},
		{"middleware", "throughput_hot", 500},
		{"middleware", "requests", 2000},
		{"middleware", "response_time_mean", 0.002},
		{"middleware", "stage_queue_mean", 0.001},
		{"middleware", "queue_length_mean", 2},
		{"middleware", "busy_workers_mean", 3},
		{"middleware", "misses", 4},
		{"middleware", "processors", 1},
		{"middleware", "seconds_cpu", 1.5},
		{"server:s1", "throughput", 1000},
		{"server:s1", "service_time_mean", 0.0005},
		{"server:s1", "seconds_cpu", 0.5},
		{"client", "cpu_per_request", 0.00075},
		{"middleware", "cpu_per_request", 0.00075},
		{"servers", "cpu_per_request", 0.00025},
		{"middleware", "calls_per_request", 3},
		{"middleware", "memory_peak", 1 << 20},
	} {
		assert.InDelta(t, want.value, value(t, &r, want.source, want.metric), 1e-9, "%s %s", want.source, want.metric)
	}
	var rates []float64
	for _, w := range r.Windows {
		if w.Metric == "throughput" {
			rates = append(rates, w.Value)
			assert.InDelta(t, 1, w.Seconds, 1e-9)
		}
		assert.NotEqual(t, "response_time_mean_delete", w.Metric)
	}
	assert.Equal(t, []float64{1000, 1000, 900, 900, 1100, 1100}, rates,
		"client, then middleware and server by second; not the window of a millisecond")
	for _, metric := range []string{"min", "p50", "p90", "p95", "p99", "p999", "max"} {
		assert.InEpsilon(t, 0.001, value(t, &r, "client", "response_time_"+metric), 0.001, metric)
	}
	require.Len(t, r.Histograms, 3)
	assert.Equal(t, []any{"client", "get", uint64(2000)},
		[]any{r.Histograms[0].Source, r.Histograms[0].Command, r.Histograms[0].Count})
	assert.Equal(t, record.Bin{
		Source: "middleware", Metric: "response_time", Command: "get", Lower: 0.001,
		Upper: 0.002, Count: 1996,
	}, r.Histograms[1])
	assert.Equal(t, math.Inf(1), r.Histograms[2].Upper)
	host := map[string]float64{}
	for _, w := range r.HostSamples {
		host[w.Source+" "+w.Metric] = w.Value
		assert.InDelta(t, 1, w.Seconds, 1e-9)
	}
	for name, want := range map[string]float64{
		"host cpu_user": 0.25, "host cpu_system": 0.15, "host cpu_softirq": 0.1, "host cpu_irq": 0,
		"host cpu_iowait": 0, "host cpu_idle": 0.5,
		"host net_rx_bytes": 1000, "host net_tx_bytes": 500, "server:s1 process_cpu": 0.25, "client:0 process_cpu": 1,
	} {
		assert.InDelta(t, want, host[name], 1e-9, name)
	}
	for _, metric := range allMetrics(&r) {
		_, ok := record.Describe(metric)
		assert.True(t, ok, "%s is a metric of records", metric)
	}
}

func allMetrics(r *record.Run) (names []string) {
	for _, v := range r.Results {
		names = append(names, v.Metric)
	}
	for _, w := range append(r.Windows, r.HostSamples...) {
		names = append(names, w.Metric)
	}
	return names
}

func TestWindowsAtTheEndsCountInProportion(t *testing.T) {
	var r record.Run
	require.NoError(t, Run(&testbed.Outputs{
		Loads: [][]byte{loadResult(600*time.Millisecond, 1000, time.Millisecond)}, // to 2.6 s
		// 0.4 s of the second window, all of three, 0.1 s of the sixth
		Middlewares: [][]byte{statistics(9999, 500, 100, 200, 300, 1000, 9999)},
	}, &r))
	assert.InDelta(t, 400+600+200, value(t, &r, "middleware", "requests"), 1e-6)
	assert.InDelta(t, 600, value(t, &r, "middleware", "throughput"), 1e-6)
	var counted uint64
	for _, b := range r.Histograms {
		if b.Source == "middleware" {
			counted += b.Count
		}
	}
	assert.EqualValues(t, 500+100+200+300, counted, "all bins of a window count, or none")
}

func TestParallelProgramsAddUp(t *testing.T) {
	var r record.Run
	require.NoError(t, Run(&testbed.Outputs{
		Loads: [][]byte{
			loadResult(0, 1000, time.Millisecond),
			loadResult(100*time.Millisecond, 3000, 2*time.Millisecond),
		},
		Middlewares: [][]byte{statistics(500, 500, 500, 500, 500), statistics(1500, 1500, 1500, 1500, 1500)},
		Hosts:       map[string][]byte{"a": samples(4), "b": samples(4)},
		Ground:      samples(4),
	}, &r))
	assert.Equal(t, began.Add(100*time.Millisecond), r.Started, "when the last begins to record")
	assert.InDelta(t, 1.9, r.Seconds, 1e-9)
	assert.InDelta(t, 4000, value(t, &r, "client", "throughput"), 1e-9)
	assert.InDelta(t, 0.00175, value(t, &r, "client", "response_time_mean"), 1e-9)
	assert.InEpsilon(t, 0.001, value(t, &r, "client", "response_time_min"), 0.001)
	assert.InEpsilon(t, 0.002, value(t, &r, "client", "response_time_p50"), 0.001)
	assert.InDelta(t, 1000, value(t, &r, "client:0", "throughput"), 1e-9)
	assert.InDelta(t, 0.002, value(t, &r, "client:1", "response_time_mean"), 1e-9)
	assert.InDelta(t, 4000, value(t, &r, "middleware", "throughput"), 1e-6)
	assert.InDelta(t, 2000, value(t, &r, "middleware", "throughput_hot"), 1e-6)
	assert.InDelta(t, 3000, value(t, &r, "middleware:1", "throughput"), 1e-6)
	assert.InDelta(t, 4, value(t, &r, "middleware", "queue_length_mean"), 1e-9, "two queues of two")
	assert.InDelta(t, 6, value(t, &r, "middleware", "busy_workers_mean"), 1e-9)
	assert.InDelta(t, 4000, value(t, &r, "server:s1", "throughput"), 1e-6)
	sources := map[string]bool{}
	for _, w := range r.HostSamples {
		sources[w.Source] = true
	}
	assert.True(t, sources["host:a"] && sources["host:b"] && sources["host"])
}

func TestDilatedMeasurementsAreConvertedToTheTimeOfTheMachines(t *testing.T) {
	var r, slow record.Run
	o := &testbed.Outputs{
		Loads:       [][]byte{loadResult(0, 1000, time.Millisecond)},
		Middlewares: [][]byte{statistics(500, 500, 500, 500, 500)}, Hosts: map[string][]byte{"a": samples(4)},
	}
	require.NoError(t, Run(o, &r))
	o.Dilation = 4
	require.NoError(t, Run(o, &slow))
	assert.InDelta(t, r.Seconds/4, slow.Seconds, 1e-12)
	for _, of := range []struct {
		source, metric string
		times          float64
	}{
		{"client", "throughput", 4},
		{"client", "response_time_mean", 0.25},
		{"client", "response_time_p99", 0.25},
		{"client", "requests", 1},
		{"middleware", "throughput", 4},
		{"middleware", "stage_queue_mean", 0.25},
		{"middleware", "queue_length_mean", 1},
		{"middleware:0", "seconds_cpu", 1},
		{"middleware", "cpu_per_request", 1},
	} {
		assert.InEpsilon(t, of.times*value(t, &r, of.source, of.metric), value(t, &slow, of.source, of.metric),
			1e-9, of)
	}
	require.Len(t, slow.Windows, len(r.Windows))
	for i, w := range r.Windows {
		assert.InDelta(t, w.Start/4, slow.Windows[i].Start, 1e-12)
		assert.InDelta(t, w.Seconds/4, slow.Windows[i].Seconds, 1e-12)
	}
	require.NotEmpty(t, r.Histograms)
	assert.InDelta(t, r.Histograms[0].Upper/4, slow.Histograms[0].Upper, 1e-12)
	idle := func(run record.Run) record.Window {
		i := slices.IndexFunc(run.HostSamples, func(w record.Window) bool { return w.Metric == "cpu_idle" })
		require.GreaterOrEqual(t, i, 0)
		return run.HostSamples[i]
	}
	assert.InDelta(t, idle(r).Value, idle(slow).Value, 1e-12, "shares of the time stay the same")
	assert.InDelta(t, idle(r).Seconds/4, idle(slow).Seconds, 1e-12)
}

func TestGetsOfSeveralKeysAreMultiGets(t *testing.T) {
	text := strings.Replace(string(loadResult(0, 10, time.Millisecond)), `"keys_per_get":1`, `"keys_per_get":6`, 1)
	var r record.Run
	require.NoError(t, Run(&testbed.Outputs{Loads: [][]byte{[]byte(text)}}, &r))
	assert.InDelta(t, 10, value(t, &r, "client", "throughput_multiget"), 1e-9)
}

func TestUnreadableOutputsAreNamed(t *testing.T) {
	good := loadResult(0, 1000, time.Millisecond)
	for want, o := range map[string]*testbed.Outputs{
		"there is no result of a load process":             {},
		"result of client:1: unexpected end of JSON input": {Loads: [][]byte{good, nil}},
		"the load processes did not measure at the same time": {Loads: [][]byte{
			good,
			loadResult(time.Hour, 1, 1),
		}},
		"statistics log of middleware:0: line 2: ": {
			Loads:       [][]byte{good},
			Middlewares: [][]byte{[]byte("\nnonsense\n")},
		},
		"the machine that emulates the hosts: samples of a host: line 1: ": {
			Loads:  [][]byte{good},
			Ground: []byte("nonsense\n{}\n"),
		},
		"host here: samples of a host: line 1: ": {
			Loads: [][]byte{good},
			Hosts: map[string][]byte{"here": []byte("nonsense\n{}\n")},
		},
		"histogram of GET: 1 lower bounds, 0 upper bounds and 0 counts": {Loads: [][]byte{[]byte(`{"elapsed_ns":5,"commands":{"GET":{"histogram":{"from_ns":[1]}}}}`)}},
		"histogram of all requests: bin 0: 1 values from 5 to 5 ns":     {Loads: [][]byte{[]byte(`{"elapsed_ns":5,"total":{"histogram":{"from_ns":[5],"to_ns":[5],"counts":[1]}}}`)}},
		"result of client:0: it measured for -1ns; expected 0 to":       {Loads: [][]byte{[]byte(`{"elapsed_ns":-1}`)}},
		"result of client:0: json: cannot unmarshal string in":          {Loads: [][]byte{[]byte(`{"elapsed_ns":"x"}`)}},
	} {
		assert.ErrorContains(t, Run(o, new(record.Run)), want)
	}
}

func FuzzAnyOutputsAreCollectedOrRefused(f *testing.F) {
	f.Add(loadResult(0, 1000, time.Millisecond), statistics(1, 2, 3), samples(3))
	f.Add([]byte(fmt.Sprintf(`{"started":%q,"elapsed_ns":5}`, began.Format(time.RFC3339))),
		[]byte(`{"type":"window","seconds":1e-300}`), []byte("{}\n"))
	f.Fuzz(func(t *testing.T, load, statistics, samples []byte) {
		var r record.Run
		err := Run(&testbed.Outputs{
			Loads: [][]byte{load, load}, Middlewares: [][]byte{statistics, statistics},
			Hosts: map[string][]byte{"h": samples},
		}, &r)
		if err != nil {
			return
		}
		require.Positive(t, r.Seconds)
		for _, b := range r.Histograms {
			require.Less(t, b.Lower, b.Upper)
		}
	})
}
