package vm

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
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
