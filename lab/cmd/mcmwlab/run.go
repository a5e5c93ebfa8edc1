package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"mcmw/lab/check"
	"mcmw/lab/experiment"
	"mcmw/lab/record"
	"mcmw/lab/report"
	"mcmw/lab/runner"
	"mcmw/lab/testbed"
	"mcmw/lab/testbed/kubernetes"
	"mcmw/lab/testbed/vm"
)

type runFlags struct {
	out    string
	outDir string
	resume bool
	quick  bool
	quiet  bool
	paths  map[string]string // paths by name
	set    []string
}

func newRunCommand(args []string, stderr io.Writer) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run FILE...",
		Short: "Run experiments and record their measurements",
		Long: `Run the experiment described by a file (docs/experiments.md) and write the measurements to a record: a directory with a
manifest, a database and the raw outputs. A record is never overwritten. --resume continues an
interrupted experiment with the missing and failed runs.

In the end it makes the page of the record, as mcmwlab report does, and prints the sentence that answers the experiment's question.

Several experiments are run one after the other, each with its own record in --out-dir. --resume also starts experiments without a record.
After failed runs of one experiment the next one is run.`,
		Example: `  mcmwlab run lab/experiments/quick.yaml
  mcmwlab run lab/experiments/sweep.yaml --quick --out results/sweep-quick
  mcmwlab run lab/experiments/sweep.yaml --set testbed=vm
  mcmwlab run lab/experiments/sweep.yaml --resume
  mcmwlab run lab/experiments/performance/connections.yaml --set 'factors.clients=[8, 80]' --set repetitions=5
  mcmwlab run lab/experiments/scaling/*.yaml --quick --out-dir results/scaling`,
		Args: someFiles,
		RunE: func(cmd *cobra.Command, files []string) error {
			return f.run(cmd.Context(), files, append([]string{"mcmwlab"}, args...), cmd.OutOrStdout(), stderr)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.out, "out", "",
		"directory of the record (default results/NAME, with the name of the experiment)")
	flags.StringVar(&f.outDir, "out-dir", "",
		"parent directory of the records, which have the names of the experiments (default results)")
	flags.BoolVar(&f.resume, "resume", false, "continue the existing record")
	flags.BoolVar(&f.quick, "quick", false, "use the file's quick profile")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
	flags.StringToStringVar(&f.paths, "program", nil,
		"NAME=PATH: path of mcmw (default: that in the directory of this program), or of memcached or redis (default: "+
			"memcached and redis-server in PATH); repeatable")
	flags.StringArrayVar(&f.set, "set", nil, setHelp)
	return cmd
}

// checkPrograms checks the names in the flag --program.
func (f *runFlags) checkPrograms(known ...string) error {
	return oneOfEach("program", slices.Sorted(maps.Keys(f.paths)), known)
}

// run runs the experiments in files one after the other.
func (f *runFlags) run(ctx context.Context, files []string, command []string, stdout, stderr io.Writer) error {
	if err := f.checkPrograms(experiment.Mcmw, experiment.Memcached, experiment.Redis); err != nil {
		return err
	}
	s, err := f.readSeries(ctx, files)
	if err != nil {
		return err
	}
	var problems []error
	for range s.members {
		began := time.Now()
		err := f.runMember(ctx, s, command, stdout, stderr)
		if err == nil {
			err = conclude(ctx, s.members[s.now].dir, stdout)
		}
		if errors.Is(err, context.Canceled) {
			if !slices.Contains(command, "--resume") {
				command = append(command, "--resume")
			}
			return errors.Join(append(problems,
				fmt.Errorf("interrupted; continue with: %s", report.CommandLine(command)))...)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("%s%w", s.name(), err))
		}
		s.spent += time.Since(began)
		s.planned += s.members[s.now].expected
		s.now++
	}
	return errors.Join(problems...)
}

// runMember runs the current experiment of a series.
func (f *runFlags) runMember(ctx context.Context, s *series, command []string, stdout, stderr io.Writer) error {
	m := s.members[s.now]
	e := m.experiment
	p := newProgress(stderr)
	notes := p.out
	if f.quiet {
		notes = io.Discard
	}
	bed, programs, err := f.open(ctx, e, notes)
	if errors.Is(err, context.Canceled) && len(s.members) == 1 {
		return errors.New("interrupted before the first run")
	}
	if err != nil {
		return err
	}
	o := runner.Options{
		Experiment: e, Testbed: bed, Dir: m.dir, Resume: m.resume, Quick: f.quick, Command: command,
		Checksums: checksums(programs),
		Check:     check.Run, CheckSet: check.Set, Foreign: check.ForeignShare,
	}
	stop := func() {}
	if !f.quiet {
		watch := &runWatch{p: p, s: s}
		o.Progress = watch.step
		if p.terminal {
			stop = p.repeat(watch.tick)
		}
	}
	summary, err := runner.Run(ctx, o)
	stop()
	p.clear()
	err = errors.Join(err, bed.Close())
	if summary.Complete+summary.Failed > 0 {
		line := fmt.Sprintf("%s: %s complete", m.dir, count(summary.Complete, "run"))
		if summary.Skipped > 0 {
			line += fmt.Sprintf(" (%d before this call)", summary.Skipped)
		}
		if summary.Failed > 0 {
			line += fmt.Sprintf("; %d failed", summary.Failed)
		}
		if summary.Unjudged > 0 {
			line += fmt.Sprintf("; run.foreign_load was not applied to %s, whose foreign load is not known",
				count(summary.Unjudged, "run"))
		}
		fmt.Fprintln(stdout, line)
	}
	return err
}

// open creates the testbed of an experiment, and returns the programs of this machine that it uses. It writes to notes
// where the testbed has less than the experiment requests.
func (f *runFlags) open(ctx context.Context, e *experiment.Experiment, notes io.Writer) (testbed.Testbed,
	testbed.Programs, error,
) {
	var programs testbed.Programs
	switch e.Testbed {
	case experiment.SSHTestbed:
		return f.openSSH(ctx, e)
	case experiment.KubernetesTestbed:
		bed, err := kubernetes.New(e)
		if err != nil {
			return nil, programs, usageError{err}
		}
		return bed, programs, nil
	}
	err := f.servers(e, &programs)
	if err == nil {
		programs.Systems, err = systemsOf(e)
	}
	if err == nil {
		err = f.programs(e, &programs)
	}
	if err != nil {
		return nil, programs, usageError{err}
	}
	hosts := testbed.Local()
	if e.Testbed == experiment.VMTestbed {
		machines, err := vm.New(e.Machines, e.Delay, e.Dilation)
		if err != nil {
			return nil, programs, err
		}
		hosts = machines.Hosts
	}
	writeNotes(notes, hosts.Shortfalls)
	return testbed.OnHosts(hosts, programs, e.CPUs), programs, nil
}

// checksums returns the SHA-256 of the programs that are files of this machine, by their names. A file that cannot be
// read has none; starting it says why.
func checksums(p testbed.Programs) map[string]string {
	files := map[string]string{"memcached": p.Memcached, "redis": p.Redis, "mcmw": p.Mcmw, "mcmwlab": p.Mcmwlab}
	for name, system := range p.Systems {
		files["system "+name] = system.Binary
	}
	sums := map[string]string{}
	for name, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			sums[name] = fmt.Sprintf("%x", sha256.Sum256(text))
		}
	}
	return sums
}

// writeNotes writes the shortfalls of a testbed.
func writeNotes(w io.Writer, shortfalls []string) {
	for _, s := range shortfalls {
		fmt.Fprintln(w, "note:", s)
	}
}

// servers finds the servers that an experiment uses.
func (f *runFlags) servers(e *experiment.Experiment, p *testbed.Programs) error {
	for _, server := range []struct {
		kind, file string // the program's default is also its package of Debian
		path       *string
	}{{experiment.Memcached, "memcached", &p.Memcached}, {experiment.Redis, "redis-server", &p.Redis}} {
		if !e.Uses(experiment.Server, server.kind) {
			continue
		}
		path, err := exec.LookPath(cmp.Or(f.paths[server.kind], server.file))
		if err != nil {
			return fmt.Errorf("%w; install it, on Debian: apt-get install %s", err, server.file)
		}
		*server.path = path
	}
	return nil
}

// systemsOf finds the programs of the systems that an experiment uses.
func systemsOf(e *experiment.Experiment) (map[string]experiment.SystemKind, error) {
	found := map[string]experiment.SystemKind{}
	for name, s := range e.Systems {
		if !e.Uses(experiment.System, name) {
			continue
		}
		if s.Binary != "" {
			path, err := exec.LookPath(s.Binary)
			if err != nil {
				return nil,
					fmt.Errorf("system %s: %w; build or install it, or set its path: systems: {%s: {binary: PATH}}",
						name, err, name)
			}
			s.Binary = path
		}
		found[name] = s
	}
	return found, nil
}

// programs finds mcmw, unless the experiment only uses systems with programs of their own, and mcmwlab.
func (f *runFlags) programs(e *experiment.Experiment, p *testbed.Programs) (err error) {
	own := func(point experiment.Point) bool {
		system := point.Values[experiment.System]
		return system == experiment.Direct || p.Systems[system].Binary != ""
	}
	if p.Mcmwlab, err = os.Executable(); err != nil {
		return err
	}
	beside := filepath.Join(filepath.Dir(p.Mcmwlab), "mcmw")
	if slices.IndexFunc(e.Points, func(point experiment.Point) bool { return !own(point) }) < 0 {
		p.Mcmw = ""
	} else if p.Mcmw, err = exec.LookPath(cmp.Or(f.paths[experiment.Mcmw], beside)); err != nil {
		return fmt.Errorf("mcmw: %w; build it first, or give its path with --program mcmw=PATH", err)
	}
	return nil
}

// nextRun describes the current run.
func nextRun(step runner.Progress, s *series, left string) string {
	return fmt.Sprintf("%srun %d of %d: %s, repetition %d; %s", s.name(), step.Done+step.Failed+1, step.Most,
		step.Next.Point, step.Next.Repetition+1, left)
}

// runWatch shows the progress of runs: the result of each and, on a terminal, a bar that includes the current run.
type runWatch struct {
	p *progress
	s *series

	mu    sync.Mutex // guards the fields below and the output
	now   runner.Progress
	since time.Time // when the current run began
}

// step shows the result of a run, and the next one.
func (w *runWatch) step(step runner.Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now, w.since = step, time.Now()
	left := w.s.left(step)
	if run := step.Last; run != nil {
		w.p.clear()
		line := fmt.Sprintf("%s%3d of %d: %s, repetition %d: %s", w.s.name(), step.Done+step.Failed, step.Most,
			step.LastPoint, run.Repetition+1, outcome(run))
		if !w.p.terminal && step.Next != nil {
			line += "; " + left
		}
		fmt.Fprintln(w.p.out, line)
	}
	if step.Next != nil && (w.p.terminal || step.Last == nil) {
		w.p.show(nextRun(step, w.s, left))
	}
}

// tick updates the bar.
func (w *runWatch) tick(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now.Next != nil {
		w.p.show(within(w.now, w.s, now.Sub(w.since)))
	}
}

// within describes the progress of the runs when a time has been spent on the current one. It assumes that this one
// takes as long as the others; until it has ended, it counts as at most 95 %.
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

// outcome describes the result of a run briefly.
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

// count returns a number with a noun, in the plural if needed.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
