package testbed

import (
	"context"
	"io"
	"syscall"

	"mcmw/lab/experiment"
	"mcmw/lab/record"
)

// Host is a machine, or what represents one, on which programs can be started.
type Host interface {
	// Name distinguishes it from the other hosts of the testbed.
	Name() string
	// Address is the address at which other hosts reach it.
	Address() string
	// FreePort returns a port of its address on which nothing listens.
	FreePort(ctx context.Context) (int, error)
	// Start starts a program.
	Start(ctx context.Context, p Program) (Process, error)
}

// Sampled is a host whose samples need more than the counters of its operating system.
type Sampled interface {
	// Group returns the directories of the host's control group, and the number of its processors.
	Group() (dirs []string, cpus float64)
}

// Program is a program to start.
type Program struct {
	Name string // in errors and samples, such as "middleware:0"
	Path string // on the host
	Args []string
	// CPUs are the processors that it may use; empty: those of its role.
	CPUs []int
	// Stdout receives its standard output; nil: it is discarded.
	Stdout io.Writer
}

// Process is a started program. *process.Process is one.
type Process interface {
	// Pid returns its process id on its host.
	Pid() int
	// Done returns a channel that is closed when it has ended and all its output has been written to Stdout.
	Done() <-chan struct{}
	// Ended returns an error if it has ended. The error says how, with the end of its output.
	Ended() error
	// ExitCode returns its exit code; -1 while it runs or if a signal ended it.
	ExitCode() int
	// Stop sends it a signal, kills it if it doesn't end soon, and returns when it has ended.
	Stop(signal syscall.Signal)
}

// Hosts are the hosts of a testbed.
type Hosts interface {
	// Host returns the host for a program: the one with this index, from 0, of its role. Several programs can share a
	// host.
	Host(role Role, index int) (Host, error)
	// Close releases the hosts.
	Close() error
}

// Emulator is implemented by Hosts that are emulated on one machine, whose processors they share.
type Emulator interface {
	// Ground returns that machine.
	Ground() Host
}

// Describer is implemented by Hosts that know their properties.
type Describer interface {
	// Machines returns the properties of the hosts, and one sentence for each shortfall of what was requested.
	Machines() (machines []record.Machine, shortfalls []string)
}

// Listed is implemented by Hosts that are reached over the network.
type Listed interface {
	// Inventory returns a line for each host, with its address and its roles.
	Inventory() []string
}

// Programs are the paths of the programs on the hosts.
type Programs struct {
	Memcached, Redis string // "" if not needed
	Mcmw, Mcmwlab    string
	// Systems are other programs that can stand between clients and servers, by their names in experiments.
	Systems map[string]experiment.SystemKind
}
