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

	"mcmw/internal/lab/kernel"
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
	for i := range b.mostServers() {
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
		Machine:  kernel.ThisMachine(),
		Versions: b.versions(),
		Rounds:   b.Rounds,
		WarmUp:   b.WarmUp,
		Duration: b.Duration,
		Threads:  b.generatorThreads(),
		Baseline: b.Baseline,
	}
	pace := newPace(b)
	err = r.rounds(ctx, report, pace)
	for _, c := range b.curves {
		if err == nil {
			err = r.curve(ctx, c, report, pace)
		}
	}
	pace.next("")
	report.Ended = time.Now()
	if len(report.Measurements) == 0 {
		return nil, err
	}
	report.Workloads = summarise(b.workloads, systemNames(b.systems), b.Baseline, report.Measurements)
	for _, c := range b.curves {
		report.Curves = append(report.Curves, summariseCurve(c, b.linesOf(c), report.Measurements))
	}
	if err != nil {
		report.Problem = err.Error()
	}
	return report, err
}

// rounds measures all workloads in turn: in every round every workload, and under every workload every system, each time
// beginning with another one.
func (r *runner) rounds(ctx context.Context, report *Report, pace *pace) error {
	for round := 1; round <= r.Rounds; round++ {
		for _, w := range r.workloads {
			systems := r.systemsFor(w)
			for i := range systems {
				s := systems[(i+round-1)%len(systems)]
				pace.next(fmt.Sprintf("round %d of %d, %s, %s", round, r.Rounds, w.Name, s.name))
				m, err := r.measure(ctx, w, s, round)
				if err != nil {
					return fmt.Errorf("round %d, workload %s, system %s: %w", round, w.Name, s.name, err)
				}
				report.Measurements = append(report.Measurements, m)
				pace.done(&m)
			}
		}
	}
	return nil
}

// pace tells how far a benchmark is.
type pace struct {
	tell     func(Progress)
	progress Progress
	began    time.Time
	each     time.Duration // of a measurement: a guess, until there is experience
}

func newPace(b *Benchmark) *pace {
	p := &pace{tell: b.Progress, progress: Progress{All: b.measurements()}, began: time.Now(), each: b.WarmUp + b.Duration + 500*time.Millisecond}
	if p.tell == nil {
		p.tell = func(Progress) {}
	}
	return p
}

// next says what begins, "" at the end.
func (p *pace) next(what string) {
	p.progress.Next = what
	p.progress.Left = p.each * time.Duration(p.progress.All-p.progress.Done)
	p.tell(p.progress)
}

// done counts a measurement.
func (p *pace) done(m *Measurement) {
	p.progress.Done++
	p.progress.Last = m
	p.each = time.Since(p.began) / time.Duration(p.progress.Done)
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
