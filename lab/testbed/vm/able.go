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

	"mcmw/lab/cgroup"
	"mcmw/lab/experiment"
	"mcmw/lab/kernel"
	"mcmw/lab/netspace"
)

// features are the abilities of this machine.
type features struct {
	tree       *cgroup.Tree
	delayed    delayer
	congestion string  // TCP's congestion control in a namespace of this machine
	cpus       float64 // processors, in the machines' time
	dilated    bool    // whether the machines' time passes slower
	memory     int64   // bytes
}

// delayer is a way to delay packets, by its name in records.
type delayer string

const (
	byNothing delayer = ""
	byNetem   delayer = "netem"
	byLine    delayer = "delay line"
)

// portName is the name of the bridge port used by try.
const portName = "port"

// able finds out whether this machine can make the testbed for a user, and returns its features. find finds the control
// groups. The error says what is missing.
func able(user int, find func() (*cgroup.Tree, error)) (f features, err error) {
	if user != 0 {
		return f,
			errors.New("making network namespaces and control groups needs root; run this as root, or choose the " +
				"testbed local")
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

// try tests the needed and the optional features of the network, in a namespace that it removes.
func (f *features) try() error {
	space, err := netspace.New()
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w; in a container this needs the capability SYS_ADMIN", err)
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

// tryLine connects a delay line to the bridge of a namespace, redirects a port to it, and removes it.
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

// bounded returns m without the limits that are above what this machine has.
func (f features) bounded(m experiment.Machine) experiment.Machine {
	if m.CPUs >= f.cpus {
		m.CPUs = 0
	}
	if m.Memory >= f.memory {
		m.Memory = 0
	}
	return m
}

// shortfalls says where the machines will fall short of what was requested.
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
			say("the %s have %s of memory instead of %s: this machine has no more", name, gibibytes(f.memory),
				gibibytes(m.Memory))
		}
		cpus += float64(m.Count) * min(m.CPUs, f.cpus)
		memory += int64(m.Count) * min(m.Memory, f.memory)
	}
	if cpus > f.cpus {
		owner := "this machine"
		if f.dilated {
			owner += " in dilated time"
		}
		say("the machines have %g processors together, but share the %g of %s: load that needs more runs slower than "+
			"on real machines", cpus, f.cpus, owner)
	}
	if memory > f.memory {
		say("the machines have %s of memory together, but share the %s of this machine", gibibytes(memory),
			gibibytes(f.memory))
	}
	if delay > 0 && f.delayed == byNothing {
		say("packets are not delayed by %v: this kernel cannot delay them (CONFIG_NET_SCH_NETEM, module sch_netem; "+
			"or CONFIG_TUN, module tun, and CONFIG_NET_ACT_MIRRED, module act_mirred)", delay)
	}
	if f.congestion != congestion {
		say("TCP uses the congestion control %s instead of %s; to change that: sysctl -w "+
			"net.ipv4.tcp_allowed_congestion_control=\"reno %s\"", f.congestion, congestion, congestion)
	}
	return shortfalls
}

func gibibytes(bytes int64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(bytes)/(1<<30)), ".0") + " GiB"
}
