package bench

import (
	"slices"
	"time"

	"mcmw/internal/lab/load"

	"mcmw/internal/lab/kernel"
)

// Report is what a benchmark measured. Durations are nanoseconds in JSON.
type Report struct {
	Started  time.Time      `json:"started"`
	Ended    time.Time      `json:"ended"`
	Command  string         `json:"command"`
	Machine  kernel.Machine `json:"machine"`
	Versions []Version      `json:"versions"`
	Rounds   int            `json:"rounds"`
	WarmUp   time.Duration  `json:"warm_up_ns"`
	Duration time.Duration  `json:"duration_ns"`
	Threads  int            `json:"generator_threads"`
	Baseline string         `json:"baseline"`
	// Problem is why the benchmark ended before its time; "" if it didn't.
	Problem string `json:"problem,omitempty"`

	Workloads    []WorkloadSummary `json:"workloads"`
	Curves       []CurveSummary    `json:"curves,omitempty"`
	Measurements []Measurement     `json:"measurements"` // in the order in which they were made
}

// Version is that of a program.
type Version struct {
	Name string   `json:"name"`
	Text string   `json:"text"`
	Args []string `json:"args,omitempty"` // that it is started with beside the usual ones
}

// WorkloadSummary is what the systems did under one workload.
type WorkloadSummary struct {
	Workload Workload        `json:"workload"`
	Systems  []SystemSummary `json:"systems"`
	Ratios   []Ratio         `json:"ratios"`
}

// SystemSummary holds medians over rounds.
type SystemSummary struct {
	System                 string        `json:"system"`
	Rounds                 int           `json:"rounds"`
	OpsPerSec              float64       `json:"ops_per_s"`
	P50                    time.Duration `json:"p50_ns"`
	P99                    time.Duration `json:"p99_ns"`
	P999                   time.Duration `json:"p999_ns"`
	CPUPerRequest          time.Duration `json:"cpu_per_request_ns"`
	ServerCPUPerRequest    time.Duration `json:"server_cpu_per_request_ns"`
	GeneratorCPUPerRequest time.Duration `json:"generator_cpu_per_request_ns"`
	// GeneratorBusy is the share of the time in which the generator's threads ran, GeneratorBusyOrWaiting that with waiting
	// for a core.
	GeneratorBusy          float64 `json:"generator_busy"`
	GeneratorBusyOrWaiting float64 `json:"generator_busy_or_waiting"`
	OtherCores             float64 `json:"other_cores"`
	PeakMemory             int64   `json:"peak_memory_bytes"`

	Misses           uint64 `json:"misses"`            // sum
	Failures         uint64 `json:"failures"`          // sum
	GeneratorLimited int    `json:"generator_limited"` // rounds in which the generator itself was the limit
}

// Ratio compares a system with another, round by round: System's value divided by To's.
type Ratio struct {
	System        string `json:"system"`
	To            string `json:"to"`
	Throughput    Spread `json:"throughput"`
	CPUPerRequest Spread `json:"cpu_per_request"` // no rounds where one of the two has no process of its own
	P50           Spread `json:"p50"`
	P99           Spread `json:"p99"`
	// Verdict is nil where there is no goal.
	Verdict *Verdict `json:"verdict,omitempty"`
}

// Spread is a median with the least and the greatest value; all 0 without a round.
type Spread struct {
	Rounds int     `json:"rounds"`
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// spreadOf returns the spread of values.
func spreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	return Spread{Rounds: len(values), Median: median(values), Min: slices.Min(values), Max: slices.Max(values)}
}

// median returns the middle value, or the mean of the two in the middle; 0 without values.
func median[T int64 | float64 | time.Duration](values []T) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return sorted[middle-1] + (sorted[middle]-sorted[middle-1])/2
}

// summarise puts measurements together by workload and system, in the order given. Every system is compared with the
// baseline, and every variant of mcmw with mcmw too.
func summarise(workloads []Workload, systems []string, baseline string, all []Measurement) []WorkloadSummary {
	var summaries []WorkloadSummary
	for _, w := range workloads {
		of := make(map[string][]Measurement)
		for _, m := range all {
			if m.Workload == w.Name {
				of[m.System] = append(of[m.System], m)
			}
		}
		if len(of) == 0 {
			continue
		}
		summary := WorkloadSummary{Workload: w}
		for _, s := range systems {
			if len(of[s]) == 0 {
				continue
			}
			summary.Systems = append(summary.Systems, summariseSystem(s, of[s]))
			if s != baseline {
				summary.Ratios = append(summary.Ratios, ratio(s, baseline, of)...)
			}
			if variant := !slices.Contains([]string{Direct, Twemproxy, Mcmw, baseline}, s); variant && baseline != Mcmw {
				summary.Ratios = append(summary.Ratios, ratio(s, Mcmw, of)...)
			}
		}
		for i := range summary.Ratios {
			summary.Ratios[i].Verdict = w.Goal.verdict(summary.Ratios[i])
		}
		summaries = append(summaries, summary)
	}
	return summaries
}

// summariseSystem returns the medians of a system under one workload.
func summariseSystem(name string, rounds []Measurement) SystemSummary {
	s := SystemSummary{
		System:                 name,
		Rounds:                 len(rounds),
		OpsPerSec:              medianOf(rounds, func(m Measurement) float64 { return m.OpsPerSec }),
		P50:                    medianOf(rounds, func(m Measurement) time.Duration { return m.Latency.P50 }),
		P99:                    medianOf(rounds, func(m Measurement) time.Duration { return m.Latency.P99 }),
		P999:                   medianOf(rounds, func(m Measurement) time.Duration { return m.Latency.P999 }),
		CPUPerRequest:          medianOf(rounds, func(m Measurement) time.Duration { return m.CPUPerRequest }),
		ServerCPUPerRequest:    medianOf(rounds, func(m Measurement) time.Duration { return m.ServerCPUPerRequest }),
		GeneratorCPUPerRequest: medianOf(rounds, func(m Measurement) time.Duration { return m.GeneratorCPUPerRequest }),
		GeneratorBusy:          medianOf(rounds, func(m Measurement) float64 { return m.Generator.Busy }),
		GeneratorBusyOrWaiting: medianOf(rounds, func(m Measurement) float64 { return m.Generator.BusyOrWaiting }),
		OtherCores:             medianOf(rounds, func(m Measurement) float64 { return m.OtherCores }),
		PeakMemory:             medianOf(rounds, func(m Measurement) int64 { return m.PeakMemory }),
	}
	for _, m := range rounds {
		s.Misses += m.Misses
		s.Failures += m.Failures
		if m.Generator.Limit == load.LimitGenerator {
			s.GeneratorLimited++
		}
	}
	return s
}

// medianOf returns the median of one quantity.
func medianOf[T int64 | float64 | time.Duration](rounds []Measurement, quantity func(Measurement) T) T {
	var values []T
	for _, m := range rounds {
		values = append(values, quantity(m))
	}
	return median(values)
}

// ratio compares a system with another in the rounds in which both were measured; nothing if there is none.
func ratio(system, to string, of map[string][]Measurement) []Ratio {
	var throughput, cpu, p50, p99 []float64
	for _, a := range of[system] {
		for _, b := range of[to] {
			if a.Round != b.Round {
				continue
			}
			throughput = append(throughput, a.OpsPerSec/b.OpsPerSec)
			p50 = append(p50, float64(a.Latency.P50)/float64(b.Latency.P50))
			p99 = append(p99, float64(a.Latency.P99)/float64(b.Latency.P99))
			if a.CPUPerRequest > 0 && b.CPUPerRequest > 0 {
				cpu = append(cpu, float64(a.CPUPerRequest)/float64(b.CPUPerRequest))
			}
		}
	}
	if len(throughput) == 0 {
		return nil
	}
	return []Ratio{{
		System:        system,
		To:            to,
		Throughput:    spreadOf(throughput),
		CPUPerRequest: spreadOf(cpu),
		P50:           spreadOf(p50),
		P99:           spreadOf(p99),
	}}
}
