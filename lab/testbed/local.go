package testbed

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"

	"mcmw/lab/process"
)

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
		started, err = process.Start(p.Name, "", cmd)
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
