package vm

import (
	"fmt"
	"math"
	"time"

	"github.com/vishvananda/netlink"
)

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
