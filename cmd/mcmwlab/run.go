package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"mcmw/internal/lab/check"
	"mcmw/internal/lab/experiment"
	"mcmw/internal/lab/record"
	"mcmw/internal/lab/runner"
	"mcmw/internal/lab/testbed"
	"mcmw/internal/lab/testbed/kubernetes"
)

type runFlags struct {
	out       string
	outDir    string
	resume    bool
	quickly   bool
	quiet     bool
	mcmw      string
	memcached string
	testbed   string
	inventory string
	values    []string
	set       []string
	redis     string
	delay     time.Duration
}

func newRunCommand(args []string, stderr io.Writer) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run FILE...",
		Short: "Run experiments and record what they measure",
		Long: `Run the experiment that a file describes (docs/experiments.md) and keep what it measures in a record: a directory with a
manifest, a database and the raw outputs. A record is never overwritten. --resume continues an
interrupted experiment with the runs that are missing or failed.

Several files run one after the other, each into its own record in --out-dir; --resume also begins those without a record. Failed runs
of one experiment do not prevent the next.`,
		Example: `  mcmwlab run experiments/quick.yaml
  mcmwlab run experiments/sweep.yaml --quick --out results/sweep-quick
  mcmwlab run experiments/sweep.yaml --testbed vm
  mcmwlab run experiments/sweep.yaml --resume
  mcmwlab run experiments/performance/workloads.yaml --set systems.before.binary=/tmp/mcmw --set 'factors.system=[before, mcmw]' --set 'factors.case=[mixed-64]'
  mcmwlab run experiments/scaling/*.yaml --quick --out-dir results/scaling`,
		Args: someFiles,
		RunE: func(cmd *cobra.Command, files []string) error {
			return f.run(cmd.Context(), files, append([]string{"mcmwlab"}, args...), cmd.OutOrStdout(), stderr)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.out, "out", "", "directory of the record (default results/NAME, with the name of the experiment)")
	flags.StringVar(&f.outDir, "out-dir", "", "directory of the records, each named like its experiment (default results)")
	flags.BoolVar(&f.resume, "resume", false, "continue the existing record")
	flags.BoolVar(&f.quickly, "quick", false, "run the file's quick profile")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
	flags.StringVar(&f.testbed, "testbed", "", "testbed to use instead of the file's: local, vm, ssh, kubernetes (docs/testbeds.md)")
	flags.StringVar(&f.mcmw, "mcmw", "", "path of the mcmw binary (default: mcmw beside this program)")
	flags.StringVar(&f.memcached, "memcached", "memcached", "path of the memcached binary, or its name in PATH")
	flags.StringVar(&f.inventory, "inventory", "", "run on the testbed ssh, on the hosts of this inventory (docs/testbeds.md)")
	flags.StringArrayVar(&f.values, "values", nil, "run on the testbed kubernetes, with this file of the chart's values; repeatable")
	flags.DurationVar(&f.delay, "delay", 0, "on the testbed vm: one-way network delay, instead of the file's; it is appended to the record's name, as in NAME@0.4ms")
	flags.StringArrayVar(&f.set, "set", nil, setHelp)
	flags.StringVar(&f.redis, "redis", "redis-server", "path of the redis-server binary, or its name in PATH")
	return cmd
}

// run runs the experiments in files one after the other.
func (f *runFlags) run(ctx context.Context, files []string, command []string, stdout, stderr io.Writer) error {
	s, err := f.readSeries(ctx, files)
	if err != nil {
		return err
	}
	var problems []error
	for range s.members {
		began := time.Now()
		err := f.runMember(ctx, s, command, stdout, stderr)
		if errors.Is(err, context.Canceled) {
			return fmt.Errorf("interrupted; go on with: %s", strings.Join(resumeCommand(command), " "))
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s%w", s.name(), err))
		}
		s.ended(time.Since(began))
	}
	return errors.Join(problems...)
}

func (f *runFlags) runMember(ctx context.Context, s *series, command []string, stdout, stderr io.Writer) error {
	m := s.members[s.now]
	e := m.experiment
	p := newProgress(stderr)
	notes := p.out
	if f.quiet {
		notes = io.Discard
	}
	bed, err := f.open(ctx, e, notes)
	if errors.Is(err, context.Canceled) && len(s.members) == 1 {
		return errors.New("interrupted before the first run")
	}
	if err != nil {
		return err
	}
	o := runner.Options{Experiment: e, Testbed: bed, Dir: m.dir, Resume: m.resume, Quick: f.quickly, Command: command, Check: check.Run, CheckSet: check.Set}
	stop := func() {}
	if !f.quiet {
		watch := watchRuns(p, s)
		o.Progress = watch.step
		stop = watch.stop
	}
	summary, err := runner.Run(ctx, o)
	stop()
	p.clear()
	err = errors.Join(err, bed.Close())
	if summary.Complete+summary.Failed > 0 {
		line := fmt.Sprintf("%s: %s complete", m.dir, count(summary.Complete, "run"))
		if summary.Skipped > 0 {
			line += fmt.Sprintf(", of them %d from before", summary.Skipped)
		}
		if summary.Failed > 0 {
			line += fmt.Sprintf("; %d failed", summary.Failed)
		}
		fmt.Fprintln(stdout, line)
	}
	return err
}

// resumeCommand returns the command line that continues an interrupted one.
func resumeCommand(command []string) []string {
	for _, argument := range command {
		if argument == "--resume" {
			return command
		}
	}
	return append(command[:len(command):len(command)], "--resume")
}

// open creates the testbed of an experiment. Where it has less than the experiment asks for, it says so on notes.
func (f *runFlags) open(ctx context.Context, e *experiment.Experiment, notes io.Writer) (testbed.Testbed, error) {
	switch e.Testbed {
	case experiment.SSHTestbed:
		return f.openSSH(ctx, e)
	case experiment.KubernetesTestbed:
		bed, err := kubernetes.New(e)
		if err != nil {
			return nil, usageError{err}
		}
		return bed, nil
	}
	var programs testbed.Programs
	err := f.servers(e, &programs)
	if err == nil {
		err = f.programs(&programs)
	}
	if err == nil {
		programs.Systems, err = systemsOf(e)
	}
	if err != nil {
		return nil, usageError{err}
	}
	hosts, err := hostsOf(e)
	if err != nil {
		return nil, err
	}
	showShortfalls(notes, hosts)
	return testbed.Dilate(testbed.OnHosts(hosts, programs, e.CPUs), e.Dilation), nil
}

func (f *runFlags) servers(e *experiment.Experiment, p *testbed.Programs) error {
	for _, server := range []struct {
		kind, given, pack string
		path              *string
	}{
		{experiment.Memcached, f.memcached, "memcached", &p.Memcached},
		{experiment.Redis, f.redis, "redis-server", &p.Redis},
	} {
		if !e.Uses(experiment.Server, server.kind) {
			continue
		}
		path, err := exec.LookPath(server.given)
		if err != nil {
			return fmt.Errorf("%w; install it, on Debian: apt-get install %s", err, server.pack)
		}
		*server.path = path
	}
	return nil
}

// systemsOf finds the programs of the systems that an experiment needs beside mcmw.
func systemsOf(e *experiment.Experiment) (map[string]experiment.SystemKind, error) {
	found := map[string]experiment.SystemKind{}
	for name, s := range e.Systems {
		if !e.Uses(experiment.System, name) {
			continue
		}
		if s.Binary != "" {
			path, err := exec.LookPath(s.Binary)
			if err != nil {
				return nil, fmt.Errorf("system %s: %w; build or install it, or say where it is: systems: {%s: {binary: PATH}}", name, err, name)
			}
			s.Binary = path
		}
		found[name] = s
	}
	return found, nil
}

// programs finds mcmw and mcmwlab.
func (f *runFlags) programs(p *testbed.Programs) (err error) {
	if p.Mcmw, err = exec.LookPath(cmp.Or(f.mcmw, besideThis("mcmw"))); err != nil {
		return fmt.Errorf("mcmw: %w (build it first, or give its path)", err)
	}
	p.Mcmwlab, err = os.Executable()
	return err
}

// besideThis returns the path of the program of a name in the directory of this one.
func besideThis(name string) string {
	if self, err := os.Executable(); err == nil {
		return filepath.Join(filepath.Dir(self), name)
	}
	return name
}

// showRun shows the result of a run, and the next one: on a terminal as a line that changes.
func showRun(p *progress, step runner.Progress, s *series) {
	left := s.left(step)
	ended := step.Done + step.Failed
	if run := step.Last; run != nil {
		p.clear()
		line := fmt.Sprintf("%s%3d of %d: %s, repetition %d: %s", s.name(), ended, step.Most, step.LastPoint, run.Repetition+1, outcome(run))
		if !p.terminal && step.Next != nil {
			line += "; " + left
		}
		fmt.Fprintln(p.out, line)
	}
	if step.Next != nil && (p.terminal || step.Last == nil) {
		p.show(nextRun(step, s, left))
	}
}

// nextRun describes the run under way.
func nextRun(step runner.Progress, s *series, left string) string {
	return fmt.Sprintf("%srun %d of %d: %s, repetition %d; %s", s.name(), step.Done+step.Failed+1, step.Most, step.Next.Point, step.Next.Repetition+1, left)
}

// runWatch shows the progress of runs: the result of each, and on a terminal a bar for the run under way.
type runWatch struct {
	p     *progress
	s     *series
	done  chan struct{} // closed by stop
	ended sync.WaitGroup

	mu    sync.Mutex // guards what follows, and the output
	now   runner.Progress
	since time.Time // when the run under way began
}

func watchRuns(p *progress, s *series) *runWatch {
	w := &runWatch{p: p, s: s, done: make(chan struct{})}
	if !p.terminal {
		return w
	}
	w.ended.Go(func() {
		ticker := time.NewTicker(p.refresh())
		defer ticker.Stop()
		for {
			select {
			case <-w.done:
				return
			case now := <-ticker.C:
				w.tick(now)
			}
		}
	})
	return w
}

// step shows the result of a run, and the next one.
func (w *runWatch) step(step runner.Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	showRun(w.p, step, w.s)
	w.now, w.since = step, time.Now()
}

func (w *runWatch) tick(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now.Next != nil {
		w.p.show(within(w.now, w.s, now.Sub(w.since)))
	}
}

func (w *runWatch) stop() {
	close(w.done)
	w.ended.Wait()
}

// within describes the progress of the runs, with the one under way for the time spent. It is assumed to take as long as the others, and counts as less than
// whole until it has ended.
func within(step runner.Progress, s *series, spent time.Duration) string {
	ended := step.Done + step.Failed
	part := 0.0
	if left := step.Most - ended; left > 0 && step.Left > 0 {
		each := step.Left / time.Duration(left)
		part = min(float64(spent)/float64(each), 0.95)
		step.Left -= min(spent, each)
	}
	return bar((float64(ended)+part)/float64(max(step.Most, 1))) + " " + nextRun(step, s, s.left(step))
}

// outcome describes a run's result in a few words.
func outcome(run *record.Run) string {
	if run.State == record.Failed {
		return "FAILED: " + strings.ReplaceAll(run.Error, "\n", "; ")
	}
	text := "measured"
	if x, ok := run.Value(record.SourceClient, "throughput"); ok {
		text = fmt.Sprintf("%.0f ops/s", x)
	}
	if r, ok := run.Value(record.SourceClient, "response_time_mean"); ok {
		text += fmt.Sprintf(", mean %.3f ms", r*1e3)
	}
	if n := len(run.Warnings); n > 0 {
		var codes []string
		for _, w := range run.Warnings {
			codes = append(codes, w.Code)
		}
		text += fmt.Sprintf("; %s (%s)", count(n, "warning"), strings.Join(slices.Compact(codes), ", "))
	}
	return text
}

// count returns a number with its noun, in the plural if needed.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
