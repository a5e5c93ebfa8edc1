package admin

import (
	"fmt"
	"runtime"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// gather returns all exported values by name and labels. A histogram has values for its count, sum and buckets.
func gather(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(c))
	families, err := r.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			sort.Strings(labels)
			name := func(suffix string, more ...string) string {
				all := strings.Join(append(labels, more...), ",")
				if all != "" {
					all = "{" + all + "}"
				}
				return f.GetName() + suffix + all
			}
			switch {
			case m.GetHistogram() != nil:
				h := m.GetHistogram()
				values[name("_count")] = float64(h.GetSampleCount())
				values[name("_sum")] = h.GetSampleSum()
				for _, b := range h.GetBucket() {
					values[name("_bucket", fmt.Sprintf("le=%q",
						fmt.Sprint(b.GetUpperBound())))] = float64(b.GetCumulativeCount())
				}
			case m.GetCounter() != nil:
				values[name("")] = m.GetCounter().GetValue()
			default:
				values[name("")] = m.GetGauge().GetValue()
			}
		}
	}
	return values
}

// TestEachEventChangesItsMetricsAndNoOthers records one event at a time and compares all values before and after.
func TestEachEventChangesItsMetricsAndNoOthers(t *testing.T) {
	waiting, unread, several, unknown := 0, int64(0), false, false
	sweep := new(stats.Sweep)
	migration := stats.Migration{From: "x", To: "y", Phase: "waiting"}
	health := stats.Health{State: "up", Transitions: []stats.Transition{{To: "up"}, {To: "down"}}}
	tap := stats.NewTap(1, 0, false)
	shadow := &stats.Shadow{Of: "x", To: "z"}
	diverted, away, open := stats.Diverted{}, 0, 0
	registry := stats.New(stats.Options{
		Servers: []string{"a", "b"}, Workers: 2, Tap: tap,
		State: func(s *stats.Snapshot) {
			s.Servers[0].Pool, s.Servers[1].Pool, s.Servers[1].Zone, s.Servers[1].Health = "x", "y", "east", health
			s.Several, s.MarksUnknown, s.Sweep = several, unknown, sweep.Snapshot()
			s.Migrations = []stats.Migration{migration}
			s.Gutters = []stats.GutterSnapshot{{Pool: "x", Gutter: "y", Diverted: diverted, Away: away, Open: open}}
			shadow.AddTo(s, nil)
		},
		Queues: []stats.Queue{{Name: "shared", Capacity: 64, Length: func() int { return waiting }}},
	})
	registry.Net().Memory(func() (requests, replies int64) { return 2 * unread, unread })
	collector := newCollector(registry, "v1.2.3")
	w := registry.Worker(1)

	// moved adds to want the changes of a histogram by one more time d.
	moved := func(want map[string]float64, name, label string, d time.Duration) {
		want[name+"_count{"+label+"}"]++
		want[name+"_sum{"+label+"}"] += d.Seconds()
		for _, b := range metricBounds {
			if b := time.Duration(b); d < b {
				want[fmt.Sprintf("%s_bucket{%s,le=%q}", name, label, fmt.Sprint(b.Seconds()))]++
			}
		}
	}
	requestTimes := times(30*time.Microsecond, 400*time.Microsecond, 70*time.Microsecond, 2200*time.Microsecond,
		time.Millisecond)
	request := func(command, result, class string, more map[string]float64) map[string]float64 {
		want := map[string]float64{fmt.Sprintf("mcmw_requests_total{command=%q,result=%q}", command, result): 1}
		moved(want, "mcmw_request_duration_seconds", fmt.Sprintf("command=%q", class), 3700*time.Microsecond)
		for s := range stats.NumStages {
			moved(want, "mcmw_request_stage_duration_seconds", fmt.Sprintf("stage=%q", s),
				time.Duration(requestTimes.Of(s)))
		}
		for name, v := range more {
			want[name] = v
		}
		return want
	}
	// rounds adds to want the changes by one more round of n requests.
	rounds := func(n uint64, want map[string]float64) map[string]float64 {
		for i := range stats.NumRoundSizes - 1 {
			if b := stats.RoundSizeBound(i); n <= b {
				want[fmt.Sprintf("mcmw_worker_round_requests_bucket{le=%q}", fmt.Sprint(float64(b)))]++
			}
		}
		return want
	}
	later := stats.Now() + int64(time.Hour) // the worker becomes busy after the end of the test
	server := map[string]float64{}
	moved(server, "mcmw_server_duration_seconds", `server="b"`, 7*time.Millisecond)

	for _, c := range []struct {
		name   string
		record func()
		want   map[string]float64
	}{
		{
			"a multi-get that found some keys",
			func() { w.Request(protocol.Get, stats.ResultPartial, 5, 3, requestTimes) },
			request("get", "partial", "multi_get",
				map[string]float64{"mcmw_keys_total": 5, "mcmw_key_misses_total": 2}),
		},
		{
			"a stored value",
			func() { w.Request(protocol.Cas, stats.ResultOK, 1, 0, requestTimes) },
			request("cas", "ok", "set", nil),
		},
		{
			"a command that failed",
			func() { w.Request(protocol.Incr, stats.ResultServerError, 1, 0, requestTimes) },
			request("incr", "server_error", "arithmetic", nil),
		},
		{"a server's part", func() { w.Server(1, int64(7*time.Millisecond)); w.Flush() }, server},
		{
			"a server's failure",
			func() { w.ServerError(0, stats.ReasonReset) },
			map[string]float64{`mcmw_server_errors_total{reason="reset",server="a"}`: 1},
		},
		{
			"a server that goes down",
			func() {
				health.State, health.Transitions = "down", []stats.Transition{{To: "up"}, {To: "down", Count: 1}}
			},
			map[string]float64{
				`mcmw_server_state{server="b",state="up"}`: -1, `mcmw_server_state{server="b",state="down"}`: 1,
				`mcmw_server_transitions_total{server="b",state="down"}`: 1,
			},
		},
		{"a missed key", func() { health.Missed = 1 }, map[string]float64{`mcmw_server_missed_keys{server="b"}`: 1}},
		{"a flush", func() { health.Flushes++ }, map[string]float64{`mcmw_server_flushes_total{server="b"}`: 1}},
		{"refilled keys", func() { health.Refilled++ }, map[string]float64{`mcmw_server_refilled_keys_total{server="b"}`: 1}},
		{"a stall", func() { health.Stalls++ }, map[string]float64{`mcmw_server_stalls_total{server="b"}`: 1}},
		{
			"a mark", func() { health.MarkedHere = true },
			map[string]float64{`mcmw_server_marked{by="own",server="b"}`: 1},
		},
		{
			"another's mark", func() { health.MarkedElsewhere = true },
			map[string]float64{`mcmw_server_marked{by="another",server="b"}`: 1},
		},
		{
			"a write that is not acknowledged", func() { health.Withheld++ },
			map[string]float64{`mcmw_withheld_writes_total{server="b"}`: 1},
		},
		{"marks that are not known", func() { unknown = true }, map[string]float64{"mcmw_marks_unknown": 1}},
		{
			"a phase of a migration", func() { migration.Phase = "copy" },
			map[string]float64{
				`mcmw_migration_phase{from="x",phase="waiting",to="y"}`: -1,
				`mcmw_migration_phase{from="x",phase="copy",to="y"}`:    1,
			},
		},
		{
			"keys that are copied",
			func() { migration.Listed, migration.Items, migration.Left, migration.Here = 5, 9, 1, 4 },
			map[string]float64{
				`mcmw_migration_keys{from="x",keys="looked-at",to="y"}`: 5,
				`mcmw_migration_keys{from="x",keys="all",to="y"}`:       9,
				`mcmw_migration_keys{from="x",keys="left",to="y"}`:      1,
				`mcmw_migration_keys_copied_total{from="x",to="y"}`:     4,
			},
		},
		{
			"reads of a pool that is warmed up", func() {
				migration.Read, migration.Warm = stats.Warming{New: 4, Old: 3, Neither: 2, Unanswered: 1}, true
			},
			map[string]float64{
				`mcmw_migration_reads_total{found="new",from="x",to="y"}`:        4,
				`mcmw_migration_reads_total{found="old",from="x",to="y"}`:        3,
				`mcmw_migration_reads_total{found="neither",from="x",to="y"}`:    2,
				`mcmw_migration_reads_total{found="unanswered",from="x",to="y"}`: 1,
				`mcmw_migration_warm{from="x",to="y"}`:                           1,
			},
		},
		{
			"a migration that is late", func() { migration.Late = true },
			map[string]float64{`mcmw_migration_late{from="x",to="y"}`: 1},
		},
		{
			"a migration that has copied all", func() { migration.Complete = true },
			map[string]float64{`mcmw_migration_complete{from="x",to="y"}`: 1},
		},
		{"a repair", func() { w.Repair(1) }, map[string]float64{`mcmw_repairs_total{server="b"}`: 1}},
		{
			"requests that go to a gutter",
			func() { diverted = stats.Diverted{Reads: 3, Writes: 2} },
			map[string]float64{
				`mcmw_gutter_requests_total{gutter="y",kind="read",pool="x"}`:  3,
				`mcmw_gutter_requests_total{gutter="y",kind="write",pool="x"}`: 2,
			},
		},
		{
			"servers whose keys are in a gutter",
			func() { away, open = 1, 2 },
			map[string]float64{
				`mcmw_gutter_servers{gutter="y",pool="x",state="away"}`: 1,
				`mcmw_gutter_servers{gutter="y",pool="x",state="open"}`: 2,
			},
		},
		{"several writers", func() { several = true }, map[string]float64{"mcmw_several_writers": 1}},
		{
			"checks of replicas",
			func() { w.Planned(&stats.Planned{Agreement: stats.Agreement{Checks: 5, Disagreements: 2, Cuts: 3}}) },
			map[string]float64{"mcmw_checks_total": 5, "mcmw_check_disagreements_total": 2, "mcmw_check_cut_total": 3},
		},
		{
			"a copy for a shadow", func() { shadow.Copied(2) },
			map[string]float64{`mcmw_shadow_requests_total{pool="x",shadow="z"}`: 2},
		},
		{
			"a copy that is dropped", func() { shadow.Dropped(stats.ShadowNoMemory) },
			map[string]float64{`mcmw_shadow_dropped_total{pool="x",reason="memory",shadow="z"}`: 1},
		},
		{
			"a shadow's answer",
			func() { shadow.Answered(stats.ShadowDifferent, int64(2*time.Second)) },
			map[string]float64{
				`mcmw_shadow_answers_total{pool="x",result="different",shadow="z"}`: 1,
				`mcmw_shadow_delay_seconds_total{pool="x",shadow="z"}`:              2,
			},
		},
		{"batches that wait", func() { waiting = 3 }, map[string]float64{`mcmw_queue_length{queue="shared"}`: 3}},
		{
			"memory used for clients", func() { unread = 5 },
			map[string]float64{
				`mcmw_client_memory_bytes{of="requests"}`: 10,
				`mcmw_client_memory_bytes{of="replies"}`:  5,
			},
		},
		{"a worker that begins", func() { w.Begin(later) }, map[string]float64{"mcmw_workers_busy": 1}},
		{
			"a round's end",
			func() { w.Round(4, later+int64(time.Second)) },
			rounds(4, map[string]float64{
				"mcmw_workers_busy": -1, "mcmw_worker_busy_seconds_total": 1,
				"mcmw_worker_round_requests_count": 1, "mcmw_worker_round_requests_sum": 4,
			}),
		},
		{
			"time spent waiting for a server", func() { w.Waited(1, int64(time.Second)); w.Flush() },
			map[string]float64{`mcmw_worker_wait_seconds_total{server="b"}`: 1},
		},
		{
			"requests that arrive", func() { registry.Net().Arrivals().Add(5) },
			map[string]float64{"mcmw_arrivals_total": 5, "mcmw_queue_requests": 5},
		},
		{
			"requests that are taken", func() { w.Take(4) },
			map[string]float64{"mcmw_queue_requests": -4, "mcmw_serving_requests": 4 - 3},
		},
		{
			"a sample",
			registry.Sample,
			map[string]float64{
				"mcmw_samples_total": 1, "mcmw_sampled_queue_requests_total": 1,
				"mcmw_sampled_serving_requests_total": 1,
			},
		},
		{
			"a client that leaves", func() { registry.Net().Change(func(n *stats.NetRecord) { n.Abandoned++ }) },
			map[string]float64{"mcmw_queue_requests": -1, "mcmw_abandoned_requests_total": 1},
		},
		{
			"a request for which the request log has no room",
			func() {
				for range cap(tap.Events()) + 1 {
					w.Log(stats.Event{}, nil)
				}
			},
			map[string]float64{"mcmw_request_log_dropped_total": 1},
		},
		{
			"a connection opened",
			func() { registry.Net().Opened() },
			map[string]float64{"mcmw_connections": 1, "mcmw_connections_opened_total": 1},
		},
		{
			"a wrong password",
			func() { registry.Net().Change(func(n *stats.NetRecord) { n.LoginFailures++ }) },
			map[string]float64{"mcmw_login_failures_total": 1},
		},
		{
			"a connection closed",
			func() { registry.Net().Closed(stats.CloseProtocol) },
			map[string]float64{"mcmw_connections": -1, `mcmw_connections_closed_total{reason="protocol"}`: 1},
		},
		{
			"a request that is shed",
			func() {
				registry.Net().Change(func(n *stats.NetRecord) {
					n.Requests[protocol.Set][stats.ResultShed]++
					n.FromClients, n.ToClients = n.FromClients+10, n.ToClients+20
				})
			},
			map[string]float64{
				`mcmw_requests_total{command="set",result="shed"}`: 1, "mcmw_received_bytes_total": 10,
				"mcmw_sent_bytes_total": 20,
			},
		},
		{
			"bytes",
			func() { w.Bytes(100, 2000); w.Flush() },
			map[string]float64{"mcmw_received_bytes_total": 100, "mcmw_sent_bytes_total": 2000},
		},
		{
			"a sweep that begins",
			func() { sweep.Runs(true); sweep.Repeats(true, time.Minute) },
			map[string]float64{"mcmw_sweep_running": 1, "mcmw_sweep_interval_seconds": 60},
		},
		{
			"keys that are compared",
			func() { sweep.Compared(5, time.Second); sweep.Disagreed(); sweep.Deleted(); sweep.Deleted() },
			map[string]float64{
				"mcmw_sweep_keys_total": 5, "mcmw_sweep_seconds_total": 1,
				"mcmw_sweep_disagreements_total": 1, "mcmw_sweep_cut_total": 2,
			},
		},
		{
			"a sweep that ends",
			func() { sweep.Runs(false); sweep.Ended(stats.SweepIncomplete, "a: not up") },
			map[string]float64{"mcmw_sweep_running": -1, `mcmw_sweeps_total{outcome="incomplete"}`: 1},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := gather(t, collector)
			c.record()
			after := gather(t, collector)
			require.Len(t, after, len(before), "no metric appears only once it has a value")
			for name, v := range after {
				require.InDelta(t, c.want[name], v-before[name], 1e-9, name)
			}
			for name := range c.want {
				require.Contains(t, after, name)
			}
		})
	}

	sweep.Last(0, 3)
	last := gather(t, collector)
	require.EqualValues(t, 3, last["mcmw_sweep_last_differing_keys"])
	require.InDelta(t, float64(sweep.Snapshot().Last.UnixNano())/1e9, last["mcmw_sweep_last_timestamp_seconds"], 1e-3)

	constant := gather(t, collector)
	require.EqualValues(t, 64, constant[`mcmw_queue_capacity{queue="shared"}`])
	require.EqualValues(t, 2, constant["mcmw_workers"])
	require.EqualValues(t, 1, constant[`mcmw_server_info{pool="y",server="b",shadow_of="",zone="east"}`])
	require.EqualValues(t, 1, constant[fmt.Sprintf(`mcmw_build_info{goversion=%q,version="v1.2.3"}`,
		runtime.Version())])
}

func TestEveryPossibleCombinationOfCommandAndResultExistsFromTheStart(t *testing.T) {
	values := gather(t, newCollector(stats.New(stats.Options{Servers: []string{"a"}, Workers: 1}), "v1"))
	for c := range protocol.NumCommands {
		for r := range stats.NumResults {
			name := fmt.Sprintf("mcmw_requests_total{command=%q,result=%q}", c, r)
			_, exists := values[name]
			require.Equal(t, stats.CanEnd(c, r), exists, name)
		}
	}
	for r := range stats.NumReasons {
		require.Contains(t, values, fmt.Sprintf("mcmw_server_errors_total{reason=%q,server=\"a\"}", r))
	}
	for r := range stats.NumCloseReasons {
		require.Contains(t, values, fmt.Sprintf("mcmw_connections_closed_total{reason=%q}", r))
	}
}

func TestAnUnexpectedCombinationOfCommandAndResultIsStillCounted(t *testing.T) {
	require.False(t, stats.CanEnd(protocol.Set, stats.ResultMiss))
	r := stats.New(stats.Options{Workers: 1})
	r.Worker(0).Request(protocol.Set, stats.ResultMiss, 1, 0, &stats.Times{})
	require.EqualValues(t, 1, gather(t, newCollector(r, "v1"))[`mcmw_requests_total{command="set",result="miss"}`])
}

func TestTheMetricsFollowPrometheusNaming(t *testing.T) {
	problems, err := testutil.CollectAndLint(newCollector(stats.New(stats.Options{Servers: []string{"a"}, Workers: 1}),
		"v1"))
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestTheExportedBucketsAreBoundariesOfTheHistogram(t *testing.T) {
	boundaries := map[int64]bool{}
	for i := range stats.NumBuckets {
		boundaries[stats.Bound(i)] = true
	}
	for i, b := range metricBounds {
		require.True(t, boundaries[b], "%v is no boundary", b)
		if i > 0 {
			require.Greater(t, b, metricBounds[i-1])
		}
	}
}

func TestTheMetricsPageIncludesTheMetricsOfGoAndTheProcess(t *testing.T) {
	_, url := serve(t, Options{})
	status, _, body := get(t, "GET", url+"/metrics")
	require.Equal(t, 200, status)
	for _, name := range []string{"mcmw_build_info{", "go_goroutines ", "process_resident_memory_bytes "} {
		require.Contains(t, body, "\n"+name)
	}
}
