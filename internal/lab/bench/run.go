package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"mcmw/internal/lab/process"
)

// serverCount is the number of memcached servers behind every system.
const serverCount = 3

// Progress says how far a benchmark is.
type Progress struct {
	Done, All int
	Left      time.Duration // an estimate
	// Last is the measurement that has just ended; nil at first.
	Last *Measurement
	// Next describes what begins; "" at the end.
	Next string
}

// runner is a benchmark that runs.
type runner struct {
	*Benchmark
	dir     string // for files of the systems
	servers []*process.Process
}

// Run measures everything. When it fails or ctx ends on the way, the report holds what was measured until then, and is nil
// if that is nothing. All processes that it started have ended when it returns.
func (b *Benchmark) Run(ctx context.Context) (_ *Report, err error) {
	r := &runner{Benchmark: b}
	if r.dir, err = os.MkdirTemp("", "mcmwlab"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(r.dir)
	defer func() {
		for _, server := range r.servers {
			// A cache has nothing to save, and it obeys other signals only at its next tick.
			server.Stop(syscall.SIGKILL)
		}
	}()
	for i := range serverCount {
		server, err := process.Launch(ctx, fmt.Sprintf("memcached %d", i+1), process.Loopback, func(port int) (*exec.Cmd, error) {
			return process.Memcached(b.memcached, process.Loopback, port, memcachedArgs...), nil
		})
		if err != nil {
			return nil, err
		}
		r.servers = append(r.servers, server)
	}
	report := &Report{
		Started:  time.Now(),
		Command:  b.Command,
		Machine:  thisMachine(),
		Versions: b.versions(),
		Rounds:   b.Rounds,
		WarmUp:   b.WarmUp,
		Duration: b.Duration,
		Threads:  b.generatorThreads(),
		Baseline: b.Baseline,
	}
	err = r.rounds(ctx, report)
	report.Ended = time.Now()
	if len(report.Measurements) == 0 {
		return nil, err
	}
	report.Workloads = summarise(b.workloads, systemNames(b.systems), b.Baseline, report.Measurements)
	if err != nil {
		report.Problem = err.Error()
	}
	return report, err
}

// rounds measures everything in turn: in every round every workload, and under every workload every system, each time
// beginning with another one.
func (r *runner) rounds(ctx context.Context, report *Report) error {
	progress := Progress{All: r.measurements()}
	began := time.Now()
	tell := func(next string) {
		each := r.WarmUp + r.Duration + 500*time.Millisecond // a guess, for lack of experience
		if progress.Done > 0 {
			each = time.Since(began) / time.Duration(progress.Done)
		}
		progress.Left = each * time.Duration(progress.All-progress.Done)
		progress.Next = next
		if r.Progress != nil {
			r.Progress(progress)
		}
	}
	for round := 1; round <= r.Rounds; round++ {
		for _, w := range r.workloads {
			systems := r.systemsFor(w)
			for i := range systems {
				s := systems[(i+round-1)%len(systems)]
				tell(fmt.Sprintf("round %d of %d, %s, %s", round, r.Rounds, w.Name, s.name))
				m, err := r.measure(ctx, w, s, round)
				if err != nil {
					return fmt.Errorf("round %d, workload %s, system %s: %w", round, w.Name, s.name, err)
				}
				report.Measurements = append(report.Measurements, m)
				progress.Done++
				progress.Last = &m
			}
		}
	}
	tell("")
	return nil
}

// versions asks every program for its version.
func (b *Benchmark) versions() []Version {
	versions := []Version{{Name: "memcached", Text: versionOf(b.memcached, "--version")}}
	for _, s := range b.systems {
		switch s.kind {
		case kindTwemproxy:
			versions = append(versions, Version{Name: s.name, Text: versionOf(s.path, "--version")})
		case kindMcmw:
			versions = append(versions, Version{Name: s.name, Text: versionOf(s.path, "version"), Args: s.args})
		}
	}
	return versions
}

// versionOf returns the first line that a program says about its version.
func versionOf(path, argument string) string {
	ctx, cancel := context.WithTimeout(context.Background(), process.ReadyTimeout)
	defer cancel()
	// Not every program exits with success after it has told; the text is what counts.
	text, err := exec.CommandContext(ctx, path, argument).CombinedOutput()
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if line == "" {
		return fmt.Sprintf("unknown (%v)", errors.Join(err))
	}
	return strings.TrimPrefix(line, "This is ")
}
