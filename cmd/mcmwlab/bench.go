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
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"mcmw/experiments"
	"mcmw/internal/lab/experiment"
	"mcmw/internal/lab/record"
)

// benchFlags are the flags of `mcmwlab bench` and `mcmwlab scale`: they change experiments of this repository, which are then run as any other.
type benchFlags struct {
	run      runFlags
	variants []string
	systems  []string
	baseline string
	only     []string
	curves   []string
	rounds   int
	threads  int
	duration time.Duration
	warmUp   time.Duration
	json     bool
}

// benchMetrics are what `mcmwlab bench` compares.
var benchMetrics = []string{
	"throughput", "middleware.cpu_per_request", "middleware.calls_per_request", "response_time_p50", "response_time_p99", "servers.cpu_per_request", "cpu_per_request",
	"middleware.memory_peak",
}

func newBenchCommand(args []string, stderr io.Writer) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Compare mcmw with twemproxy, or with variants of itself",
		Long: `Compare mcmw with twemproxy (nutcracker), with the memcached servers themselves, with memcached's proxy, and with variants of mcmw.

Runs experiments/performance/workloads.yaml, changed as the flags say, on this machine: the systems take turns within seconds of each other,
each as a fresh process. Prints the median ratios to a baseline, with the least and the greatest, and medians. Leave the machine
idle otherwise. With --out-dir the records stay, for show, report, compare and more rounds (mcmwlab run --resume).`,
		Example: `  mcmwlab bench --quick --only mixed-64,pipelined
  mcmwlab bench --systems mcmw,new --variant new=/tmp/mcmw-new --variant procs1=,--procs=1
  mcmwlab bench --curves connections,offered-load --out-dir results/performance`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			files := append([]string{"workloads"}, f.curves...)
			return f.all(cmd, "performance", files, append([]string{"mcmwlab"}, args...), stderr)
		},
	}
	f.common(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.variants, "variant", nil, "name=path[,flag...]: another mcmw to compare, with flags of its serve; an empty path means the same binary; proxy=path is a memcached with its proxy; repeatable")
	flags.StringSliceVar(&f.systems, "systems", nil, "systems to measure, of direct, twemproxy, proxy, mcmw and variants (default direct, twemproxy, mcmw and all variants)")
	flags.StringVar(&f.baseline, "baseline", "", "system that ratios refer to (default twemproxy if it is measured, else the first)")
	flags.StringSliceVar(&f.only, "only", nil, "workloads to measure (default all, which mcmwlab check experiments/performance/workloads.yaml lists)")
	flags.StringSliceVar(&f.curves, "curves", nil, "curves to measure, too, of connections, offered-load (default none)")
	return cmd
}

func newScaleCommand(args []string, stderr io.Writer) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "scale",
		Short: "Measure how mcmw's cost grows with connections, values, keys, servers and workers",
		Long: `Run the experiments in experiments/scaling, on this machine, and say of each how the processor time by requests grows. It is the same as
mcmwlab run experiments/scaling/*.yaml and mcmwlab report RECORD --table growth.`,
		Example: `  mcmwlab scale --only value-size,keys-per-get`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.all(cmd, "scaling", f.curves, append([]string{"mcmwlab"}, args...), stderr)
		},
	}
	f.common(cmd)
	all := []string{"many-connections", "value-size", "keys-per-get", "servers", "workers", "procs"}
	cmd.Flags().StringSliceVar(&f.curves, "only", all, "curves to measure")
	return cmd
}

// common adds the flags that both commands have.
func (f *benchFlags) common(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.run.mcmw, "mcmw", "", "path of the mcmw binary (default: mcmw beside this program)")
	flags.StringVar(&f.run.outDir, "out-dir", "", "directory for the records and the experiments as they were changed (default: none is kept)")
	flags.IntVar(&f.rounds, "rounds", 0, "number of rounds (default: what the files say)")
	flags.Var((*seconds)(&f.duration), "test-time", "length of a measurement: seconds, or a duration (default: what the files say)")
	flags.Var((*seconds)(&f.warmUp), "warm-up", "warm-up before each measurement (default: what the files say)")
	flags.BoolVar(&f.run.quickly, "quick", false, "the files' quick profiles: 3 rounds of 1 s, unless other flags say otherwise")
	flags.IntVarP(&f.threads, "threads", "t", 0, "threads of the load generator, of which the number of connections must be a multiple (default 1)")
	flags.BoolVar(&f.json, "json", false, "print the comparisons as JSON")
	flags.BoolVarP(&f.run.quiet, "quiet", "q", false, "show no progress")
	f.run.memcached, f.run.redis = "memcached", "redis-server"
}

// all changes the experiments of a directory, runs them, and prints what they came to, also when they were interrupted.
func (f *benchFlags) all(cmd *cobra.Command, kind string, names, command []string, stderr io.Writer) (err error) {
	if cmd.Flags().Changed("rounds") && f.rounds < 1 {
		return usageError{fmt.Errorf("--rounds %d: expected at least 1", f.rounds)}
	}
	kept := f.run.outDir != ""
	if !kept {
		if f.run.outDir, err = os.MkdirTemp("", "mcmwlab-bench-"); err != nil {
			return err
		}
		defer os.RemoveAll(f.run.outDir)
	}
	var files []string
	for _, name := range names {
		text, err := experiments.Files.ReadFile(kind + "/" + name + ".yaml")
		if err != nil {
			return usageError{fmt.Errorf("curve %q: expected one of those in experiments/%s", name, kind)}
		}
		if text, err = f.change(text, kind == "performance"); err != nil {
			return usageError{err}
		}
		file := filepath.Join(f.run.outDir, kind+"-"+name+".yaml")
		if _, err := experiment.Parse(filepath.Base(file), text, f.run.quickly); err != nil {
			return usageError{err}
		}
		if err := errors.Join(os.MkdirAll(f.run.outDir, 0o755), os.WriteFile(file, text, 0o644)); err != nil {
			return err
		}
		files = append(files, file)
	}
	if kept {
		command = append([]string{"mcmwlab", "run", "--out-dir", f.run.outDir}, files...)
		if f.run.quickly {
			command = append(command, "--quick")
		}
	}
	err = f.run.run(cmd.Context(), files, command, io.Discard, stderr)
	if cmd.Context().Err() != nil && !kept {
		err = context.Cause(cmd.Context()) // there is nothing to go on with
	}
	for _, name := range names {
		dir := filepath.Join(f.run.outDir, kind+"-"+name)
		if !record.Is(dir) {
			continue // err says why
		}
		for _, words := range f.readers(kind, dir) {
			err = errors.Join(err, run(context.WithoutCancel(cmd.Context()), words, cmd.OutOrStdout(), stderr))
		}
	}
	return err
}

// readers are the command lines that say what a record came to: how systems compare, or how the cost grows.
func (f *benchFlags) readers(kind, dir string) [][]string {
	if kind == "scaling" {
		return [][]string{{"report", dir, "--table", "growth", "--table", "results"}}
	}
	if len(f.systems) < 2 {
		return [][]string{{"show", dir}}
	}
	// Variants are of mcmw: they are compared with it, too, where something else is the baseline.
	groups := [][]string{f.systems}
	others := slices.DeleteFunc(slices.Clone(f.systems), func(name string) bool {
		return name == f.baseline || slices.Contains([]string{experiment.Direct, experiment.Twemproxy, experiment.Proxy, experiment.Mcmw}, name)
	})
	if f.baseline != experiment.Mcmw && slices.Contains(f.systems, experiment.Mcmw) && len(others) > 0 {
		groups = append(groups, append([]string{experiment.Mcmw}, others...))
	}
	form := "--ratios"
	if f.json {
		form = "--json"
	}
	var lines [][]string
	for _, group := range groups {
		lines = append(lines, []string{"compare", dir, "--by", experiment.System + "=" + strings.Join(group, ","), "--metrics", strings.Join(benchMetrics, ","), form})
	}
	return lines
}

// change returns an experiment as the flags want it; systems says whether it compares systems.
func (f *benchFlags) change(text []byte, systems bool) ([]byte, error) {
	var file map[string]any
	if err := yaml.Unmarshal(text, &file); err != nil {
		return nil, err
	}
	within := func(key string) map[string]any {
		if file[key] == nil {
			file[key] = map[string]any{}
		}
		return file[key].(map[string]any)
	}
	quick := within("quick")
	if f.rounds > 0 {
		file["repetitions"], quick["repetitions"] = f.rounds, f.rounds
	}
	run := within("run")
	short, _ := quick["run"].(map[string]any)
	if f.duration > 0 {
		run["duration"] = f.duration.String()
		delete(short, "duration")
	}
	if f.warmUp > 0 {
		run["warm_up"] = f.warmUp.String()
		delete(short, "warm_up")
	}
	if f.threads > 0 {
		within("constants")["load_threads"] = f.threads
	}
	if !systems {
		return yaml.Marshal(file)
	}
	names := []string{experiment.Direct, experiment.Twemproxy, experiment.Mcmw}
	described := map[string]any{}
	for _, variant := range f.variants {
		name, rest, ok := strings.Cut(variant, "=")
		if !ok || name == "" || rest == "" {
			return nil, fmt.Errorf("variant %q: expected name=path[,flag...], or name=,flag... for the same binary", variant)
		}
		if slices.Contains(names, name) {
			return nil, fmt.Errorf("variant %q: there is already a system of that name", name)
		}
		path, flags, _ := strings.Cut(rest, ",")
		of := map[string]any{"flags": strings.ReplaceAll(flags, ",", " ")}
		if path != "" {
			of["binary"] = path
		}
		described[name], names = of, append(names, name)
	}
	if len(f.systems) > 0 {
		names = f.systems
	}
	if len(described) > 0 {
		file["systems"] = described
	}
	// The baseline is first, since the first of a comparison is what the others are compared with.
	f.baseline = cmp.Or(f.baseline, names[0])
	if f.baseline == names[0] && slices.Contains(names, experiment.Twemproxy) {
		f.baseline = experiment.Twemproxy
	}
	if !slices.Contains(names, f.baseline) {
		return nil, fmt.Errorf("baseline %q: expected one of %s", f.baseline, strings.Join(names, ", "))
	}
	f.systems = append([]string{f.baseline}, slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == f.baseline })...)
	factors := within("factors")
	factors[experiment.System] = f.systems
	if _, ok := factors[experiment.Case]; ok && len(f.only) > 0 {
		factors[experiment.Case] = f.only
	}
	return yaml.Marshal(file)
}

// besideThis returns the path of the program of a name in the directory of this one.
func besideThis(name string) string {
	if self, err := os.Executable(); err == nil {
		return filepath.Join(filepath.Dir(self), name)
	}
	return name
}
