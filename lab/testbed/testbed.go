// Package testbed runs the systems that an experiment measures: memcached servers, middlewares and load.
//
//	Testbed    a place for measurements, such as this machine
//	Deployment running servers and middlewares, as a point of an experiment requires
//	Outputs    the unchanged outputs of all programs of a run; package collect makes a run of the record from them
//
// A testbed can consist of hosts (machines, network namespaces, pods) on which programs can be started. It then only
// has to name its hosts: OnHosts does the rest. The programs write their results to standard output, so no file has to
// be fetched from a host. The result of load is JSON, the statistics of middlewares are the statistics log (`mcmw serve
// --stats-file /dev/stdout`), and the counters of hosts are the lines of agent.Sample.
//
// The lab uses the statistics log rather than /metrics or /debug/histogram for two reasons. Nothing has to poll it in
// time: it has windows of the whole run at full resolution, and those inside the measured window are selected
// afterwards. And it needs no connection from the lab to the middleware. The clocks of the hosts must agree to a
// fraction of a window.
package testbed

import (
	"context"
	"time"

	"mcmw/lab/experiment"
	"mcmw/lab/record"
)

// Role is the role of a program in an experiment.
type Role string

// The roles.
const (
	Server     Role = "server"
	Middleware Role = "middleware"
	Load       Role = "load"
)

// Testbed is a place for measurements. It is used by one goroutine.
type Testbed interface {
	// Describe returns the programs' versions and what is known about the hosts.
	Describe(ctx context.Context) (Description, error)
	// MeasurePath measures the path between the load and its targets, without load. bulk is how long each direction's
	// bandwidth is measured.
	MeasurePath(ctx context.Context, bulk time.Duration) ([]record.Value, error)
	// Deploy starts the servers and middlewares that v asks for, and returns when they answer.
	Deploy(ctx context.Context, v experiment.Values) (Deployment, error)
	// Close releases what the testbed holds. Its deployments have been stopped before.
	Close() error
}

// Description describes the parts of a testbed.
type Description struct {
	Versions map[string]string
	Host     record.Host
	// Inventory lists hosts that are reached over the network, with their addresses and roles.
	Inventory []string
	// Machines are the properties of the hosts, if the testbed knows them. Shortfalls say where they fall short of what
	// was requested.
	Machines   []record.Machine
	Shortfalls []string
	// Dilation is how many seconds pass while one second passes for the hosts; 0 means 1.
	Dilation float64
}

// Deployment is a set of running servers and middlewares. It is used by one goroutine.
type Deployment interface {
	// Populate stores every key of v once.
	Populate(ctx context.Context, v experiment.Values) error
	// Measure puts load on the deployment. It returns the outputs of all programs, also if it fails.
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
	// Loads are the results of the load processes, JSON. Middlewares are the statistics logs for the time of the run,
	// JSON lines.
	Loads, Middlewares [][]byte
	// Profiles are those of the middlewares, in pprof's format; none if they are not profiled.
	Profiles [][]byte
	// Hosts are the samples of the hosts, JSON lines, by the hosts' names.
	Hosts map[string][]byte
	// Ground are the samples of the machine that emulates the hosts; nil if the hosts are not emulated.
	Ground []byte
	// Dilation is how many seconds passed while one second passed for the hosts; 0 means 1. All programs use the clock
	// of this machine.
	Dilation float64
}
