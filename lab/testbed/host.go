package testbed

import (
	"bytes"
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
type Hosts struct {
	// Of are the hosts of each role. The role's programs take turns.
	Of map[Role][]Host
	// Ground is the machine on which the hosts are emulated, and whose processors they share; nil: they are not
	// emulated.
	Ground Host
	// Dilation is how many seconds pass while one second passes for the hosts; 0 means 1.
	Dilation float64
	// Inventory has a line for each host that is reached over the network, with its address and its roles.
	Inventory []string
	// Machines are the properties of the hosts, if they are known. Shortfalls has a sentence for each shortfall of what
	// was requested.
	Machines   []record.Machine
	Shortfalls []string
	// Close releases the hosts.
	Close func() error
}

// host returns the host for the program with this index, from 0, of its role.
func (h *Hosts) host(role Role, index int) Host { return h.Of[role][index%len(h.Of[role])] }

// Programs are the paths of the programs on the hosts.
type Programs struct {
	Memcached, Redis string // "" if not needed
	Mcmw, Mcmwlab    string
	// Systems are other programs that can stand between clients and servers, by their names in experiments.
	Systems map[string]experiment.SystemKind
}

// local is this machine, on the loopback interface.
type local struct{}

// Local returns this machine as the only host.
func Local() Hosts {
	here := []Host{Here()}
	return Hosts{
		Of: map[Role][]Host{Server: here, Middleware: here, Load: here}, Close: func() error { return nil },
	}
}

// Here returns this machine as a host.
func Here() Host { return local{} }

func (local) Name() string    { return "local" }
func (local) Address() string { return process.Loopback }

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

// Member is a server, a middleware or another program of a deployment or a run.
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

	host Host          // nil if it runs on none
	out  *bytes.Buffer // its output, of a program of a run; complete when it has ended
}

// Placed returns the deployment of running servers and middlewares that something else than a Host has started, such as
// a cluster. Only load needs hosts, with mcmwlab at that path. Placed returns when all members answer.
func Placed(ctx context.Context, loads []Host, mcmwlab string, servers, middlewares []Member) (Deployment, error) {
	t := &onHosts{hosts: Hosts{Of: map[Role][]Host{Load: loads}}, programs: Programs{Mcmwlab: mcmwlab}}
	d := &deployment{t: t, servers: servers, middlewares: middlewares}
	if err := d.await(ctx, d.all()); err != nil {
		if ended := d.ended(); ended != nil {
			err = ended
		}
		d.Stop()
		return nil, err
	}
	return d, nil
}
