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

// counts returns the values of a counter without labels.
func counts(value func(s *stats.Snapshot) uint64) func(*stats.Snapshot, sink) {
	return func(s *stats.Snapshot, to sink) { to.counter(float64(value(s))) }
}

// measures returns the values of a gauge without labels.
func measures[N int | int64 | uint64](value func(s *stats.Snapshot) N) func(*stats.Snapshot, sink) {
	return func(s *stats.Snapshot, to sink) { to.gauge(float64(value(s))) }
}

// indicates returns the values of a gauge that is 1 or 0.
func indicates(value func(s *stats.Snapshot) bool) func(*stats.Snapshot, sink) {
	return func(s *stats.Snapshot, to sink) { to.gauge(indicator(value(s))) }
}

// indicator returns 1 for true and 0 for false.
func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// each returns the values of a metric with series for each element of a list.
func each[T any](list func(s *stats.Snapshot) []T, values func(element *T, to sink)) func(*stats.Snapshot, sink) {
	return func(s *stats.Snapshot, to sink) {
		all := list(s)
		for i := range all {
			values(&all[i], to)
		}
	}
}

// eachServer returns the values of a metric with series for each server.
func eachServer(values func(server *stats.ServerSnapshot, to sink)) func(*stats.Snapshot, sink) {
	return each(func(s *stats.Snapshot) []stats.ServerSnapshot { return s.Servers }, values)
}

// perServer returns the values of a metric with one series per server, sent as counters or gauges.
func perServer(send func(to sink, v float64, labels ...string),
	value func(server *stats.ServerSnapshot) float64,
) func(*stats.Snapshot, sink) {
	return eachServer(func(server *stats.ServerSnapshot, to sink) { send(to, value(server), server.Name) })
}

// eachFollow returns the values of a metric with series for each pool that follows another one.
func eachFollow(values func(f *stats.Follow, to sink)) func(*stats.Snapshot, sink) {
	return each(func(s *stats.Snapshot) []stats.Follow { return s.Follows }, values)
}

// eachShadow returns the values of a metric with series for each shadow of a pool.
func eachShadow(values func(shadow *stats.ShadowSnapshot, to sink)) func(*stats.Snapshot, sink) {
	return each(func(s *stats.Snapshot) []stats.ShadowSnapshot { return s.Shadows }, values)
}

// eachGutter returns the values of a metric with series for each pool that has a gutter.
func eachGutter(values func(g *stats.GutterSnapshot, to sink)) func(*stats.Snapshot, sink) {
	return each(func(s *stats.Snapshot) []stats.GutterSnapshot { return s.Gutters }, values)
}

// eachMigration returns the values of a metric with series for each migration. Of several migrations between the same
// pools, only the last one that has begun counts.
func eachMigration(values func(g *stats.Migration, to sink)) func(*stats.Snapshot, sink) {
	return func(s *stats.Snapshot, to sink) {
		for i := range s.Migrations {
			g := &s.Migrations[i]
			later := func(h stats.Migration) bool {
				return h.From == g.From && h.To == g.To && h.Phase != route.MigrationWaiting.String()
			}
			earlier := func(h stats.Migration) bool { return h.From == g.From && h.To == g.To }
			if slices.ContainsFunc(s.Migrations[i+1:], later) || g.Phase == route.MigrationWaiting.String() &&
				slices.ContainsFunc(s.Migrations[:i], earlier) {
				continue
			}
			values(g, to)
		}
	}
}

// perMigration returns the values of a metric with one series per migration, sent as counters or gauges.
func perMigration(send func(to sink, v float64, labels ...string),
	value func(g *stats.Migration) float64,
) func(*stats.Snapshot, sink) {
	return eachMigration(func(g *stats.Migration, to sink) { send(to, value(g), g.From, g.To) })
}

// snapshotMetrics are the metrics of a Snapshot, except the stats.Counters, which have names and help texts of their
// own.
var snapshotMetrics = []metric[*stats.Snapshot]{
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
	{
		"request_duration_seconds",
		"Response time by class of command, from the read that completed the request until its reply was handed to " +
			"the socket.",
		[]string{"command"},
		func(s *stats.Snapshot, to sink) {
			for i := range s.Response {
				to.histogram(&s.Response[i], stats.Class(i).String())
			}
		},
	},
	{
		"request_stage_duration_seconds", "Part of the response time spent in each stage.",
		[]string{"stage"},
		func(s *stats.Snapshot, to sink) {
			for i := range s.Stages {
				to.histogram(&s.Stages[i], stats.Stage(i).String())
			}
		},
	},
	{"keys_total", "Keys requested by retrievals.", nil, counts(func(s *stats.Snapshot) uint64 { return s.Keys })},
	{
		"key_misses_total", "Requested keys that were not found.", nil,
		counts(func(s *stats.Snapshot) uint64 { return s.Misses }),
	},
	{
		"arrivals_total", "Requests that the net stage put on the queue.", nil,
		counts(func(s *stats.Snapshot) uint64 { return s.Arrived }),
	},
	{
		"abandoned_requests_total", "Requests that were put on the queue but never served, because their client " +
			"was gone.",
		nil, counts(func(s *stats.Snapshot) uint64 { return s.Abandoned }),
	},

	{
		"server_duration_seconds", "Time from the write of a request to the server until its reply was read.",
		[]string{"server"},
		eachServer(func(server *stats.ServerSnapshot, to sink) { to.histogram(&server.Times, server.Name) }),
	},
	{
		"server_info",
		"Always 1; the server's pool (empty: the only pool, without a name), the pool whose shadow that pool is " +
			"(empty: none), and the server's zone (empty: unknown).",
		[]string{"server", "pool", "shadow_of", "zone"},
		eachServer(func(server *stats.ServerSnapshot, to sink) {
			to.gauge(1, server.Name, server.Pool, server.ShadowOf, server.Zone)
		}),
	},
	{
		"server_errors_total", "Failures of the server, by reason.",
		[]string{"server", "reason"},
		eachServer(func(server *stats.ServerSnapshot, to sink) {
			counters[stats.Reason](to, server.Errors[:], server.Name)
		}),
	},
	{
		"server_missed_keys", "Keys whose latest write the server may not have received.",
		[]string{"server"},
		perServer(sink.gauge, func(s *stats.ServerSnapshot) float64 { return float64(s.Health.Missed) }),
	},
	{
		"server_state", "1 for the state that the server is in, else 0.",
		[]string{"server", "state"},
		eachServer(func(server *stats.ServerSnapshot, to sink) {
			for _, t := range server.Health.Transitions {
				to.gauge(indicator(t.To == server.Health.State), server.Name, t.To)
			}
		}),
	},
	{
		"server_transitions_total", "Transitions of the server to the state.",
		[]string{"server", "state"},
		eachServer(func(server *stats.ServerSnapshot, to sink) {
			for _, t := range server.Health.Transitions {
				to.counter(float64(t.Count), server.Name, t.To)
			}
		}),
	},
	{
		"server_stalls_total",
		"Times the server owed a reply for longer than stall-after, so that requests that did not need it stopped " +
			"waiting for it.",
		[]string{"server"},
		perServer(sink.counter, func(s *stats.ServerSnapshot) float64 { return float64(s.Health.Stalls) }),
	},
	{
		"server_flushes_total", "Times the server was flushed because it might have held old values.",
		[]string{"server"},
		perServer(sink.counter, func(s *stats.ServerSnapshot) float64 { return float64(s.Health.Flushes) }),
	},
	{
		"server_marked",
		"1 if this middleware (own) or another one (another) has marked the server as one that missed writes, so " +
			"that no middleware reads it; else 0.",
		[]string{"server", "by"},
		eachServer(func(server *stats.ServerSnapshot, to sink) {
			to.gauge(indicator(server.Health.MarkedHere), server.Name, "own")
			to.gauge(indicator(server.Health.MarkedElsewhere), server.Name, "another")
		}),
	},
	{
		"server_refill_seconds",
		"For how long the server has not been read because it is refilled from the other replicas; 0: it is not.",
		[]string{"server"},
		perServer(sink.gauge, func(s *stats.ServerSnapshot) float64 {
			if s.Health.LacksSince.IsZero() {
				return 0
			}
			return time.Since(s.Health.LacksSince).Seconds()
		}),
	},
	{
		"server_refilled_keys_total", "Keys that this middleware has copied to the server to refill it.",
		[]string{"server"},
		perServer(sink.counter, func(s *stats.ServerSnapshot) float64 { return float64(s.Health.Refilled) }),
	},
	{
		"withheld_writes_total",
		"Writes that enough servers had stored but that were answered with an error, because this server missed them " +
			"and not every middleware knew that in time.",
		[]string{"server"},
		perServer(sink.counter, func(s *stats.ServerSnapshot) float64 { return float64(s.Health.Withheld) }),
	},
	{
		"repairs_total",
		"Keys deleted on the server because its state differed from the answer to a write to several replicas.",
		[]string{"server"},
		perServer(sink.counter, func(s *stats.ServerSnapshot) float64 { return float64(s.Repairs) }),
	},
	{
		"worker_wait_seconds_total",
		"Time that workers were blocked waiting for the server's replies, summed over the workers.",
		[]string{"server"},
		perServer(sink.counter, func(s *stats.ServerSnapshot) float64 { return seconds(s.Waited) }),
	},

	{
		"follow_debts", "Keys whose latest write the following pool has not got yet.",
		[]string{"pool", "follower"},
		eachFollow(func(f *stats.Follow, to sink) { to.gauge(float64(f.Debts), f.Of, f.To) }),
	},
	{
		"follow_age_seconds", "How long the oldest write that the following pool has not got has been waiting.",
		[]string{"pool", "follower"},
		eachFollow(func(f *stats.Follow, to sink) { to.gauge(f.Age.Seconds(), f.Of, f.To) }),
	},
	{
		"follow_doubtful", "1 if the following pool may lack writes that are not owed to it, else 0.",
		[]string{"pool", "follower"},
		eachFollow(func(f *stats.Follow, to sink) { to.gauge(indicator(!f.Doubt.IsZero()), f.Of, f.To) }),
	},
	{
		"follow_keys_total", "Keys owed to the following pool that were delivered, became deletes because their copy " +
			"failed, or were dropped for lack of memory.",
		[]string{"pool", "follower", "result"},
		eachFollow(func(f *stats.Follow, to sink) {
			to.counter(float64(f.Delivered), f.Of, f.To, "delivered")
			to.counter(float64(f.Deletes), f.Of, f.To, "delete")
			to.counter(float64(f.Dropped), f.Of, f.To, "dropped")
		}),
	},
	{
		"shadow_requests_total", "Requests of the pool that were copied to its shadow; a retrieval counts once per " +
			"key.",
		[]string{"pool", "shadow"},
		eachShadow(func(shadow *stats.ShadowSnapshot, to sink) {
			to.counter(float64(shadow.Copied), shadow.Of, shadow.To)
		}),
	},
	{
		"shadow_dropped_total",
		"Requests of the pool that were not copied to its shadow, because too many copies were waiting (queue), or " +
			"the waiting ones were too large in total (memory).",
		[]string{"pool", "shadow", "reason"},
		eachShadow(func(shadow *stats.ShadowSnapshot, to sink) {
			counters[stats.ShadowDrop](to, shadow.Dropped[:], shadow.Of, shadow.To)
		}),
	},
	{
		"shadow_answers_total", "Copied requests, by how the shadow's answer compares with the client's.",
		[]string{"pool", "shadow", "result"},
		eachShadow(func(shadow *stats.ShadowSnapshot, to sink) {
			counters[stats.ShadowResult](to, shadow.Answers[:], shadow.Of, shadow.To)
		}),
	},
	{
		"shadow_delay_seconds_total", "Time from the client's answer until the shadow's answer, summed over the " +
			"answers.",
		[]string{"pool", "shadow"},
		eachShadow(func(shadow *stats.ShadowSnapshot, to sink) {
			to.counter(seconds(shadow.Delay), shadow.Of, shadow.To)
		}),
	},

	{
		"queue_length", "Batches waiting in the queue; a batch holds the requests of one read of a connection.",
		[]string{"queue"},
		func(s *stats.Snapshot, to sink) {
			for _, q := range s.Queues {
				to.gauge(float64(q.Length), q.Name)
			}
		},
	},
	{"queue_capacity", "Batches that the queue can hold.", []string{"queue"}, func(s *stats.Snapshot, to sink) {
		for _, q := range s.Queues {
			to.gauge(float64(q.Capacity), q.Name)
		}
	}},
	{"queue_requests", "Requests waiting in the queue.", nil, measures((*stats.Snapshot).Waiting)},
	{
		"serving_requests", "Requests that workers have taken and not answered yet.", nil,
		measures((*stats.Snapshot).Serving),
	},
	{
		"samples_total", "Samples of the numbers of waiting requests and of requests in service.", nil,
		counts(func(s *stats.Snapshot) uint64 { return s.Samples }),
	},
	{
		"sampled_queue_requests_total",
		"Sum of the sampled numbers of waiting requests; its rate divided by the rate of mcmw_samples_total is the " +
			"mean.", nil, counts(func(s *stats.Snapshot) uint64 { return s.SampledWaiting }),
	},
	{
		"sampled_serving_requests_total",
		"Sum of the sampled numbers of requests in service; its rate divided by the rate of mcmw_samples_total is " +
			"the mean.", nil, counts(func(s *stats.Snapshot) uint64 { return s.SampledServing }),
	},

	{"workers", "Number of workers.", nil, measures(func(s *stats.Snapshot) int { return s.Workers })},
	{
		"workers_busy", "Workers that are serving requests.", nil,
		measures(func(s *stats.Snapshot) int { return s.WorkersBusy }),
	},
	{
		"worker_busy_seconds_total", "Time spent serving requests, summed over the workers.", nil,
		func(s *stats.Snapshot, to sink) { to.counter(seconds(s.BusyTime)) },
	},
	{"worker_round_requests", "Requests that a worker served in one round.", nil, func(s *stats.Snapshot, to sink) {
		to.out <- prometheus.MustNewConstHistogram(to.desc, s.Rounds, float64(s.RoundRequests), roundSizes(s))
	}},
	{
		"joined_gets_total", "Gets that were answered with the reply to an equal get of the same round.", nil,
		counts(func(s *stats.Snapshot) uint64 { return s.Joined }),
	},
	{
		"large_values_total",
		"Values too large for one item of a server: stored in chunks (stored), read (read), or read as a miss " +
			"because a chunk was missing (incomplete).",
		[]string{"outcome"},
		func(s *stats.Snapshot, to sink) {
			to.counter(float64(s.Large.Stored), "stored")
			to.counter(float64(s.Large.Read), "read")
			to.counter(float64(s.Large.Incomplete), "incomplete")
		},
	},
	{
		"request_log_dropped_total", "Requests for which the request log had no room.", nil,
		counts(func(s *stats.Snapshot) uint64 { return s.Dropped }),
	},

	{
		"sweep_running",
		"1 during a sweep by this middleware, while it compares the replicas, or if it is about to, because an " +
			"earlier middleware was killed; else 0.", nil,
		indicates(func(s *stats.Snapshot) bool { return s.Sweep.Running }),
	},
	{
		"sweeps_total", "Sweeps by this middleware that have ended, by outcome; a sweep compares the replicas.",
		[]string{"outcome"},
		func(s *stats.Snapshot, to sink) { counters[stats.SweepOutcome](to, s.Sweep.Outcomes[:]) },
	},
	{
		"sweep_keys_total", "Keys that sweeps have compared, counted once for each server that holds them.", nil,
		counts(func(s *stats.Snapshot) uint64 { return s.Sweep.Keys }),
	},
	{
		"sweep_disagreements_total", "Keys whose replicas differed in a sweep, in two comparisons in a row.", nil,
		counts(func(s *stats.Snapshot) uint64 { return s.Sweep.Disagreements }),
	},
	{
		"sweep_cut_total", "Copies that sweeps have deleted, because they differed.", nil,
		counts(func(s *stats.Snapshot) uint64 { return s.Sweep.Cut }),
	},
	{"sweep_seconds_total", "Time spent in sweeps, without pauses.", nil, func(s *stats.Snapshot, to sink) {
		to.counter(seconds(uint64(s.Sweep.Busy)))
	}},
	{
		"sweep_interval_seconds", "Time between two sweeps, by any middleware; 0: they are not repeated.", nil,
		func(s *stats.Snapshot, to sink) { to.gauge(seconds(uint64(s.Sweep.Every))) },
	},
	{
		"sweep_last_timestamp_seconds",
		"Unix time at which the last complete sweep by any middleware ended; the start of this middleware, if that " +
			"is not known.", nil, func(s *stats.Snapshot, to sink) {
			last := s.Sweep.Last
			if last.IsZero() {
				last = to.created
			}
			to.gauge(float64(last.UnixNano()) / 1e9)
		},
	},
	{
		"sweep_last_differing_keys", "Keys that differed in the last complete sweep by any middleware.", nil,
		measures(func(s *stats.Snapshot) uint64 { return s.Sweep.LastDiffer }),
	},
	{
		"several_writers",
		"1 if replicas are kept equal although other middlewares may write the same servers; 0 if this must be the " +
			"only one, or keys have one replica.", nil, indicates(func(s *stats.Snapshot) bool { return s.Several }),
	},
	{
		"marks_unknown",
		"1 if no server is read, because fewer than a majority of the servers tell which servers missed writes of " +
			"other middlewares; else 0.", nil, indicates(func(s *stats.Snapshot) bool { return s.MarksUnknown }),
	},
	{
		"placement_info",
		"Always 1; the phase of the change of placement, and a short hash of the placement in use, or of the one " +
			"that the change leads to.",
		[]string{"phase", "placement"},
		func(s *stats.Snapshot, to sink) { to.gauge(1, s.Phase, s.Placement) },
	},
	{
		"gutter_requests_total",
		"Requests of the pool that went to its gutter, because the servers of their keys were down.",
		[]string{"pool", "gutter", "kind"},
		eachGutter(func(g *stats.GutterSnapshot, to sink) {
			to.counter(float64(g.Reads), g.Pool, g.Gutter, "read")
			to.counter(float64(g.Writes), g.Pool, g.Gutter, "write")
		}),
	},
	{
		"gutter_servers",
		"Servers of the pool whose keys are read and written in its gutter (away), and servers of which the gutter " +
			"may still hold keys, so that writes delete them there (open).",
		[]string{"pool", "gutter", "state"},
		eachGutter(func(g *stats.GutterSnapshot, to sink) {
			to.gauge(float64(g.Away), g.Pool, g.Gutter, "away")
			to.gauge(float64(g.Open), g.Pool, g.Gutter, "open")
		}),
	},
	{
		"migration_phase", "1 for the phase that the migration of keys from one pool to the other is in, else 0.",
		[]string{"from", "to", "phase"},
		eachMigration(func(g *stats.Migration, to sink) {
			for p := range route.NumMigrationPhases {
				to.gauge(indicator(p.String() == g.Phase), g.From, g.To, p.String())
			}
		}),
	},
	{
		"migration_keys",
		"Keys of the migration's current round, by any middleware: those looked at (looked-at), all of them (all), " +
			"and those that could not be copied (left).",
		[]string{"from", "to", "keys"},
		eachMigration(func(g *stats.Migration, to sink) {
			to.gauge(float64(g.Listed), g.From, g.To, "looked-at")
			to.gauge(float64(g.Items), g.From, g.To, "all")
			to.gauge(float64(g.Left), g.From, g.To, "left")
		}),
	},
	{
		"migration_keys_copied_total", "Keys that this middleware has copied to the new pool of a migration.",
		[]string{"from", "to"},
		perMigration(sink.counter, func(g *stats.Migration) float64 { return float64(g.Here) }),
	},
	{
		"migration_complete", "1 if all keys of the migration have been looked at, by any middleware; else 0.",
		[]string{"from", "to"},
		perMigration(sink.gauge, func(g *stats.Migration) float64 { return indicator(g.Complete) }),
	},
	{
		"migration_late", "1 if not all keys of the migration will be copied in time, or have been; else 0.",
		[]string{"from", "to"},
		perMigration(sink.gauge, func(g *stats.Migration) float64 { return indicator(g.Late) }),
	},
	{
		"migration_reads_total",
		"Keys that reads have looked for in a pool that is warmed up, by where they were found: in the new pool, in " +
			"the old one or in neither; unanswered: a server did not answer.",
		[]string{"from", "to", "found"},
		eachMigration(func(g *stats.Migration, to sink) {
			to.counter(float64(g.Read.New), g.From, g.To, "new")
			to.counter(float64(g.Read.Old), g.From, g.To, "old")
			to.counter(float64(g.Read.Neither), g.From, g.To, "neither")
			to.counter(float64(g.Read.Unanswered), g.From, g.To, "unanswered")
		}),
	},
	{
		"migration_warm",
		"1 if in the last minute the hit ratio of the pool that is warmed up was close enough to that of both pools " +
			"together; else 0.",
		[]string{"from", "to"},
		perMigration(sink.gauge, func(g *stats.Migration) float64 { return indicator(g.Warm) }),
	},
	{
		"checks_total",
		"Writes after which the replicas were compared, because other middlewares may write the same servers.", nil,
		counts(func(s *stats.Snapshot) uint64 { return s.Agreement.Checks }),
	},
	{
		"check_disagreements_total",
		"Writes after which the replicas differed, because another middleware wrote the key at the same time.", nil,
		counts(func(s *stats.Snapshot) uint64 { return s.Agreement.Disagreements }),
	},
	{
		"check_cut_total", "Copies deleted because they differed after a write.", nil,
		counts(func(s *stats.Snapshot) uint64 { return s.Agreement.Cuts }),
	},

	{"connections", "Open client connections.", nil, measures((*stats.Snapshot).Open)},
	{
		"connections_opened_total", "Accepted client connections.", nil,
		counts(func(s *stats.Snapshot) uint64 { return s.Opened }),
	},
	{
		"connections_closed_total", "Client connections that ended, by reason.",
		[]string{"reason"},
		func(s *stats.Snapshot, to sink) { counters[stats.CloseReason](to, s.Closed[:]) },
	},
	{
		"client_memory_bytes",
		"Memory used for clients' large requests (requests), and for replies that clients have not read (replies).",
		[]string{"of"},
		func(s *stats.Snapshot, to sink) {
			to.gauge(float64(s.RequestMemory), "requests")
			to.gauge(float64(s.ReplyMemory), "replies")
		},
	},
	{
		"received_bytes_total", "Bytes of requests received from clients.", nil,
		counts(func(s *stats.Snapshot) uint64 { return s.FromClients }),
	},
	{
		"sent_bytes_total", "Bytes of replies sent to clients.", nil,
		counts(func(s *stats.Snapshot) uint64 { return s.ToClients }),
	},
}

// newCollector returns a collector of r, from one Snapshot per scrape. The counters of r must exist already.
// docs/observability.md lists the metrics.
func newCollector(r *stats.Registry, version string) prometheus.Collector {
	metrics := append(slices.Clone(snapshotMetrics), metric[*stats.Snapshot]{
		"build_info", "Always 1; the versions of the program and of Go.",
		[]string{"version", "goversion"},
		func(_ *stats.Snapshot, to sink) { to.gauge(1, version, runtime.Version()) },
	})
	for _, c := range r.Snapshot().Counters {
		metrics = append(metrics, metric[*stats.Snapshot]{
			c.Name, c.Help, nil,
			counts(func(s *stats.Snapshot) uint64 { return s.Counter(c.Name) }),
		})
	}
	return newTable(r.Snapshot, metrics)
}

// roundSizes returns the cumulative counts of the rounds' sizes, by upper bound.
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
