package vm

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"os"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"mcmw/lab/experiment"
	"mcmw/lab/netspace"
)

// network is the bridge to which machines are connected. Packets are delayed by netem at each machine or, if there is a
// line, by the line at the bridge.
type network struct {
	space   *netspace.Namespace
	delay   time.Duration
	delayed delayer // byNothing without a delay
	line    *delayLine
}

const (
	bridgeName = "bridge"
	// cardName is the name of a machine's interface.
	cardName = "eth0"
	// prefixBits is the prefix length of the machines' addresses, 10.0.0.0/16, which are not visible outside the
	// namespaces.
	prefixBits = 16
)

// newNetwork makes a bridge without machines.
func newNetwork(delay time.Duration, delayed delayer) (n *network, err error) {
	space, err := netspace.New()
	if err != nil {
		return nil, err
	}
	if delay == 0 || delayed == byNothing {
		delay, delayed = 0, byNothing
	}
	n = &network{space: space, delay: delay, delayed: delayed}
	if err = space.Do(unfiltered); err != nil {
		return nil, errors.Join(err, space.Close())
	}
	err = space.Configure(func(h *netlink.Handle) error {
		if err := h.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}}); err != nil {
			return fmt.Errorf("making a bridge: %w", err)
		}
		return netspace.Up(h, bridgeName)
	})
	if err == nil && delayed == byLine {
		n.line, err = newDelayLine(space, delay)
	}
	if err != nil {
		return nil, errors.Join(err, space.Close())
	}
	return n, nil
}

// unfiltered keeps bridged packets in this thread's namespace out of this machine's firewall, if it filters bridged
// packets.
func unfiltered() error {
	const file = "/proc/sys/net/bridge/bridge-nf-call-iptables"
	err := os.WriteFile(file, []byte("0"), 0o644)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the firewall does not filter bridged packets
	}
	return err
}

// connect connects a machine's namespace to the bridge by a cable and gives it an address. port is the name of the
// cable's end at the bridge.
func (n *network) connect(space *netspace.Namespace, port string, address net.IP, m experiment.Machine) error {
	err := n.space.Configure(func(h *netlink.Handle) error {
		bridge, err := h.LinkByName(bridgeName)
		if err != nil {
			return fmt.Errorf("the bridge: %w", err)
		}
		cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: port}, PeerName: cardName, PeerNamespace: space.End()}
		if err := h.LinkAdd(cable); err != nil {
			return fmt.Errorf("making the cable of %s: %w", port, err)
		}
		if err := h.LinkSetMaster(cable, bridge); err != nil {
			return fmt.Errorf("connecting %s to the bridge: %w", port, err)
		}
		if err := h.LinkSetGSOMaxSize(cable, gsoSize); err != nil {
			return fmt.Errorf("limiting the size of packets to %s: %w", port, err)
		}
		if err := shape(h, port, m.Download, 0); err != nil {
			return err
		}
		return netspace.Up(h, port)
	})
	if err != nil {
		return err
	}
	var hardware net.HardwareAddr
	err = space.Configure(func(h *netlink.Handle) error {
		card, err := h.LinkByName(cardName)
		if err != nil {
			return fmt.Errorf("the interface of %s: %w", port, err)
		}
		if err := h.AddrAdd(card, &netlink.Addr{IPNet: &net.IPNet{
			IP:   address,
			Mask: net.CIDRMask(prefixBits, 32),
		}}); err != nil {
			return fmt.Errorf("giving %s the address %v: %w", port, address, err)
		}
		if err := h.LinkSetGSOMaxSize(card, gsoSize); err != nil {
			return fmt.Errorf("limiting the size of packets from %s: %w", port, err)
		}
		hardware = card.Attrs().HardwareAddr
		var delay time.Duration
		if n.delayed == byNetem {
			delay = n.delay
		}
		if err := shape(h, cardName, m.Upload, delay); err != nil {
			return fmt.Errorf("%s: %w", port, err)
		}
		return netspace.Up(h, cardName)
	})
	if err != nil || n.line == nil {
		return err
	}
	return n.space.Configure(func(h *netlink.Handle) error {
		if err := redirectToDelayLine(h, port, hardware); err != nil {
			return fmt.Errorf("redirecting what %s sends to the delay line: %w", port, err)
		}
		return nil
	})
}

func (n *network) close() (err error) {
	if n.line != nil {
		err = n.line.close()
	}
	return errors.Join(err, n.space.Close())
}

const (
	// frame is the longest Ethernet frame as the kernel's queues count it, bytes: 14 of Ethernet, 20 of IPv4, 32 of TCP
	// with time stamps, and segment of payload.
	frame   = 14 + 20 + 32 + segment
	segment = 1448

	// burstTime is how long a direction may exceed its rate after being idle. It is short compared to half a second of
	// bulk, with which paths are measured (0.4 %), and long compared to the lateness of the kernel's timers.
	burstTime = 2 * time.Millisecond
	// queueTime is how long a packet may wait for a direction. Closed loops of hundreds of clients queue less, so they
	// lose no packets, as on the reports' machines.
	queueTime = 500 * time.Millisecond
	minQueue  = 256 << 10 // bytes
	// gsoSize is the largest packet that the kernel passes through the cable in one piece, bytes. The default is 64
	// KiB, for which the bucket of a slow direction has no room.
	gsoSize = 16 << 10
	// netemPackets is how many packets can be in flight.
	netemPackets = 100_000
)

// rateFor returns the rate of frames, bytes per second, that carries a rate of bulk payload.
func rateFor(payload float64) uint64 { return uint64(math.Round(payload * frame / segment)) }

// burstFor returns the size of the bucket for a rate in bytes per second: at least two frames.
func burstFor(rate uint64) uint32 {
	return uint32(max(float64(rate)*burstTime.Seconds(), 2*frame))
}

// limitFor returns how many bytes may wait.
func limitFor(rate uint64) uint32 {
	return uint32(min(max(float64(rate)*queueTime.Seconds(), minQueue), math.MaxUint32))
}

// bucket returns a token bucket for a rate of payload, bytes per second.
func bucket(link int, parent, handle uint32, payload float64) *netlink.Tbf {
	rate := rateFor(payload)
	return &netlink.Tbf{
		QdiscAttrs: netlink.QdiscAttrs{LinkIndex: link, Parent: parent, Handle: handle},
		Rate:       rate, Limit: limitFor(rate), Buffer: netlink.Xmittime(rate, burstFor(rate)),
	}
}

// shape limits what leaves by an interface to a rate of payload, bytes per second (0: no limit), and delays it.
func shape(h *netlink.Handle, name string, payload float64, delay time.Duration) error {
	link, err := h.LinkByName(name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", name, err)
	}
	index, parent, handle := link.Attrs().Index, uint32(netlink.HANDLE_ROOT), netlink.MakeHandle(1, 0)
	if delay > 0 {
		attrs := netlink.QdiscAttrs{LinkIndex: index, Parent: parent, Handle: handle}
		netem := netlink.NewNetem(attrs,
			netlink.NetemQdiscAttrs{Latency: uint32(delay.Microseconds()), Limit: netemPackets})
		if err := h.QdiscAdd(netem); err != nil {
			return fmt.Errorf("delaying what leaves by %s: %w", name, err)
		}
		parent, handle = netlink.MakeHandle(1, 1), netlink.MakeHandle(2, 0)
	}
	if payload > 0 {
		if err := h.QdiscAdd(bucket(index, parent, handle, payload)); err != nil {
			return fmt.Errorf("limiting what leaves by %s to %.0f bytes per second: %w", name, payload, err)
		}
	}
	return nil
}

// congestion is the congestion control of TCP in machines: Linux's default, which the reports' machines used. Another
// one that this machine may be set to, such as bbr, reacts differently to a slow path.
const congestion = "cubic"

// congestionFile sets the congestion control of the caller's network namespace.
const congestionFile = "/proc/sys/net/ipv4/tcp_congestion_control"

// controlCongestion sets congestion in a namespace, if this machine allows that, and returns the setting in force.
func controlCongestion(n *netspace.Namespace) (current string, err error) {
	err = n.Do(func() error {
		refused := os.WriteFile(congestionFile, []byte(congestion), 0o644)
		text, err := os.ReadFile(congestionFile)
		if err != nil {
			return errors.Join(refused, err)
		}
		current = strings.TrimSpace(string(text))
		return nil
	})
	return current, err
}
