package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"mcmw/lab/bench"
	"mcmw/lab/compare"
	"mcmw/lab/condition"
	"mcmw/lab/experiment"
	"mcmw/lab/frame"
	"mcmw/lab/record"
	"mcmw/lab/table"
)

type compareFlags struct {
	by       string
	failIf   []string
	ratios   bool
	verdicts bool
	options  compare.Options
}

func newCompareCommand() *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare A B...",
		Short: "Compare two records, or two levels of a factor",
		Long: `Compare two records: the points that both have, matched by the varying factors, with confidence intervals over
the repetitions, the change of the means with its interval (Fieller), the effect size (Hedges' g), and the probabilities of a difference
at least this large by chance (Welch's test of means, Mann and Whitney's test of ranks). Further records are compared with the first.

With --by, compare two levels of a factor of one record: --by server, or --by servers=1,4 if it has more than two. With several levels, such as
--by system=twemproxy,mcmw,before, each is compared with the first. --ratios prints the median ratios of the runs of one repetition, and the
medians, instead. An experiment with the order "paired" makes these runs within seconds of each other.

--fail-if has conditions for scripts (docs/record.md#conditions): on B's mean of a metric, on the change of the mean from A to B, change(METRIC), or
on its ratio, ratio(METRIC). Only a significant change meets a condition (Welch's test, with Holm's adjustment for all tested changes: equal records
meet a condition with a probability of at most 1 - --confidence). The more points there are, the more repetitions are needed for a decision. The exit
code is

  0  no condition is met
  1  the records can't be compared, or something else failed
  2  the command line is wrong
  3  a condition is met for at least one point
  4  no condition is met, but at least one is undecided: too few repetitions, or a record doesn't have the metric or the point`,
		Example: `  mcmwlab compare results/before results/after
  mcmwlab compare results/connections --by server
  mcmwlab compare results/bench --by system=before,mcmw --ratios --metrics throughput,middleware.cpu_per_request
  mcmwlab compare results/before results/after --fail-if 'change(throughput) < -5%' --fail-if 'ratio(p99) > 1.1' --fail-if 'errors > 0'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.by != "" {
				return oneRecord(cmd, args)
			}
			return arguments(2, -1, "the directories of at least two records")(cmd, args)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.by, "by", "", "FACTOR, or FACTOR=A,B: compare two levels of one record instead of two records")
	flags.StringArrayVar(&f.failIf, "fail-if", nil, "condition such as 'change(throughput) < -5%'; repeatable")
	flags.StringSliceVar(&f.options.Metrics, "metrics", nil,
		"metrics of the clients to compare, in addition to those of --fail-if; SOURCE.METRIC for another source, "+
			"such as middleware or server:NAME (default "+
			strings.Join(compare.DefaultMetrics, ", ")+"; with --ratios "+strings.Join(compare.DefaultRatios, ", ")+")")
	flags.Float64Var(&f.options.Confidence, "confidence", compare.DefaultConfidence, "confidence of the intervals")
	flags.BoolVar(&f.verdicts, "verdicts", false,
		"with --by system=A,B: print the verdicts of mcmwlab bench on its record")
	flags.BoolVar(&f.ratios, "ratios", false, "with --by: print the median ratios of paired runs, and the medians")
	return answers(cmd, false, func(cmd *cobra.Command, args []string) (table.Page, error) {
		return f.compare(cmd.Context(), args)
	})
}

// compare returns the comparison, and an error if a condition is met or undecided.
func (f *compareFlags) compare(ctx context.Context, records []string) (p table.Page, err error) {
	if err := checkConfidence(f.options.Confidence); err != nil {
		return p, err
	}
	if factor, _, _ := strings.Cut(f.by, "="); f.verdicts && factor != experiment.System {
		return p, usageError{errors.New("--verdicts: expected with --by system=A,B, of a record of mcmwlab bench")}
	}
	if f.ratios && f.by == "" {
		return p,
			usageError{errors.New("--ratios: expected with --by, because runs of different records aren't paired")}
	}
	f.options.Paired = f.by != ""
	given := slices.Clone(f.options.Metrics)
	if len(f.options.Metrics) == 0 {
		if f.options.Metrics = compare.DefaultMetrics; f.ratios {
			f.options.Metrics = compare.DefaultRatios
		}
	}
	var conditions []condition.Condition
	for _, text := range f.failIf {
		c, err := condition.Parse(text, compare.Conditions)
		if err != nil {
			return p, usageError{fmt.Errorf("--fail-if %w", err)}
		}
		conditions = append(conditions, c)
		f.options.Metrics = append(f.options.Metrics, compare.NameOf(c))
	}
	sides, err := f.sides(ctx, records)
	if err != nil {
		return p, err
	}
	var all []record.Run
	var names []string
	for _, one := range sides {
		all, names = append(all, one.runs...), append(names, one.level)
	}
	if f.verdicts {
		result := bench.Judge(all, frame.Of(all, 0).Levels(experiment.Case), names, f.options.Confidence)
		return table.Of(result, result.Table()), nil
	}
	if err := checkNames(all, f.options.Metrics, given); err != nil {
		return p, usageError{err}
	}
	o := f.options
	o.Metrics = nil
	for _, metric := range f.options.Metrics {
		if !slices.Contains(o.Metrics, metric) {
			o.Metrics = append(o.Metrics, metric)
		}
	}
	var comparisons []*compare.Comparison
	for _, other := range sides[1:] {
		comparisons = append(comparisons, compare.New(sides[0].runs, other.runs, o))
	}
	p = f.page(sides, comparisons)
	for i, c := range comparisons {
		if len(c.Points) == 0 {
			return p,
				fmt.Errorf("%s and %s have no point in common: expected runs with the same levels of the varying "+
					"factors", sides[0].name, sides[i+1].name)
		}
	}
	return p, judge(sides, comparisons, conditions)
}

// page returns the comparisons of the first side with each of the others. In JSON several comparisons are a list.
func (f *compareFlags) page(sides []side, comparisons []*compare.Comparison) (p table.Page) {
	var names []string
	for i, s := range sides {
		names = append(names, s.level)
		if i > 0 && !f.ratios {
			p.Blocks = append(p.Blocks, comparisons[i-1].Blocks(sides[0].name, s.name)...)
		}
	}
	if f.ratios {
		p.Blocks = compare.Ratios(comparisons, names)
	}
	if p.Object = comparisons; len(comparisons) == 1 {
		p.Object = comparisons[0]
	}
	return p
}

// side is one side of a comparison.
type side struct {
	name  string
	level string // of the factor of --by
	runs  []record.Run
}

// sides returns a side for each record or, with --by, for each level in one record.
func (f *compareFlags) sides(ctx context.Context, records []string) (sides []side, err error) {
	for _, name := range records {
		runs, _, err := readRecord(ctx, name)
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

// levels returns a side for each level of --by.
func (f *compareFlags) levels(all side) (sides []side, err error) {
	factor, chosen, some := strings.Cut(f.by, "=")
	present := slices.DeleteFunc(frame.Of(all.runs, 0).Levels(factor), func(level string) bool { return level == "" })
	levels, known := present, strings.Join(present, ", ")
	if len(levels) < 2 {
		return nil, usageError{fmt.Errorf("--by %s: expected a factor that varies: %s", f.by,
			strings.Join(record.Varying(all.runs), ", "))}
	}
	if some {
		levels = strings.Split(chosen, ",")
	}
	if len(levels) < 2 || !some && len(levels) > 2 ||
		slices.ContainsFunc(levels, func(level string) bool { return !slices.Contains(present, level) }) {
		return nil, usageError{fmt.Errorf("--by %s: expected %s=A,B with some of its levels %s", f.by, factor, known)}
	}
	for _, level := range levels {
		runs := slices.DeleteFunc(slices.Clone(all.runs), func(r record.Run) bool { return r.Factors[factor] != level })
		sides = append(sides, side{all.name + " with " + factor + "=" + level, level, runs})
	}
	return sides, nil
}

// checkNames returns an error if a metric is neither a known one nor in a run, or if no run has the source of a given
// one.
func checkNames(runs []record.Run, names, given []string) error {
	sources, metrics := map[string]bool{}, map[string]bool{}
	for _, run := range runs {
		for _, v := range run.Results {
			sources[v.Source] = true
			metrics[v.Metric] = true
		}
	}
	for _, name := range names {
		of, err := frame.ParseMetric(name, record.SourceClient)
		if err != nil && !metrics[of.Name] {
			return fmt.Errorf("--metrics %q: the records have %s", of.Name,
				strings.Join(slices.Sorted(maps.Keys(metrics)), ", "))
		}
		if slices.Contains(given, name) && !sources[of.Source] && len(sources) > 0 {
			return fmt.Errorf("--metrics %q: the records have the sources %s", name,
				strings.Join(slices.Sorted(maps.Keys(sources)), ", "))
		}
	}
	return nil
}

// conditionError lists conditions that are met or undecided, or objectives of a load that are missed.
type conditionError struct {
	code int
	text string
}

func (e conditionError) Error() string { return e.text }

// judge returns an error if a condition is met or undecided.
func judge(sides []side, comparisons []*compare.Comparison, conditions []condition.Condition) error {
	var met, open []string
	for i, c := range comparisons {
		name := ""
		if len(comparisons) > 1 {
			name = sides[i+1].name + ": "
		}
		for j, v := range c.Judge(conditions, len(comparisons)) {
			for _, point := range v.Met {
				met = append(met, "met: "+conditions[j].Text+": "+name+point)
			}
			for _, point := range v.Open {
				open = append(open, "undecided: "+conditions[j].Text+": "+name+point)
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
