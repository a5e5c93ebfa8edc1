package runner

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"mcmw/lab/collect"
	"mcmw/lab/experiment"
	"mcmw/lab/record"
	"mcmw/lab/testbed"
)

// run makes the run of a slot and records it. It returns an error only if the experiment must end: ctx has ended, or
// the record cannot be written. A failed run is recorded in state Failed; so is one with too much foreign load, unless
// this is the last pass. disturbed reports whether it is to be made again.
func (r *runner) run(ctx context.Context, slot experiment.Slot, last bool) (_ record.Run, disturbed bool, _ error) {
	run := record.Run{
		Point: slot.Point.Number, Repetition: slot.Repetition, Position: slot.Position, Started: time.Now().UTC(),
		State: record.Complete, Factors: factors(slot.Point.Values),
	}
	outputs, err := r.measure(ctx, slot)
	if err == nil {
		err = collect.Run(outputs, &run)
	}
	if ctx.Err() != nil {
		return run, false, context.Cause(ctx)
	}
	if err != nil {
		r.undeploy()
		run.State, run.Error = record.Failed, err.Error()
	} else if most := r.Experiment.Phases.ForeignLoad; most > 0 && r.Foreign != nil {
		share, known := r.Foreign(run, r.record.Manifest())
		switch {
		case !known:
			r.unjudged++
		case share > most && !last:
			disturbed, run.State = true, record.Failed
			run.Error = fmt.Sprintf("to be made again: %.3g %% of the processor time in use was not the experiment's",
				100*share)
		}
	}
	if run.State == record.Complete && r.Check != nil {
		run.Warnings = r.Check(run, r.record.Manifest())
	}
	if run.ID, err = r.record.NextID(ctx); err != nil {
		return run, false, err
	}
	if outputs != nil {
		if err := r.writeRaw(run.ID, outputs); err != nil {
			return run, false, err
		}
	}
	return run, disturbed, r.record.Add(run)
}

// factors returns the settings in the form of the record.
func factors(v experiment.Values) map[string]string {
	levels := maps.Clone(v)
	maps.DeleteFunc(levels, func(_, level string) bool { return level == "" })
	return levels
}

// measure makes a run and returns the outputs of its programs.
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
			return nil, fmt.Errorf("storing the keys before the load: %w", err)
		}
		r.populated = values
	}
	outputs, err := r.deployment.Measure(ctx, testbed.Measurement{
		Values: values, WarmUp: phases.WarmUp, Duration: phases.Duration,
		Seed: loadSeed(r.Experiment.Seed, slot.Repetition),
	})
	if phases.Restart {
		r.undeploy()
	}
	return outputs, err
}

// loadSeed is the seed of a run's load: the same for all points, another for each repetition, and spaced so that each
// load process can have its own.
func loadSeed(seed uint64, repetition int) uint64 { return seed<<32 + uint64(repetition)<<8 }

// contentSettings are the settings that determine the contents of the servers.
func contentSettings(s experiment.Setting) bool { return s.Program == experiment.Populate }

// deploymentSettings are those that not only the load uses.
func deploymentSettings(s experiment.Setting) bool {
	return slices.ContainsFunc(experiment.DeploymentSettings, func(of experiment.Setting) bool {
		return of.Name == s.Name
	})
}

// same reports whether two points have the same values of some settings.
func same(a, b experiment.Values, of func(experiment.Setting) bool) bool {
	return !slices.ContainsFunc(experiment.Settings, func(s experiment.Setting) bool {
		return of(s) && (b == nil || a[s.Name] != b[s.Name])
	})
}

func (r *runner) undeploy() {
	if r.deployment != nil {
		r.deployment.Stop()
	}
	r.deployment, r.deployed, r.populated = nil, nil, nil
}
