package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mcmw/lab/capacity"
	"mcmw/lab/check"
	"mcmw/lab/collect"
	"mcmw/lab/condition"
	"mcmw/lab/experiment"
	"mcmw/lab/frame"
	"mcmw/lab/load"
	"mcmw/lab/record"
	"mcmw/lab/table"
)

type capacityFlags struct {
	slo, over  string
	confidence float64 // one-sided
	by         []string
	where      map[string]string
	search     searchFlags
}

func newCapacityCommand() *cobra.Command {
	var f capacityFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "capacity RECORD | --target ADDRESS [-- FLAGS OF LOAD]",
		Short: "Find the highest load within a quality of service",
		Long: `Find the highest level of a factor of a record, such as the number of clients, within a quality of service. For each combination of the
other factors, show the highest level for which it and all lower levels hold, the throughput at it, and the reason why the next level doesn't hold.

A level holds if no request failed and both confidence bounds of the metric's mean over the repetitions fulfil the condition. It is broken if
requests failed or if no value between the bounds fulfils it; otherwise it is unknown.

Without flags the rule is that of the experiment file (quality, see docs/experiments.md), or else that 99 % of the requests are answered in less
than 1 ms, over clients.

With --target the highest rate of a server or middleware is searched: the rate of Poisson arrivals is doubled until a run breaks the condition, bisected, and
runs at the last two rates are repeated until their confidence bounds decide. Flags of mcmwlab load that describe the load follow after --.`,
		Example: `  mcmwlab capacity results/connections
  mcmwlab capacity results/connections --slo 'p99.9<5ms' --over clients --by server --all
  mcmwlab capacity --target 127.0.0.1:11311 --slo 'p99<1ms' -- --populate --ratio 1:9 -d 1024 -c 64
  mcmwlab capacity results/connections --where server=redis --format markdown`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(f.search.targets) > 0 {
				before := len(args)
				if dash := cmd.ArgsLenAtDash(); dash >= 0 {
					before = dash
				}
				return arguments(0, 0, "with --target no record, and flags of mcmwlab load only after --")(cmd,
					args[:before])
			}
			return oneRecord(cmd, args)
		},
	}
	standard := capacity.DefaultRule()
	flags := cmd.Flags()
	flags.StringVar(&f.slo, "slo", standard.Condition.Text, "condition that must hold (docs/record.md#conditions)")
	flags.StringVar(&f.over, "over", standard.Over, "factor that is raised")
	flags.Float64Var(&f.confidence, "confidence", standard.Confidence,
		"one-sided confidence of the bounds, more than 0.5")
	flags.StringArrayVar(&f.search.targets, "target", nil,
		"host:port or unix:/path: search the highest rate of what answers there, instead of reading a record; "+
			"repeatable")
	flags.Float64Var(&f.search.first, "first", 1000, "with --target: requests per second of the first run")
	flags.Float64Var(&f.search.precision, "precision", 0.05,
		"with --target: relative distance of the rates between which the answer is")
	flags.IntVar(&f.search.most, "runs", 10, "with --target: runs of a rate at most, if its verdict stays unknown")
	flags.StringSliceVar(&f.by, "by", nil,
		"factors whose levels are judged separately (default: all other factors that vary)")
	defineWhere(flags, &f.where)
	flags.BoolVar(&all, "all", false, "show every level, too")
	return answers(cmd, false, func(cmd *cobra.Command, args []string) (p table.Page, err error) {
		find := f.find
		if len(f.search.targets) > 0 {
			find = f.searchRate
		}
		c, err := find(cmd, args)
		if err != nil {
			return p, err
		}
		var words []string
		for _, l := range c.Lines {
			words = append(words, c.Words(l))
		}
		p = table.Of(c, c.Tables(all)...)
		p.Blocks = slices.Insert(p.Blocks, 0, table.Block(table.ForTerminals(strings.Join(words, "\n"))))
		return p, nil
	})
}

// searchRate searches the highest rate of the targets.
func (f *capacityFlags) searchRate(cmd *cobra.Command, args []string) (*capacity.Capacity, error) {
	for _, name := range []string{"by", "over", "where"} {
		if cmd.Flags().Changed(name) {
			return nil, usageError{fmt.Errorf("--%s: a search has no factors; expected it only with a record", name)}
		}
	}
	rule, err := f.rule(cmd, record.Manifest{})
	if err != nil {
		return nil, usageError{err}
	}
	return f.search.search(cmd, rule, args)
}

// find finds the highest loads in a record.
func (f *capacityFlags) find(cmd *cobra.Command, args []string) (*capacity.Capacity, error) {
	runs, manifest, err := readRecord(cmd.Context(), args[0])
	if err != nil {
		return nil, err
	}
	rule, err := f.rule(cmd, manifest)
	if err != nil {
		return nil, usageError{err}
	}
	selected, err := frame.Of(runs, rule.Confidence).Where(f.where)
	if err != nil {
		return nil, usageError{fmt.Errorf("--where: %w", err)}
	}
	c, err := capacity.Find(selected.Tried(), rule, f.by)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", args[0], err)
	}
	return c, nil
}

// readRecord returns the runs and the manifest of a record, or of a file that openRecord opens.
func readRecord(ctx context.Context, dir string) ([]record.Run, record.Manifest, error) {
	r, err := openRecord(ctx, dir)
	if err != nil {
		return nil, record.Manifest{}, err
	}
	defer r.Close()
	runs, err := r.Runs(ctx)
	return runs, r.Manifest(), err
}

// rule returns the rule of the record's experiment, or the default rule, with the changes by the flags.
func (f *capacityFlags) rule(cmd *cobra.Command, m record.Manifest) (r capacity.Rule, err error) {
	r = capacity.DefaultRule()
	if e, ok := experiment.Of(m); ok && e.Quality != nil {
		r = e.Quality.Rule
	}
	changed := cmd.Flags().Changed
	if changed("slo") {
		if r.Condition, err = condition.Parse(f.slo, condition.OfClients); err != nil {
			return r, fmt.Errorf("--slo %w", err)
		}
	}
	if changed("over") {
		r.Over = f.over
	}
	if changed("confidence") {
		r.Confidence = f.confidence
	}
	return r, r.Check()
}

// searchFlags are the flags of `mcmwlab capacity` for a search.
type searchFlags struct {
	targets   []string
	first     float64
	precision float64
	most      int
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
