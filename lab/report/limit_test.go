package report_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/record"
)

func TestTheBottleneckIsTheCauseOfOtherLoad(t *testing.T) {
	value := func(source, metric string, v float64) record.Value {
		return record.Value{Source: source, Metric: metric, Value: v}
	}
	busy := value("middleware", "busy_workers_mean", 15.8)
	for name, tc := range map[string]struct {
		results []record.Value
		idle    float64
		want    string
	}{
		"nothing measured": {nil, -1, "what limits it was not measured"},
		"idle": {
			[]record.Value{value("middleware", "busy_workers_mean", 4)},
			-1,
			"no component is in use for 90 % of the time; most used: workers, 25.0 %",
		},
		"workers that wait": {
			[]record.Value{
				busy, value("middleware", "stage_worker_mean", 1e-4),
				value("middleware", "stage_server_mean", 8e-4), value("middleware", "stage_reply_mean", 1e-4),
			},
			-1,
			"limited by the workers, 98.8 %; for 80.0 % of their time they wait for servers",
		},
		"server": {
			[]record.Value{busy, value("server:one", "seconds_cpu", 19.5)},
			-1,
			"limited by the processor of one, 97.5 %; with it the workers, 98.8 %",
		},
		"host": {
			[]record.Value{busy},
			0.02,
			"limited by the processor of the host, 98.0 %; with it the workers, 98.8 %",
		},
		"bandwidth": {[]record.Value{
			busy, value("client", "bytes_read", 9.5e6), value("client", "requests", 10000),
			value("path", "bandwidth", 1e6),
		}, 0.02, "limited by the bandwidth of the path, 95.0 %"},
		"bandwidth of one direction": {
			[]record.Value{
				value("client", "bytes_read", 1e6), value("client", "bytes_written", 8e6),
				value("client", "requests", 10000),
				value("path:requests", "bandwidth", 1e6), value("path:replies", "bandwidth", 4e5),
			}, -1, "no component is in use for 90 % of the time; most used: bandwidth of the path, 80.0 %",
		},
		"more than there is": {
			[]record.Value{
				busy, value("client", "bytes_read", 25e6),
				value("client", "requests", 10000), value("path", "bandwidth", 1e6),
			},
			-1,
			"limited by the workers, 98.8 %; the bandwidth of the path comes to 250 %, so its capacity was measured " +
				"wrongly",
		},
		"more than there is, and nothing else in use": {
			[]record.Value{
				value("middleware", "busy_workers_mean", 4), value("client", "bytes_read", 25e6),
				value("client", "requests", 10000), value("path", "bandwidth", 1e6),
			},
			-1,
			"no component is in use for 90 % of the time; most used: workers, 25.0 %; the bandwidth of the path " +
				"comes to 250 %",
		},
		"middleware": {
			[]record.Value{busy, value("middleware:0", "seconds_cpu", 30), value("middleware:1", "seconds_cpu", 39)},
			0.5,
			"limited by the processor of the middleware, 97.5 %; with it the workers, 98.8 %",
		},
		"generator": {
			[]record.Value{busy, value("client", "saturated", 1)},
			0.02,
			"limited by the load generator, not by what was measured",
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := record.Run{
				State: record.Complete, Seconds: 10,
				Factors: map[string]string{
					"clients": "64", "workers": "8", "middlewares": "2",
					"server_threads": "2",
				},
				Results: append(tc.results, value("client", "throughput", 1000)),
			}
			if tc.idle >= 0 {
				run.HostSamples = []record.Window{{Source: "host", Seconds: 1, Metric: "cpu_idle", Value: tc.idle}}
			}
			d, v := read(t, newRecord(t, record.Manifest{Name: "limits", Host: record.Host{Cores: 4}}, run), nil)
			got := d.Panels(v)[0].Lines[0].Bottleneck.Words
			require.True(t, strings.HasPrefix(got, tc.want), "got %q, want %q", got, tc.want)
		})
	}
}

func TestAPoolPerServerHasItsWorkersAndAWriterForEachServer(t *testing.T) {
	run := record.Run{
		State: record.Complete, Seconds: 10,
		Factors: map[string]string{
			"clients": "64", "workers": "7", "middlewares": "2", "servers": "3", "pool": "per-server",
		},
		Results: []record.Value{
			{Source: "client", Metric: "throughput", Value: 1000},
			{Source: "middleware", Metric: "busy_workers_mean", Value: 12},
		},
	}
	d, v := read(t, newRecord(t, record.Manifest{Name: "limits"}, run), nil)
	require.Contains(t, d.Panels(v)[0].Lines[0].Bottleneck.Words, "most used: workers, 25.0 %")
}

func TestAFullUploadOfAMachineIsTheBottleneck(t *testing.T) {
	m := record.Manifest{Name: "machines", Machines: []record.Machine{
		{Name: "server-0", Upload: 1000, Download: 4000},
		{Name: "server-1", Upload: 1000, Download: 4000},
		{Name: "load-0"},
	}}
	sample := func(host, metric string, v float64) record.Window {
		return record.Window{Source: "host:" + host, Seconds: 1, Metric: metric, Value: v}
	}
	d, v := read(t, newRecord(t, m, record.Run{
		State: record.Complete, Seconds: 10,
		Factors: map[string]string{"clients": "8", "workers": "8", "middlewares": "1"},
		Results: []record.Value{
			{Source: "client", Metric: "throughput", Value: 100},
			{Source: "middleware", Metric: "busy_workers_mean", Value: 8},
			{Source: "client", Metric: "bytes_read", Value: 1e4},
			{Source: "client", Metric: "requests", Value: 1000},
			{Source: "path", Metric: "bandwidth", Value: 1e6},
		},
		HostSamples: []record.Window{
			sample("server-0", "net_tx_bytes", 500), sample("server-1", "net_tx_bytes", 970),
			sample("load-0", "net_tx_bytes", 1e6),
		},
	}), nil)
	words := d.Panels(v)[0].Lines[0].Bottleneck.Words
	require.True(t, strings.HasPrefix(words,
		"limited by the upload of the server machines, 97.0 %; with it the workers, 100 %"), words)
}

func TestTheProcessorOfOneOfSeveralHostsIsTheBottleneck(t *testing.T) {
	idle := func(host string, v float64) record.Window {
		return record.Window{Source: "host:" + host, Seconds: 1, Metric: "cpu_idle", Value: v}
	}
	d, v := read(t, newRecord(t, record.Manifest{Name: "hosts", Testbed: "ssh"}, record.Run{
		State: record.Complete, Seconds: 10,
		Factors: map[string]string{"clients": "8", "workers": "8", "middlewares": "1"},
		Results: []record.Value{
			{Source: "client", Metric: "throughput", Value: 100},
			{Source: "middleware", Metric: "busy_workers_mean", Value: 8},
		},
		HostSamples: []record.Window{idle("mw1", 0.03), idle("load1", 0.6), idle("server1", 0.8)},
	}), nil)
	words := d.Panels(v)[0].Lines[0].Bottleneck.Words
	require.True(t, strings.HasPrefix(words, "limited by the processor of mw1, 97.0 %; with it the workers, 100 %"),
		words)
}

func TestAllProcessorsInUseAreNamedInOneSentence(t *testing.T) {
	idle := func(host string, v float64) record.Window {
		return record.Window{Source: "host:" + host, Seconds: 1, Metric: "cpu_idle", Value: v}
	}
	d, v := read(t, newRecord(t, record.Manifest{Name: "hosts", Testbed: "ssh"}, record.Run{
		State: record.Complete, Seconds: 10,
		Factors: map[string]string{"clients": "8", "workers": "8", "middlewares": "1", "server_threads": "1"},
		Results: []record.Value{
			{Source: "client", Metric: "throughput", Value: 100},
			{Source: "middleware", Metric: "busy_workers_mean", Value: 8},
			{Source: "server:s1", Metric: "seconds_cpu", Value: 9.1},
		},
		HostSamples: []record.Window{idle("mw1", 0.03), idle("load1", 0.6), idle("server1", 0.01)},
	}), nil)
	require.Equal(t, "limited by the processor of mw1, 97.0 %; with it the processors of server1 and s1, 91.0 % to "+
		"99.0 %, and the workers, 100 %", d.Panels(v)[0].Lines[0].Bottleneck.Words)
}

func TestAProgramHasOnlyTheProcessorsThatTheExperimentGivesIt(t *testing.T) {
	const testbed = "name: pinned\ntestbed: {kind: local, cpus: {server: [0], middleware: [1]}}\n"
	for name, tc := range map[string]struct {
		experiment, servers, middlewares, pinning string
		used, reported                            float64 // seconds in ten seconds; by the middleware, 0: not
	}{
		"by the testbed":    {testbed, "all", "all", "none", 9.5, 0},
		"by the settings":   {testbed, "0-1", "2,3", "thread", 19, 8},
		"by settings only":  {"name: pinned\n", "0", "1", "none", 9.5, 0},
		"a pinned process":  {"name: pinned\n", "all", "1", "process", 9.5, 0},
		"by its own choice": {"name: pinned\n", "0", "all", "none", 9.5, 1},
	} {
		m := record.Manifest{Name: "pinned", Testbed: "local", Experiment: tc.experiment, Host: record.Host{Cores: 8}}
		run := record.Run{
			State: record.Complete, Seconds: 10,
			Factors: map[string]string{
				"clients": "8", "server_threads": "4", "server_cpus": tc.servers, "middleware_cpus": tc.middlewares,
				"server_pinning": tc.pinning,
			},
			Results: []record.Value{
				{Source: "client", Metric: "throughput", Value: 100},
				{Source: "middleware:0", Metric: "seconds_cpu", Value: tc.used},
				{Source: "server:s1", Metric: "seconds_cpu", Value: tc.used},
			},
		}
		if tc.reported > 0 {
			run.Results = append(run.Results,
				record.Value{Source: "middleware", Metric: "processors", Value: tc.reported})
		}
		d, v := read(t, newRecord(t, m, run), nil)
		require.Equal(t, "limited by the processor of the middleware, 95.0 %; with it the processor of s1, 95.0 %",
			d.Panels(v)[0].Lines[0].Bottleneck.Words, name)
	}
}

func TestALineThatStillGrowsIsNotCalledSaturated(t *testing.T) {
	const single = "; some loads were measured in a single run, so this may be chance"
	for name, tc := range map[string]struct {
		throughput []float64
		want       string
	}{
		"growing": {
			[]float64{100, 200, 300},
			"not saturated: the throughput still grew by more than 6 % up to the highest load, " +
				"300 ops/s at clients = 3" + single,
		},
		"flat": {
			[]float64{100, 200, 205},
			"saturated at clients = 2 (200 ops/s), the least load within 6 % of the highest " +
				"throughput (205 ops/s at 3)" + single,
		},
		"falling": {
			[]float64{100, 200, 150},
			"saturated at clients = 2 (200 ops/s), the least load within 6 % of the highest throughput; " +
				"over-saturated at the highest load: the throughput falls" + single,
		},
		"one": {[]float64{100}, "100 ops/s at clients = 1; one load was measured, which does not show saturation"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecord(t, record.Manifest{Name: "lines"})
			for i, x := range tc.throughput {
				require.NoError(t, r.Add(record.Run{
					Point: i, State: record.Complete, Factors: map[string]string{"clients": string(rune('1' + i))},
					Results: []record.Value{{Source: "client", Metric: "throughput", Value: x}},
				}))
			}
			d, v := read(t, r, nil)
			require.Equal(t, tc.want, d.Panels(v)[0].Lines[0].Words(v))
		})
	}
}

func TestOneSaturatedRepetitionOfThreeIsNotABottleneck(t *testing.T) {
	r := newRecord(t, record.Manifest{Name: "generator"})
	for repetition, saturated := range []float64{0, 1, 0} {
		require.NoError(t, r.Add(record.Run{
			Repetition: repetition, State: record.Complete, Factors: map[string]string{"clients": "8"},
			Results: []record.Value{
				{Source: "client", Metric: "throughput", Value: 1000},
				{Source: "client", Metric: "saturated", Value: saturated},
			},
		}))
	}
	d, v := read(t, r, nil)
	require.Equal(t, "no component is in use for 90 % of the time; most used: load generator, 33.3 %",
		d.Panels(v)[0].Lines[0].Bottleneck.Words)
}
