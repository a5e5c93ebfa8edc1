package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mcmw/lab/capacity"
	"mcmw/lab/check"
	"mcmw/lab/collect"
	"mcmw/lab/condition"
	"mcmw/lab/load"
	"mcmw/lab/record"
)

// searchFlags are the flags of `mcmwlab capacity` for a search.
type searchFlags struct {
	targets   []string
	first     float64
	precision float64
	most      int
}

func (f *searchFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.targets, "target", nil,
		"host:port or unix:/path: search the highest rate of what answers there, instead of reading a record; "+
			"repeatable")
	flags.Float64Var(&f.first, "first", 1000, "with --target: requests per second of the first run")
	flags.Float64Var(&f.precision, "precision", 0.05,
		"with --target: relative distance of the rates between which the answer is")
	flags.IntVar(&f.most, "runs", 10, "with --target: runs of a rate at most, if its verdict stays unknown")
}

// search searches the highest rate of the targets. args are flags of `mcmwlab load`.
func (f *searchFlags) search(cmd *cobra.Command, rule capacity.Rule, args []string) (*capacity.Capacity, error) {
	stderr := cmd.ErrOrStderr()
	if !(f.first >= 1) || !(f.precision >= 0.001 && f.precision <= 1) || f.most < 2 {
		return nil,
			usageError{fmt.Errorf("--first %v, --precision %v, --runs %d: expected at least 1, 0.001 to 1, and at "+
				"least 2", f.first, f.precision, f.most)}
	}
	var lf loadFlags
	flags := pflag.NewFlagSet("load", pflag.ContinueOnError)
	lf.define(flags)
	if err := flags.Parse(args); err != nil {
		return nil, usageError{fmt.Errorf("after --, the flags of mcmwlab load: %w", err)}
	}
	for _, own := range []string{
		"target", "server", "port", "rate", "slo", "requests", "driver", "out-file", "json-out-file",
	} {
		if flags.Changed(own) {
			return nil,
				usageError{fmt.Errorf("--%s after --: the search sets it, or has none; expected flags that describe "+
					"the load, such as --ratio", own)}
		}
	}
	if flags.NArg() > 0 {
		return nil,
			usageError{fmt.Errorf("after --, the flags of mcmwlab load: expected flags only, not %q", flags.Args())}
	}
	lf.targets = f.targets
	if !flags.Changed("arrivals") {
		lf.arrivals = "poisson"
	}
	if !flags.Changed("warm-up") {
		lf.options.WarmUp = 500 * time.Millisecond
	}
	if !flags.Changed("test-time") {
		lf.testTime = 2 * time.Second
	}
	runs := 0
	s := &capacity.Search{Rule: rule, First: f.first, Step: 1 + f.precision, Most: f.most}
	s.Measure = func(rate float64) (run record.Run, err error) {
		lf.rate = strconv.FormatFloat(rate, 'f', -1, 64)
		o, err := lf.complete(flags)
		if err != nil {
			return run, usageError{err}
		}
		o.Seed += uint64(runs)
		o.Populate = o.Populate && runs == 0
		runs++
		g, err := load.New(o)
		if err != nil {
			return run, usageError{err}
		}
		r, err := g.Run(cmd.Context())
		if err != nil {
			return run, err
		}
		if cmd.Context().Err() != nil {
			return run, errors.New("interrupted before the search ended")
		}
		run.Results = collect.Client(*r)
		for i, v := range run.Results { // times don't include requests that could not be sent
			if v.Metric == "errors" && r.Pace != nil {
				run.Results[i].Value += float64(r.Pace.Unsent)
			}
		}
		if r.Generator.Limit != load.LimitNone {
			run.Warnings = []record.Warning{{Code: check.GeneratorSaturated, Message: string(r.Generator.Limit)}}
		}
		return run, nil
	}
	p := newProgress(stderr)
	s.Progress = func(rate float64, run record.Run, v condition.Verdict) {
		of := rule.Condition.Term.Metric
		value, _ := run.Value(of.Source, of.Name)
		line := fmt.Sprintf("%v requests/s: %s %s; %s %s", rate, of.Name, record.Format(of.Name, value), rule, v)
		for _, w := range run.Warnings {
			line += "; the load generator was limited: " + w.Message
		}
		p.show(line)
	}
	c, err := s.Find()
	p.clear()
	if err != nil {
		return nil, err
	}
	if above, more := c.Lines[0].Above(); more && above.Warnings > 0 {
		fmt.Fprintln(stderr,
			"Warning: where the condition does not hold the load generator or its machine was limited: the targets "+
				"may serve more.")
	}
	return c, nil
}
