package load

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what a run measured. Durations are nanoseconds in JSON.
type Result struct {
	Started     time.Time     `json:"started"`    // of the recording
	Elapsed     time.Duration `json:"elapsed_ns"` // from there to the last reply
	Interrupted bool          `json:"interrupted"`

	Targets     []string `json:"targets"`
	Threads     int      `json:"threads"`
	Connections int      `json:"connections"`
	Pipeline    int      `json:"pipeline"`
	Sets        int      `json:"sets"`
	Gets        int      `json:"gets"`
	KeysPerGet  int      `json:"keys_per_get"`
	ValueSize   int      `json:"value_size"`
	Keys        uint64   `json:"keys"`
	Seed        uint64   `json:"seed"`

	Total    CommandResult            `json:"total"`
	Commands map[string]CommandResult `json:"commands"` // "SET", "GET"; what wasn't sent is absent

	BytesIn      uint64 `json:"bytes_in"`
	BytesOut     uint64 `json:"bytes_out"`
	FirstFailure string `json:"first_failure,omitempty"` // text of an error reply

	Generator Usage    `json:"generator"`
	Windows   []Window `json:"windows"`
}

// CommandResult is what happened to the requests of one command.
type CommandResult struct {
	Requests  uint64  `json:"requests"` // replies, errors included
	OpsPerSec float64 `json:"ops_per_s"`
	Hits      uint64  `json:"hits"`   // keys that were found
	Misses    uint64  `json:"misses"` // keys that were not
	Failures  uint64  `json:"failures"`
	Latency   Latency `json:"latency"`
}

// Latency summarises a distribution; all zero without a request. The mean is exact, the others to three digits.
type Latency struct {
	Mean time.Duration `json:"mean_ns"`
	Min  time.Duration `json:"min_ns"`
	P50  time.Duration `json:"p50_ns"`
	P90  time.Duration `json:"p90_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p999_ns"`
	Max  time.Duration `json:"max_ns"`
}

// Usage is what the generator's process consumed while it recorded: the generator, if the process does nothing else.
type Usage struct {
	User   time.Duration `json:"user_ns"`
	System time.Duration `json:"system_ns"`
	// Waited is the time in which its threads could run but had no core.
	Waited time.Duration `json:"waited_ns"`
	// Busy is the share of the time for which a thread ran, 0 to 1, on average over the generator's threads, and
	// BusyOrWaiting the share for which it ran or waited for a core.
	Busy          float64 `json:"busy"`
	BusyOrWaiting float64 `json:"busy_or_waiting"`
	Limit         Limit   `json:"limit"`
}

// Limit says whether the generator held the throughput back.
type Limit string

// The limits.
const (
	// LimitNone: the threads have slept, waiting for replies.
	LimitNone Limit = "none"
	// LimitGenerator: the threads hardly ever slept because they were running. More threads would have made more load.
	LimitGenerator Limit = "generator"
	// LimitMachine: the threads hardly ever slept because they were running or waiting for a core that others used.
	LimitMachine Limit = "machine"
)

// saturated is the share of the time from which on a thread counts as one that hardly ever sleeps.
const saturated = 0.95

// Window is one second of a run.
type Window struct {
	Index     int           `json:"index"`     // 0 is the first second of the recording
	Length    time.Duration `json:"length_ns"` // a second but for the last window
	Requests  uint64        `json:"requests"`
	OpsPerSec float64       `json:"ops_per_s"`
	Failures  uint64        `json:"failures"`
	Latency   Latency       `json:"latency"`
}

// summarise returns the latencies of the requests that c counts and h holds.
func summarise(h *hdrhistogram.Histogram, c counts) Latency {
	if c.requests == 0 {
		return Latency{}
	}
	at := func(percentile float64) time.Duration { return time.Duration(h.ValueAtPercentile(percentile)) }
	return Latency{
		Mean: time.Duration(c.latency / int64(c.requests)),
		Min:  time.Duration(h.Min()),
		P50:  at(50),
		P90:  at(90),
		P99:  at(99),
		P999: at(99.9),
		Max:  time.Duration(h.Max()),
	}
}

// summariseCommand returns the result of the requests that c counts and h holds.
func summariseCommand(h *hdrhistogram.Histogram, c counts, elapsed time.Duration) CommandResult {
	return CommandResult{
		Requests:  c.requests,
		OpsPerSec: perSecond(c.requests, elapsed),
		Hits:      c.hits,
		Misses:    c.keys - c.hits,
		Failures:  c.failures,
		Latency:   summarise(h, c),
	}
}

// summariseUsage says what was used over the elapsed time and whether that was the limit of so many threads.
func summariseUsage(u usage, threads int, elapsed time.Duration) Usage {
	s := Usage{User: u.user, System: u.system, Waited: u.waited, Limit: LimitNone}
	if elapsed > 0 {
		available := elapsed.Seconds() * float64(threads)
		s.Busy = u.cpu().Seconds() / available
		// Threads of the Go scheduler itself wait too, so that the sum can be more than there was time.
		s.BusyOrWaiting = min((u.cpu()+u.waited).Seconds()/available, 1)
	}
	switch {
	case s.Busy >= saturated:
		s.Limit = LimitGenerator
	case s.BusyOrWaiting >= saturated:
		s.Limit = LimitMachine
	}
	return s
}

// CPU returns the generator's time on a core.
func (u Usage) CPU() time.Duration { return u.User + u.System }

// perSecond returns a rate; 0 for no time.
func perSecond(n uint64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
