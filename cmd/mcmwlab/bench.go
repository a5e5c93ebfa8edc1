package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcmw/internal/lab/bench"
)

// benchFlags are the flags of `mcmwlab bench`.
type benchFlags struct {
	variants []string
	quick    bool
	duration time.Duration
	warmUp   time.Duration
	jsonOut  string
	markdown string
	figures  string
	quiet    bool
	options  bench.Options
}

func newBenchCommand(args []string, stderr io.Writer) *cobra.Command {
	var f benchFlags
	o := &f.options
	var names []string
	for _, w := range bench.Workloads() {
		names = append(names, w.Name)
	}
	curves, _ := bench.Curves()
	f.duration, f.warmUp = bench.DefaultDuration, bench.DefaultWarmUp
	cmd := f.command(args, stderr)
	cmd.Use = "bench"
	cmd.Short = "Compare mcmw with twemproxy, or with variants of itself"
	cmd.Long = `Compare mcmw with twemproxy (nutcracker), with the memcached servers themselves, and with variants of mcmw.
Starts three memcached and each system on free ports of 127.0.0.1, measures the systems in turn, and prints
medians and the median ratios to a baseline with their spread. Leave the machine idle otherwise.`
	cmd.Example = `  mcmwlab bench --markdown docs/results/performance.md --figures docs/results/figures --curves connections,offered-load
  mcmwlab bench --quick --only mixed-64,pipelined
  mcmwlab bench --systems mcmw,new --variant new=/tmp/mcmw-new --variant procs1=,--procs=1`
	flags := cmd.Flags()
	flags.StringArrayVar(&f.variants, "variant", nil, "name=path[,flag...]: another mcmw to compare, with flags of its serve; an empty path means the same binary; repeatable")
	flags.StringSliceVar(&o.Systems, "systems", nil, "systems to measure, of direct, twemproxy, mcmw and variants (default all)")
	flags.StringVar(&o.Baseline, "baseline", "", "system that ratios refer to (default twemproxy if it is measured)")
	flags.StringSliceVar(&o.Workloads, "only", nil, "workloads to measure, of "+strings.Join(names, ", ")+" (default all)")
	flags.StringSliceVar(&o.Curves, "curves", nil, "curves to measure, too, of "+strings.Join(curves, ", ")+" (default none)")
	flags.IntVar(&o.Rounds, "rounds", bench.DefaultRounds, "number of rounds")
	return cmd
}

// scaleRounds and scaleTime are the defaults of `mcmwlab scale`.
const (
	scaleRounds = 3
	scaleTime   = time.Second
)

func newScaleCommand(args []string, stderr io.Writer) *cobra.Command {
	var f benchFlags
	o := &f.options
	o.CurvesOnly, o.Systems = true, []string{bench.Mcmw}
	f.duration, f.warmUp = scaleTime, scaleTime/2
	_, curves := bench.Curves()
	cmd := f.command(args, stderr)
	cmd.Use = "scale"
	cmd.Short = "Measure how mcmw's cost grows with connections, values, keys, servers and workers"
	cmd.Long = `Measure how mcmw's throughput, CPU per request and response time change with the number of connections, the size of
the values, the keys of a multi-get, the servers, the workers and their depth, and the processors, and say how
the cost grows. Leave the machine idle otherwise.`
	cmd.Example = `  mcmwlab scale --markdown docs/results/scaling.md --figures docs/results/figures
  mcmwlab scale --only value-size,keys-per-get`
	flags := cmd.Flags()
	flags.StringSliceVar(&o.Curves, "only", curves, "curves to measure")
	flags.IntVar(&o.Rounds, "rounds", scaleRounds, "number of rounds")
	return cmd
}

// command returns a command with the flags that all comparisons have.
func (f *benchFlags) command(args []string, stderr io.Writer) *cobra.Command {
	o := &f.options
	o.Command = strings.Join(append([]string{"mcmwlab"}, args...), " ")
	cmd := &cobra.Command{
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.complete(cmd)
			return f.run(cmd.Context(), cmd.OutOrStdout(), stderr)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Mcmw, "mcmw", "", "path of the mcmw binary (default: mcmw beside this program)")
	flags.Var((*seconds)(&f.duration), "test-time", "length of a measurement: seconds, or a duration")
	flags.Var((*seconds)(&f.warmUp), "warm-up", "warm-up before each measurement: seconds, or a duration")
	flags.BoolVar(&f.quick, "quick", false, "3 rounds of 1 s, unless other flags say otherwise")
	flags.IntVarP(&o.Threads, "threads", "t", 1, "threads of the load generator")
	flags.StringVar(&f.jsonOut, "json-out-file", "", "write the report as JSON to this file, - for standard output")
	flags.StringVar(&f.markdown, "markdown", "", "write the report as a Markdown page to this file")
	flags.StringVar(&f.figures, "figures", "", "write the figures as SVG files to this directory; a page of --markdown shows them")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
	return cmd
}

// complete sets values that depend on other flags.
func (f *benchFlags) complete(cmd *cobra.Command) {
	o := &f.options
	o.Duration, o.WarmUp = f.duration, f.warmUp
	if f.quick {
		if !cmd.Flags().Changed("rounds") {
			o.Rounds = 3
		}
		if !cmd.Flags().Changed("test-time") {
			o.Duration = time.Second
		}
	}
	if o.Mcmw == "" {
		o.Mcmw = besideThis("mcmw")
	}
}

// besideThis returns the path of the program called name in this program's directory.
func besideThis(name string) string {
	if self, err := os.Executable(); err == nil {
		return filepath.Join(filepath.Dir(self), name)
	}
	return name
}

// run runs the benchmark and writes its report, even a partial one after a failure or an interrupt.
func (f *benchFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	o := f.options
	if o.Rounds < 1 {
		return usageError{fmt.Errorf("--rounds %d: expected at least 1", o.Rounds)}
	}
	for _, text := range f.variants {
		v, err := bench.ParseVariant(text, o.Mcmw)
		if err != nil {
			return usageError{err}
		}
		o.Variants = append(o.Variants, v)
	}
	p := newProgress(stderr)
	if !f.quiet {
		o.Progress = func(step bench.Progress) { showStep(p, step) }
	}
	b, err := bench.New(o)
	if err != nil {
		return usageError{err}
	}
	report, err := b.Run(ctx)
	p.clear()
	if report == nil {
		return err
	}
	if writeErr := f.write(report, stdout); writeErr != nil && err == nil {
		err = writeErr
	}
	return err
}

// write writes the report to its outputs. The page of results is only written for complete benchmarks.
func (f *benchFlags) write(report *bench.Report, stdout io.Writer) error {
	if f.jsonOut != "-" {
		if err := report.WriteText(stdout); err != nil {
			return err
		}
	}
	if f.jsonOut != "" {
		if err := writeJSON(f.jsonOut, stdout, report); err != nil {
			return err
		}
	}
	if report.Problem != "" {
		return nil
	}
	if f.figures != "" {
		if err := saveFigures(f.figures, report.Figures()); err != nil {
			return err
		}
	}
	if f.markdown == "" {
		return nil
	}
	figures := ""
	if f.figures != "" {
		var err error
		if figures, err = filepath.Rel(filepath.Dir(f.markdown), f.figures); err != nil {
			return fmt.Errorf("--figures %s: %w", f.figures, err)
		}
	}
	var page bytes.Buffer
	if err := report.WriteMarkdown(&page, figures); err != nil {
		return err
	}
	return os.WriteFile(f.markdown, page.Bytes(), 0o644)
}

// showStep shows the result of a measurement, and the next one: on a terminal as a line that changes.
func showStep(p *progress, step bench.Progress) {
	left := fmt.Sprintf("about %v left", step.Left.Round(time.Second))
	if m := step.Last; m != nil {
		p.clear()
		line := fmt.Sprintf("%3d of %d: round %d, %-10s %-10s %7.0f ops/s, p99 %.3f ms", step.Done, step.All, m.Round, m.Workload,
			m.System, m.OpsPerSec, m.Latency.P99.Seconds()*1e3)
		if m.PeakMemory > 0 {
			line += fmt.Sprintf(", %.2f us CPU per request", float64(m.CPUPerRequest)/1e3)
		}
		if !p.terminal {
			line += "; " + left
		}
		fmt.Fprintln(p.out, line)
	}
	if step.Next != "" && (p.terminal || step.Last == nil) {
		p.show(step.Next + "; " + left)
	}
}
