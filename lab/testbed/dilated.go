package testbed

import (
	"fmt"
	"maps"
	"time"

	"mcmw/internal/middleware"
	"mcmw/lab/experiment"
)

// Hosts can be slower, in everything, by a factor than the machines that they represent. What makes them has reduced
// their bandwidths and multiplied their delays. Requests to the testbed, and its answers, are in the time of the
// represented machines. The outputs of the programs are not: they say what their dilation is.
//
// The method is time dilation: D. Gupta et al., To Infinity and Beyond: Time-Warped Network Emulation, NSDI 2006.

// dilation is how many seconds pass while one second passes for the hosts.
func (t *onHosts) dilation() float64 { return max(t.hosts.Dilation, 1) }

// slowed returns settings that mean on the hosts what v means on the represented machines. The middleware's timeouts
// are dilated, too.
func (t *onHosts) slowed(v experiment.Values) experiment.Values {
	if t.dilation() == 1 {
		return v
	}
	longer := func(d time.Duration) time.Duration { return experiment.Dilated(d, t.dilation()) }
	slower := maps.Clone(v)
	for _, name := range []string{experiment.ThinkTime, experiment.ServerDelay} {
		slower[name] = longer(v.Duration(name)).String()
	}
	slower[experiment.MiddlewareFlags] = fmt.Sprintf("--timeout %v --stall-after %v %s",
		longer(middleware.DefaultTimeout), longer(middleware.DefaultStallAfter), v[experiment.MiddlewareFlags])
	return slower
}
