package vm

import (
	"context"
	"fmt"
	"time"

	"mcmw/lab/agent"
	"mcmw/lab/record"
	"mcmw/lab/testbed"
)

// Calibration has the requested properties of the machines, and the measured ones of their network.
type Calibration struct {
	Machines   []Calibrated `json:"machines"`
	Shortfalls []string     `json:"shortfalls,omitempty"`
}

// Calibrated is one machine. Measured is its path to a machine without limits, so Upload is what it sends.
type Calibrated struct {
	record.Machine
	Measured agent.Path `json:"measured"`
}

// Calibrate measures the machines one after another. mcmwlab is the path of that program, bulk how long each
// direction's bandwidth is measured. next is called with the name of each machine before its measurement.
func (v *Hosts) Calibrate(ctx context.Context, mcmwlab string, bulk time.Duration,
	next func(machine string),
) (c Calibration, err error) {
	machines, shortfalls := v.Machines()
	c.Shortfalls = shortfalls
	for i, m := range v.all() {
		next(m.name)
		path, err := testbed.MeasurePath(ctx, mcmwlab, m, v.probe, bulk)
		if err != nil {
			return c, fmt.Errorf("measuring %s: %w", m.name, err)
		}
		c.Machines = append(c.Machines, Calibrated{machines[i], path.Dilated(v.dilation)})
	}
	return c, nil
}
