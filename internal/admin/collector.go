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

// The families of the metrics of a Snapshot.
var (
	overall   = whole[*stats.Snapshot]()
	perServer = listed(func(s *stats.Snapshot) []stats.ServerSnapshot { return s.Servers },
		func(s *stats.ServerSnapshot) []string { return []string{s.Name} }, "server")
	perGutter = listed(func(s *stats.Snapshot) []stats.GutterSnapshot { return s.Gutters },
		func(g *stats.GutterSnapshot) []string { return []string{g.Pool, g.Gutter} }, "pool", "gutter")
	perQueue = listed(func(s *stats.Snapshot) []stats.QueueSnapshot { return s.Queues },
		func(q *stats.QueueSnapshot) []string { return []string{q.Name} }, "queue")
	perMigration = listed(shownMigrations,
		func(g *stats.Migration) []string { return []string{g.From, g.To} }, "from", "to")
)

// shownMigrations returns the migrations that have values: of several between the same pools the last one that has
// begun.
func shownMigrations(s *stats.Snapshot) (shown []stats.Migration) {
	for i, g := range s.Migrations {
		waits := g.Phase == route.MigrationWaiting.String()
		hides := func(h stats.Migration) bool {
			return h.From == g.From && h.To == g.To && h.Phase != route.MigrationWaiting.String()
		}
		same := func(h stats.Migration) bool { return h.From == g.From && h.To == g.To }
		if !slices.ContainsFunc(s.Migrations[i+1:], hides) && !(waits && slices.ContainsFunc(s.Migrations[:i], same)) {
			shown = append(shown, g)
		}
	}
	return shown
}

// snapshotMetrics are the metrics of a Snapshot.
var snapshotMetrics = append(recipientMetrics, []metric[*stats.Snapshot]{
	{"requests_total", "Answered requests.", []string{"command", "result"}, func(s *stats.Snapshot, to sink) {
		for i := range s.Requests {
			for j, n := range s.Requests[i] {
				command, result := protocol.Command(i), stats.Result(j)
				if n > 0 || stats.CanEnd(command, result) {
					to.send(n, command.String(), result.String())
				}
			}
		}
	}},
	overall.by("command", "request_duration_seconds",
		"Response time by class of command, from the read that completed the request until its reply was handed to "+
			"the socket.",
		func(s *stats.Snapshot) values { return histograms[stats.Class](s.Response[:]) }),
	overall.by("stage", "request_stage_duration_seconds", "Part of the response time spent in each stage.",
		func(s *stats.Snapshot) values { return histograms[stats.Stage](s.Stages[:]) }),
	overall.value("keys_total", "Keys requested by retrievals.", func(s *stats.Snapshot) any { return s.Keys }),
	overall.value("key_misses_total", "Requested keys that were not found.",
		func(s *stats.Snapshot) any { return s.Misses }),
	overall.value("arrivals_total", "Requests that the net stage put on the queue.",
		func(s *stats.Snapshot) any { return s.Arrived }),
	overall.value("abandoned_requests_total",
		"Requests that were put on the queue but never served, because their client was gone.",
		func(s *stats.Snapshot) any { return s.Abandoned }),

	perServer.value("server_duration_seconds",
		"Time from the write of a request to the server until its reply was read.",
		func(s *stats.ServerSnapshot) any { return &s.Times }),
	perServer.info("server_info",
		"Always 1; the server's pool (empty: the only pool, without a name), the pool whose shadow that pool is "+
			"(empty: none), and the server's zone (empty: unknown).",
		func(s *stats.ServerSnapshot) []string { return []string{s.Pool, s.ShadowOf, s.Zone} },
		"pool", "shadow_of", "zone"),
	perServer.by("reason", "server_errors_total", "Failures of the server, by reason.",
		func(s *stats.ServerSnapshot) values { return byName[stats.Reason](s.Errors[:]) }),
	perServer.value("server_missed_keys", "Keys whose latest write the server may not have received.",
		func(s *stats.ServerSnapshot) any { return s.Health.Missed }),
	perServer.by("state", "server_state", "1 for the state that the server is in, else 0.",
		func(s *stats.ServerSnapshot) values {
			states := values{}
			for _, t := range s.Health.Transitions {
				states[t.To] = t.To == s.Health.State
			}
			return states
		}),
	perServer.by("state", "server_transitions_total", "Transitions of the server to the state.",
		func(s *stats.ServerSnapshot) values {
			states := values{}
			for _, t := range s.Health.Transitions {
				states[t.To] = t.Count
			}
			return states
		}),
	perServer.value("server_stalls_total",
		"Times the server owed a reply for longer than stall-after, so that requests that did not need it stopped "+
			"waiting for it.",
		func(s *stats.ServerSnapshot) any { return s.Health.Stalls }),
	perServer.value("server_flushes_total", "Times the server was flushed because it might have held old values.",
		func(s *stats.ServerSnapshot) any { return s.Health.Flushes }),
	perServer.by("by", "server_marked",
		"1 if this middleware (own) or another one (another) has marked the server as one that missed writes, so "+
			"that no middleware reads it; else 0.",
		func(s *stats.ServerSnapshot) values {
			return values{"own": s.Health.MarkedHere, "another": s.Health.MarkedElsewhere}
		}),
	perServer.value("server_refill_seconds",
		"For how long the server has not been read because it is refilled from the other replicas; 0: it is not.",
		func(s *stats.ServerSnapshot) any {
			if s.Health.LacksSince.IsZero() {
				return 0
			}
			return time.Since(s.Health.LacksSince)
		}),
	perServer.value("server_refilled_keys_total", "Keys that this middleware has copied to the server to refill it.",
		func(s *stats.ServerSnapshot) any { return s.Health.Refilled }),
	perServer.value("withheld_writes_total",
		"Writes that enough servers had stored but that were answered with an error, because this server missed them "+
			"and not every middleware knew that in time.",
		func(s *stats.ServerSnapshot) any { return s.Health.Withheld }),
	perServer.value("repairs_total",
		"Keys deleted on the server because its state differed from the answer to a write to several replicas.",
		func(s *stats.ServerSnapshot) any { return s.Repairs }),
	perServer.value("worker_wait_seconds_total",
		"Time that workers were blocked waiting for the server's replies, summed over the workers.",
		func(s *stats.ServerSnapshot) any { return seconds(s.Waited) }),

	perQueue.value("queue_length",
		"Batches waiting in the queue; a batch holds the requests of one read of a connection.",
		func(q *stats.QueueSnapshot) any { return q.Length }),
	perQueue.value("queue_capacity", "Batches that the queue can hold.",
		func(q *stats.QueueSnapshot) any { return q.Capacity }),
	overall.value("queue_requests", "Requests waiting in the queue.",
		func(s *stats.Snapshot) any { return s.Waiting() }),
	overall.value("serving_requests", "Requests that workers have taken and not answered yet.",
		func(s *stats.Snapshot) any { return s.Serving() }),
	overall.value("samples_total", "Samples of the numbers of waiting requests and of requests in service.",
		func(s *stats.Snapshot) any { return s.Samples }),
	overall.value("sampled_queue_requests_total",
		"Sum of the sampled numbers of waiting requests; its rate divided by the rate of mcmw_samples_total is the "+
			"mean.",
		func(s *stats.Snapshot) any { return s.SampledWaiting }),
	overall.value("sampled_serving_requests_total",
		"Sum of the sampled numbers of requests in service; its rate divided by the rate of mcmw_samples_total is "+
			"the mean.",
		func(s *stats.Snapshot) any { return s.SampledServing }),

	overall.value("workers", "Number of workers.", func(s *stats.Snapshot) any { return s.Workers }),
	overall.value("workers_busy", "Workers that are serving requests.",
		func(s *stats.Snapshot) any { return s.WorkersBusy }),
	overall.value("worker_busy_seconds_total", "Time spent serving requests, summed over the workers.",
		func(s *stats.Snapshot) any { return seconds(s.BusyTime) }),
	{"worker_round_requests", "Requests that a worker served in one round.", nil, func(s *stats.Snapshot, to sink) {
		to.out <- prometheus.MustNewConstHistogram(to.desc, s.Rounds, float64(s.RoundRequests), roundSizes(s))
	}},
	overall.value("joined_gets_total", "Gets that were answered with the reply to an equal get of the same round.",
		func(s *stats.Snapshot) any { return s.Joined }),
	overall.by("outcome", "large_values_total",
		"Values too large for one item of a server: stored in chunks (stored), read (read), or read as a miss "+
			"because a chunk was missing (incomplete).",
		func(s *stats.Snapshot) values {
			return values{"stored": s.Large.Stored, "read": s.Large.Read, "incomplete": s.Large.Incomplete}
		}),
	overall.value("request_log_dropped_total", "Requests for which the request log had no room.",
		func(s *stats.Snapshot) any { return s.Dropped }),

	overall.value("sweep_running",
		"1 during a sweep by this middleware, while it compares the replicas, or if it is about to, because an "+
			"earlier middleware was killed; else 0.",
		func(s *stats.Snapshot) any { return s.Sweep.Running }),
	overall.by("outcome", "sweeps_total",
		"Sweeps by this middleware that have ended, by outcome; a sweep compares the replicas.",
		func(s *stats.Snapshot) values { return byName[stats.SweepOutcome](s.Sweep.Outcomes[:]) }),
	overall.value("sweep_keys_total",
		"Keys that sweeps have compared, counted once for each server that holds them.",
		func(s *stats.Snapshot) any { return s.Sweep.Keys }),
	overall.value("sweep_disagreements_total",
		"Keys whose replicas differed in a sweep, in two comparisons in a row.",
		func(s *stats.Snapshot) any { return s.Sweep.Disagreements }),
	overall.value("sweep_cut_total", "Copies that sweeps have deleted, because they differed.",
		func(s *stats.Snapshot) any { return s.Sweep.Cut }),
	overall.value("sweep_seconds_total", "Time spent in sweeps, without pauses.",
		func(s *stats.Snapshot) any { return time.Duration(s.Sweep.Busy) }),
	overall.value("sweep_interval_seconds",
		"Time between two sweeps, by any middleware; 0: they are not repeated.",
		func(s *stats.Snapshot) any { return time.Duration(s.Sweep.Every) }),
	{
		"sweep_last_timestamp_seconds",
		"Unix time at which the last complete sweep by any middleware ended, of several pools the one for which that " +
			"is the longest ago; the start of this middleware, if that is not known.",
		nil, func(s *stats.Snapshot, to sink) {
			last := s.Sweep.Last
			if last.IsZero() {
				last = to.created
			}
			to.send(float64(last.UnixNano()) / 1e9)
		},
	},
	overall.value("sweep_last_differing_keys", "Keys that differed in the last complete sweep by any middleware.",
		func(s *stats.Snapshot) any { return s.Sweep.LastDiffer }),
	overall.value("several_writers",
		"1 if replicas are kept equal although other middlewares may write the same servers; 0 if this must be the "+
			"only one, or keys have one replica.",
		func(s *stats.Snapshot) any { return s.Several }),
	overall.value("marks_unknown",
		"1 if no server is read, because fewer than a majority of the servers tell which servers missed writes of "+
			"other middlewares; else 0.",
		func(s *stats.Snapshot) any { return s.MarksUnknown }),
	overall.info("placement_info",
		"Always 1; the phase of the change of placement, and a short hash of the placement in use, or of the one "+
			"that the change leads to.",
		func(s *stats.Snapshot) []string { return []string{s.Phase, s.Placement} }, "phase", "placement"),
	perGutter.by("kind", "gutter_requests_total",
		"Requests of the pool that went to its gutter, because the servers of their keys were down.",
		func(g *stats.GutterSnapshot) values { return values{"read": g.Reads, "write": g.Writes} }),
	perGutter.by("state", "gutter_servers",
		"Servers of the pool whose keys are read and written in its gutter (away), and servers of which the gutter "+
			"may still hold keys, so that writes delete them there (open).",
		func(g *stats.GutterSnapshot) values { return values{"away": g.Away, "open": g.Open} }),
	perMigration.by("phase", "migration_phase",
		"1 for the phase that the migration of keys from one pool to the other is in, else 0.",
		func(g *stats.Migration) values {
			phases := values{}
			for p := route.MigrationWaiting; p < route.NumPhases; p++ {
				phases[p.String()] = p.String() == g.Phase
			}
			return phases
		}),
	perMigration.by("keys", "migration_keys",
		"Keys of the migration's current round, by any middleware: those looked at (looked-at), all of them (all), "+
			"and those that could not be copied (left).",
		func(g *stats.Migration) values {
			return values{"looked-at": g.Listed, "all": g.Items, "left": g.Left}
		}),
	perMigration.value("migration_keys_copied_total",
		"Keys that this middleware has copied to the new pool of a migration.",
		func(g *stats.Migration) any { return g.Here }),
	perMigration.value("migration_complete",
		"1 if all keys of the migration have been looked at, by any middleware; else 0.",
		func(g *stats.Migration) any { return g.Complete }),
	perMigration.value("migration_late",
		"1 if not all keys of the migration will be copied in time, or have been; else 0.",
		func(g *stats.Migration) any { return g.Late }),
	perMigration.by("found", "migration_reads_total",
		"Keys that reads have looked for in a pool that is warmed up, by where they were found: in the new pool, in "+
			"the old one or in neither; unanswered: a server did not answer.",
		func(g *stats.Migration) values {
			r := &g.Read
			return values{"new": r.New, "old": r.Old, "neither": r.Neither, "unanswered": r.Unanswered}
		}),
	perMigration.value("migration_warm",
		"1 if in the last minute the hit ratio of the pool that is warmed up was close enough to that of both pools "+
			"together; else 0.",
		func(g *stats.Migration) any { return g.Warm }),
	overall.value("checks_total",
		"Writes after which the replicas were compared, because other middlewares may write the same servers.",
		func(s *stats.Snapshot) any { return s.Agreement.Checks }),
	overall.value("check_disagreements_total",
		"Writes after which the replicas differed, because another middleware wrote the key at the same time.",
		func(s *stats.Snapshot) any { return s.Agreement.Disagreements }),
	overall.value("check_cut_total", "Copies deleted because they differed after a write.",
		func(s *stats.Snapshot) any { return s.Agreement.Cuts }),

	overall.value("connections", "Open client connections.", func(s *stats.Snapshot) any { return s.Open() }),
	overall.value("connections_opened_total", "Accepted client connections.",
		func(s *stats.Snapshot) any { return s.Opened }),
	overall.by("reason", "connections_closed_total", "Client connections that ended, by reason.",
		func(s *stats.Snapshot) values { return byName[stats.CloseReason](s.Closed[:]) }),
	overall.value("login_failures_total", "Failed logins of clients.",
		func(s *stats.Snapshot) any { return s.LoginFailures }),
	overall.value("foreign_key_requests_total",
		"Requests refused because their user is bound to other prefixes, or to prefixes at all.",
		func(s *stats.Snapshot) any { return s.ForeignKeys }),
	overall.value("binary_clients_total",
		"Connections that were closed because their client uses the binary protocol.",
		func(s *stats.Snapshot) any { return s.BinaryClients }),
	overall.by("of", "client_memory_bytes",
		"Memory used for clients' large requests (requests), and for replies that clients have not read (replies).",
		func(s *stats.Snapshot) values { return values{"requests": s.RequestMemory, "replies": s.ReplyMemory} }),
	overall.value("received_bytes_total", "Bytes of requests received from clients.",
		func(s *stats.Snapshot) any { return s.FromClients }),
	overall.value("sent_bytes_total", "Bytes of replies sent to clients.",
		func(s *stats.Snapshot) any { return s.ToClients }),
}...)

// newCollector returns a collector of r, from one Snapshot per scrape.
// docs/observability.md lists the metrics.
func newCollector(r *stats.Registry, version string) prometheus.Collector {
	build := overall.info("build_info", "Always 1; the versions of the program and of Go.",
		func(*stats.Snapshot) []string { return []string{version, runtime.Version()} }, "version", "goversion")
	return newTable(r.Snapshot, append(slices.Clip(snapshotMetrics), build))
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

// control is the family of the metrics of configuration changes.
var control = whole[stats.ControlSnapshot]()

// controlMetrics are the metrics of configuration changes.
var controlMetrics = []metric[stats.ControlSnapshot]{
	control.by("result", "config_reloads_total", "Reloads of the configuration, by result.",
		func(s stats.ControlSnapshot) values { return byName[stats.ReloadResult](s.Reloads[:]) }),
	control.info("config_info", "Always 1; short hashes of the options and of the list of servers in use.",
		func(s stats.ControlSnapshot) []string { return []string{s.Options, s.Servers} }, "hash", "servers"),
	control.by("result", "server_lookups_total", "DNS lookups of servers, by result.",
		func(s stats.ControlSnapshot) values { return byName[stats.LookupResult](s.Lookups[:]) }),
	control.by("result", "server_list_updates_total",
		"Changes of the list of servers that DNS lookups returned, by result.",
		func(s stats.ControlSnapshot) values {
			all := byName[stats.ReloadResult](s.Updates[:])
			delete(all, stats.ReloadUnchanged.String())
			return all
		}),
	control.value("server_list_unconfirmed_seconds",
		"How long the list of servers could not be confirmed, because a name has no answer; 0: it is confirmed.",
		func(s stats.ControlSnapshot) any { return s.Unconfirmed }),
	control.by("state", "server_watches",
		"Kubernetes Services whose endpoints are watched (live), or cannot be watched now and are looked up in the "+
			"DNS instead (broken).",
		func(s stats.ControlSnapshot) values { return values{"live": s.WatchesLive, "broken": s.WatchesBroken} }),
}
