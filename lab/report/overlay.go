package report

import (
	"slices"

	"mcmw/lab/model"
	"mcmw/lab/plot"
)

// modelCaption describes the figures of modelled.
const modelCaption = "Measurements and, dashed, the predictions of queueing models whose parameters are from the " +
	"same record, for each configuration of workers. " +
	"mcmwlab model prints the parameters, more models, and the errors of predicting each point from the others."

// overlaid are the models in the figures: those that predict every load.
var overlaid = []string{"M/M/m closed", "network", "network, clients", "own"}

// leastLoads is the least number of loads for a curve.
const leastLoads = 3

// modelled returns the panels of a figure of the models. It returns nil if the record cannot be modelled or has too few
// loads for a curve. The models do not predict the requests of one command.
func (a *artist) modelled(name string) []plot.Chart {
	if a.v.Command != "" {
		return nil
	}
	if a.models == nil {
		data, err := model.FromRuns(a.d.Manifest, a.d.Runs())
		if err != nil {
			return nil // such as a record without middlewares
		}
		curve := func(configuration string) bool { return len(data.Sweep(configuration)) >= leastLoads }
		if !slices.ContainsFunc(data.Configurations(), curve) {
			return nil
		}
		a.models = model.Fitted(data).Figures(overlaid...)
	}
	return a.models[name].Panels
}
