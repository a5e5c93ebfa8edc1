package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"mcmw/lab/effects"
	"mcmw/lab/factorial"
	"mcmw/lab/frame"
	"mcmw/lab/record"
	"mcmw/lab/table"
)

type factorialFlags struct {
	question   effects.Question
	confidence float64
	model      string
	maxOrder   int
}

// anova is the value of --model for an analysis of variance of factors of two levels.
const anova = "anova"

func newFactorialCommand() *cobra.Command {
	var f factorialFlags
	var aliases []string
	for _, short := range slices.Sorted(maps.Keys(effects.Aliases)) {
		aliases = append(aliases, short+" "+effects.Aliases[short])
	}
	cmd := &cobra.Command{
		Use:   "factorial RECORD",
		Short: "Find which factors of an experiment affect a response, by how much, and with what confidence",
		Long: `Find which factors of an experiment affect a response, by how much, and with what confidence. RECORD is the directory of a record,
or a CSV file with a line per run and a column for each factor and the response.

Factors of two levels, in a full design or a regular fraction, are analysed with the sign table: effects, shares of the
variation, confidence intervals, confounded effects, and whether the additive or the multiplicative model fits better.
Factors of more levels need all combinations; they are analysed with an analysis of variance.

Short names of factors are ` + strings.Join(aliases, ", ") + `.`,
		Example: `  mcmwlab factorial results/2k --response throughput --factors S,M,W
  mcmwlab factorial results/2k --response response_time_mean --factors S,M,W --confidence 0.9 --model multiplicative --out figures/
  mcmwlab factorial results/sweep --factors workers,clients --where middlewares=2`,
		Args: arguments(1, 1, "a record or a CSV file"),
	}
	flags := cmd.Flags()
	flags.StringVar(&f.question.Response, "response", "throughput",
		"metric to explain, of the clients or as SOURCE.METRIC; a column of a CSV file")
	flags.StringSliceVar(&f.question.Factors, "factors", nil, "factors to analyse: names or short names")
	defineWhere(flags, &f.question.Where)
	flags.StringSliceVar(&f.question.Ignore, "ignore", nil,
		"factors, or columns of a CSV file, that can vary without being analysed")
	flags.IntVar(&f.question.Repetitions, "repetitions", 0,
		"number of runs of each combination to use, the first ones; 0: all")
	flags.Float64Var(&f.confidence, "confidence", 0.95, "confidence of the intervals and tests")
	flags.StringVar(&f.model, "model", string(factorial.Additive),
		"additive; multiplicative, or multiplicative:10 for logarithms to the base 10 instead of e; "+anova+
			": the analysis of variance for factors of two levels, too")
	flags.IntVar(&f.maxOrder, "max-order", 0, "count interactions of more factors than this as errors; 0: keep all")
	return answers(cmd, true, func(cmd *cobra.Command, args []string) (table.Page, error) {
		return f.page(cmd.Context(), args[0], cmd.Flag("format").Value.String() != table.JSON)
	})
}

// page returns the analysis. rounded: its numbers are those of the tables, which readers see.
func (f *factorialFlags) page(ctx context.Context, path string, rounded bool) (page table.Page, err error) {
	if len(f.question.Factors) == 0 {
		return page, usageError{errors.New("--factors is missing: expected factors such as S,M,W")}
	}
	if err := checkConfidence(f.confidence); err != nil {
		return page, err
	}
	options, err := f.options()
	if err != nil {
		return page, usageError{err}
	}
	experiment, err := f.read(ctx, path)
	if err != nil {
		return page, err
	}
	if rounded {
		experiment = experiment.Shown()
	}
	var a *factorial.Analysis
	var c *factorial.Comparison
	var v *factorial.Variance
	var residuals []factorial.Residual
	var tables []table.Table
	if experiment.TwoLevel() && options.Model != anova {
		if a, err = factorial.Analyze(experiment.Design, options); err != nil {
			return page, fmt.Errorf("%s: %w", path, err)
		}
		if c, err = factorial.Compare(experiment.Design, options); err != nil {
			return page, fmt.Errorf("%s: %w", path, err)
		}
		residuals = a.Residuals
		tables = []table.Table{experiment.SignTable(a), experiment.EffectsTable(a)}
		if confounding, ok := experiment.ConfoundingTable(a); ok {
			tables = append(tables, confounding)
		}
		tables = append(tables, effects.ComparisonTable(c))
	} else {
		if options.Model != factorial.Additive && options.Model != anova {
			return page, usageError{fmt.Errorf("--model %s: an analysis of variance only has the additive model",
				f.model)}
		}
		if v, err = factorial.Anova(experiment.Design, f.confidence, f.maxOrder); err != nil {
			return page, fmt.Errorf("%s: %w", path, err)
		}
		residuals = v.Residuals
		tables = experiment.VarianceTables(v)
	}
	response, unit := strings.ReplaceAll(experiment.Response, "_", " "), experiment.Unit
	if options.Model == factorial.Multiplicative {
		response, unit = "logarithm of "+response, ""
	}
	figures := effects.Figures(residuals, response, unit)
	page = table.Of(experiment.Object(a, c, v), tables...)
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		page.Blocks = append(page.Blocks, table.Figure{Name: name, Figure: figures[name]})
	}
	return page, nil
}

// options reads the flag --model.
func (f *factorialFlags) options() (o factorial.Options, err error) {
	model, base, based := strings.Cut(f.model, ":")
	o = factorial.Options{Model: factorial.Model(model), Confidence: f.confidence, MaxOrder: f.maxOrder}
	if based {
		o.LogBase, err = strconv.ParseFloat(base, 64)
		if err != nil || o.Model != factorial.Multiplicative {
			return o, fmt.Errorf("--model %s: expected a base only as in multiplicative:10", f.model)
		}
		if !(o.LogBase > 1) || math.IsInf(o.LogBase, 0) {
			return o, fmt.Errorf("--model %s: expected a base above 1, such as multiplicative:10", f.model)
		}
	}
	return o, nil
}

// read returns the experiment in a record or a CSV file.
func (f *factorialFlags) read(ctx context.Context, path string) (e *effects.Experiment, err error) {
	if strings.EqualFold(filepath.Ext(path), ".csv") {
		text, readErr := os.ReadFile(path)
		if readErr != nil {
			return nil, readErr
		}
		e, err = effects.FromCSV(bytes.NewReader(text), f.question)
	} else {
		runs, _, readErr := readRecord(ctx, path)
		if readErr != nil {
			return nil, readErr
		}
		q := f.question
		of, _ := frame.ParseMetric(q.Response, record.SourceClient) // a run without the metric is refused
		q.Source, q.Response = of.Source, of.Name
		e, err = effects.FromRuns(runs, q)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return e, nil
}
