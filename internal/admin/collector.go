package admin

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// Collector exports a stats.Registry as Prometheus metrics, from one Snapshot per scrape. Times are histograms, classic and
// native at once:
//
//	mcmw_build_info{version,goversion}            1
//	mcmw_requests_total{command,result}           answered requests
//	mcmw_request_duration_seconds{command}        response time by class of command
//	mcmw_request_stage_duration_seconds{stage}    its five parts
//	mcmw_keys_total, mcmw_key_misses_total        keys of retrievals, and those not found
//	mcmw_arrivals_total                           requests put on the queue
//	mcmw_abandoned_requests_total                 of them never served, because their client had gone
//	mcmw_server_duration_seconds{server}          one server's part of a request, from the write to its reply
//	mcmw_server_errors_total{server,reason}       failures of a server
//	mcmw_server_state{server,state}               1 for the state it is in
//	mcmw_server_transitions_total{server,state}   how often it came to the state
//	mcmw_server_missed_keys{server}               keys whose latest write it may not have got
//	mcmw_server_stalls_total{server}              times it owed a reply for longer than usual
//	mcmw_server_flushes_total{server}             times it was flushed because it might have held old values
//	mcmw_repairs_total{server}                    keys deleted because a write was answered otherwise
//	mcmw_worker_wait_seconds_total{server}        time that workers stood still for the server's replies
//	mcmw_queue_length, mcmw_queue_capacity{queue} batches
//	mcmw_queue_requests, mcmw_serving_requests    requests that wait, and that workers have taken and not answered
//	mcmw_samples_total                            how often the two were sampled
//	mcmw_sampled_queue_requests_total, mcmw_sampled_serving_requests_total  sums of the samples
//	mcmw_workers, mcmw_workers_busy               workers
//	mcmw_worker_busy_seconds_total                busy time, sum over the workers
//	mcmw_worker_round_requests                    requests served in each round
//	mcmw_request_log_dropped_total                requests for which the request log had no room
//	mcmw_connections                              open client connections
//	mcmw_connections_opened_total
//	mcmw_connections_closed_total{reason}
//	mcmw_login_failures_total                     wrong names and passwords
//	mcmw_client_memory_bytes{of}                  what clients' large requests, and replies they have not read, take
//	mcmw_received_bytes_total, mcmw_sent_bytes_total  from and to clients
type Collector struct {
	registry *stats.Registry
	created  time.Time

	buildInfo                         prometheus.Metric
	requests, duration, stageDuration *prometheus.Desc
	keys, misses, arrivals, abandoned *prometheus.Desc
	serverDuration, serverErrors      *prometheus.Desc
	repairs, missed, state, changes   *prometheus.Desc
	stalls, flushes                   *prometheus.Desc
	queueLength, queueCapacity        *prometheus.Desc
	waiting, serving                  *prometheus.Desc
	samples, sampledWaiting           *prometheus.Desc
	sampledServing                    *prometheus.Desc
	workers, busy, busySeconds        *prometheus.Desc
	waited, rounds, dropped           *prometheus.Desc
	connections, opened, closed       *prometheus.Desc
	loginFailures                     *prometheus.Desc
	received, sent, memory            *prometheus.Desc
	buildInfoDesc                     *prometheus.Desc
}

// NewCollector returns a Collector of r.
func NewCollector(r *stats.Registry, version string) *Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("mcmw_"+name, help, labels, nil)
	}
	c := &Collector{
		registry:       r,
		created:        time.Now(),
		buildInfoDesc:  desc("build_info", "The program's version and that of Go; always 1.", "version", "goversion"),
		requests:       desc("requests_total", "Answered requests.", "command", "result"),
		duration:       desc("request_duration_seconds", "Response time, from the read that completed a request until its reply was handed to the socket, by class of command.", "command"),
		stageDuration:  desc("request_stage_duration_seconds", "The part of the response time spent in each stage.", "stage"),
		keys:           desc("keys_total", "Keys asked for by retrievals."),
		misses:         desc("key_misses_total", "Keys asked for by retrievals and not found."),
		arrivals:       desc("arrivals_total", "Requests that the net stage put on the queue."),
		abandoned:      desc("abandoned_requests_total", "Requests that had arrived and were never served, because their client had gone."),
		serverDuration: desc("server_duration_seconds", "One server's part of a request, from the write to the server until its reply was read.", "server"),
		serverErrors:   desc("server_errors_total", "Failures of a server.", "server", "reason"),
		missed:         desc("server_missed_keys", "Keys whose latest write the server may not have got.", "server"),
		state:          desc("server_state", "1 for the state the server is in.", "server", "state"),
		changes:        desc("server_transitions_total", "How often the server came to the state.", "server", "state"),
		flushes:        desc("server_flushes_total", "Times the server was flushed because it might have held old values.", "server"),
		stalls: desc("server_stalls_total",
			"Times the server owed a reply for so long that only what needed it went on waiting for it.", "server"),
		repairs: desc("repairs_total",
			"Keys deleted on a server because it did not have the state that a write to several replicas was answered with.", "server"),
		queueLength:   desc("queue_length", "Batches waiting in the queue (a batch is all requests that one read of a connection brought).", "queue"),
		queueCapacity: desc("queue_capacity", "Batches the queue can hold.", "queue"),
		waiting:       desc("queue_requests", "Requests waiting in the queue."),
		serving:       desc("serving_requests", "Requests that workers have taken and not answered."),
		samples:       desc("samples_total", "How often the numbers of requests that wait and are in service were sampled."),
		sampledWaiting: desc("sampled_queue_requests_total",
			"Sum of the samples of how many requests wait; its rate divided by that of mcmw_samples_total is their mean number."),
		sampledServing: desc("sampled_serving_requests_total",
			"Sum of the samples of how many requests are in service; its rate divided by that of mcmw_samples_total is their mean number."),
		workers:       desc("workers", "Workers."),
		busy:          desc("workers_busy", "Workers that are serving requests."),
		busySeconds:   desc("worker_busy_seconds_total", "Time spent serving requests, sum over the workers."),
		waited:        desc("worker_wait_seconds_total", "Time that workers stood still for the server's replies, sum over the workers.", "server"),
		rounds:        desc("worker_round_requests", "Requests served in each of the workers' rounds."),
		dropped:       desc("request_log_dropped_total", "Requests for which the request log had no room."),
		connections:   desc("connections", "Open client connections."),
		opened:        desc("connections_opened_total", "Client connections accepted."),
		closed:        desc("connections_closed_total", "Client connections that ended.", "reason"),
		loginFailures: desc("login_failures_total", "Wrong names and passwords that clients gave."),
		memory:        desc("client_memory_bytes", "Memory of clients' large requests, and of replies that clients have not read.", "of"),
		received:      desc("received_bytes_total", "Bytes of requests received from clients."),
		sent:          desc("sent_bytes_total", "Bytes of replies sent to clients."),
	}
	c.buildInfo = prometheus.MustNewConstMetric(c.buildInfoDesc, prometheus.GaugeValue, 1, version, runtime.Version())
	return c
}

// Describe sends the descriptions of all metrics.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.buildInfoDesc, c.requests, c.duration, c.stageDuration, c.keys, c.misses, c.arrivals, c.abandoned, c.serverDuration, c.serverErrors, c.repairs, c.missed, c.state, c.changes, c.stalls, c.flushes,
		c.queueLength, c.queueCapacity, c.waiting, c.serving, c.samples, c.sampledWaiting, c.sampledServing,
		c.workers, c.busy, c.busySeconds, c.waited, c.rounds, c.dropped,
		c.connections, c.opened, c.closed, c.loginFailures, c.memory, c.received, c.sent,
	} {
		out <- d
	}
}

// Collect sends the values of one Snapshot.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	s := c.registry.Snapshot()
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	histogram := func(d *prometheus.Desc, h *stats.Histogram, label string) {
		out <- bothHistograms(d, h, c.created, label)
	}

	out <- c.buildInfo
	for i := range s.Requests {
		for j, n := range s.Requests[i] {
			command, result := protocol.Command(i), stats.Result(j)
			if n > 0 || stats.CanEnd(command, result) {
				counter(c.requests, float64(n), command.String(), result.String())
			}
		}
	}
	for i := range s.Response {
		histogram(c.duration, &s.Response[i], stats.Class(i).String())
	}
	for i := range s.Stages {
		histogram(c.stageDuration, &s.Stages[i], stats.Stage(i).String())
	}
	counter(c.keys, float64(s.Keys))
	counter(c.misses, float64(s.Misses))
	counter(c.arrivals, float64(s.Arrived))
	counter(c.abandoned, float64(s.Abandoned))
	for i := range s.Servers {
		server := &s.Servers[i]
		histogram(c.serverDuration, &server.Times, server.Name)
		counter(c.waited, seconds(server.Waited), server.Name)
		counter(c.repairs, float64(server.Repairs), server.Name)
		gauge(c.missed, float64(server.Health.Missed), server.Name)
		counter(c.stalls, float64(server.Health.Stalls), server.Name)
		counter(c.flushes, float64(server.Health.Flushes), server.Name)
		for _, t := range server.Health.Transitions {
			in := 0.0
			if t.To == server.Health.State {
				in = 1
			}
			gauge(c.state, in, server.Name, t.To)
			counter(c.changes, float64(t.Count), server.Name, t.To)
		}
		for r, n := range server.Errors {
			counter(c.serverErrors, float64(n), server.Name, stats.Reason(r).String())
		}
	}
	for _, q := range s.Queues {
		gauge(c.queueLength, float64(q.Length), q.Name)
		gauge(c.queueCapacity, float64(q.Capacity), q.Name)
	}
	gauge(c.waiting, float64(s.Waiting()))
	gauge(c.serving, float64(s.Serving()))
	counter(c.samples, float64(s.Samples))
	counter(c.sampledWaiting, float64(s.SampledWaiting))
	counter(c.sampledServing, float64(s.SampledServing))
	gauge(c.workers, float64(s.Workers))
	gauge(c.busy, float64(s.WorkersBusy))
	counter(c.busySeconds, seconds(s.BusyTime))
	out <- prometheus.MustNewConstHistogram(c.rounds, s.Rounds, float64(s.RoundRequests), roundSizes(s))
	counter(c.dropped, float64(s.Dropped))
	gauge(c.connections, float64(s.Open()))
	counter(c.opened, float64(s.Opened))
	for r, n := range s.Closed {
		counter(c.closed, float64(n), stats.CloseReason(r).String())
	}
	counter(c.loginFailures, float64(s.LoginsFailed))
	gauge(c.memory, float64(s.RequestMemory), "requests")
	gauge(c.memory, float64(s.ReplyMemory), "replies")
	counter(c.received, float64(s.FromClients))
	counter(c.sent, float64(s.ToClients))
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
