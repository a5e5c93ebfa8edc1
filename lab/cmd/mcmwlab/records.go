package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcmw/internal/spell"
	"mcmw/lab/check"
	"mcmw/lab/experiment"
	"mcmw/lab/frame"
	"mcmw/lab/record"
	"mcmw/lab/table"
)

func newShowCommand() *cobra.Command {
	var again, every bool
	var export, out string
	cmd := &cobra.Command{
		Use:   "show RECORD",
		Short: "Show the runs of a record with their results and warnings, or write its tables as files",
		Long: `Show the measurements of an experiment: every run, every point with confidence intervals over its repetitions, and the
warnings of the checks (docs/checks.md). Only the first warnings of each kind are shown.

With --export, write every table of the record to a file TABLE.FORMAT instead (docs/record.md describes the tables), or with --export text the
record as text: the manifest and a line for each run and for each window of the clients, which the other commands read as a record. Existing
files are never replaced.`,
		Example: `  mcmwlab show results/baseline
  mcmwlab show --check results/baseline
  mcmwlab show results/baseline --export csv --out /tmp/baseline`,
		Args: oneRecord,
	}
	flags := cmd.Flags()
	flags.BoolVar(&again, "check", false, "repeat the checks first, and replace the warnings in the record")
	flags.BoolVar(&every, "all-warnings", false, "show all warnings of all runs")
	flags.StringVar(&export, "export", "", "write the record as files: "+strings.Join(record.Formats, ", "))
	flags.StringVarP(&out, "out", "o", "", "with --export: directory to write to (default RECORD/export)")
	return answers(cmd, false, func(cmd *cobra.Command, args []string) (p table.Page, err error) {
		if export != "" {
			err = oneOfEach("export", []string{export}, record.Formats)
		} else if out != "" {
			err = usageError{errors.New("--out: expected with --export")}
		}
		if err != nil {
			return p, err
		}
		r, err := openRecord(cmd.Context(), args[0])
		if err != nil {
			return p, err
		}
		defer r.Close()
		if again {
			if _, err := check.Record(cmd.Context(), r); err != nil {
				return p, err
			}
		}
		switch {
		case export == "":
			return recordPage(cmd.Context(), r, every)
		case out == "" && !record.Is(args[0]):
			return p, usageError{fmt.Errorf("%s is a file; expected --out with the directory for the tables", args[0])}
		}
		out = cmp.Or(out, filepath.Join(args[0], "export"))
		files, err := r.Export(cmd.Context(), out, export)
		for _, file := range files {
			fmt.Fprintln(cmd.OutOrStdout(), file)
		}
		return p, err
	})
}

// recordPage shows a record, with every warning or only the first ones of each kind.
func recordPage(ctx context.Context, r *record.Record, every bool) (p table.Page, err error) {
	runs, err := r.Runs(ctx)
	if err != nil {
		return p, err
	}
	warnings, err := r.Warnings(ctx)
	if err != nil {
		return p, err
	}
	unchecked, err := check.RecordUnchecked(r, runs)
	if err != nil {
		return p, err
	}
	var b strings.Builder
	add := func() {
		p.Blocks = append(p.Blocks, table.Paragraph(strings.TrimSpace(b.String())))
		b.Reset()
	}
	describe(&b, r.Manifest(), runs)
	add()
	if len(runs) > 0 {
		source := resultSource(runs)
		p.Blocks = append(p.Blocks, runsTable(runs, source), pointsTable(runs, source))
	}
	writeWarnings(&b, runs, warnings, every, len(unchecked) == 0)
	if len(unchecked) > 0 {
		fmt.Fprintf(&b, "Not checked for lack of measurements: %s.\n", strings.Join(unchecked, ", "))
	}
	add()
	return p, nil
}

// describe writes a description of the record.
func describe(b *strings.Builder, m record.Manifest, runs []record.Run) {
	fmt.Fprintln(b, strings.TrimSuffix(m.Name+": "+m.Title, ": "))
	if m.Imported != "" {
		fmt.Fprintf(b, "imported from %s\n", m.Imported)
	}
	made := m.Created.UTC().Format("2006-01-02 15:04 UTC")
	if m.Testbed != "" {
		made += " on testbed " + m.Testbed
	}
	if m.Host.CPU != "" {
		made += fmt.Sprintf(", %s, %d cores", m.Host.CPU, m.Host.Cores)
	}
	fmt.Fprintln(b, made)
	writeMachines(b, m)
	constant := record.Constant(runs)
	if len(constant) > 0 {
		fmt.Fprintln(b, record.Label(constant, slices.Sorted(maps.Keys(constant))))
	}
	complete := 0
	for _, run := range runs {
		if run.State == record.Complete {
			complete++
		}
	}
	lost := len(record.Lost(runs))
	fmt.Fprintf(b, "%s, %d failed", count(complete+lost, "run"), lost)
	if again := len(runs) - complete - lost; again > 0 {
		fmt.Fprintf(b, ", %d made again", again)
	}
	fmt.Fprintln(b)
}

// writeMachines describes the testbed's machines.
func writeMachines(b *strings.Builder, m record.Manifest) {
	for _, machine := range m.Machines {
		limits := cmp.Or(experiment.Machine{
			CPUs: machine.CPUs, Memory: machine.Memory, Upload: machine.Upload,
			Download: machine.Download,
		}.Limits(), "no limits")
		if machine.Preset != "" {
			limits = machine.Preset + ": " + limits
		}
		if machine.Delay > 0 {
			limits += fmt.Sprintf(", delay %v by %s", time.Duration(machine.Delay*float64(time.Second)),
				machine.DelayedBy)
		}
		fmt.Fprintf(b, "%s: %s\n", machine.Name, limits)
	}
	if m.Dilation > 1 {
		fmt.Fprintf(b, "dilated: one second of these machines is %g s of real time\n", m.Dilation)
	}
	writeNotes(b, m.Shortfalls)
}

// confidence is the confidence level of the intervals shown.
const confidence = 0.95

// resultSource returns the source of the results to show: the clients, or the middlewares if only these have results.
func resultSource(runs []record.Run) string {
	measured := func(source string) bool {
		return slices.ContainsFunc(runs, func(run record.Run) bool {
			_, ok := run.Value(source, "throughput")
			return ok
		})
	}
	if !measured(record.SourceClient) && measured(record.SourceMiddleware) {
		return record.SourceMiddleware
	}
	return record.SourceClient
}

// shownMetric is a metric with its column.
type shownMetric struct {
	title, name string
	format      func(float64) string
}

var shownMetrics = []shownMetric{
	{"ops/s", "throughput", spell.Count},
	{"mean", "response_time_mean", seconds3},
	{"p50", "response_time_p50", seconds3},
	{"p99", "response_time_p99", seconds3},
	{"p99.9", "response_time_p999", seconds3},
	{"misses", "misses", spell.Count},
	{"errors", "errors", spell.Count},
}

// knownMetrics returns the shown metrics that at least one run has.
func knownMetrics(runs []record.Run, source string) []shownMetric {
	return slices.DeleteFunc(slices.Clone(shownMetrics), func(m shownMetric) bool {
		return !slices.ContainsFunc(runs, func(run record.Run) bool { _, ok := run.Value(source, m.name); return ok })
	})
}

// seconds3 formats seconds with three digits.
func seconds3(s float64) string { return spell.Time(s * 1e9) }

// recordTable returns a table with columns for the varying factors and the metrics, and for others before and between
// them.
func recordTable(first, varying []string, others []string, metrics []shownMetric) table.Table {
	t := table.Table{Columns: slices.Concat(first, varying, others)}
	for _, m := range metrics {
		t.Columns = append(t.Columns, m.title)
	}
	t.Columns = append(t.Columns, "")
	t.Left = []int{len(t.Columns) - 1}
	return t
}

func levels(factors map[string]string, names []string) (levels []string) {
	for _, name := range names {
		levels = append(levels, factors[name])
	}
	return levels
}

func runsTable(runs []record.Run, source string) table.Table {
	varying, metrics := record.Varying(runs), knownMetrics(runs, source)
	t := recordTable([]string{"run"}, varying, []string{"repetition", "seconds"}, metrics)
	t.Caption = fmt.Sprintf("Runs, as measured by the %s (!: warnings)", source)
	for _, run := range runs {
		row := slices.Concat([]string{fmt.Sprint(run.ID)}, levels(run.Factors, varying),
			[]string{fmt.Sprint(run.Repetition + 1), fmt.Sprintf("%.4g", run.Seconds)})
		for _, m := range metrics {
			cell := ""
			if x, ok := run.Value(source, m.name); ok {
				cell = m.format(x)
			}
			row = append(row, cell)
		}
		mark := ""
		if run.State == record.Failed {
			mark = "failed"
		} else if len(run.Warnings) > 0 {
			mark = "!"
		}
		t.Rows = append(t.Rows, append(row, mark))
	}
	return t
}

func pointsTable(runs []record.Run, source string) table.Table {
	varying, metrics := record.Varying(runs), knownMetrics(runs, source)
	t := recordTable(nil, varying, []string{"runs"}, metrics)
	t.Caption = fmt.Sprintf("Points: means over complete runs, with %.0f %% confidence intervals", 100*confidence)
	for _, point := range frame.Of(runs, confidence).Points {
		row := append(levels(point.Levels, varying), fmt.Sprint(len(point.Runs)))
		for _, m := range metrics {
			cell := ""
			if e := point.Estimate(source, m.name); e.OK() {
				cell = e.Format(m.format(e.Mean), " ±%.1f %%")
			}
			row = append(row, cell)
		}
		mark := ""
		if slices.ContainsFunc(point.Runs, func(run record.Run) bool { return len(run.Warnings) > 0 }) {
			mark = "!"
		}
		t.Rows = append(t.Rows, append(row, mark))
	}
	return t
}

// shownWarnings is the number of warnings of each code that are shown without --all-warnings.
const shownWarnings = 3

// writeWarnings writes the warnings of the set and of its runs: every warning, or the first ones of each code and the
// numbers of the other runs. allChecked: no check lacked its measurements.
func writeWarnings(b *strings.Builder, runs []record.Run, set []record.Warning, every, allChecked bool) {
	var lines, codes []string
	more := map[string][]string{} // runs with warnings that are not shown, by code
	for _, w := range set {
		lines = append(lines, fmt.Sprintf("set: %s: %s", w.Code, w.Message))
	}
	shown := map[string]int{}
	for _, run := range runs {
		warnings := run.Warnings
		if run.State == record.Failed && len(warnings) == 0 {
			warnings = []record.Warning{{Code: check.RunFailed, Message: run.Error}}
		}
		for _, w := range warnings {
			if shown[w.Code]++; every || shown[w.Code] <= shownWarnings {
				lines = append(lines, fmt.Sprintf("run %d: %s: %s", run.ID, w.Code, w.Message))
				continue
			}
			if more[w.Code] == nil {
				codes = append(codes, w.Code)
			}
			more[w.Code] = append(more[w.Code], strconv.FormatInt(run.ID, 10))
		}
	}
	if len(lines) == 0 {
		text := "No warnings."
		if !allChecked {
			text = "No warnings of the checks that could be made."
		}
		fmt.Fprintf(b, "\n%s\n", text)
		return
	}
	fmt.Fprint(b, "\nWarnings:\n")
	for _, code := range codes {
		lines = append(lines, fmt.Sprintf("%s: %d more, in the runs %s; --all-warnings shows them", code,
			len(more[code]), strings.Join(more[code], ", ")))
	}
	for _, line := range lines {
		fmt.Fprintf(b, "  %s\n", line)
	}
}
