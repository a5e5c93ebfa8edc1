package testbed

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/lab/experiment"
	"mcmw/lab/record"
)

// asked is a testbed and a deployment that remember what they were asked for.
type asked struct {
	deployed, populated experiment.Values
	measured            Measurement
}

func (a *asked) Describe(context.Context) (Description, error) { return Description{}, nil }
func (a *asked) Close() error                                  { return nil }
func (a *asked) Stop()                                         {}

func (a *asked) MeasurePath(context.Context, time.Duration) ([]record.Value, error) {
	return []record.Value{{Metric: "round_trip_time_mean", Value: 0.004}, {Metric: "bandwidth", Value: 1e6}}, nil
}

func (a *asked) Deploy(_ context.Context, v experiment.Values) (Deployment, error) {
	a.deployed = v
	return a, nil
}

func (a *asked) Populate(_ context.Context, v experiment.Values) error {
	a.populated = v
	return nil
}

func (a *asked) Measure(_ context.Context, m Measurement) (*Outputs, error) {
	a.measured = m
	return &Outputs{}, nil
}

func TestInDilatedTimeEverythingTakesLongerAndIsReportedInTheTimeOfTheMachines(t *testing.T) {
	ctx, a := context.Background(), &asked{}
	slower := Dilate(a, 4)
	description, err := slower.Describe(ctx)
	require.NoError(t, err)
	assert.InDelta(t, 4, description.Dilation, 0)
	path, err := slower.MeasurePath(ctx, time.Second)
	require.NoError(t, err)
	assert.Equal(t, []record.Value{{Metric: "round_trip_time_mean", Value: 0.001}, {Metric: "bandwidth", Value: 4e6}},
		path)

	v := experiment.Values{
		experiment.ThinkTime: "3ms", experiment.ServerDelay: "0s", experiment.Clients: "6",
		experiment.MiddlewareFlags: "--stall-after 1s",
	}
	d, err := slower.Deploy(ctx, v)
	require.NoError(t, err)
	want := experiment.Values{
		experiment.ThinkTime: "12ms", experiment.ServerDelay: "0s", experiment.Clients: "6",
		experiment.MiddlewareFlags: "--timeout 4s --stall-after 400ms --stall-after 1s",
	}
	assert.Equal(t, want, a.deployed, "the experiment's own flags come last and take precedence")
	require.NoError(t, d.Populate(ctx, v))
	assert.Equal(t, want, a.populated)
	outputs, err := d.Measure(ctx, Measurement{Values: v, WarmUp: time.Second, Duration: 10 * time.Second, Seed: 7})
	require.NoError(t, err)
	assert.Equal(t, Measurement{Values: want, WarmUp: 4 * time.Second, Duration: 40 * time.Second, Seed: 7}, a.measured)
	assert.InDelta(t, 4, outputs.Dilation, 0)
	assert.Equal(t, "3ms", v[experiment.ThinkTime], "the experiment's own values are unchanged")
	assert.Same(t, a, Dilate(a, 1))
}
