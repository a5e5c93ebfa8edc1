package model

import (
	"fmt"
	"slices"

	"mcmw/lab/sample"
	"mcmw/lab/table"
)

func (p *Predictor) intervalNote() string {
	return fmt.Sprintf("Intervals: when each of the record's %d points is predicted from the others, such intervals "+
		"contain %d of them, with the %.0f %% confidence intervals of their measurements.",
		p.spreadX.Of, p.spreadX.Held, 100*Confidence)
}

// texts returns the texts of a predicted value and of its interval.
func texts(r sample.Estimate, number func(float64) string) (value, interval string) {
	if number(r.Low) == "-" {
		return number(r.Mean), "-"
	}
	return number(r.Mean), number(r.Low) + " to " + number(r.High)
}

// Table returns the table of a forecast and of the measurements at the base.
func (p *Predictor) Table(f Forecast) table.Table {
	configuration := f.Configuration()
	if f.Depth != p.base.Depth {
		configuration += fmt.Sprintf(", depth %d", f.Depth)
	}
	t := table.Table{
		Caption: fmt.Sprintf("Predicted from %s: %d clients, %s, %d servers, %d replicas.", p.data.Name, f.Clients,
			configuration, f.Servers, f.Replicas),
		Columns: []string{"", "measured at the base", "predicted", "interval"},
		Notes: append([]string{
			fmt.Sprintf("The base has %d clients, %s, %d servers, %d replicas.", p.base.Clients, p.base.Configuration(),
				p.base.Servers, p.base.Replicas),
			p.intervalNote(),
		}, f.Notes...),
	}
	row := func(name string, measured float64, r sample.Estimate, number func(float64) string) {
		value, interval := texts(r, number)
		t.Rows = append(t.Rows, []string{name, number(measured), value, interval})
	}
	row("throughput, ops/s", p.base.X.Mean, f.X, ops)
	row("response time, ms", p.base.R.Mean, f.R, ms)
	row("p99, ms", p.base.P99.Mean, f.P99, ms)
	t.Rows = append(t.Rows, []string{"most used", "", f.Bottleneck})
	return t
}

// OffersTable returns a table of settings that meet a target.
func (p *Predictor) OffersTable(caption string, offers []Offer) table.Table {
	t := table.Table{
		Caption: caption,
		Columns: []string{
			"cost", "middlewares", "workers each", "servers", "clients", "ops/s", "interval", "p99 ms",
			"interval",
		},
		Notes: []string{p.intervalNote()},
	}
	for _, o := range offers {
		x, xs := texts(o.X, ops)
		tail, tails := texts(o.P99, ms)
		t.Rows = append(t.Rows, []string{
			text("%.2f", o.Cost), fmt.Sprint(o.Middlewares), fmt.Sprint(o.Workers), fmt.Sprint(o.Servers),
			fmt.Sprint(o.Clients), x, xs, tail, tails,
		})
		for _, note := range o.Notes {
			if !slices.Contains(t.Notes, note) {
				t.Notes = append(t.Notes, note)
			}
		}
	}
	return t
}
