package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"mcmw/lab/bench"
	"mcmw/lab/experiment"
	"mcmw/lab/experiments"
	"mcmw/lab/record"
	"mcmw/lab/table"
)

// benchstatFormat is the format of benchstat's input.
const benchstatFormat = "benchstat"

type benchFlags struct {
	run        runFlags
	systems    []string
	loads      []string
	rounds     int
	duration   time.Duration
	cpus       string
	format     string
	confidence float64
}

func newBenchCommand(args []string, stderr io.Writer) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench OLD NEW...",
		Short: "Say which of two or more systems is faster",
		Long: `Measure two or more systems in turns and say which are faster or slower than the first. A system is the path of an mcmw, a revision
of the git repository in the current directory, which is built, or a known one: mcmw (that beside this program), twemproxy
(nutcracker), proxy (memcached's own), direct (no middleware), floor (the least that a proxy can do: one thread, one read and one write a
hop; built with cc) or go-floor (the least that one of mcmw's shape can do: a goroutine for each client, a queue and a worker). Only mcmw and
proxy hold as many copies as a load says, the others one. Flags can follow in one argument: 'mcmw --hot-keys=serve'.

Each run starts three memcached servers and a system. By default everything runs on one processor. The speed is then the
inverse of the processor time of a request in load, system and servers together, which rounds repeat within some 3 % and other programs hardly
change. With several --cpus it is the throughput, which also depends on where the kernel runs what.

Each round measures every system under every load. The ratio is the geometric mean over the rounds, with the interval that holds for all
ratios together: equal systems get another verdict than "can't be told" in at most 5 % of the cases. More --rounds tell smaller
differences. The exit code is

  0  no system is slower than the first under any load
  1  a system is slower
  2  the measurement failed, or the command line is wrong

Built programs are kept in the user's cache directory. Without --out the measurements are dropped; with it they are a record.`,
		Example: `  mcmwlab bench v1.0.0 main
  mcmwlab bench ./old ./new --loads set-4k --rounds 30
  mcmwlab bench --systems mcmw,twemproxy,proxy,direct,floor
  mcmwlab bench mcmw 'mcmw --writers=one' --loads replicated-set
  mcmwlab bench main mcmw --format benchstat > bench.txt; benchstat -col /system bench.txt`,
		RunE: func(cmd *cobra.Command, systems []string) error {
			err := f.bench(cmd.Context(), append(systems, f.systems...), append([]string{"mcmwlab"}, args...),
				cmd.OutOrStdout(), stderr)
			switch _, judged := errors.AsType[conditionError](err); {
			case err == nil || judged:
				return err
			case errors.Is(err, context.Canceled) && f.run.out == "":
				err = errors.New("interrupted; without --out the measurements are dropped")
			case errors.Is(err, context.Canceled):
				err = errors.New("interrupted; --resume continues")
			}
			return usageError{err} // exit code 2
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.systems, "systems", nil, "systems, after those that are arguments")
	flags.StringSliceVar(&f.loads, "loads",
		[]string{"mixed-64", "mixed-1", "pipelined", "multi-get", "set-4k", "replicated"},
		"loads; also mixed-400, get-4k, zipf-get, one-key, replicated-set (lab/experiments/bench.yaml)")
	flags.IntVar(&f.rounds, "rounds", 10, "runs of each system under each load")
	flags.DurationVar(&f.duration, "duration", time.Second, "measured time of each run")
	flags.StringVar(&f.cpus, "cpus", "", "processors for everything, such as 0,1, or all (default: the first)")
	flags.StringVar(&f.run.out, "out", "", "directory in which to keep the record")
	flags.BoolVar(&f.run.resume, "resume", false, "continue the record of --out if there is one")
	flags.StringToStringVar(&f.run.paths, "program", nil,
		"NAME=PATH: path of mcmw (default: beside this program), of memcached (default: in PATH; replicas have "+
			"several writers only with 1.6.27 or later), or of proxy, a memcached built with it (default: that one); "+
			"repeatable")
	flags.StringVar(&f.format, "format", table.Text, formatHelp+", "+benchstatFormat)
	flags.Float64Var(&f.confidence, "confidence", 0.95, "confidence of all intervals together")
	flags.BoolVarP(&f.run.quiet, "quiet", "q", false, "show no progress")
	return cmd
}

func (f *benchFlags) bench(ctx context.Context, arguments, command []string, stdout, stderr io.Writer) error {
	if f.format != benchstatFormat {
		if err := oneOfEach("format", []string{f.format}, table.Formats); err != nil {
			return err
		}
	}
	if err := checkConfidence(f.confidence); err != nil {
		return err
	}
	if err := f.run.checkPrograms(experiment.Mcmw, experiment.Memcached, experiment.Proxy); err != nil {
		return err
	}
	memcached := cmp.Or(f.run.paths[experiment.Memcached], os.Getenv("MCMW_MEMCACHED_NEW"), "memcached")
	f.run.paths = map[string]string{
		experiment.Mcmw: f.run.paths[experiment.Mcmw], experiment.Memcached: memcached,
		experiment.Proxy: cmp.Or(f.run.paths[experiment.Proxy], memcached),
	}
	if len(arguments) < 2 {
		return fmt.Errorf("bench takes at least two systems, got %q (see mcmwlab bench --help)", arguments)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	notes := stderr
	if f.run.quiet {
		notes = io.Discard
	}
	var systems []bench.System
	for _, text := range arguments {
		s, err := bench.Find(ctx, text)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(systems, func(other bench.System) bool { return other.Name == s.Name }) {
			return fmt.Errorf("%q: it occurs twice", text)
		}
		systems = append(systems, s)
	}
	for i := range systems {
		if systems[i].Kind == experiment.Proxy {
			if systems[i].Binary, err = bench.ProxyBinary(ctx, f.run.paths[experiment.Proxy]); err != nil {
				return err
			}
		}
		if err := systems[i].Build(ctx, filepath.Join(cache, "mcmw", "bench"), notes); err != nil {
			return err
		}
	}
	return f.measure(ctx, systems, command, stdout, stderr)
}

// measure runs the experiment and writes the result.
func (f *benchFlags) measure(ctx context.Context, systems []bench.System, command []string, stdout,
	stderr io.Writer,
) error {
	e, err := f.experiment(systems)
	if err != nil {
		return err
	}
	dir := f.run.out
	if dir == "" {
		parent, err := os.MkdirTemp("", "mcmwlab-bench")
		if err != nil {
			return err
		}
		defer os.RemoveAll(parent)
		dir = filepath.Join(parent, e.Name)
	}
	m := member{experiment: e, dir: dir, resume: f.run.resume}
	if _, err := completeRuns(ctx, dir); errors.Is(err, record.ErrNoRecord) {
		m.resume = false
	}
	s := &series{members: []member{m}}
	if err := f.run.runMember(ctx, s, command, io.Discard, stderr); err != nil {
		return err
	}
	runs, manifest, err := readRecord(ctx, dir)
	if err != nil {
		return err
	}
	if f.format == benchstatFormat {
		return bench.WriteBenchstat(stdout, runs, manifest)
	}
	result := bench.Judge(runs, e.Factors[0].Levels, e.Factors[1].Levels, f.confidence)
	if err := table.Of(result, result.Table()).Write(stdout, f.format); err != nil {
		return err
	}
	if result.AnySlower() {
		return conditionError{exitFailed, result.Sentence()}
	}
	if f.format == table.Text {
		fmt.Fprintln(stdout, result.Sentence())
	}
	return nil
}

// experiment returns the experiment of the systems.
func (f *benchFlags) experiment(systems []bench.System) (*experiment.Experiment, error) {
	var names []string
	set := []string{
		fmt.Sprintf("factors.case=[%s]", strings.Join(f.loads, ",")), fmt.Sprintf("repetitions=%d", f.rounds),
		fmt.Sprintf("run.duration=%v", f.duration),
	}
	for _, s := range systems {
		names = append(names, s.Name)
		if s.Kind != experiment.Direct {
			set = append(set, fmt.Sprintf("systems.%s={kind: %s, flags: %q}", s.Name, s.Kind,
				strings.Join(s.Flags, " ")))
		}
		if s.Binary != "" {
			set = append(set, fmt.Sprintf("systems.%s.binary=%q", s.Name, s.Binary))
		}
	}
	cpus := f.cpus
	if cpus == "" {
		var allowed unix.CPUSet
		if err := unix.SchedGetaffinity(0, &allowed); err != nil {
			return nil, fmt.Errorf("reading the processors of this process: %w", err)
		}
		first := 0
		for !allowed.IsSet(first) {
			first++
		}
		cpus = strconv.Itoa(first)
	}
	set = append(set, fmt.Sprintf("factors.system=[%s]", strings.Join(names, ",")))
	for _, role := range []string{experiment.ServerCPUs, experiment.MiddlewareCPUs, experiment.LoadCPUs} {
		set = append(set, fmt.Sprintf("constants.%s=%q", role, cpus))
	}
	return experiment.Parse("bench.yaml", experiments.Bench, false, set...)
}
