package record

import (
	"fmt"
	"slices"
	"strings"

	"mcmw/internal/spell"
)

// Units of recorded values. Outputs may show another, such as 12 ms for 0.012 s.
const (
	Seconds             = "s"
	Bytes               = "B"
	BytesPerSecond      = "B/s"
	Operations          = "1" // a number of requests, keys or entries
	OperationsPerSecond = "1/s"
	Ratio               = "ratio" // 0 to 1
	Cores               = "cores" // seconds of processor time per second
)

// Metric describes the values with one name.
type Metric struct {
	Name string // singular, snake case
	Unit string
	Help string
}

// Commands are the suffixes of metrics of only one kind of request, as in throughput_get.
var Commands = []string{"get", "set", "multiget"}

// metrics and byCommand are the metrics that every record knows. Those of byCommand also exist with each suffix of
// Commands.
var (
	metrics = []Metric{
		{
			"think_time_mean", Seconds,
			"mean time from a reply to the client's next request, without the time on the network",
		},
		{"bytes_read", Bytes, "bytes that the clients received"},
		{"bytes_written", Bytes, "bytes that the clients sent"},
		{
			"saturated", Ratio,
			"1 if the load generator or its machine limited the throughput, not the system under test",
		},
		{"runs_averaged", Operations, "number of runs whose average was imported as one run"},
		{"seconds_cpu", Seconds, "processor time used in the measured window, user and system"},
		{"cpu_per_request", Seconds, "processor time per request of the clients, user and system"},
		{
			"calls_per_request", Operations,
			"read and write system calls of the process per request of the clients, without send, receive and waiting",
		},
		{"memory_peak", Bytes, "largest resident memory of the processes"},
		{
			"throughput_hot", OperationsPerSecond,
			"requests that the middleware answered from memory; throughput and the stages don't include them",
		},
		{"queue_length_mean", Operations, "mean number of requests in the queue"},
		{"workers", Operations, "workers of each middleware, as it reports them"},
		{"depth", Operations, "requests that a worker takes at a time, as the middleware reports it"},
		{"processors", Operations, "processors that each middleware uses at a time at most, as it reports them"},
		{"busy_workers_mean", Operations, "mean number of workers that serve a request"},
		{"round_trip_time_mean", Seconds, "mean round-trip time of the path without load"},
		{"bandwidth", BytesPerSecond, "bandwidth of the path, one way"},
		{"cpu_user", Ratio, "time of all cores in user mode"},
		{"cpu_nice", Ratio, "time of all cores in user mode at low priority"},
		{"cpu_system", Ratio, "time of all cores in the kernel"},
		{"cpu_softirq", Ratio, "time of all cores in soft interrupts"},
		{"cpu_irq", Ratio, "time of all cores in hardware interrupts"},
		{"cpu_iowait", Ratio, "time of all cores idle while waiting for a disk"},
		{"cpu_steal", Ratio, "time of all cores that the hypervisor gave to others"},
		{"cpu_idle", Ratio, "time of all cores idle"},
		{"net_rx_bytes", BytesPerSecond, "received by the host's network interfaces"},
		{"net_tx_bytes", BytesPerSecond, "sent by the host's network interfaces"},
		{"disk_read_bytes", BytesPerSecond, "read from the host's disks"},
		{"disk_write_bytes", BytesPerSecond, "written to the host's disks"},
		{"memory_used", Bytes, "memory of the host in use"},
		{"process_cpu", Cores, "processor time of the process, per second"},
	}
	byCommand = []Metric{
		{"throughput", OperationsPerSecond, "requests answered"},
		{"requests", Operations, "requests answered in the measured window"},
		{"response_time", Seconds, "from a request to the end of its reply, as the source sees it"},
		{"response_time_mean", Seconds, "mean response time"},
		{"response_time_stddev", Seconds, "standard deviation of the response times"},
		{"response_time_min", Seconds, "shortest response time"},
		{"response_time_max", Seconds, "longest response time"},
		{"response_time_p50", Seconds, "median of the response times"},
		{"response_time_p90", Seconds, "90th percentile of the response times"},
		{"response_time_p95", Seconds, "95th percentile of the response times"},
		{"response_time_p99", Seconds, "99th percentile of the response times"},
		{"response_time_p999", Seconds, "99.9th percentile of the response times"},
		{"hits", Operations, "requested keys that were found"},
		{"misses", Operations, "requested keys that were not found"},
		{"errors", Operations, "requests answered with an error, or not at all"},
		{"stage_net_mean", Seconds, "mean time from the read that completed a request to its entry into the queue"},
		{"stage_queue_mean", Seconds, "mean time in the queue"},
		{"stage_worker_mean", Seconds, "mean time from the queue to the last write to a server"},
		{"stage_server_mean", Seconds, "mean time from the last write to a server to the last server's reply"},
		{"stage_reply_mean", Seconds, "mean time from the last server's reply to the reply to the client"},
		{"service_time_mean", Seconds, "mean time a server takes for a request, as the middleware sees it"},
	}
)

// Stages are the metrics of a middleware's stages, in the order in which a request passes them. Their sum is its
// response time.
var Stages = []string{
	"stage_net_mean", "stage_queue_mean", "stage_worker_mean", "stage_server_mean",
	"stage_reply_mean",
}

// Describe returns the description of a metric, and whether it is known.
func Describe(name string) (Metric, bool) {
	named := func(name string) func(Metric) bool { return func(m Metric) bool { return m.Name == name } }
	if i := slices.IndexFunc(metrics, named(name)); i >= 0 {
		return metrics[i], true
	}
	if i := slices.IndexFunc(byCommand, named(name)); i >= 0 {
		return byCommand[i], true
	}
	for _, command := range Commands {
		base, ok := strings.CutSuffix(name, "_"+command)
		if i := slices.IndexFunc(byCommand, named(base)); ok && i >= 0 {
			m := byCommand[i]
			return Metric{Name: name, Unit: m.Unit, Help: m.Help + "; " + command + " alone"}, true
		}
	}
	return Metric{}, false
}

// Format writes a value of a metric for people, with its unit.
func Format(metric string, v float64) string {
	m, _ := Describe(metric)
	switch m.Unit {
	case Seconds:
		return spell.Time(1e9 * v)
	case OperationsPerSecond:
		return spell.Count(v) + "/s"
	case Bytes:
		return fmt.Sprintf("%.1f MiB", v/(1<<20))
	}
	return fmt.Sprintf("%.4g", v)
}

// PerTime returns the factor that converts a metric from real time to the time of machines with a dilation (see
// Manifest): times become shorter, rates higher. It is 1 for metrics that are neither, for unknown ones, and for
// processor time: in one of its seconds a machine's processor does what ours does in one of ours.
func PerTime(name string, dilation float64) float64 {
	metric, _ := Describe(name)
	switch {
	case strings.Contains(name, "cpu") && metric.Unit == Seconds:
		return 1
	case metric.Unit == Seconds:
		return 1 / dilation
	case metric.Unit == OperationsPerSecond, metric.Unit == BytesPerSecond, metric.Unit == Cores:
		return dilation
	default:
		return 1
	}
}
