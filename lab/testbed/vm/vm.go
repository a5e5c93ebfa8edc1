package vm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"mcmw/lab/agent"
	"mcmw/lab/cgroup"
	"mcmw/lab/experiment"
	"mcmw/lab/netspace"
	"mcmw/lab/process"
	"mcmw/lab/record"
	"mcmw/lab/testbed"
)

// Hosts are the machines of an experiment.
type Hosts struct {
	testbed.Hosts
	network *network
	owner   *cgroup.Owner
	all     []*machine // the probe, and then the machines in the order of Machines
	awake   *os.File   // keeps the processors from sleeping; nil if they may
}

// roles are the roles that have machines. The index plus 1 is the third byte of their addresses; 0 is the probe's.
var roles = []testbed.Role{testbed.Load, testbed.Middleware, testbed.Server}

// New makes the machines of each role. Their packets are delayed by delay. The machines' time passes slower by the
// factor dilation, at least 1, so that this machine seems that much faster to them. If this machine cannot do that, New
// fails before it makes anything. First it removes what killed labs have left. Close must be called.
func New(machines map[string]experiment.Machine, delay time.Duration, dilation float64) (v *Hosts, err error) {
	features, err := able(os.Geteuid(), cgroup.Find)
	if err != nil {
		return nil, fmt.Errorf("the testbed vm: %w", err)
	}
	features.cpus, features.dilated = features.cpus*dilation, dilation > 1
	v = &Hosts{Hosts: testbed.Hosts{
		Of: map[testbed.Role][]testbed.Host{}, Ground: testbed.Here(), Shortfalls: features.shortfalls(machines, delay),
	}}
	v.Close = v.close
	if dilation > 1 {
		v.Dilation = dilation
	}
	if _, err := features.tree.Clean(); err != nil {
		// This testbed still works as requested, unless leftover processes use the machine.
		v.Shortfalls = append(v.Shortfalls, fmt.Sprintf("the leftovers of a killed lab could not be removed: %v", err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("making the testbed vm: %w", err), v.Close())
			v = nil
		}
	}()
	if v.awake, err = keepAwake(); err != nil {
		v.Shortfalls = append(v.Shortfalls, fmt.Sprintf("programs that have waited may be woken late: %v", err))
	}
	if v.network, err = newNetwork(experiment.Dilated(delay, dilation), features.delayed); err != nil {
		return v, err
	}
	if v.owner, err = features.tree.Own(); err != nil {
		return v, err
	}
	if err = v.add("probe", net.IPv4(10, 0, 0, 1), experiment.Machine{}); err != nil {
		return v, err
	}
	for r, role := range roles {
		spec := machines[string(role)]
		for i := range spec.Count {
			name, address := string(role)+"-"+strconv.Itoa(i), net.IPv4(10, 0, byte(r+1), byte(i+1))
			if err := v.add(name, address, slowed(features.bounded(spec), dilation)); err != nil {
				return v, err
			}
			v.Of[role] = append(v.Of[role], v.all[len(v.all)-1])
			v.Machines = append(v.Machines, record.Machine{
				Name: name, Preset: spec.Preset, Address: address.String(), CPUs: spec.CPUs, Memory: spec.Memory,
				Upload: spec.Upload, Download: spec.Download, Delay: v.network.delay.Seconds() / dilation,
				DelayedBy: string(v.network.delayed),
			})
		}
	}
	return v, nil
}

func (v *Hosts) add(name string, address net.IP, spec experiment.Machine) error {
	space, err := netspace.New()
	if err != nil {
		return err
	}
	if err = v.network.connect(space, name, address, spec); err == nil {
		_, err = controlCongestion(space)
	}
	var group *cgroup.Group
	if err == nil {
		group, err = v.owner.Make(name, cgroup.Limits{CPUs: spec.CPUs, Memory: spec.Memory})
	}
	if err != nil {
		return errors.Join(err, space.Close())
	}
	v.all = append(v.all, &machine{name, address.String(), spec.CPUs, space, group})
	return nil
}

// keepAwake makes idle processors wait without sleeping until the file is closed. If they slept, waking up would take
// long on a virtual machine whose host has other work, and the kernel would charge that time to the machines' quotas.
func keepAwake() (*os.File, error) {
	f, err := os.OpenFile("/dev/cpu_dma_latency", os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(make([]byte, 4)); err != nil { // the longest time for waking up, an int32, us
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// slowed returns the limits, on this machine, of a machine in dilated time.
func slowed(m experiment.Machine, dilation float64) experiment.Machine {
	m.CPUs, m.Upload, m.Download = m.CPUs/dilation, m.Upload/dilation, m.Download/dilation
	return m
}

// close removes the machines. Their programs must have ended.
func (v *Hosts) close() (err error) {
	for _, m := range v.all {
		err = errors.Join(err, m.space.Close())
	}
	if v.network != nil {
		err = errors.Join(err, v.network.close())
	}
	if v.owner != nil {
		err = errors.Join(err, v.owner.Close())
	}
	if v.awake != nil {
		err = errors.Join(err, v.awake.Close())
	}
	v.all, v.network, v.owner, v.awake = nil, nil, nil, nil
	return err
}

type machine struct {
	name    string
	address string
	cpus    float64 // how many processors of this machine it may use; 0: all
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
func (v *Hosts) Calibrate(ctx context.Context, mcmwlab string, bulk time.Duration, next func(machine string),
) (c Calibration, err error) {
	c.Shortfalls = v.Shortfalls
	probe := v.all[0] // has no limits
	for i, m := range v.all[1:] {
		next(m.name)
		path, err := testbed.MeasurePath(ctx, mcmwlab, m, probe, bulk)
		if err != nil {
			return c, fmt.Errorf("measuring %s: %w", m.name, err)
		}
		c.Machines = append(c.Machines, Calibrated{v.Machines[i], path.Dilated(max(v.Dilation, 1))})
	}
	return c, nil
}
