package testbed

import (
	"context"
	"fmt"
	"maps"
	"time"

	"mcmw/internal/middleware"
	"mcmw/lab/experiment"
	"mcmw/lab/record"
)

// Dilate returns a testbed whose hosts are slower, in everything, by a factor than the machines that they represent. t
// has already reduced their bandwidths and multiplied their delays. Requests to the testbed, and its answers, are in
// the time of the represented machines. The outputs of the programs are not: they say what their dilation is.
//
// The method is time dilation: D. Gupta et al., To Infinity and Beyond: Time-Warped Network Emulation, NSDI 2006.
func Dilate(t Testbed, factor float64) Testbed {
	if factor == 1 {
		return t
	}
	return dilated{t, factor}
}

type dilated struct {
	Testbed
	factor float64
}

func (t dilated) Describe(ctx context.Context) (Description, error) {
	d, err := t.Testbed.Describe(ctx)
	d.Dilation = t.factor
	return d, err
}

func (t dilated) MeasurePath(ctx context.Context, bulk time.Duration) ([]record.Value, error) {
	values, err := t.Testbed.MeasurePath(ctx, bulk)
	for i := range values {
		values[i].Value *= record.PerTime(values[i].Metric, t.factor)
	}
	return values, err
}

func (t dilated) Deploy(ctx context.Context, v experiment.Values) (Deployment, error) {
	d, err := t.Testbed.Deploy(ctx, t.values(v))
	if err != nil {
		return nil, err
	}
	return dilatedDeployment{d, t}, nil
}

// values returns settings that mean on the testbed what v means on the represented machines. The middleware's timeouts
// are dilated, too.
func (t dilated) values(v experiment.Values) experiment.Values {
	slower := maps.Clone(v)
	for _, name := range []string{experiment.ThinkTime, experiment.ServerDelay} {
		slower[name] = experiment.Dilated(v.Duration(name), t.factor).String()
	}
	slower[experiment.MiddlewareFlags] = fmt.Sprintf("--timeout %v --stall-after %v %s",
		experiment.Dilated(middleware.DefaultTimeout, t.factor),
		experiment.Dilated(middleware.DefaultStallAfter, t.factor), v[experiment.MiddlewareFlags])
	return slower
}

type dilatedDeployment struct {
	Deployment
	t dilated
}

func (d dilatedDeployment) Populate(ctx context.Context, v experiment.Values) error {
	return d.Deployment.Populate(ctx, d.t.values(v))
}

func (d dilatedDeployment) Measure(ctx context.Context, m Measurement) (*Outputs, error) {
	m.Values = d.t.values(m.Values)
	for _, duration := range []*time.Duration{&m.WarmUp, &m.Duration} {
		*duration = experiment.Dilated(*duration, d.t.factor)
	}
	o, err := d.Deployment.Measure(ctx, m)
	if o != nil {
		o.Dilation = d.t.factor
	}
	return o, err
}
