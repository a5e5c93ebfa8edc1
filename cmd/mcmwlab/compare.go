package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mcmw/internal/lab/compare"
	"mcmw/internal/lab/record"
	"mcmw/internal/lab/table"
)

type compareFlags struct {
	by      string
	failIf  []string
	json    bool
	ratios  bool
	format  string
	options compare.Options
}

func newCompareCommand() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare A B...",
		Short: "Compare two records, or two levels of a factor",
		Long: `Compare two records: the points that both have, matched by the factors that vary, with confidence intervals over
the repetitions, the change of the means with its interval (Fieller), the effect size (Hedges' g), and the probabilities of so large a
difference by chance (Welch's test of means, Mann and Whitney's test of ranks).

With --by, compare two levels of a factor of one record: --by server, or --by servers=1,4 where it has more than two. With several, such as
--by system=twemproxy,mcmw,before, each is compared with the first. --ratios prints instead the median ratios of the runs of one repetition, which
an experiment in the order "paired" makes within seconds of each other, and the medians.

--fail-if takes conditions for scripts: METRIC, an operator of < <= > >=, and a number. With % it applies to the change from A
to B, and only a significant change meets it (Welch's test, with Holm's adjustment for all changes tested: equal records fail with a probability of at
most 1 - --confidence). Without, it applies to B's mean, in the metric's unit (times may have s, ms or us). The more points there are, the more
repetitions are needed for a decision. The exit code is

  0  no condition is met
  1  the records can't be compared, or something else failed
  2  the command line is wrong
  3  a condition is met at one point at least
  4  none is met, but one is undecided: too few repetitions, or a metric or point that one record doesn't have`,
		Example: `  mcmwlab compare results/before results/after
  mcmwlab compare results/connections --by server
  mcmwlab compare results/bench --by system=before,mcmw --ratios --metrics throughput,middleware.cpu_per_request
  mcmwlab compare results/before results/after --fail-if 'throughput < -5%' --fail-if 'response_time_p99 > 10%' --fail-if 'errors > 0'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.by != "" {
				return oneRecord(cmd, args)
			}
			return arguments(2, -1, "the directories of two records or more")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.by, "by", "", "FACTOR, or FACTOR=A,B: compare two levels of one record instead of two records")
	flags.StringArrayVar(&f.failIf, "fail-if", nil, "a condition such as 'throughput < -5%'; repeatable")
	flags.StringSliceVar(&f.options.Metrics, "metrics", nil, "metrics to compare, besides those of conditions; SOURCE.METRIC where it is another's (default "+
		strings.Join(compare.DefaultMetrics, ", ")+"; with --ratios "+strings.Join(compare.DefaultRatios, ", ")+")")
	flags.StringVar(&f.options.Source, "source", record.SourceClient, "source of the metrics: client, middleware, server:NAME, ...")
	flags.Float64Var(&f.options.Confidence, "confidence", compare.DefaultConfidence, "confidence of the intervals")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	flags.BoolVar(&f.ratios, "ratios", false, "with --by: print the median ratios of paired runs, and medians")
	flags.StringVar(&f.format, "format", string(table.Text), "with --ratios: text, markdown, latex or html")
	return cmd
}

// run compares, writes the comparison, and checks the conditions.
func (f *compareFlags) run(ctx context.Context, records []string, stdout io.Writer) error {
	if c := f.options.Confidence; !(c > 0 && c < 1) {
		return usageError{fmt.Errorf("--confidence %v: expected more than 0 and less than 1, such as 0.95", c)}
	}
	if f.ratios && f.by == "" {
		return usageError{errors.New("--ratios: expected together with --by: runs of different records aren't paired")}
	}
	f.options.Paired = f.by != ""
	if len(f.options.Metrics) == 0 {
		if f.options.Metrics = compare.DefaultMetrics; f.ratios {
			f.options.Metrics = compare.DefaultRatios
		}
	}
	var conditions []compare.Condition
	for _, text := range f.failIf {
		condition, err := compare.ParseCondition(text)
		if err != nil {
			return usageError{fmt.Errorf("--fail-if %w", err)}
		}
		conditions = append(conditions, condition)
	}
	sides, err := f.sides(ctx, records)
	if err != nil {
		return err
	}
	var all []record.Run
	for _, one := range sides {
		all = append(all, one.runs...)
	}
	if err := f.checkNames(all); err != nil {
		return usageError{err}
	}
	o := f.options
	o.Metrics = withConditions(o.Metrics, conditions)
	var comparisons []*compare.Comparison
	for _, other := range sides[1:] {
		comparisons = append(comparisons, compare.New(sides[0].runs, other.runs, o))
	}
	if err := f.write(stdout, sides, comparisons); err != nil {
		return err
	}
	for i, c := range comparisons {
		if len(c.Points) == 0 {
			return fmt.Errorf("%s and %s have no point in common: expected runs with the same levels of the factors that vary", sides[0].name, sides[i+1].name)
		}
	}
	return judge(sides, comparisons, conditions)
}

// write writes the comparisons of the first side with each of the others; several are a list in JSON.
func (f *compareFlags) write(stdout io.Writer, sides []side, comparisons []*compare.Comparison) error {
	if f.json {
		if len(comparisons) == 1 {
			return writeJSON("-", stdout, comparisons[0])
		}
		return writeJSON("-", stdout, comparisons)
	}
	if f.ratios {
		format, err := table.ParseFormat(f.format)
		if err != nil {
			return usageError{fmt.Errorf("--format: %w", err)}
		}
		var names []string
		for _, s := range sides {
			names = append(names, s.level)
		}
		return compare.WriteRatios(stdout, format, comparisons, names)
	}
	for i, c := range comparisons {
		if i > 0 {
			fmt.Fprintln(stdout)
		}
		if err := c.WriteText(stdout, sides[0].name, sides[i+1].name); err != nil {
			return err
		}
	}
	return nil
}

type side struct {
	name  string
	level string // of the factor of --by
	runs  []record.Run
}

// sides returns the records, or the runs with each of two levels in one record.
func (f *compareFlags) sides(ctx context.Context, records []string) (sides []side, err error) {
	for _, name := range records {
		runs, err := readRuns(ctx, name)
		if err != nil {
			return nil, err
		}
		sides = append(sides, side{name: name, runs: runs})
	}
	if f.by != "" {
		return f.levels(sides[0])
	}
	return sides, nil
}

// levels returns the runs of a record with each of the levels that --by means.
func (f *compareFlags) levels(all side) (sides []side, err error) {
	factor, chosen, some := strings.Cut(f.by, "=")
	there := map[string]bool{}
	for _, run := range all.runs {
		if level, ok := run.Factors[factor]; ok {
			there[level] = true
		}
	}
	has := slices.SortedFunc(maps.Keys(there), record.CompareLevels)
	if len(has) < 2 {
		return nil, usageError{fmt.Errorf("--by %s: expected a factor that varies: %s", f.by, strings.Join(record.Varying(all.runs), ", "))}
	}
	levels := has
	if some {
		levels = strings.Split(chosen, ",")
	}
	if len(levels) < 2 || !some && len(levels) > 2 || slices.ContainsFunc(levels, func(level string) bool { return !there[level] }) {
		return nil, usageError{fmt.Errorf("--by %s: expected %s=A,B with some of its levels %s", f.by, factor, strings.Join(has, ", "))}
	}
	for _, level := range levels {
		runs := slices.DeleteFunc(slices.Clone(all.runs), func(r record.Run) bool { return r.Factors[factor] != level })
		sides = append(sides, side{all.name + " with " + factor + "=" + level, level, runs})
	}
	return sides, nil
}

// checkNames refuses a source that no run has, and a metric that neither the lab nor a run knows.
func (f *compareFlags) checkNames(runs []record.Run) error {
	sources, metrics := map[string]bool{}, map[string]bool{}
	for _, run := range runs {
		for _, v := range run.Results {
			sources[v.Source] = true
			metrics[v.Metric] = true
		}
	}
	if !sources[f.options.Source] && len(sources) > 0 {
		return fmt.Errorf("--source %q: the records have %s", f.options.Source, strings.Join(slices.Sorted(maps.Keys(sources)), ", "))
	}
	for _, name := range f.options.Metrics {
		name = name[strings.LastIndexByte(name, '.')+1:]
		if _, known := record.Describe(name); !known && !metrics[name] {
			return fmt.Errorf("--metrics %q: the records have %s", name, strings.Join(slices.Sorted(maps.Keys(metrics)), ", "))
		}
	}
	return nil
}

// withConditions returns the metrics, and those of conditions that are not among them.
func withConditions(metrics []string, conditions []compare.Condition) []string {
	all := make([]string, 0, len(metrics)+len(conditions))
	seen := map[string]bool{}
	add := func(name string) {
		if !seen[name] {
			all = append(all, name)
		}
		seen[name] = true
	}
	for _, name := range metrics {
		add(name)
	}
	for _, c := range conditions {
		add(c.Metric)
	}
	return all
}

func readRuns(ctx context.Context, dir string) ([]record.Run, error) {
	runs, _, err := readRecord(ctx, dir)
	return runs, err
}

// conditionError lists the conditions that are met or undecided.
type conditionError struct {
	code int
	text string
}

func (e conditionError) Error() string { return e.text }

// judge returns an error if a condition is met or undecided.
func judge(sides []side, comparisons []*compare.Comparison, conditions []compare.Condition) error {
	var met, open []string
	for i, c := range comparisons {
		with := ""
		if len(comparisons) > 1 {
			with = sides[i+1].name + ": "
		}
		for j, v := range c.Judge(conditions, len(comparisons)) {
			for _, where := range v.Met {
				met = append(met, "met: "+conditions[j].Text+": "+with+where)
			}
			for _, where := range v.Open {
				open = append(open, "undecided: "+conditions[j].Text+": "+with+where)
			}
		}
	}
	switch {
	case met != nil:
		return conditionError{exitMet, strings.Join(append(met, open...), "\n  ")}
	case open != nil:
		return conditionError{exitOpen, strings.Join(open, "\n  ")}
	}
	return nil
}
