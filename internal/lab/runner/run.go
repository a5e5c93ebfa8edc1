package runner

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"mcmw/internal/lab/collect"
	"mcmw/internal/lab/experiment"
	"mcmw/internal/lab/record"
	"mcmw/internal/lab/testbed"
)

// run makes the run of a slot and records it. The error is one that ends the experiment: ctx has ended, or the record can't be
// written. A run that failed is no error, but one whose state says so.
func (r *runner) run(ctx context.Context, slot experiment.Slot) (record.Run, error) {
	run := record.Run{
		Point: slot.Point.Number, Repetition: slot.Repetition, Position: slot.Position, Started: time.Now().UTC(),
		State: record.Complete, Factors: factors(slot.Point.Values),
	}
	outputs, err := r.measure(ctx, slot)
	if err == nil {
		err = collect.Run(outputs, &run)
	}
	if ctx.Err() != nil {
		return run, context.Cause(ctx)
	}
	if err != nil {
		r.undeploy()
		run.State, run.Error = record.Failed, err.Error()
	} else if r.Check != nil {
		run.Warnings = r.Check(run, r.record.Manifest())
	}
	if run.ID, err = r.record.NextID(ctx); err != nil {
		return run, err
	}
	if outputs != nil {
		if err := r.writeRaw(run.ID, outputs); err != nil {
			return run, err
		}
	}
	return run, r.record.Add(run)
}

// factors are the settings as the record has them.
func factors(v experiment.Values) map[string]string {
	levels := maps.Clone(v)
	maps.DeleteFunc(levels, func(_, level string) bool { return level == "" })
	levels["connections"] = v[experiment.Clients]
	return levels
}

// measure returns what a run's programs wrote.
func (r *runner) measure(ctx context.Context, slot experiment.Slot) (*testbed.Outputs, error) {
	phases, values := r.Experiment.Phases, slot.Point.Values
	if phases.Restart || !same(values, r.deployed, deploymentSettings) {
		r.undeploy()
	}
	if r.deployment == nil {
		deployment, err := r.Testbed.Deploy(ctx, values)
		if err != nil {
			return nil, err
		}
		r.deployment, r.deployed = deployment, values
	}
	if phases.Populate && !same(values, r.populated, contentSettings) {
		if err := r.deployment.Populate(ctx, values); err != nil {
			return nil, errors.Join(errors.New("storing the keys before the load failed"), err)
		}
		r.populated = values
	}
	outputs, err := r.deployment.Measure(ctx, testbed.Measurement{
		Values: values, WarmUp: phases.WarmUp, Duration: phases.Duration, Seed: loadSeed(r.Experiment.Seed, slot.Repetition),
	})
	if phases.Restart {
		r.undeploy()
	}
	return outputs, err
}

// loadSeed is the seed of a run's load: the same for all points, another for each repetition, with room for one per load process.
func loadSeed(seed uint64, repetition int) uint64 { return seed<<32 + uint64(repetition)<<8 }

// contentSettings are the settings that what the servers hold depends on.
var contentSettings = []string{experiment.ValueSize, experiment.Keys}

// deploymentSettings are the settings that are the load's alone left out.
var deploymentSettings = func() (names []string) {
	ofLoad := []string{
		experiment.Clients, experiment.LoadProcesses, experiment.LoadThreads, experiment.Pipeline, experiment.Ratio, experiment.KeysPerGet,
		experiment.ValueSize, experiment.Keys, experiment.KeyPattern, experiment.ThinkTime, experiment.Rate, experiment.LoadCPUs, experiment.LoadFlags,
	}
	for _, s := range experiment.Settings {
		if !slices.Contains(ofLoad, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}()

func same(a, b experiment.Values, names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return b == nil || a[name] != b[name] })
}

func (r *runner) undeploy() {
	if r.deployment != nil {
		r.deployment.Stop()
	}
	r.deployment, r.deployed, r.populated = nil, nil, nil
}
