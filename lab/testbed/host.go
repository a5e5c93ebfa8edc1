package testbed

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"

	"mcmw/lab/experiment"
	"mcmw/lab/process"
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

// local is this machine: one host for everything, on the loopback interface.
type local struct{}

// Local returns this machine as the only host.
func Local() Hosts { return local{} }

// Here returns this machine as a host.
func Here() Host { return local{} }

func (local) Host(Role, int) (Host, error) { return local{}, nil }
func (local) Close() error                 { return nil }
func (local) Name() string                 { return "local" }
func (local) Address() string              { return process.Loopback }

func (local) FreePort(context.Context) (int, error) { return process.FreePort(process.Loopback) }

func (local) Start(_ context.Context, p Program) (Process, error) {
	return StartOn(p, exec.Command(p.Path, p.Args...))
}

// StartOn starts p by a command on the processors that p may use.
func StartOn(p Program, cmd *exec.Cmd) (Process, error) {
	cmd.Stdout = p.Stdout
	var started *process.Process
	err := onProcessors(p.CPUs, func() (err error) {
		started, err = process.Start(p.Name, cmd)
		return err
	})
	if err != nil {
		return nil, err
	}
	return started, nil
}

// onProcessors calls start on a thread that may use only those processors; none means all. Programs that start starts
// inherit them before they start threads of their own.
func onProcessors(cpus []int, start func() error) error {
	if len(cpus) == 0 {
		return start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, wanted unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return fmt.Errorf("reading the processors of this process: %w", err)
	}
	for _, cpu := range cpus {
		wanted.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &wanted); err != nil {
		return fmt.Errorf("processors %v: %w; there are %d", cpus, err, runtime.NumCPU())
	}
	err := start()
	if restoreErr := unix.SchedSetaffinity(0, &before); restoreErr != nil && err == nil {
		err = fmt.Errorf("restoring the processors of this process: %w", restoreErr)
	}
	return err
}

// Member is a server, a middleware or another program of a deployment.
type Member struct {
	// Process ends when the member does. If the member does not run on a Host, stopping Process need not end it.
	Process
	Name    string // its source in records, such as "middleware:0"
	Address string // where the load's hosts reach it, host:port
	// Metrics is the URL of its Prometheus metrics, from which the first load host reads its processor time; "" if it
	// runs on a Host, or has none.
	Metrics string
	Admin   string // of a middleware that is profiled: its admin address on its host; "": it isn't
	Log     *Log   // of a middleware: its statistics log; nil: none

	host Host // nil if it runs on none
}

// Placed returns the deployment of running servers and middlewares that something else than a Host has started, such as
// a cluster. Only load needs hosts, and only mcmwlab is used of the programs. Placed returns when all members answer.
func Placed(ctx context.Context, hosts Hosts, programs Programs, servers, middlewares []Member) (Deployment, error) {
	d := &deployment{t: &onHosts{hosts: hosts, programs: programs}, servers: servers, middlewares: middlewares}
	if err := d.await(ctx, d.all()); err != nil {
		if ended := d.ended(); ended != nil {
			err = ended
		}
		d.Stop()
		return nil, err
	}
	return d, nil
}
