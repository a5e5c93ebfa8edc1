package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcmw/internal/lab/check"
	"mcmw/internal/lab/experiment"
	"mcmw/internal/lab/record"
	"mcmw/internal/lab/runner"
	"mcmw/internal/lab/testbed"
)

// runFlags are the flags of `mcmwlab run`.
type runFlags struct {
	out       string
	resume    bool
	quickly   bool
	quiet     bool
	mcmw      string
	memcached string
	redis     string
}

func newRunCommand(args []string, stderr io.Writer) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run an experiment and keep what it measures in a record",
		Long: `Run the experiment that a file describes (docs/experiments.md) and keep what it measures in a record: a directory with a
manifest, a database and the raw outputs. A record is never overwritten. An experiment that was interrupted, in
whatever way, goes on with --resume and makes the runs that are missing or have failed.`,
		Example: `  mcmwlab run experiments/quick.yaml
  mcmwlab run experiments/sweep.yaml --quick --out results/sweep-quick
  mcmwlab run experiments/sweep.yaml --resume`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, files []string) error {
			return f.run(cmd.Context(), files[0], append([]string{"mcmwlab"}, args...), cmd.OutOrStdout(), stderr)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.out, "out", "", "directory of the record (default results/NAME, NAME being that of the experiment)")
	flags.BoolVar(&f.resume, "resume", false, "go on with the record that is there")
	flags.BoolVar(&f.quickly, "quick", false, "run the file's quick profile")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
	flags.StringVar(&f.mcmw, "mcmw", "", "path of the mcmw binary (default: mcmw beside this program)")
	flags.StringVar(&f.memcached, "memcached", "memcached", "path of the memcached binary, or its name in PATH")
	flags.StringVar(&f.redis, "redis", "redis-server", "path of the redis-server binary, or its name in PATH")
	return cmd
}

func (f *runFlags) run(ctx context.Context, file string, command []string, stdout, stderr io.Writer) error {
	e, err := readExperiment(file, f.quickly)
	if err != nil {
		return err
	}
	if f.out == "" {
		f.out = filepath.Join("results", e.Name)
	}
	programs, err := f.programs(e)
	if err != nil {
		return usageError{err}
	}
	bed := testbed.OnHosts(testbed.Local(), programs, e.CPUs)
	p := newProgress(stderr)
	o := runner.Options{Experiment: e, Testbed: bed, Dir: f.out, Resume: f.resume, Quick: f.quickly, Command: command, Check: check.Run, CheckSet: check.Set}
	if !f.quiet {
		o.Progress = func(step runner.Progress) { showRun(p, step) }
	}
	summary, err := runner.Run(ctx, o)
	p.clear()
	err = errors.Join(err, bed.Close())
	if summary.Complete+summary.Failed > 0 {
		line := fmt.Sprintf("%s: %s complete", f.out, count(summary.Complete, "run"))
		if summary.Skipped > 0 {
			line += fmt.Sprintf(", of them %d from before", summary.Skipped)
		}
		if summary.Failed > 0 {
			line += fmt.Sprintf("; %d failed", summary.Failed)
		}
		fmt.Fprintln(stdout, line)
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("interrupted; go on with: %s", strings.Join(resumeCommand(command), " "))
	}
	return err
}

// resumeCommand returns the command line that goes on with what a command line has begun.
func resumeCommand(command []string) []string {
	for _, argument := range command {
		if argument == "--resume" {
			return command
		}
	}
	return append(command[:len(command):len(command)], "--resume")
}

// programs finds the programs that an experiment needs.
func (f *runFlags) programs(e *experiment.Experiment) (p testbed.Programs, err error) {
	for _, server := range []struct{ kind, given, pack string }{{experiment.Memcached, f.memcached, "memcached"}, {experiment.Redis, f.redis, "redis-server"}} {
		if !e.Uses(experiment.Server, server.kind) {
			continue
		}
		path, err := exec.LookPath(server.given)
		if err != nil {
			return p, fmt.Errorf("%w; install it, on Debian: apt-get install %s", err, server.pack)
		}
		if server.kind == experiment.Redis {
			p.Redis = path
		} else {
			p.Memcached = path
		}
	}
	mcmw := f.mcmw
	if mcmw == "" {
		mcmw = besideThis("mcmw")
	}
	if p.Mcmw, err = exec.LookPath(mcmw); err != nil {
		return p, fmt.Errorf("mcmw: %w (build it first, or give its path)", err)
	}
	if p.Mcmwlab, err = os.Executable(); err != nil {
		return p, err
	}
	return p, nil
}

// showRun shows what a run brought, and what is next: on a terminal as a line that changes.
func showRun(p *progress, step runner.Progress) {
	left := fmt.Sprintf("about %v left", step.Left.Round(time.Second))
	if step.Least < step.Most {
		left = "at most " + left
	}
	ended := step.Done + step.Failed
	if run := step.Last; run != nil {
		p.clear()
		line := fmt.Sprintf("%3d of %d: %s, repetition %d: %s", ended, step.Most, step.LastPoint, run.Repetition+1, outcome(run))
		if !p.terminal && step.Next != nil {
			line += "; " + left
		}
		fmt.Fprintln(p.out, line)
	}
	if step.Next != nil && (p.terminal || step.Last == nil) {
		p.show(fmt.Sprintf("run %d of %d: %s, repetition %d; %s", ended+1, step.Most, step.Next.Point, step.Next.Repetition+1, left))
	}
}

// outcome says in a few words what a run came to.
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

// count returns a number of things.
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
