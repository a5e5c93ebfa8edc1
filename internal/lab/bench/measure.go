package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"

	"mcmw/internal/lab/kernel"
	"mcmw/internal/lab/load"
	"mcmw/internal/lab/process"
)

// Measurement is what one system did in one round under one workload. Durations are nanoseconds in JSON.
type Measurement struct {
	Workload string `json:"workload"`
	System   string `json:"system"`
	Round    int    `json:"round"` // from 1 on
	// X is the place on a curve, whose name Workload is; 0 of a workload.
	X float64 `json:"x,omitempty"`

	OpsPerSec float64      `json:"ops_per_s"`
	Latency   load.Latency `json:"latency"`
	// CPUPerRequest is the system's own user and system time; 0 for direct, where there is none.
	CPUPerRequest time.Duration `json:"cpu_per_request_ns"`
	// ServerCPUPerRequest is that of all memcached servers together.
	ServerCPUPerRequest time.Duration `json:"server_cpu_per_request_ns"`
	PeakMemory          int64         `json:"peak_memory_bytes"` // of the system's process, resident

	Requests     uint64     `json:"requests"`
	Misses       uint64     `json:"misses"`
	Failures     uint64     `json:"failures"`
	FirstFailure string     `json:"first_failure,omitempty"`
	Generator    load.Usage `json:"generator"`
	// GeneratorCPUPerRequest is the load generator's own.
	GeneratorCPUPerRequest time.Duration `json:"generator_cpu_per_request_ns"`
	// OtherCores is how many cores on average were busy with what has nothing to do with the measurement.
	OtherCores float64 `json:"other_cores"`
}

// measure starts a system, puts the workload on it, and ends it.
func (r *runner) measure(ctx context.Context, w Workload, s system, round int) (Measurement, error) {
	m := Measurement{Workload: w.Name, System: s.name, Round: round}
	running, err := r.startSystem(ctx, w, s)
	if err != nil {
		return m, err
	}
	o := w.load
	servers := r.servers[:cmp.Or(w.servers, serverCount)]
	o.Targets = addresses(servers)
	if running != nil {
		defer running.Stop(syscall.SIGTERM)
		o.Targets = []string{running.Addr}
	}
	// The same for all systems of a round, another for every round.
	o.Seed = uint64(round)
	o.Threads = min(r.generatorThreads(), o.Connections)
	o.Populate = true
	o.HoldProcessors = true
	o.WarmUp, o.Duration = r.WarmUp, r.Duration

	var before, after cpuTimes
	var beforeErr, afterErr error
	o.OnBegin = func() { before, beforeErr = cpuTimesOf(running, servers) }
	o.OnEnd = func() { after, afterErr = cpuTimesOf(running, servers) }
	g, err := load.New(o)
	if err != nil {
		return m, err
	}
	result, err := g.Run(ctx)
	switch {
	case ctx.Err() != nil:
		return m, context.Cause(ctx)
	case err != nil && running != nil:
		return m, errors.Join(err, running.Ended())
	case err != nil:
		return m, err
	case beforeErr != nil || afterErr != nil:
		return m, errors.Join(beforeErr, afterErr)
	case result.Total.Requests == 0:
		return m, errors.New("not one request was answered")
	}
	if running != nil {
		if m.PeakMemory, err = kernel.PeakMemory(running.Pid()); err != nil {
			return m, err
		}
	}
	perRequest := func(d time.Duration) time.Duration { return d / time.Duration(result.Total.Requests) }
	used := after.minus(before)
	m.OpsPerSec = result.Total.OpsPerSec
	m.Latency = result.Total.Latency
	m.CPUPerRequest = perRequest(used.system)
	m.ServerCPUPerRequest = perRequest(used.servers)
	m.Requests = result.Total.Requests
	m.Misses = result.Total.Misses
	m.Failures = result.Total.Failures
	m.FirstFailure = result.FirstFailure
	m.Generator = result.Generator
	m.GeneratorCPUPerRequest = perRequest(result.Generator.CPU())
	others := used.machine - used.system - used.servers - result.Generator.CPU()
	m.OtherCores = max(others.Seconds()/result.Elapsed.Seconds(), 0)
	return m, nil
}

// startSystem starts the process of a system; there is none for direct.
func (r *runner) startSystem(ctx context.Context, w Workload, s system) (*process.Process, error) {
	servers := addresses(r.servers[:cmp.Or(w.servers, serverCount)])
	switch s.kind {
	case kindTwemproxy:
		return process.Launch(ctx, s.name, process.Loopback, func(port int) (*exec.Cmd, error) { return twemproxyCommand(s.path, r.dir, servers, port) })
	case kindMcmw:
		return process.Launch(ctx, s.name, process.Loopback, func(port int) (*exec.Cmd, error) { return mcmwCommand(s, w, servers, port) })
	default:
		return nil, nil
	}
}

// cpuTimes is the CPU time used up to a moment.
type cpuTimes struct {
	system, servers, machine time.Duration
}

func (c cpuTimes) minus(earlier cpuTimes) cpuTimes {
	return cpuTimes{system: c.system - earlier.system, servers: c.servers - earlier.servers, machine: c.machine - earlier.machine}
}

// cpuTimesOf reads the times of now; running is nil for direct.
func cpuTimesOf(running *process.Process, servers []*process.Process) (c cpuTimes, err error) {
	host, err := kernel.HostCPU()
	if err != nil {
		return c, err
	}
	c.machine = host.Busy()
	if running != nil {
		if c.system, err = kernel.ProcessCPU(running.Pid()); err != nil {
			return c, fmt.Errorf("%s: %w", running.Name, err)
		}
	}
	for _, server := range servers {
		used, err := kernel.ProcessCPU(server.Pid())
		if err != nil {
			return c, fmt.Errorf("%s: %w", server.Name, err)
		}
		c.servers += used
	}
	return c, nil
}

func addresses(processes []*process.Process) []string {
	var addrs []string
	for _, p := range processes {
		addrs = append(addrs, p.Addr)
	}
	return addrs
}
