package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mcmw/lab/condition"
	"mcmw/lab/experiment"
	"mcmw/lab/frame"
	"mcmw/lab/model"
	"mcmw/lab/queueing"
	"mcmw/lab/record"
	"mcmw/lab/table"
)

type modelFlags struct {
	set, cost map[string]string
	slo       []string
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

With --set, predict the throughput and the response times with other settings, with intervals. The intervals
are so wide that they contain the points of the record, with their measured confidence intervals, when each point is predicted from the others (nine of
ten points if there are enough). Other settings are those of the point with the largest throughput. The depth is simulated, from a record with depth 1.

With --slo, list the settings that fulfil both conditions, the cheapest first.`,
		Example: `  mcmwlab model results/sweep
  mcmwlab model results/sweep --out results/figures --format markdown
  mcmwlab model results/sweep --set clients=200,workers=48
  mcmwlab model results/sweep --set workers=4,depth=16
  mcmwlab model results/sweep --set round_trip=100us
  mcmwlab model results/sweep --slo 'throughput >= 20000' --slo 'p99 <= 5ms' --cost server=2`,
		Args: oneRecord,
	}
	flags := cmd.Flags()
	flags.StringToStringVar(&f.set, "set", nil,
		"NAME=VALUE,...: predict with another number of "+strings.Join(changeable, ", ")+
			" (servers to which each write goes), or another round_trip between clients and middlewares")
	flags.StringArrayVar(&f.slo, "slo", nil,
		"find settings that fulfil two conditions, such as 'throughput >= 20000' and 'p99 <= 5ms'")
	flags.StringToStringVar(&f.cost, "cost", nil,
		"costs in any unit (default worker=0.01,middleware=1,server=1)")
	flags.BoolVar(&f.sure, "sure", false, "require that the unfavourable ends of the intervals meet --slo, too")
	flags.IntVar(&f.most, "most", 5, "largest number of settings to list")
	return answers(cmd, true, f.page)
}

// page returns the models or, with other settings or conditions, a prediction.
func (f *modelFlags) page(cmd *cobra.Command, args []string) (p table.Page, err error) {
	change, err := changeOf(f.set)
	target, err2 := targetOf(f.slo)
	costs, err3 := costsOf(f.cost)
	if err := cmp.Or(err, err2, err3); err != nil {
		return p, usageError{err}
	}
	switch {
	case f.slo != nil && change.Clients != 0:
		return p, usageError{fmt.Errorf("--set clients=%d with --slo: expected only one of them, because the "+
			"conditions determine the number of clients", change.Clients)}
	case f.most < 1:
		return p, usageError{fmt.Errorf("--most %d: expected at least 1", f.most)}
	}
	runs, manifest, err := readRecord(cmd.Context(), args[0])
	if err != nil {
		return p, err
	}
	data, err := model.FromRuns(manifest, runs)
	if err != nil {
		return p, fmt.Errorf("%s: %w", args[0], err)
	}
	if f.slo == nil && f.set == nil {
		return model.NewReport(data).Page(), nil
	}
	predictor, err := model.NewPredictor(data)
	if err != nil {
		return p, err
	}
	if f.slo == nil {
		forecast, err := predictor.Predict(change)
		if err != nil {
			return p, usageError{err}
		}
		return table.Of(nil, predictor.Table(forecast)), nil
	}
	offers, err := predictor.Meet(target, costs, change, f.sure)
	if err != nil {
		return p, err
	}
	caption := fmt.Sprintf("%d settings meet %.0f ops/s with a p99 of %v; the cheapest first.", len(offers),
		target.Rate, time.Duration(math.Round(target.P99*1e9)))
	return table.Of(nil, predictor.OffersTable(caption, offers[:min(f.most, len(offers))])), nil
}

// changeable are the settings whose numbers --set changes.
var changeable = []string{
	experiment.Clients, experiment.Workers, experiment.Middlewares, experiment.Depth, experiment.Servers,
	experiment.Replicas,
}

// changeOf reads the flag --set.
func changeOf(set map[string]string) (c model.Change, err error) {
	c.RoundTrip = math.NaN()
	numbers := []*int{&c.Clients, &c.Workers, &c.Middlewares, &c.Depth, &c.Servers, &c.Replicas}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		text, at := set[name], slices.Index(changeable, name)
		switch {
		case name == "round_trip":
			trip, err := time.ParseDuration(text)
			if err != nil || trip < 0 {
				return c, fmt.Errorf("--set %s=%s: expected a duration such as 100us", name, text)
			}
			c.RoundTrip = trip.Seconds()
		case at < 0:
			return c, fmt.Errorf("--set %s=%s: expected one of %s, round_trip", name, text,
				strings.Join(changeable, ", "))
		default:
			*numbers[at], err = strconv.Atoi(text)
			if most := queueing.MaxCustomers; err != nil || *numbers[at] < 1 || *numbers[at] > most {
				return c, fmt.Errorf("--set %s=%s: expected a whole number from 1 to %d", name, text, most)
			}
		}
	}
	return c, nil
}

// targetOf reads the flags --slo.
func targetOf(slo []string) (t model.Target, err error) {
	for _, text := range slo {
		c, err := condition.Parse(text, condition.OfClients)
		if err != nil {
			return t, fmt.Errorf("--slo %w", err)
		}
		switch bound, above := c.Bound(); {
		case above && c.Term.Metric == frame.Metric{Source: record.SourceClient, Name: "throughput"}:
			t.Rate = bound
		case math.IsInf(c.Low, -1) &&
			c.Term.Metric == frame.Metric{Source: record.SourceClient, Name: "response_time_p99"}:
			t.P99 = bound
		}
	}
	if slo != nil && (len(slo) != 2 || !(t.Rate > 0) || !(t.P99 > 0)) {
		err = fmt.Errorf("--slo %q: expected two conditions above 0, such as 'throughput >= 20000' and 'p99 <= 5ms'",
			slo)
	}
	return t, err
}

// costsOf reads the flag --cost.
func costsOf(costs map[string]string) (c model.Costs, err error) {
	c = model.Costs{Worker: 0.01, Middleware: 1, Server: 1}
	for _, name := range slices.Sorted(maps.Keys(costs)) {
		of := map[string]*float64{"worker": &c.Worker, "middleware": &c.Middleware, "server": &c.Server}[name]
		if of == nil {
			return c, fmt.Errorf("--cost %s=%s: expected one of worker, middleware, server", name, costs[name])
		}
		if *of, err = strconv.ParseFloat(costs[name], 64); err != nil || !(*of >= 0) {
			return c, fmt.Errorf("--cost %s=%s: expected a number, 0 or above", name, costs[name])
		}
	}
	return c, nil
}
