package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcmw/lab/model"
	"mcmw/lab/table"
)

// readData reads the input of the models from the record in a directory.
func readData(ctx context.Context, dir string) (*model.Data, error) {
	runs, manifest, err := readRecord(ctx, dir)
	if err != nil {
		return nil, err
	}
	data, err := model.FromRuns(manifest, runs)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return data, nil
}

type modelFlags struct {
	change    model.Change
	roundTrip time.Duration
	target    model.Target
	p99       time.Duration
	costs     model.Costs
	sure      bool
	most      int
}

func newModelCommand() *cobra.Command {
	var f modelFlags
	cmd := &cobra.Command{
		Use:   "model RECORD",
		Short: "Fit queueing models to a record, and predict other settings",
		Long: `Build queueing models from the measurements of a record: M/M/1, M/M/m, and networks of queues with one class and with several, as in
published reports, and mcmwlab's own model, in which service times depend on the number of requests in service. Print for every point the
measurement and the prediction of each model, the parameters and their sources, and how well each point is predicted from the others.

With a flag for a setting, predict the throughput and the response times with it, with intervals. The intervals
are so wide that they contain the points of the record, with their measured confidence intervals, when each point is predicted from the others (nine of
ten points if there are enough). Settings without a flag are those of the point with the largest throughput.

With --target-rate and --target-p99, list the settings that meet the target, the cheapest first.`,
		Example: `  mcmwlab model results/sweep
  mcmwlab model results/sweep --out results/figures --format markdown
  mcmwlab model results/sweep --clients 200 --workers 48
  mcmwlab model results/sweep --workers 4 --depth 16
  mcmwlab model results/sweep --round-trip 100us
  mcmwlab model results/sweep --target-rate 20000 --target-p99 5ms --cost-server 2`,
		Args: oneRecord,
	}
	flags := cmd.Flags()
	for _, setting := range []struct {
		value      *int
		name, help string
	}{
		{&f.change.Clients, "clients", "requests outstanding"},
		{&f.change.Workers, "workers", "workers of each middleware"},
		{&f.change.Middlewares, "middlewares", "middlewares"},
		{&f.change.Depth, "depth", "requests that a worker takes at a time, simulated from a record with depth 1"},
		{&f.change.Servers, "servers", "servers"},
		{&f.change.Replicas, "replicas", "servers to which each write goes"},
	} {
		flags.Var((*atLeastOne)(setting.value), setting.name, setting.help+" (default: as measured)")
	}
	flags.DurationVar(&f.roundTrip, "round-trip", 0,
		"round-trip time between clients and middlewares (default: as measured)")
	flags.Float64Var(&f.target.Rate, "target-rate", 0, "find settings with this throughput, requests per second")
	flags.DurationVar(&f.p99, "target-p99", 0, "find settings that answer 99 % of the requests within this time")
	flags.Float64Var(&f.costs.Worker, "cost-worker", 0.01, "cost of a worker, in any unit")
	flags.Float64Var(&f.costs.Middleware, "cost-middleware", 1, "cost of a middleware, in the same unit")
	flags.Float64Var(&f.costs.Server, "cost-server", 1, "cost of a server, in the same unit")
	flags.BoolVar(&f.sure, "sure", false, "require that the unfavourable ends of the intervals meet the target, too")
	flags.IntVar(&f.most, "most", 5, "largest number of settings to list")
	return answers(cmd, true, f.page)
}

// page returns the models or, with a flag for a setting or a target, a prediction.
func (f *modelFlags) page(cmd *cobra.Command, args []string) (p table.Page, err error) {
	changed := cmd.Flags().Changed
	target := changed("target-rate") || changed("target-p99")
	switch {
	case f.roundTrip < 0:
		return p, usageError{fmt.Errorf("--round-trip %v: expected 0 or more", f.roundTrip)}
	case target && (!(f.target.Rate > 0) || f.p99 <= 0):
		return p, usageError{fmt.Errorf("--target-rate %v --target-p99 %v: expected both, above 0", f.target.Rate,
			f.p99)}
	case target && f.change.Clients != 0:
		return p, usageError{fmt.Errorf("--clients %d with a target: expected only one of them, because the target "+
			"determines the number of clients", f.change.Clients)}
	case f.most < 1:
		return p, usageError{fmt.Errorf("--most %d: expected at least 1", f.most)}
	}
	data, err := readData(cmd.Context(), args[0])
	if err != nil {
		return p, err
	}
	if !target && f.change == (model.Change{}) && !changed("round-trip") {
		return model.NewReport(data).Page(), nil
	}
	predictor, err := model.NewPredictor(data)
	if err != nil {
		return p, err
	}
	f.change.RoundTrip = math.NaN()
	if changed("round-trip") {
		f.change.RoundTrip = f.roundTrip.Seconds()
	}
	if !target {
		forecast, err := predictor.Predict(f.change)
		if err != nil {
			return p, usageError{err}
		}
		return table.Of(nil, predictor.Table(forecast)), nil
	}
	f.target.P99 = f.p99.Seconds()
	offers, err := predictor.Meet(f.target, f.costs, f.change, f.sure)
	if err != nil {
		return p, err
	}
	caption := fmt.Sprintf("%d settings meet %.0f ops/s with a p99 of %v; the cheapest first.", len(offers),
		f.target.Rate, f.p99)
	return table.Of(nil, predictor.OffersTable(caption, offers[:min(f.most, len(offers))])), nil
}

// atLeastOne is a flag for a whole number above 0; 0: it is not given.
type atLeastOne int

// Set reads a number.
func (n *atLeastOne) Set(text string) error {
	v, err := strconv.Atoi(text)
	if err != nil || v < 1 {
		return errors.New("expected a whole number above 0, or no flag for the measured one")
	}
	*n = atLeastOne(v)
	return nil
}

// String returns the value; "" for none.
func (n *atLeastOne) String() string { return strings.TrimPrefix(strconv.Itoa(int(*n)), "0") }

// Type is the placeholder of the value in the help.
func (n *atLeastOne) Type() string { return "int" }
