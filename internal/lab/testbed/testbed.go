// Package testbed runs the systems that an experiment measures: memcached servers, middlewares and load.
//
//	Testbed    a place for measurements, such as this machine
//	Deployment running servers and middlewares, as a point of an experiment requires
//	Outputs    the unchanged outputs of all programs of a run; package collect makes a run of the record from them
//
// A testbed whose places are hosts (machines, network namespaces, pods) on which programs can be started needs only to say
// what its hosts are: OnHosts does everything else with programs that write their results to standard output, so that no
// file has to be fetched from a host. The load's result is JSON, the middlewares' statistics are the statistics log (`mcmw
// serve --stats-file /dev/stdout`), the hosts' counters are the lines of `mcmwlab agent sample`.
//
// It uses the statistics log rather than /metrics or /debug/histogram because nobody has to poll it in time: it has windows
// of the whole run at full resolution, from which those inside the measured window are selected afterwards; and because it
// needs no connection from the lab to the middleware. The clocks of several hosts must agree to a fraction of a window.
package testbed

import (
	"context"
	"time"

	"mcmw/internal/lab/experiment"
	"mcmw/internal/lab/record"
)

// Role is the role of a program in an experiment.
type Role string

// The roles.
const (
	Server     Role = "server"
	Middleware Role = "middleware"
	Load       Role = "load"
)

// Testbed is a place to measure in. It is used by one goroutine.
type Testbed interface {
	// Describe says what takes part: the programs' versions and the host that matters most.
	Describe(ctx context.Context) (Description, error)
	// MeasurePath measures the path between the load and what it is put on, without load. bulk is how long each direction carries bulk.
	MeasurePath(ctx context.Context, bulk time.Duration) ([]record.Value, error)
	// Deploy starts servers and middlewares as v wants them, and returns when they answer.
	Deploy(ctx context.Context, v experiment.Values) (Deployment, error)
	// Close gives up what the testbed holds. Its deployments have been stopped.
	Close() error
}

// Description describes the parts of a testbed.
type Description struct {
	Versions map[string]string
	Host     record.Host
	// Machines are what the hosts are like, if the testbed knows; Shortfalls say in what they are less than was asked for.
	Machines   []record.Machine
	Shortfalls []string
	// Dilation is how many seconds pass while one passes for the machines; 0 if it is one.
	Dilation float64
}

// Deployment is servers and middlewares that run. It is used by one goroutine.
type Deployment interface {
	// Populate stores every key of v once.
	Populate(ctx context.Context, v experiment.Values) error
	// Measure puts load on the deployment and returns what all programs wrote, also when it fails.
	Measure(ctx context.Context, m Measurement) (*Outputs, error)
	// Stop ends all programs and returns when they have ended.
	Stop()
}

// Measurement describes the load to make.
type Measurement struct {
	Values           experiment.Values
	WarmUp, Duration time.Duration
	Seed             uint64
}

// Outputs are the unparsed outputs of the programs of one run.
type Outputs struct {
	// Loads are the results of the load processes, JSON; Middlewares the statistics logs for the time of the run, JSON lines.
	Loads, Middlewares [][]byte
	// Hosts are the samples by the names of the hosts, JSON lines.
	Hosts map[string][]byte
	// Ground is the samples of the machine that the hosts are emulated on; nil if they aren't.
	Ground []byte
	// Dilation is how many seconds passed while one passed for the machines; 0 if it was one. The clocks of all programs are this
	// machine's.
	Dilation float64
}
