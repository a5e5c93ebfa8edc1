package record

import (
	"fmt"
	"slices"
	"strings"

	"mcmw/internal/spell"
)

// Units of metrics. A unit is that of the value as it is recorded; showing 0.012 s as 12 ms is up to the output.
const (
	Seconds             = "s"
	Bytes               = "B"
	BytesPerSecond      = "B/s"
	Operations          = "1" // a count of requests, keys, places
	OperationsPerSecond = "1/s"
	Ratio               = "ratio" // 0 to 1
	Cores               = "cores" // seconds of processor time per second
)

// Metric describes what values of one name are.
type Metric struct {
	Name string // singular, snake case
	Unit string
	Help string
}

// Commands are the suffixes of metrics that count one kind of request alone, as in throughput_get.
var Commands = []string{"get", "set", "multiget"}

// metrics are those that every record knows. Those of byCommand may end in a suffix of Commands, too.
var (
	metrics = []Metric{
		{"think_time_mean", Seconds, "mean time from a client's reply to its next request, beyond what the path takes"},
		{"bytes_read", Bytes, "bytes that the clients received"},
		{"bytes_written", Bytes, "bytes that the clients sent"},
		{"saturated", Ratio, "1 if the load generator, or the machine under it, was the limit, not what it measured"},
		{"runs_averaged", Operations, "runs that an imported one is the average of"},
		{"seconds_cpu", Seconds, "processor time used in the measured window, user and system"},
		{"cpu_per_request", Seconds, "processor time by the clients' requests, user and system"},
		{"calls_per_request", Operations, "reads and writes of the process by the clients' requests; send, receive and waiting aren't counted"},
		{"memory_peak", Bytes, "most memory that the processes have had resident"},
		{"throughput_hot", OperationsPerSecond, "requests that the middleware answered from memory; they were in no stage, and throughput leaves them out"},
		{"queue_length_mean", Operations, "mean number of requests in the queue"},
		{"busy_workers_mean", Operations, "mean number of workers that serve a request"},
		{"round_trip_time_mean", Seconds, "mean round-trip time of the path without load"},
		{"bandwidth", BytesPerSecond, "what the path carries, one way"},
		{"cpu_user", Ratio, "time of all cores in user mode"},
		{"cpu_nice", Ratio, "time of all cores in user mode at low priority"},
		{"cpu_system", Ratio, "time of all cores in the kernel"},
		{"cpu_softirq", Ratio, "time of all cores in soft interrupts"},
		{"cpu_irq", Ratio, "time of all cores in hardware interrupts"},
		{"cpu_iowait", Ratio, "time of all cores idle while a disk is waited for"},
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
		{"hits", Operations, "keys asked for and found"},
		{"misses", Operations, "keys asked for and not found"},
		{"errors", Operations, "requests answered with an error, or not at all"},
		{"stage_net_mean", Seconds, "mean time from the read that completed a request to its place in the queue"},
		{"stage_queue_mean", Seconds, "mean time in the queue"},
		{"stage_worker_mean", Seconds, "mean time from the queue to the last write to a server"},
		{"stage_server_mean", Seconds, "mean time from the last write to a server to the last server's reply"},
		{"stage_reply_mean", Seconds, "mean time from the last server's reply to the reply to the client"},
		{"service_time_mean", Seconds, "mean time a server takes for a request, as the middleware sees it"},
	}
)

// Stages are the metrics of a middleware's stages, in the order of the request's path; they add up to its response time.
var Stages = []string{"stage_net_mean", "stage_queue_mean", "stage_worker_mean", "stage_server_mean", "stage_reply_mean"}

// Describe returns what is known about the metric of a name, and whether that is anything.
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

// PerTime returns by what values of a metric have to be multiplied if time passed so many times slower for what was measured than for
// the clock that it was measured by: times are shorter, rates higher. An unknown metric counts as neither.
func PerTime(name string, dilation float64) float64 {
	metric, _ := Describe(name)
	switch metric.Unit {
	case Seconds:
		return 1 / dilation
	case OperationsPerSecond, BytesPerSecond:
		return dilation
	default:
		return 1
	}
}
