package vm

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mcmw/internal/lab/cgroup"
	"mcmw/internal/lab/experiment"
	"mcmw/internal/lab/kernel"
	"mcmw/internal/lab/netspace"
)

type features struct {
	tree    *cgroup.Tree
	delayed delayer
	// congestion is how TCP finds its rate in a namespace of this machine.
	congestion string
	cpus       float64 // of the time of the machines
	dilated    bool    // that time passes slower
	memory     int64   // bytes
}

// delayer is a way to delay packets, by its name in records.
type delayer string

const (
	byNothing delayer = ""
	byNetem   delayer = "netem"
	byLine    delayer = "delay line"
)

// portName is the name of the bridge port used for trying.
const portName = "port"

// able finds out what this machine can do for a user, with control groups as find finds them. The error says what is missing.
func able(user int, find func() (*cgroup.Tree, error)) (f features, err error) {
	if user != 0 {
		return f, errors.New("it makes network namespaces and control groups, which needs root; run it as root, or choose the testbed local")
	}
	if f.tree, err = find(); err != nil {
		return f, err
	}
	if err = f.try(); err != nil {
		return f, err
	}
	f.cpus = float64(runtime.NumCPU())
	memory, err := kernel.Memory()
	f.memory = int64(memory)
	return f, err
}

// try tries what is needed of the network, and what is wanted, in a namespace that is thrown away.
func (f *features) try() error {
	space, err := netspace.New()
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w; in a container it needs the capability SYS_ADMIN", err)
		}
		return err
	}
	defer space.Close()
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}}
	err = space.Configure(func(h *netlink.Handle) error {
		for _, needed := range []struct {
			what string
			try  func() error
		}{
			{"bridges (CONFIG_BRIDGE, module bridge)", func() error {
				return h.LinkAdd(bridge)
			}},
			{"virtual cables (CONFIG_VETH, module veth)", func() error {
				cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: portName}, PeerName: cardName}
				return errors.Join(h.LinkAdd(cable), h.LinkSetMaster(cable, bridge))
			}},
			{"token buckets (CONFIG_NET_SCH_TBF, module sch_tbf)", func() error { return shape(h, portName, 1e6, 0) }},
		} {
			if err := needed.try(); err != nil {
				return fmt.Errorf("this kernel has no %s: %w", needed.what, err)
			}
		}
		if shape(h, cardName, 0, time.Millisecond) == nil {
			f.delayed = byNetem
		}
		return nil
	})
	if err != nil {
		return err
	}
	if f.delayed == byNothing && tryLine(space) == nil {
		f.delayed = byLine
	}
	f.congestion, err = controlCongestion(space)
	return err
}

// tryLine connects a delay line to the bridge of a namespace, leads a port to it, and takes it away.
func tryLine(space *netspace.Namespace) error {
	line, err := newDelayLine(space, time.Millisecond)
	if err != nil {
		return err
	}
	err = space.Configure(func(h *netlink.Handle) error {
		return redirectToDelayLine(h, portName, net.HardwareAddr{2, 0, 0, 0, 0, 1})
	})
	return errors.Join(err, line.close())
}

// bounded returns a machine without the limits that this machine can't exceed.
func (f features) bounded(m experiment.Machine) experiment.Machine {
	if m.CPUs >= f.cpus {
		m.CPUs = 0
	}
	if m.Memory >= f.memory {
		m.Memory = 0
	}
	return m
}

// shortfalls says in what machines will be less than was asked for.
func (f features) shortfalls(machines map[string]experiment.Machine, delay time.Duration) (shortfalls []string) {
	say := func(format string, args ...any) { shortfalls = append(shortfalls, fmt.Sprintf(format, args...)) }
	var cpus float64
	var memory int64
	for _, role := range roles {
		m, name := machines[string(role)], string(role)+" machines"
		if m.Preset != "" {
			name += " (" + m.Preset + ")"
		}
		if m.CPUs > f.cpus {
			say("the %s have %g processors instead of %g: this machine has no more", name, f.cpus, m.CPUs)
		}
		if m.Memory > f.memory {
			say("the %s have %s instead of %s of memory: this machine has no more", name, gibibytes(f.memory), gibibytes(m.Memory))
		}
		cpus += float64(m.Count) * min(m.CPUs, f.cpus)
		memory += int64(m.Count) * min(m.Memory, f.memory)
	}
	if cpus > f.cpus {
		of := "this machine"
		if f.dilated {
			of += " in dilated time"
		}
		say("the machines together have %g processors, which share the %g of %s: what needs more than these is slower than on machines of their own", cpus, f.cpus, of)
	}
	if memory > f.memory {
		say("the machines together have %s of memory, which share the %s of this machine", gibibytes(memory), gibibytes(f.memory))
	}
	if delay > 0 && f.delayed == byNothing {
		say("packets don't travel for %v: this kernel can't delay them (CONFIG_NET_SCH_NETEM, module sch_netem; or CONFIG_TUN, module tun, and CONFIG_NET_ACT_MIRRED, module act_mirred)", delay)
	}
	if f.congestion != congestion {
		say("TCP finds its rate by %s instead of %s; to change that: sysctl -w net.ipv4.tcp_allowed_congestion_control=\"reno %s\"", f.congestion, congestion, congestion)
	}
	return shortfalls
}

func gibibytes(bytes int64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(bytes)/(1<<30)), ".0") + " GiB"
}
