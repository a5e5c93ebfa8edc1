package testbed

import (
	"context"
	"io"
	"syscall"

	"mcmw/internal/lab/experiment"
	"mcmw/internal/lab/record"
)

// Host is a machine, or what stands for one, that programs can be run on.
type Host interface {
	// Name tells it from the other hosts of the testbed.
	Name() string
	// Address is where other hosts reach it.
	Address() string
	// FreePort returns a port of its address that nobody listens on.
	FreePort(ctx context.Context) (int, error)
	// Start starts a program.
	Start(ctx context.Context, p Program) (Process, error)
}

// Sampled is a host whose samples need more than its operating system's counters.
type Sampled interface {
	// SampleFlags returns further flags of `mcmwlab agent sample`.
	SampleFlags() []string
}

// Program is a program to be run.
type Program struct {
	Name string // in errors and samples, such as "middleware:0"
	Path string // on the host
	Args []string
	// CPUs are the processors that it may use; empty: those of its role.
	CPUs []int
	// Stdout gets its standard output; nil: it is discarded.
	Stdout io.Writer
}

// Process is a program that was started. *process.Process is one.
type Process interface {
	// Pid returns its id, by which it is known on its host.
	Pid() int
	// Done returns a channel that is closed when it has ended and all it wrote has been handed to Stdout.
	Done() <-chan struct{}
	// Ended returns an error if it has ended by itself, with how and with the end of what it wrote.
	Ended() error
	// ExitCode returns what it ended with, -1 while it runs or when a signal ended it.
	ExitCode() int
	// Stop sends it a signal, kills it if it doesn't end soon, and returns when it has ended.
	Stop(signal syscall.Signal)
}

// Hosts are the hosts of a testbed.
type Hosts interface {
	// Kind is the testbed's name in experiments and records.
	Kind() string
	// Host returns the host for a program: the index-th of its role, from 0. Several programs may share a host.
	Host(role Role, index int) (Host, error)
	// Close gives up the hosts.
	Close() error
}

// Emulator is hosts that are emulated on one machine, whose processors they share.
type Emulator interface {
	// Ground returns that machine.
	Ground() Host
}

// Describer is hosts that know what they are made of.
type Describer interface {
	// Machines returns what the hosts are like, and in what they fall short of what was asked for, a sentence each.
	Machines() (machines []record.Machine, shortfalls []string)
}

// Programs are the paths of the programs on the hosts.
type Programs struct {
	Memcached, Redis string // "": not needed
	Mcmw, Mcmwlab    string
	// Systems are what stands between clients and servers beside that mcmw, by the names that experiments give them.
	Systems map[string]experiment.SystemKind
}
