package vm

import (
	"cmp"
	"context"
	"os/exec"
	"runtime"

	"mcmw/lab/cgroup"
	"mcmw/lab/experiment"
	"mcmw/lab/netspace"
	"mcmw/lab/process"
	"mcmw/lab/testbed"
)

type machine struct {
	name    string
	address string
	spec    experiment.Machine // as requested
	cpus    float64            // how many processors of this machine it may use; 0: all
	space   *netspace.Namespace
	group   *cgroup.Group
}

func (m *machine) Name() string    { return m.name }
func (m *machine) Address() string { return m.address }

// FreePort returns a port on which nothing in the machine listens.
func (m *machine) FreePort(context.Context) (port int, err error) {
	err = m.space.Do(func() error {
		port, err = process.FreePort(m.address)
		return err
	})
	return port, err
}

// Group makes the machine's processor time that of its programs, if the kernel counts it: the counters visible in the
// machine are those of the whole machine outside.
func (m *machine) Group() (dirs []string, cpus float64) {
	if _, _, err := cgroup.Used(m.group.Dirs()); err != nil {
		return nil, 0
	}
	all := float64(runtime.NumCPU())
	return m.group.Dirs(), min(all, cmp.Or(m.cpus, all))
}

// Start starts a program in the machine.
func (m *machine) Start(_ context.Context, p testbed.Program) (testbed.Process, error) {
	path, err := exec.LookPath(p.Path)
	if err != nil {
		return nil, err
	}
	var started testbed.Process
	err = m.space.Do(func() (err error) {
		started, err = testbed.StartOn(p, m.group.Command(path, p.Args...))
		return err
	})
	return started, err
}
