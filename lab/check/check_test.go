package check

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/record"
)

// good is a run without violations: 64 clients of one middleware in front of three servers, ratio 1:9, all replicas, 10
// s.
func good() record.Run {
	run := record.Run{
		State:   record.Complete,
		Seconds: 10,
		Factors: map[string]string{
			"clients": "64", "pipeline": "1", "servers": "3", "replicas": "all",
			"ratio": "1:9", "workers": "8",
		},
	}
	middleware := map[string]float64{
		"throughput": 8010, "throughput_set": 801, "response_time_mean": 0.0070, "queue_length_mean": 39,
		"stage_net_mean": 0.0001, "stage_queue_mean": 0.0050, "stage_worker_mean": 0.0001, "stage_server_mean": 0.0015,
		"stage_reply_mean": 0.0003,
	}
	server := map[string]float64{"throughput": 801 + 7209/3}
	for source, values := range map[string]map[string]float64{
		"client":   {"throughput": 8000, "response_time_mean": 0.008, "hits": 72_000, "misses": 0, "errors": 0},
		"client:0": {"saturated": 0}, "middleware": middleware, "middleware:0": middleware, "server:a": server,
		"server:b": server, "server:c": server,
		"path": {"round_trip_time_mean": 0.001},
	} {
		for metric, v := range values {
			set(&run, source, metric, v)
		}
	}
	for second := range 10 {
		run.Windows = append(run.Windows,
			record.Window{
				Source: "client", Start: float64(second), Seconds: 1, Metric: "throughput",
				Value: 8000 + 100*float64(second%2),
			},
			record.Window{
				Source: "client", Start: float64(second), Seconds: 1, Metric: "response_time_mean",
				Value: 0.008,
			})
	}
	return run
}

// set gives a result a value.
func set(run *record.Run, source, metric string, value float64) {
	unset(run, source, metric)
	run.Results = append(run.Results, record.Value{Source: source, Metric: metric, Value: value})
}

// unset removes a result.
func unset(run *record.Run, source, metric string) {
	run.Results = slices.DeleteFunc(run.Results, func(v record.Value) bool {
		return v.Source == source && v.Metric == metric
	})
}

// windows replaces the values of the windows of a metric.
func windows(run *record.Run, metric string, value func(second int) float64) {
	for i := range run.Windows {
		if w := &run.Windows[i]; w.Metric == metric {
			w.Value = value(int(w.Start))
		}
	}
}

func TestAGoodRunViolatesNothing(t *testing.T) { require.Empty(t, Run(good(), record.Manifest{})) }

func TestEachCheckFindsViolations(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*record.Run)
		code   string // empty: no warning
		want   string // in the message
	}{
		"failed": {
			func(r *record.Run) { r.State, r.Error = record.Failed, "memcached died" },
			RunFailed, "the run failed: memcached died",
		},
		"response time of clients": {
			func(r *record.Run) { set(r, "client", "response_time_mean", 0.0070) },
			InteractiveLaw, "differs by -12.5 %",
		},
		"just within the law": {func(r *record.Run) { set(r, "client", "response_time_mean", 0.00761) }, "", ""},
		"just outside of it": {
			func(r *record.Run) { set(r, "client", "response_time_mean", 0.00759) },
			InteractiveLaw, "7.59 ms",
		},
		"think time is left out": {func(r *record.Run) {
			r.Factors["think_time"] = "4ms"
			unset(r, "path", "round_trip_time_mean")
		}, InteractiveLaw, "a think time of 4.00 ms"},
		"think time measured": {func(r *record.Run) {
			set(r, "client", "think_time_mean", 0.004)
			unset(r, "path", "round_trip_time_mean")
		}, InteractiveLaw, "a think time of 4.00 ms"},
		"pipeline": {func(r *record.Run) {
			r.Factors["pipeline"] = "2"
			unset(r, "path", "round_trip_time_mean")
		}, InteractiveLaw, "128 requests"},
		"open loop": {func(r *record.Run) {
			r.Factors["rate"] = "1000"
			set(r, "client", "response_time_mean", 1)
		}, "", ""},
		"middleware sees too little": {
			func(r *record.Run) { set(r, "middleware", "response_time_mean", 0.0048) },
			InteractiveLawInner, "2.19 ms are spent outside",
		},
		"middleware sees too much": {func(r *record.Run) {
			set(r, "middleware", "response_time_mean", 0.0090)
			set(r, "middleware:0", "stage_server_mean", 0.0015)
		}, InteractiveLawInner, "2.01 ms too much"},
		"no round-trip time": {func(r *record.Run) {
			unset(r, "path", "round_trip_time_mean")
			set(r, "middleware", "response_time_mean", 1)
		}, "", ""},
		"queue length": {
			func(r *record.Run) { set(r, "middleware:0", "queue_length_mean", 30) }, LittleQueue,
			"middleware:0: the queue's mean length was 30.0; by Little's law 8,010 requests/s that wait 5.00 ms give " +
				"40.1",
		},
		"queue of hardly anything": {func(r *record.Run) {
			set(r, "middleware:0", "stage_queue_mean", 1e-5)
			set(r, "middleware:0", "response_time_mean", 0.00201)
			set(r, "middleware:0", "queue_length_mean", 0.5)
		}, "", ""},
		"stages": {
			func(r *record.Run) { set(r, "middleware:0", "stage_server_mean", 0.0025) }, StageSum,
			"middleware:0: the stages add up to 8.00 ms, the response time is 7.00 ms",
		},
		"one stage is not known": {func(r *record.Run) {
			unset(r, "middleware:0", "stage_net_mean")
			set(r, "middleware:0", "stage_server_mean", 0.0025)
		}, "", ""},
		"clients count less": {func(r *record.Run) {
			set(r, "client", "throughput", 7700)
			set(r, "client", "response_time_mean", 64/7700.)
		}, FlowClient, "the clients counted 7,700 requests/s, the middlewares 8,010: -3.9 %"},
		"half are answered from memory": {func(r *record.Run) {
			set(r, "client", "throughput", 16_010)
			set(r, "client", "response_time_mean", 64/16_010.)
			set(r, "middleware", "throughput_hot", 8000)
			set(r, "server:b", "throughput", 801+7209/3+2000)
		}, "", ""},
		"more than all gets twice": {func(r *record.Run) {
			set(r, "client", "throughput", 16_010)
			set(r, "client", "response_time_mean", 64/16_010.)
			set(r, "middleware", "throughput_hot", 8000)
			set(r, "server:b", "throughput", 801+7209/3+8000)
		}, FlowServers, "should give 9,612 to 16,821"},
		"a server gets less": {
			func(r *record.Run) { set(r, "server:b", "throughput", 2500) }, FlowServers,
			"10.0 % of them sets to 3 servers each, should give 9,612",
		},
		"fewer replicas": {
			func(r *record.Run) { r.Factors["replicas"] = "1" }, FlowServers,
			"sets to 1 servers each, should give 8,010",
		},
		"share by the clients' ratio": {func(r *record.Run) {
			unset(r, "middleware", "throughput_set")
			r.Factors["ratio"] = "1:1"
		}, FlowServers, "50.0 % of them sets"},
		"share of a ratio with multi-gets": {
			func(r *record.Run) { unset(r, "middleware", "throughput_set"); r.Factors["ratio"] = "5:4:1" }, FlowServers,
			"50.0 % of them sets",
		},
		"multi-gets in parts": {func(r *record.Run) {
			r.Factors["keys_per_get"] = "6"
			set(r, "server:b", "throughput", 9000)
		}, "", ""},
		"more than all their keys": {func(r *record.Run) {
			r.Factors["keys_per_get"] = "2"
			set(r, "server:b", "throughput", 15_000)
		}, FlowServers, "should give 9,612 to 16,821"},
		"throughput drifts": {func(r *record.Run) {
			windows(r, "throughput", func(s int) float64 { return 8000 + 60*float64(s) })
		}, NotStationary, "the throughput (client) rises by 6.5 %"},
		"response time drifts": {func(r *record.Run) {
			windows(r, "response_time_mean", func(s int) float64 { return 0.008 - 1e-4*float64(s) })
		}, NotStationary, "the mean response time (client) falls by 11.9 %"},
		"a drift that is small": {func(r *record.Run) {
			windows(r, "throughput", func(s int) float64 { return 8000 + 10*float64(s) })
		}, "", ""},
		"an intended ramp": {func(r *record.Run) {
			r.Factors["rate"] = "ramp:1000:9000"
			windows(r, "throughput", func(s int) float64 { return 1000 * float64(s+1) })
		}, "", ""},
		"a stall": {func(r *record.Run) {
			windows(r, "throughput", func(s int) float64 { return 8000 * float64(min(1, (s-4)*(s-4))) })
		}, WindowVariation, "over 10 windows is 35.1 %"},
		"few requests scatter": {func(r *record.Run) {
			windows(r, "throughput", func(s int) float64 { return []float64{10, 14, 8, 11, 13}[s%5] })
		}, "", ""},
		"generator": {
			func(r *record.Run) { set(r, "client:0", "saturated", 1) }, GeneratorSaturated,
			"(client:0)",
		},
		"misses": {
			func(r *record.Run) { set(r, "client", "misses", 1000) }, Misses,
			"1,000 of 73,000 keys were missed (1.4 %)",
		},
		"hardly any misses": {func(r *record.Run) { set(r, "client", "misses", 72) }, "", ""},
		"one error": {
			func(r *record.Run) { set(r, "client", "errors", 1) }, Errors,
			"1 requests were answered with an error, or not at all",
		},
		"nothing is known": {func(r *record.Run) { r.Results, r.Windows, r.Factors = nil, nil, nil }, "", ""},
		"nothing was done": {func(r *record.Run) {
			r.Results = []record.Value{
				{Source: "client", Metric: "throughput"},
				{Source: "client", Metric: "response_time_mean"},
				{Source: "middleware", Metric: "throughput"},
			}
		}, "", ""},
		"all are other names": {
			func(r *record.Run) { r.Factors["ratio"], r.Factors["clients"] = "many", "all" },
			"", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := good()
			c.change(&run)
			found := Run(run, record.Manifest{})
			if c.code == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1, "%v", found)
			require.Equal(t, c.code, found[0].Code)
			require.Contains(t, found[0].Message, c.want)
		})
	}
}

func TestTheRoundTripTimeOfTheSetIsUsedIfARunHasNone(t *testing.T) {
	run := good()
	unset(&run, "path", "round_trip_time_mean")
	set(&run, "middleware", "response_time_mean", 0.0048)
	found := Run(run, record.Manifest{Path: []record.Value{{
		Source: "path", Metric: "round_trip_time_mean",
		Value: 0.001,
	}}})
	require.Len(t, found, 1)
	require.Equal(t, InteractiveLawInner, found[0].Code)
}

// The 2016 report on queueing models, tables 12 and 13: 198 clients, throughput in requests/s, response time in ms as
// measured.
func TestTheReportsRunsFollowTheInteractiveLaw(t *testing.T) {
	for _, row := range [][2]float64{
		{16281, 12.255},
		{16069, 12.500},
		{15470, 12.934},
		{15157, 13.206},
		{14406, 14.017},
		{14149, 14.118},
		{13696, 14.655},
		{12920, 15.564},
		{12637, 15.854},
	} {
		for _, think := range []string{"0", "0.0002175"} {
			run := record.Run{
				State:   record.Complete,
				Factors: map[string]string{"clients": "198", "think_time": think},
			}
			set(&run, "client", "throughput", row[0])
			set(&run, "client", "response_time_mean", row[1]/1e3)
			require.Empty(t, Run(run, record.Manifest{}), "%v, think time %s", row, think)
		}
	}
}

func TestRepetitionsOfAPointAreCompared(t *testing.T) {
	run := func(workers string, throughput float64) record.Run {
		r := record.Run{State: record.Complete, Factors: map[string]string{"workers": workers, "depth": "1"}}
		set(&r, "client", "throughput", throughput)
		set(&r, "middleware", "throughput", 100*throughput*throughput)
		return r
	}
	failed := run("64", 7000)
	failed.State = record.Failed
	require.Empty(t, Set([]record.Run{
		run("8", 5000), run("8", 5100), run("64", 7000), run("64", 7100),
		run("64", 7200),
	}))
	require.Equal(t, []record.Warning{
		{
			Code:    RepetitionVariation,
			Message: "workers=8: the coefficient of variation of the throughput (client) over 2 repetitions is 12.9 %",
		},
		{Code: TooFewRepetitions, Message: "workers=64: 1 complete runs are too few for an interval"},
	}, Set([]record.Run{run("8", 5000), run("8", 6000), run("64", 7000), failed}))
	require.Equal(t, "the only point: 1 complete runs are too few for an interval",
		Set([]record.Run{run("8", 1)})[0].Message)
	noClients := []record.Run{run("8", 1), run("8", 2)}
	for i := range noClients {
		unset(&noClients[i], "client", "throughput")
	}
	require.Contains(t, Set(noClients)[0].Message, "throughput (middleware)")
	require.Empty(t, Set(nil))
}

func TestTheWarningsOfARecordAreReplaced(t *testing.T) {
	r, err := record.Create(filepath.Join(t.TempDir(), "exp"),
		record.Manifest{Path: []record.Value{{Source: "path", Metric: "round_trip_time_mean", Value: 0.001}}})
	require.NoError(t, err)
	defer r.Close()
	run := good()
	set(&run, "client", "errors", 5)
	windows(&run, "throughput", func(s int) float64 { return 8000 + 60*float64(s) })
	run.Warnings = []record.Warning{{Code: "old", Message: "from an earlier version"}}
	require.NoError(t, r.Add(run))
	for range 2 {
		n, err := Record(context.Background(), r)
		require.NoError(t, err)
		require.Equal(t, 3, n)
		runs, err := r.Runs(context.Background())
		require.NoError(t, err)
		require.Len(t, runs[0].Warnings, 2)
		require.Equal(t, NotStationary, runs[0].Warnings[0].Code, "the windows were read")
		require.Equal(t, Errors, runs[0].Warnings[1].Code)
		set, err := r.Warnings(context.Background())
		require.NoError(t, err)
		require.Len(t, set, 1)
	}
}

func TestEveryCodeIsInTheDocumentation(t *testing.T) {
	source, err := os.ReadFile("codes.go")
	require.NoError(t, err)
	page, err := os.ReadFile("../../docs/checks.md")
	require.NoError(t, err)
	for line := range strings.Lines(string(source)) {
		if _, value, ok := strings.Cut(line, "= \""); ok {
			code := strings.TrimSuffix(strings.TrimSpace(value), `"`)
			require.Contains(t, string(page), fmt.Sprintf("| `%s` |", code))
		}
	}
}

// busy is a run on two processors whose host samples have these shares, and whose programs used so many of the 20
// seconds of processor time.
func busy(user, system, softirq, steal, used float64) record.Run {
	run := good()
	for second := range 10 {
		for metric, share := range map[string]float64{
			"cpu_user": user, "cpu_system": system, "cpu_softirq": softirq,
			"cpu_steal": steal, "cpu_idle": 1 - user - system - softirq - steal,
		} {
			run.HostSamples = append(run.HostSamples,
				record.Window{Source: "host", Start: float64(second), Seconds: 1, Metric: metric, Value: share})
		}
	}
	for source, share := range map[string]float64{
		"client": 0.4, "client:0": 0.2, "client:1": 0.2, "middleware": 0.3, "middleware:0": 0.3, "server:a": 0.1,
		"server:b": 0.1, "server:c": 0.1,
	} {
		set(&run, source, "seconds_cpu", share*used)
	}
	return run
}

func TestTheShareOfForeignLoadIsKnownBelowThatOfTheWarning(t *testing.T) {
	two := record.Manifest{Host: record.Host{Cores: 2}}
	for _, c := range []struct {
		run  record.Run
		want float64
	}{
		{busy(0.3, 0.5, 0, 0, 15.2), 0.05},
		{busy(0.5, 0.5, 0, 0, 12), 0.4},
		{busy(0.01, 0.01, 0, 0, 0.1), 0}, // most of the little that is in use: the background load of an idle system
	} {
		share, known := ForeignShare(c.run, two)
		require.True(t, known)
		require.InDelta(t, c.want, share, 1e-9)
	}
}

func TestForeignLoadIsFound(t *testing.T) {
	two := record.Manifest{Host: record.Host{Cores: 2}}
	for name, c := range map[string]struct {
		run  record.Run
		want string // in the message; empty: no warning
	}{
		"alone": {busy(0.3, 0.5, 0.1, 0, 15.8), ""},
		"a compiler beside": {
			busy(0.5, 0.4, 0.1, 0, 10),
			"at least 40.0 % of the processor time in use was not the experiment's: 8.00 s of 20.0 s",
		},
		"stolen":             {busy(0.2, 0.3, 0, 0.4, 10), "at least 44.4 %"},
		"charged interrupts": {busy(0.3, 0.4, 0.2, 0, 18), ""},
		"an idle experiment": {busy(0.01, 0.01, 0, 0, 0.1), ""},
	} {
		found := Run(c.run, two)
		if c.want == "" {
			require.Empty(t, found, name)
			continue
		}
		require.Len(t, found, 1, name)
		require.Equal(t, OtherLoad, found[0].Code)
		require.Contains(t, found[0].Message, c.want, name)
	}
	unknown := busy(0.5, 0.5, 0, 0, 1)
	unset(&unknown, "server:b", "seconds_cpu")
	require.Empty(t, Run(unknown, two), "the time of a server would count as foreign")
	_, known := ForeignShare(unknown, two)
	require.False(t, known)
	for _, m := range []record.Manifest{{}, {Host: record.Host{Cores: -1}}} {
		require.Empty(t, Run(busy(0.5, 0.5, 0, 0, 1), m), "the number of processors is unknown")
	}
}
