package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mcmw/internal/lab/compare"
	"mcmw/internal/lab/record"
)

// compareFlags are the flags of `mcmwlab compare`.
type compareFlags struct {
	by      string
	failIf  []string
	json    bool
	options compare.Options
}

func newCompareCommand() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two records, or two levels of a factor",
		Long: `Compare two records: the points that both have, matched by the factors that vary, with confidence intervals over
the repetitions, the change of the means with its interval (Fieller), the effect size (Hedges' g), and the probabilities of so large a
difference by chance (Welch's test of means, Mann and Whitney's test of ranks).

With --by, compare two levels of a factor of one record: --by server, or --by servers=1,4 where it has more than two.

--fail-if takes conditions for scripts: METRIC, an operator of < <= > >=, and a number. With % it is about the change from A
to B, and met only by a change that is told from chance, with all changes that conditions ask of taken together (Welch's test, adjusted by
Holm: equal records fail with a probability of 1 - --confidence at most); without, about B's mean, in the metric's unit (times may have s, ms or
us). The more points, the more repetitions it takes to tell. The exit code is

  0  no condition is met
  1  the records can't be compared, or something else failed
  2  the command line is wrong
  3  a condition is met at one point at least
  4  none is met, but of one it can't be told: too few repetitions, a metric or a point that one record doesn't have`,
		Example: `  mcmwlab compare results/before results/after
  mcmwlab compare results/connections --by server
  mcmwlab compare results/before results/after --fail-if 'throughput < -5%' --fail-if 'response_time_p99 > 10%' --fail-if 'errors > 0'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.by != "" {
				return oneRecord(cmd, args)
			}
			return exactRecords(2)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.by, "by", "", "FACTOR, or FACTOR=A,B: compare two levels of one record instead of two records")
	flags.StringArrayVar(&f.failIf, "fail-if", nil, "a condition such as 'throughput < -5%'; repeatable")
	flags.StringSliceVar(&f.options.Metrics, "metrics", compare.DefaultMetrics, "metrics to compare, besides those of conditions")
	flags.StringVar(&f.options.Source, "source", record.SourceClient, "source of the metrics: client, middleware, server:NAME, ...")
	flags.Float64Var(&f.options.Confidence, "confidence", compare.DefaultConfidence, "confidence of the intervals")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	return cmd
}

// run compares, writes the comparison, and judges it.
func (f *compareFlags) run(ctx context.Context, records []string, stdout io.Writer) error {
	if c := f.options.Confidence; !(c > 0 && c < 1) {
		return usageError{fmt.Errorf("--confidence %v: expected more than 0 and less than 1, such as 0.95", c)}
	}
	var conditions []compare.Condition
	for _, text := range f.failIf {
		condition, err := compare.ParseCondition(text)
		if err != nil {
			return usageError{fmt.Errorf("--fail-if %w", err)}
		}
		conditions = append(conditions, condition)
	}
	a, b, err := f.sides(ctx, records)
	if err != nil {
		return err
	}
	if err := f.checkNames(slices.Concat(a.runs, b.runs)); err != nil {
		return usageError{err}
	}
	o := f.options
	o.Metrics = withConditions(o.Metrics, conditions)
	c := compare.New(a.runs, b.runs, o)
	if f.json {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(c)
	} else {
		err = c.WriteText(stdout, a.name, b.name)
	}
	if err != nil {
		return err
	}
	if len(c.Points) == 0 {
		return fmt.Errorf("%s and %s have no point in common: expected runs with the same levels of the factors that vary", a.name, b.name)
	}
	return judge(c, conditions)
}

// side is what stands on one side of a comparison.
type side struct {
	name string
	runs []record.Run
}

// sides returns two records, or the runs of two levels in one.
func (f *compareFlags) sides(ctx context.Context, records []string) (a, b side, err error) {
	a.name = records[0]
	if a.runs, err = readRuns(ctx, a.name); err != nil {
		return a, b, err
	}
	if f.by != "" {
		return f.levels(a)
	}
	b.name = records[1]
	b.runs, err = readRuns(ctx, b.name)
	return a, b, err
}

// levels returns the runs of a record with either of the two levels that --by means.
func (f *compareFlags) levels(all side) (a, b side, err error) {
	factor, chosen, some := strings.Cut(f.by, "=")
	there := map[string]bool{}
	for _, run := range all.runs {
		if level, ok := run.Factors[factor]; ok {
			there[level] = true
		}
	}
	has := slices.SortedFunc(maps.Keys(there), record.CompareLevels)
	if len(has) < 2 {
		return a, b, usageError{fmt.Errorf("--by %s: expected a factor that varies: %s", f.by, strings.Join(record.Varying(all.runs), ", "))}
	}
	levels := has
	if some {
		levels = strings.Split(chosen, ",")
	}
	if len(levels) != 2 || !there[levels[0]] || !there[levels[1]] {
		return a, b, usageError{fmt.Errorf("--by %s: expected %s=A,B with two of its levels %s", f.by, factor, strings.Join(has, ", "))}
	}
	with := func(level string) side {
		return side{all.name + " with " + factor + "=" + level, slices.DeleteFunc(slices.Clone(all.runs), func(r record.Run) bool { return r.Factors[factor] != level })}
	}
	return with(levels[0]), with(levels[1]), nil
}

// checkNames refuses a source that no run has, and a metric that neither the lab knows nor a run has.
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

// conditionError says which conditions are met or open.
type conditionError struct {
	code int
	text string
}

func (e conditionError) Error() string { return e.text }

// judge returns an error if a condition is met, or if of one it can't be told.
func judge(c *compare.Comparison, conditions []compare.Condition) error {
	var met, open []string
	for i, v := range c.Judge(conditions) {
		condition := conditions[i]
		for _, where := range v.Met {
			met = append(met, "met: "+condition.Text+": "+where)
		}
		for _, where := range v.Open {
			open = append(open, "can't be told: "+condition.Text+": "+where)
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
