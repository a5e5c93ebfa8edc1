package main

import (
	"context"
	"fmt"
	"io"
	"math"
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

func newModelCommand() *cobra.Command {
	var format, out string
	cmd := &cobra.Command{
		Use:   "model RECORD",
		Short: "Fit queueing models to a record and compare them with the measurements",
		Long: `Build queueing models from the measurements of a record: M/M/1, M/M/m, and networks of queues with one class and with several, as in
published reports, and mcmwlab's own model, in which service times depend on the number of requests in service. Print for every point the
measurement and the prediction of each model, the parameters and their sources, and how well each point is predicted from the others.`,
		Example: `  mcmwlab model results/sweep
  mcmwlab model results/sweep --out results/figures --format markdown`,
		Args: oneRecord,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			data, err := readData(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return writePage(model.NewReport(data).Page(), format, out, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&format, "format", string(table.Text), formatHelp)
	cmd.Flags().StringVarP(&out, "out", "o", "", figuresHelp)
	return cmd
}

type predictFlags struct {
	change    model.Change
	roundTrip time.Duration
	p99       time.Duration
	rate      float64
	target    bool // whether to search for settings that meet a target
	costs     model.Costs
	sure      bool
	most      int
	format    string
}

func newPredictCommand() *cobra.Command {
	var f predictFlags
	cmd := &cobra.Command{
		Use:   "predict RECORD",
		Short: "Predict the effect of other settings, or find the cheapest settings that meet a target",
		Long: `Predict the throughput and the response times with other settings, with intervals, from the measurements of a record. The intervals
are so wide that they contain the points of the record, with their measured confidence intervals, when each point is predicted from the others (nine of
ten points if there are enough). Settings without a flag are those of the point with the largest throughput.

With --target-rate and --target-p99, list the settings that meet the target, the cheapest first.`,
		Example: `  mcmwlab predict results/sweep --clients 200 --workers 48
  mcmwlab predict results/sweep --workers 4 --depth 16
  mcmwlab predict results/sweep --round-trip 100us
  mcmwlab predict results/sweep --target-rate 20000 --target-p99 5ms --cost-server 2`,
		Args: oneRecord,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range []string{"clients", "workers", "middlewares", "depth", "servers", "replicas"} {
				if n, _ := cmd.Flags().GetInt(name); n < 1 && cmd.Flags().Changed(name) {
					return usageError{fmt.Errorf("--%s %d: expected a whole number above 0, or no flag for the "+
						"measured one", name, n)}
				}
			}
			if f.roundTrip < 0 {
				return usageError{fmt.Errorf("--round-trip %v: expected 0 or more", f.roundTrip)}
			}
			f.change.RoundTrip = math.NaN()
			if cmd.Flags().Changed("round-trip") {
				f.change.RoundTrip = f.roundTrip.Seconds()
			}
			f.target = cmd.Flags().Changed("target-rate") || cmd.Flags().Changed("target-p99")
			return f.run(cmd.Context(), args[0], cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&f.change.Clients, "clients", 0, "requests outstanding (default: as measured)")
	flags.IntVar(&f.change.Workers, "workers", 0, "workers of each middleware (default: as measured)")
	flags.IntVar(&f.change.Middlewares, "middlewares", 0, "middlewares (default: as measured)")
	flags.IntVar(&f.change.Depth, "depth", 0,
		"requests that a worker takes at a time, simulated from a record with depth 1 (default: as measured)")
	flags.IntVar(&f.change.Servers, "servers", 0, "servers (default: as measured)")
	flags.IntVar(&f.change.Replicas, "replicas", 0, "servers to which each write goes (default: as measured)")
	flags.DurationVar(&f.roundTrip, "round-trip", 0,
		"round-trip time between clients and middlewares (default: as measured)")
	flags.Float64Var(&f.rate, "target-rate", 0, "find settings with this throughput, requests per second")
	flags.DurationVar(&f.p99, "target-p99", 0, "find settings that answer 99 % of the requests within this time")
	flags.Float64Var(&f.costs.Worker, "cost-worker", 0.01, "cost of a worker, in any unit")
	flags.Float64Var(&f.costs.Middleware, "cost-middleware", 1, "cost of a middleware, in the same unit")
	flags.Float64Var(&f.costs.Server, "cost-server", 1, "cost of a server, in the same unit")
	flags.BoolVar(&f.sure, "sure", false, "require that the unfavourable ends of the intervals meet the target, too")
	flags.IntVar(&f.most, "most", 5, "largest number of settings to list")
	flags.StringVar(&f.format, "format", string(table.Text), formatHelp)
	return cmd
}

func (f *predictFlags) run(ctx context.Context, dir string, stdout io.Writer) error {
	if err := checkFormat(f.format); err != nil {
		return err
	}
	format := table.Format(f.format)
	switch {
	case f.target && (!(f.rate > 0) || f.p99 <= 0):
		return usageError{fmt.Errorf("--target-rate %v --target-p99 %v: expected both, above 0", f.rate, f.p99)}
	case f.target && f.change.Clients != 0:
		return usageError{fmt.Errorf("--clients %d with a target: expected only one of them, because the target "+
			"determines the number of clients", f.change.Clients)}
	case f.most < 1:
		return usageError{fmt.Errorf("--most %d: expected at least 1", f.most)}
	}
	data, err := readData(ctx, dir)
	if err != nil {
		return err
	}
	p, err := model.NewPredictor(data)
	if err != nil {
		return err
	}
	if !f.target {
		forecast, err := p.Predict(f.change)
		if err != nil {
			return usageError{err}
		}
		return p.Table(forecast).Write(stdout, format)
	}
	offers, err := p.Meet(model.Target{Rate: f.rate, P99: f.p99.Seconds()}, f.costs, f.change, f.sure)
	if err != nil {
		return err
	}
	caption := fmt.Sprintf("%d settings meet %.0f ops/s with a p99 of %v; the cheapest first.", len(offers),
		f.rate, f.p99)
	return p.OffersTable(caption, offers[:min(f.most, len(offers))]).Write(stdout, format)
}
