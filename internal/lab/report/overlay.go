package report

import (
	"slices"

	"mcmw/internal/lab/model"
	"mcmw/internal/lab/plot"
	"mcmw/internal/lab/record"
)

// modelCaption describes the figures of modelled.
const modelCaption = "Measured, and dashed what queueing models say whose parameters are from the same record, for each number of workers; " +
	"mcmwlab model has the parameters, further models, and how well each point is predicted from the others."

// overlaid are the models in the figures: those that say something of every load, and the one of the published reports.
var overlaid = []string{"M/M/m closed", "network", "network, clients", "own"}

// leastLoads is how many numbers of clients make a curve.
const leastLoads = 3

func (a *artist) modelThroughput() ([]plot.Chart, error)   { return a.modelled("throughput"), nil }
func (a *artist) modelResponseTime() ([]plot.Chart, error) { return a.modelled("response-time"), nil }

// modelled returns the panels of one of the models' figures; none where the record can't be modelled, has too few numbers of clients for a
// curve, or where requests of one kind are shown, of which the models know nothing.
func (a *artist) modelled(name string) []plot.Chart {
	if a.v.Command != "" {
		return nil
	}
	if a.models == nil {
		var runs []record.Run
		for _, p := range a.d.Points {
			runs = append(runs, p.Runs...)
		}
		data, err := model.FromRuns(a.d.Manifest, runs)
		if err != nil {
			return nil // for a record without middlewares, say: not all records are of queues
		}
		curve := func(configuration string) bool { return len(data.Sweep(configuration)) >= leastLoads }
		if !slices.ContainsFunc(data.Configurations(), curve) {
			return nil
		}
		a.models = model.Fitted(data).Figures(overlaid...)
	}
	return a.models[name].Panels
}
