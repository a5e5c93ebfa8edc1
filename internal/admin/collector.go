package admin

import (
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mcmw/internal/protocol"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// metric is one metric: its name without "mcmw_", its meaning, and its values in a snapshot.
type metric struct {
	name, help string
	labels     []string
	values     func(s *stats.Snapshot, to sink)
}

// sink takes the values of one metric.
type sink struct {
	desc    *prometheus.Desc
	created time.Time
	out     chan<- prometheus.Metric
}

func (k sink) counter(v float64, labels ...string) {
	k.out <- prometheus.MustNewConstMetric(k.desc, prometheus.CounterValue, v, labels...)
}

func (k sink) gauge(v float64, labels ...string) {
	k.out <- prometheus.MustNewConstMetric(k.desc, prometheus.GaugeValue, v, labels...)
}

// histogram adds times, as a classic and a native histogram.
func (k sink) histogram(h *stats.Histogram, label string) {
	k.out <- bothHistograms(k.desc, h, k.created, label)
}

// counts returns the values of a counter without labels.
func counts(of func(s *stats.Snapshot) uint64) func(*stats.Snapshot, sink) {
	return func(s *stats.Snapshot, to sink) { to.counter(float64(of(s))) }
}

// holds returns the values of a gauge without labels.
func holds[N int | int64 | uint64](of func(s *stats.Snapshot) N) func(*stats.Snapshot, sink) {
	return func(s *stats.Snapshot, to sink) { to.gauge(float64(of(s))) }
}

// tells returns the values of a gauge that is 1 or 0.
func tells(of func(s *stats.Snapshot) bool) func(*stats.Snapshot, sink) {
	return func(s *stats.Snapshot, to sink) { to.gauge(indicator(of(s))) }
}

// indicator is the value that says whether something is so.
func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// eachServer returns the values of a metric with one series per server.
func eachServer(values func(server *stats.ServerSnapshot, to sink)) func(*stats.Snapshot, sink) {
	return func(s *stats.Snapshot, to sink) {
		for i := range s.Servers {
			values(&s.Servers[i], to)
		}
	}
}

// eachShadow returns the values of a metric with one series, or several, per shadow of a pool.
func eachShadow(values func(shadow *stats.ShadowSnapshot, to sink)) func(*stats.Snapshot, sink) {
	return func(s *stats.Snapshot, to sink) {
		for i := range s.Shadows {
			values(&s.Shadows[i], to)
		}
	}
}

// eachGutter returns the values of a metric with series for each pool that has a gutter.
func eachGutter(values func(g *stats.GutterSnapshot, to sink)) func(*stats.Snapshot, sink) {
	return func(s *stats.Snapshot, to sink) {
		for i := range s.Gutters {
			values(&s.Gutters[i], to)
		}
	}
}

// eachMigration returns the values of a metric with one series per migration; of several between the same pools, the last that has begun.
func eachMigration(values func(g *stats.Migration, to sink)) func(*stats.Snapshot, sink) {
	return func(s *stats.Snapshot, to sink) {
		for i := range s.Migrations {
			g := &s.Migrations[i]
			later := func(h stats.Migration) bool {
				return h.From == g.From && h.To == g.To && h.Phase != route.MigrationWaiting.String()
			}
			earlier := func(h stats.Migration) bool { return h.From == g.From && h.To == g.To }
			if slices.ContainsFunc(s.Migrations[i+1:], later) || g.Phase == route.MigrationWaiting.String() && slices.ContainsFunc(s.Migrations[:i], earlier) {
				continue
			}
			values(g, to)
		}
	}
}

// metrics are those made from a Snapshot, without the stats.Counters, which have names and meanings of their own.
var metrics = []metric{
	{"requests_total", "Answered requests.", []string{"command", "result"}, func(s *stats.Snapshot, to sink) {
		for i := range s.Requests {
			for j, n := range s.Requests[i] {
				command, result := protocol.Command(i), stats.Result(j)
				if n > 0 || stats.CanEnd(command, result) {
					to.counter(float64(n), command.String(), result.String())
				}
			}
		}
	}},
	{"request_duration_seconds", "Response time, from the read that completed a request until its reply was handed to the socket, by class of command.", []string{"command"}, func(s *stats.Snapshot, to sink) {
		for i := range s.Response {
			to.histogram(&s.Response[i], stats.Class(i).String())
		}
	}},
	{"request_stage_duration_seconds", "The part of the response time spent in each stage.", []string{"stage"}, func(s *stats.Snapshot, to sink) {
		for i := range s.Stages {
			to.histogram(&s.Stages[i], stats.Stage(i).String())
		}
	}},
	{"keys_total", "Keys requested by retrievals.", nil, counts(func(s *stats.Snapshot) uint64 { return s.Keys })},
	{"key_misses_total", "Requested keys that were not found.", nil, counts(func(s *stats.Snapshot) uint64 { return s.Misses })},
	{"arrivals_total", "Requests that the net stage put on the queue.", nil, counts(func(s *stats.Snapshot) uint64 { return s.Arrived })},
	{"abandoned_requests_total", "Requests that arrived but were never served, because their client was gone.", nil, counts(func(s *stats.Snapshot) uint64 { return s.Abandoned })},

	{"server_duration_seconds", "One server's part of a request, from the write to the server until its reply was read.", []string{"server"}, eachServer(func(server *stats.ServerSnapshot, to sink) {
		to.histogram(&server.Times, server.Name)
	})},
	{"server_info", "Always 1; the pool that the server is in, empty if there is one without a name, the pool whose shadow that is, empty if it is none, and the zone, empty if unknown.", []string{"server", "pool", "shadow_of", "zone"}, eachServer(func(server *stats.ServerSnapshot, to sink) {
		to.gauge(1, server.Name, server.Pool, server.ShadowOf, server.Zone)
	})},
	{"server_errors_total", "Failures of a server.", []string{"server", "reason"}, eachServer(func(server *stats.ServerSnapshot, to sink) {
		for r, n := range server.Errors {
			to.counter(float64(n), server.Name, stats.Reason(r).String())
		}
	})},
	{"server_missed_keys", "Keys whose latest write the server may not have got.", []string{"server"}, eachServer(func(server *stats.ServerSnapshot, to sink) {
		to.gauge(float64(server.Health.Missed), server.Name)
	})},
	{"server_state", "1 for the state the server is in.", []string{"server", "state"}, eachServer(func(server *stats.ServerSnapshot, to sink) {
		for _, t := range server.Health.Transitions {
			to.gauge(indicator(t.To == server.Health.State), server.Name, t.To)
		}
	})},
	{"server_transitions_total", "Times the server entered the state.", []string{"server", "state"}, eachServer(func(server *stats.ServerSnapshot, to sink) {
		for _, t := range server.Health.Transitions {
			to.counter(float64(t.Count), server.Name, t.To)
		}
	})},
	{"server_stalls_total", "Times the server did not reply for longer than stall-after; requests that do not need it then stopped waiting for it.", []string{"server"}, eachServer(func(server *stats.ServerSnapshot, to sink) {
		to.counter(float64(server.Health.Stalls), server.Name)
	})},
	{"server_flushes_total", "Times the server was flushed because it might have held old values.", []string{"server"}, eachServer(func(server *stats.ServerSnapshot, to sink) {
		to.counter(float64(server.Health.Flushes), server.Name)
	})},
	{"server_marked", "1 if the server is marked as one that missed writes, so that no middleware reads it, by this middleware (own) or another; else 0.", []string{"server", "by"}, eachServer(func(server *stats.ServerSnapshot, to sink) {
		to.gauge(indicator(server.Health.MarkedHere), server.Name, "own")
		to.gauge(indicator(server.Health.MarkedElsewhere), server.Name, "another")
	})},
	{"withheld_writes_total", "Writes answered with an error though enough servers had stored them, because the server missed them and not every middleware knew that in time.", []string{"server"}, eachServer(func(server *stats.ServerSnapshot, to sink) {
		to.counter(float64(server.Health.Withheld), server.Name)
	})},
	{"repairs_total", "Keys deleted on the server because its state differed from the answer to a write to several replicas.", []string{"server"}, eachServer(func(server *stats.ServerSnapshot, to sink) {
		to.counter(float64(server.Repairs), server.Name)
	})},
	{"worker_wait_seconds_total", "Time that workers were blocked waiting for the server's replies, sum over the workers.", []string{"server"}, eachServer(func(server *stats.ServerSnapshot, to sink) {
		to.counter(seconds(server.Waited), server.Name)
	})},

	{"shadow_requests_total", "Requests of the pool that were copied to its shadow, a retrieval once per key.", []string{"pool", "shadow"}, eachShadow(func(shadow *stats.ShadowSnapshot, to sink) {
		to.counter(float64(shadow.Copied), shadow.Of, shadow.To)
	})},
	{"shadow_dropped_total", "Requests of the pool that were not copied to its shadow, because too many copies wait (queue), or too large ones (memory).", []string{"pool", "shadow", "reason"}, eachShadow(func(shadow *stats.ShadowSnapshot, to sink) {
		for why, n := range shadow.Dropped {
			to.counter(float64(n), shadow.Of, shadow.To, stats.ShadowDrop(why).String())
		}
	})},
	{"shadow_answers_total", "What came of the copies, by how the shadow's answer compares with the client's.", []string{"pool", "shadow", "result"}, eachShadow(func(shadow *stats.ShadowSnapshot, to sink) {
		for result, n := range shadow.Answers {
			to.counter(float64(n), shadow.Of, shadow.To, stats.ShadowResult(result).String())
		}
	})},
	{"shadow_delay_seconds_total", "Time from the client's answer until the shadow's, sum over the answers.", []string{"pool", "shadow"}, eachShadow(func(shadow *stats.ShadowSnapshot, to sink) {
		to.counter(seconds(shadow.Delay), shadow.Of, shadow.To)
	})},

	{"queue_length", "Batches waiting in the queue (a batch is the requests from one read of a connection).", []string{"queue"}, func(s *stats.Snapshot, to sink) {
		for _, q := range s.Queues {
			to.gauge(float64(q.Length), q.Name)
		}
	}},
	{"queue_capacity", "Batches the queue can hold.", []string{"queue"}, func(s *stats.Snapshot, to sink) {
		for _, q := range s.Queues {
			to.gauge(float64(q.Capacity), q.Name)
		}
	}},
	{"queue_requests", "Requests waiting in the queue.", nil, holds((*stats.Snapshot).Waiting)},
	{"serving_requests", "Requests that workers have taken and not answered yet.", nil, holds((*stats.Snapshot).Serving)},
	{"samples_total", "How often the numbers of waiting requests and of requests in service were sampled.", nil, counts(func(s *stats.Snapshot) uint64 { return s.Samples })},
	{"sampled_queue_requests_total", "Sum of the samples of how many requests wait; its rate divided by that of mcmw_samples_total is their mean number.", nil, counts(func(s *stats.Snapshot) uint64 { return s.SampledWaiting })},
	{"sampled_serving_requests_total", "Sum of the samples of how many requests are in service; its rate divided by that of mcmw_samples_total is their mean number.", nil, counts(func(s *stats.Snapshot) uint64 { return s.SampledServing })},

	{"workers", "Workers.", nil, holds(func(s *stats.Snapshot) int { return s.Workers })},
	{"workers_busy", "Workers that are serving requests.", nil, holds(func(s *stats.Snapshot) int { return s.WorkersBusy })},
	{"worker_busy_seconds_total", "Time spent serving requests, sum over the workers.", nil, func(s *stats.Snapshot, to sink) { to.counter(seconds(s.BusyTime)) }},
	{"worker_round_requests", "Requests served in each of the workers' rounds.", nil, func(s *stats.Snapshot, to sink) {
		to.out <- prometheus.MustNewConstHistogram(to.desc, s.Rounds, float64(s.RoundRequests), roundSizes(s))
	}},
	{"joined_gets_total", "Gets that were answered by the reply to an equal get of the same round.", nil, counts(func(s *stats.Snapshot) uint64 { return s.Joined })},
	{"large_values_total", "Values larger than the servers' items that were stored in chunks, read, or of which a chunk was missing.", []string{"outcome"}, func(s *stats.Snapshot, to sink) {
		to.counter(float64(s.Large.Stored), "stored")
		to.counter(float64(s.Large.Read), "read")
		to.counter(float64(s.Large.Incomplete), "incomplete")
	}},
	{"request_log_dropped_total", "Requests for which the request log had no room.", nil, counts(func(s *stats.Snapshot) uint64 { return s.Dropped })},

	{"sweep_running", "1 while this middleware compares the replicas, or has to because one before it was killed; else 0.", nil, tells(func(s *stats.Snapshot) bool { return s.Sweep.Running })},
	{"sweeps_total", "Comparisons of the replicas by this middleware that ended.", []string{"outcome"}, func(s *stats.Snapshot, to sink) {
		for o, n := range s.Sweep.Outcomes {
			to.counter(float64(n), stats.SweepOutcome(o).String())
		}
	}},
	{"sweep_keys_total", "Keys looked at while comparing replicas.", nil, counts(func(s *stats.Snapshot) uint64 { return s.Sweep.Keys })},
	{"sweep_disagreements_total", "Keys whose replicas differed when they were compared, twice in a row.", nil, counts(func(s *stats.Snapshot) uint64 { return s.Sweep.Disagreements })},
	{"sweep_cut_total", "Copies deleted because they differed.", nil, counts(func(s *stats.Snapshot) uint64 { return s.Sweep.Cut })},
	{"sweep_seconds_total", "Time spent comparing replicas, without pauses.", nil, func(s *stats.Snapshot, to sink) { to.counter(seconds(uint64(s.Sweep.Busy))) }},
	{"sweep_interval_seconds", "Time between two comparisons of the replicas, by whichever middleware; 0: they are not repeated.", nil, func(s *stats.Snapshot, to sink) {
		to.gauge(seconds(uint64(s.Sweep.Every)))
	}},
	{"sweep_last_timestamp_seconds", "When all replicas had been compared last, by whichever middleware; the start, if that is not known.", nil, func(s *stats.Snapshot, to sink) {
		last := s.Sweep.Last
		if last.IsZero() {
			last = to.created
		}
		to.gauge(float64(last.UnixNano()) / 1e9)
	}},
	{"sweep_last_differing_keys", "Keys that differed when all replicas had been compared last, by whichever middleware.", nil, holds(func(s *stats.Snapshot) uint64 { return s.Sweep.LastDiffer })},
	{"several_writers", "1 if other middlewares may write the same servers, and replicas are kept alike all the same; 0 if this one has to be alone, or keys have one replica.", nil, tells(func(s *stats.Snapshot) bool { return s.Several })},
	{"marks_unknown", "1 if no server is read, because fewer than a majority of them say which missed writes of other middlewares; else 0.", nil, tells(func(s *stats.Snapshot) bool { return s.MarksUnknown })},
	{"placement_info", "Always 1; the phase of the change of placement, and a short hash of the placement that is, or will be, in force.", []string{"phase", "placement"}, func(s *stats.Snapshot, to sink) {
		to.gauge(1, s.Phase, s.Placement)
	}},
	{"gutter_requests_total", "Requests for keys of the pool that went to its gutter, because their servers were down.", []string{"pool", "gutter", "kind"}, eachGutter(func(g *stats.GutterSnapshot, to sink) {
		to.counter(float64(g.Reads), g.Pool, g.Gutter, "read")
		to.counter(float64(g.Writes), g.Pool, g.Gutter, "write")
	})},
	{"gutter_servers", "Servers of the pool whose keys are read and written in its gutter (away), and of which the gutter may hold keys, so that writes of these delete them there (open).", []string{"pool", "gutter", "state"}, eachGutter(func(g *stats.GutterSnapshot, to sink) {
		to.gauge(float64(g.Away), g.Pool, g.Gutter, "away")
		to.gauge(float64(g.Open), g.Pool, g.Gutter, "open")
	})},
	{"migration_phase", "1 for the phase that the migration of a pool's keys to another pool is in.", []string{"from", "to", "phase"}, eachMigration(func(g *stats.Migration, to sink) {
		for p := range route.NumMigrationPhases {
			to.gauge(indicator(p.String() == g.Phase), g.From, g.To, p.String())
		}
	})},
	{"migration_keys", "Keys of the migration that were looked at in this round through all, keys that there were, and keys looked at that could not be copied; by whichever middleware.", []string{"from", "to", "keys"}, eachMigration(func(g *stats.Migration, to sink) {
		to.gauge(float64(g.Listed), g.From, g.To, "looked-at")
		to.gauge(float64(g.Items), g.From, g.To, "all")
		to.gauge(float64(g.Left), g.From, g.To, "left")
	})},
	{"migration_keys_copied_total", "Keys that this middleware has copied to the new pool of a migration.", []string{"from", "to"}, eachMigration(func(g *stats.Migration, to sink) {
		to.counter(float64(g.Here), g.From, g.To)
	})},
	{"migration_complete", "1 if all keys of the migration were looked at, by whichever middleware; else 0.", []string{"from", "to"}, eachMigration(func(g *stats.Migration, to sink) {
		to.gauge(indicator(g.Complete), g.From, g.To)
	})},
	{"migration_late", "1 if not all keys of the migration will be copied in time, or were; else 0.", []string{"from", "to"}, eachMigration(func(g *stats.Migration, to sink) {
		to.gauge(indicator(g.Late), g.From, g.To)
	})},
	{"migration_reads_total", "Keys that reads have looked for in a pool that is warmed up, by where they were found; unanswered: a server did not answer.", []string{"from", "to", "found"}, eachMigration(func(g *stats.Migration, to sink) {
		to.counter(float64(g.Read.New), g.From, g.To, "new")
		to.counter(float64(g.Read.Old), g.From, g.To, "old")
		to.counter(float64(g.Read.Neither), g.From, g.To, "neither")
		to.counter(float64(g.Read.Unanswered), g.From, g.To, "unanswered")
	})},
	{"migration_warm", "1 if the hit ratio of the pool that is warmed up has come as near to that of both as is wanted, by the last minute's reads; else 0.", []string{"from", "to"}, eachMigration(func(g *stats.Migration, to sink) {
		to.gauge(indicator(g.Warm), g.From, g.To)
	})},
	{"checks_total", "Writes behind which the replicas were compared, because other middlewares write the same servers.", nil, counts(func(s *stats.Snapshot) uint64 { return s.Agreement.Checks })},
	{"check_disagreements_total", "Writes behind which replicas differed, because another middleware wrote the key at the same time.", nil, counts(func(s *stats.Snapshot) uint64 { return s.Agreement.Disagreements })},
	{"check_cut_total", "Copies deleted because they differed behind a write.", nil, counts(func(s *stats.Snapshot) uint64 { return s.Agreement.Cuts })},

	{"connections", "Open client connections.", nil, holds((*stats.Snapshot).Open)},
	{"connections_opened_total", "Client connections accepted.", nil, counts(func(s *stats.Snapshot) uint64 { return s.Opened })},
	{"connections_closed_total", "Client connections that ended.", []string{"reason"}, func(s *stats.Snapshot, to sink) {
		for r, n := range s.Closed {
			to.counter(float64(n), stats.CloseReason(r).String())
		}
	}},
	{"client_memory_bytes", "Memory taken by clients' large requests, and by replies that clients have not read.", []string{"of"}, func(s *stats.Snapshot, to sink) {
		to.gauge(float64(s.RequestMemory), "requests")
		to.gauge(float64(s.ReplyMemory), "replies")
	}},
	{"received_bytes_total", "Bytes of requests received from clients.", nil, counts(func(s *stats.Snapshot) uint64 { return s.FromClients })},
	{"sent_bytes_total", "Bytes of replies sent to clients.", nil, counts(func(s *stats.Snapshot) uint64 { return s.ToClients })},
}

// Collector exports a stats.Registry as Prometheus metrics, from one Snapshot per scrape. Times are exported as classic and
// native histograms at once. docs/observability.md lists the metrics.
type Collector struct {
	registry  *stats.Registry
	created   time.Time
	buildInfo prometheus.Metric
	descs     []*prometheus.Desc // of metrics
	counters  map[string]*prometheus.Desc
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("mcmw_"+name, help, labels, nil)
}

// NewCollector returns a Collector of r. The counters of r must exist already.
func NewCollector(r *stats.Registry, version string) *Collector {
	info := describe("build_info", "The program's version and that of Go; always 1.", "version", "goversion")
	c := &Collector{
		registry: r, created: time.Now(), counters: map[string]*prometheus.Desc{},
		buildInfo: prometheus.MustNewConstMetric(info, prometheus.GaugeValue, 1, version, runtime.Version()),
	}
	for _, m := range metrics {
		c.descs = append(c.descs, describe(m.name, m.help, m.labels...))
	}
	for _, counter := range r.Snapshot().Counters {
		c.counters[counter.Name] = describe(counter.Name, counter.Help)
	}
	return c
}

// Describe sends the descriptions of all metrics.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	out <- c.buildInfo.Desc()
	for _, d := range c.descs {
		out <- d
	}
	for _, d := range c.counters {
		out <- d
	}
}

// Collect sends the values of one Snapshot.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	s := c.registry.Snapshot()
	out <- c.buildInfo
	for i, m := range metrics {
		m.values(s, sink{c.descs[i], c.created, out})
	}
	for _, counter := range s.Counters {
		if desc := c.counters[counter.Name]; desc != nil {
			sink{desc, c.created, out}.counter(float64(counter.Value))
		}
	}
}

// roundSizes returns the cumulative counts of the rounds' sizes, by bound.
func roundSizes(s *stats.Snapshot) map[float64]uint64 {
	m := make(map[float64]uint64, stats.NumRoundSizes-1)
	var below uint64
	for i, n := range s.RoundSizes[:stats.NumRoundSizes-1] {
		below += n
		m[float64(stats.RoundSizeBound(i))] = below
	}
	return m
}

func seconds(ns uint64) float64 { return float64(ns) / float64(time.Second) }
