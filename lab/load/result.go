package load

import (
	"cmp"
	"os"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// DriverOwn is the driver in results of this package.
const DriverOwn = "mcmwlab"

// Result is the result of a run. Durations are nanoseconds in JSON.
type Result struct {
	Started     time.Time     `json:"started"`    // of the recording
	Elapsed     time.Duration `json:"elapsed_ns"` // from Started to the last reply
	Interrupted bool          `json:"interrupted"`

	Targets     []string `json:"targets"`
	Threads     int      `json:"threads"`
	Connections int      `json:"connections"`
	Pipeline    int      `json:"pipeline"`
	Protocol    string   `json:"protocol"`
	// ThinkTime is 0 in an open loop, and Rate and Arrivals are "" in a closed one.
	ThinkTime   time.Duration `json:"think_time_ns"`
	ThinkRandom bool          `json:"think_random"` // exponential
	Rate        string        `json:"rate"`         // as ParseSchedule reads it
	Arrivals    string        `json:"arrivals"`     // "even", "poisson" or "recorded"
	Sets        int           `json:"sets"`
	Gets        int           `json:"gets"`
	MultiGets   int           `json:"multi_gets"`
	KeysPerGet  int           `json:"keys_per_get"`
	ValueSize   int           `json:"value_size"`            // bytes; 0: see ValueSizes
	ValueSizes  string        `json:"value_sizes,omitempty"` // in words
	KeyPattern  string        `json:"key_pattern"`           // SETs:GETs, memtier's letters
	Keys        uint64        `json:"keys"`
	ExpiryMin   int           `json:"expiry_min_s"`
	ExpiryMax   int           `json:"expiry_max_s"` // 0: nothing expires
	Seed        uint64        `json:"seed"`
	TLS         bool          `json:"tls,omitempty"`
	CacheAside  bool          `json:"cache_aside,omitempty"` // a key is stored at once when a GET misses it
	// ReconnectAfter is the number of requests after which connections are reopened, Reconnects how often that
	// happened, and ConnectMean the mean time that it took, including the login. Latencies don't include that time.
	ReconnectAfter int           `json:"reconnect_after,omitempty"`
	Reconnects     uint64        `json:"reconnects,omitempty"`
	ConnectMean    time.Duration `json:"connect_mean_ns,omitempty"`
	Driver         string        `json:"driver"` // the program that made the load

	Total    CommandResult            `json:"total"`
	Commands map[string]CommandResult `json:"commands"` // "SET", "GET", "MULTIGET"; only those that were sent

	BytesIn      uint64 `json:"bytes_in"`
	BytesOut     uint64 `json:"bytes_out"`
	FirstFailure string `json:"first_failure,omitempty"` // text of an error reply

	Pace      *PaceResult `json:"pace,omitempty"` // nil in a closed loop without think time
	Generator Usage       `json:"generator"`
	Windows   []Window    `json:"windows"` // one per second
}

// CommandResult is the result for the requests of one command.
type CommandResult struct {
	Requests  uint64  `json:"requests"` // replies, errors included
	OpsPerSec float64 `json:"ops_per_s"`
	Hits      uint64  `json:"hits"`   // keys found
	Misses    uint64  `json:"misses"` // keys not found
	Failures  uint64  `json:"failures"`
	// Latency begins when a request was due in an open loop, otherwise with its write.
	Latency Latency `json:"latency"`
	// Service begins with the write, in an open loop; otherwise it is nil.
	Service *Latency `json:"service,omitempty"`
	// Histogram has the latencies and ServiceHistogram the service times of the run; both are nil in windows.
	Histogram        *Histogram `json:"histogram,omitempty"`
	ServiceHistogram *Histogram `json:"service_histogram,omitempty"`
}

// PaceResult describes how well the generator kept to the schedule.
type PaceResult struct {
	// Slip is the time from when a request was due to its write. It includes the wait for room in the connection's
	// pipeline, which the target causes.
	Slip Latency `json:"slip"`
	// OwnSlip is the part of Slip after the connection had room, which the generator causes.
	OwnSlip Latency `json:"own_slip"`
	// Scheduled is how many requests were due during the recording; 0 in a closed loop.
	Scheduled float64 `json:"scheduled"`
	// Unsent is how many requests were due but never sent, because the pipeline had no room. No latency includes them.
	Unsent uint64 `json:"unsent"`
	// SentTogether is the share of requests of Poisson arrivals that a thread sent within 0.1 ms of the previous one.
	// DueTogether is the share expected from the rate, 1 - exp(-rate 0.1 ms). A thread that wakes up late sends
	// requests together that were due apart.
	SentTogether float64 `json:"sent_together,omitempty"`
	DueTogether  float64 `json:"due_together,omitempty"`
}

// Latency summarises a distribution; all zero without requests. The mean is exact, the others have three digits.
type Latency struct {
	Mean time.Duration `json:"mean_ns"`
	Min  time.Duration `json:"min_ns"`
	P50  time.Duration `json:"p50_ns"`
	P90  time.Duration `json:"p90_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p999_ns"`
	Max  time.Duration `json:"max_ns"`
}

// Usage is the resource usage of the generator's process during the recording.
type Usage struct {
	User   time.Duration `json:"user_ns"`
	System time.Duration `json:"system_ns"`
	// Waited is how long its threads were ready to run but had no core.
	Waited time.Duration `json:"waited_ns"`
	// Busy is the share of time for which a thread ran, 0 to 1, averaged over the generator's threads. BusyOrWaiting is
	// the share for which it ran or waited for a core.
	Busy          float64 `json:"busy"`
	BusyOrWaiting float64 `json:"busy_or_waiting"`
	Limit         Limit   `json:"limit"`
}

// Limit says whether the generator limited the throughput.
type Limit string

// The limits.
const (
	// LimitNone: at times the threads slept, waiting for replies.
	LimitNone Limit = "none"
	// LimitGenerator: the threads hardly ever slept because they were running. More threads would have made more load.
	LimitGenerator Limit = "generator"
	// LimitMachine: the threads hardly ever slept because they were running, or waiting for a core that others used.
	LimitMachine Limit = "machine"
	// LimitSchedule: requests were sent late although their connections were free, so latencies include the generator's
	// own delay.
	LimitSchedule Limit = "schedule"
)

// lateBound is the 99th percentile of the generator's own slip from which the schedule counts as not kept, unless half
// of the requests took the target even longer.
const lateBound = time.Millisecond

// saturated is the share of time from which a thread counts as hardly ever sleeping.
const saturated = 0.95

// Window is one second of a run.
type Window struct {
	Index  int           `json:"index"`     // 0 is the first second of the recording
	Length time.Duration `json:"length_ns"` // a second, except for the last window
	// CommandResult is the result of all commands together.
	CommandResult
	// Slip and Scheduled are as in PaceResult.
	Slip      *Latency                 `json:"slip,omitempty"`
	Scheduled float64                  `json:"scheduled,omitempty"`
	Commands  map[string]CommandResult `json:"commands"`
}

// Over returns u with the shares of the elapsed time, and whether it limited so many threads.
func (u Usage) Over(elapsed time.Duration, threads int) Usage {
	u.Limit = LimitNone
	if elapsed > 0 {
		available := elapsed.Seconds() * float64(threads)
		u.Busy = u.CPU().Seconds() / available
		// Threads of the Go scheduler itself wait too, so that the sum can be more than there was time.
		u.BusyOrWaiting = min((u.CPU()+u.Waited).Seconds()/available, 1)
	}
	switch {
	case u.Busy >= saturated:
		u.Limit = LimitGenerator
	case u.BusyOrWaiting >= saturated:
		u.Limit = LimitMachine
	}
	return u
}

// judgePace sets the limit to the schedule if there is no other limit and requests were sent too late.
func (r *Result) judgePace() {
	if r.Pace == nil || r.Generator.Limit != LimitNone {
		return
	}
	service := cmp.Or(r.Total.Service, &r.Total.Latency)
	if r.Pace.OwnSlip.P99 >= max(lateBound, service.P50) {
		r.Generator.Limit = LimitSchedule
	}
}

// CPU returns the generator's processor time.
func (u Usage) CPU() time.Duration { return u.User + u.System }

// minus returns the times since earlier.
func (u Usage) minus(earlier Usage) Usage {
	return Usage{User: u.User - earlier.User, System: u.System - earlier.System, Waited: u.Waited - earlier.Waited}
}

// processUsage returns the times of this process since its start.
func processUsage() Usage {
	var r unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &r) // it can't fail for this process
	u := Usage{User: time.Duration(r.Utime.Nano()), System: time.Duration(r.Stime.Nano())}
	// Without scheduler statistics of the kernel the waiting time stays 0. Threads that have ended are missing, but
	// Go's threads don't end.
	threads, _ := procfs.AllThreads(os.Getpid())
	for _, t := range threads {
		if statistics, err := t.Schedstat(); err == nil {
			u.Waited += time.Duration(statistics.WaitingNanoseconds)
		}
	}
	return u
}
