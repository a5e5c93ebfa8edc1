package vm

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"mcmw/lab/netspace"
)

const (
	// lineName is the name of the delay line's port at the bridge.
	lineName = "delay"
	// grain is how long the delay line sleeps between two checks while frames are in flight. It is the uncertainty of
	// their delay, and it lets one wake-up serve many packets.
	grain = 100 * time.Microsecond
	// mostLate bounds the estimate of how late the thread usually wakes up.
	mostLate = grain
	// linePackets is how many packets can wait for a check.
	linePackets = 10_000
)

// delayLine delays the packets of all machines by the same time, in place of netem. It is a port of the bridge whose
// other end is this program. What a machine sends is redirected to it before the bridge sees it, and reaches the bridge
// from it.
//
// A goroutine on a thread of its own owns the descriptor tap and the frames in flight. close ends it.
type delayLine struct {
	tap, wake int // descriptors; wake becomes readable when the goroutine must end
	ending    atomic.Bool
	delay     time.Duration
	done      chan struct{}
	err       error // why it ended; valid once done is closed
}

// newDelayLine connects a delay line to the bridge of a namespace and starts it.
func newDelayLine(space *netspace.Namespace, delay time.Duration) (l *delayLine, err error) {
	l = &delayLine{tap: -1, wake: -1, delay: delay, done: make(chan struct{})}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("making a delay line: %w", err), l.release())
			l = nil
		}
	}()
	if err := space.Do(l.open); err != nil {
		return l, err
	}
	if l.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return l, err
	}
	err = space.Configure(func(h *netlink.Handle) error {
		bridge, err := h.LinkByName(bridgeName)
		if err != nil {
			return fmt.Errorf("the bridge: %w", err)
		}
		port, err := h.LinkByName(lineName)
		if err != nil {
			return err
		}
		// The bridge must not learn that the machines are at this port, although their frames come from it.
		return errors.Join(h.LinkSetTxQLen(port, linePackets), h.LinkSetMaster(port, bridge),
			h.LinkSetLearning(port, false), netspace.Up(h, lineName))
	})
	if err != nil {
		return l, err
	}
	go l.run()
	return l, nil
}

// open makes the interface in the namespace of its thread. Packets cross it as they cross a virtual cable: large ones
// in one piece, without checksums.
func (l *delayLine) open() (err error) {
	const device = "/dev/net/tun"
	if l.tap, err = unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
		return fmt.Errorf("opening %s (CONFIG_TUN, module tun): %w", device, err)
	}
	request, err := unix.NewIfreq(lineName)
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(l.tap, unix.TUNSETIFF, request); err != nil {
		return fmt.Errorf("making the interface %s: %w", lineName, err)
	}
	return unix.IoctlSetInt(l.tap, unix.TUNSETOFFLOAD,
		unix.TUN_F_CSUM|unix.TUN_F_TSO4|unix.TUN_F_TSO6|unix.TUN_F_TSO_ECN)
}

// redirectToDelayLine redirects what arrives at a port of the bridge, from the machine with that hardware address, to
// the delay line.
func redirectToDelayLine(h *netlink.Handle, port string, hardware net.HardwareAddr) error {
	line, err := h.LinkByName(lineName)
	if err != nil {
		return err
	}
	link, err := h.LinkByName(port)
	if err != nil {
		return err
	}
	index, root := link.Attrs().Index, netlink.MakeHandle(0xffff, 0)
	if err := h.QdiscAdd(&netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: index, Handle: root,
		Parent: netlink.HANDLE_INGRESS,
	}}); err != nil {
		return err
	}
	all := netlink.FilterAttrs{LinkIndex: index, Parent: root, Priority: 1, Protocol: unix.ETH_P_ALL}
	if err := h.FilterAdd(&netlink.U32{FilterAttrs: all, RedirIndex: line.Attrs().Index}); err != nil {
		return err
	}
	// The bridge does not see the frames at the machine's port, so it cannot learn the machine's address there.
	return h.NeighSet(&netlink.Neigh{
		LinkIndex: index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_MASTER, State: netlink.NUD_NOARP,
		HardwareAddr: hardware,
	})
}

// run moves frames until close is called or the interface fails.
func (l *delayLine) run() {
	defer close(l.done)
	// The thread must not end with this goroutine: the kernel would kill the programs that were started on it (their
	// Pdeathsig).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer raisePriority()()
	var frames travelling
	var late time.Duration // moving average of how late this thread wakes up
	wait := []unix.PollFd{{Fd: int32(l.wake), Events: unix.POLLIN}, {Fd: int32(l.tap), Events: unix.POLLIN}}
	checked := time.Now()
	for {
		// The best estimate for a frame that has arrived since the last check is the middle of that time.
		now := time.Now()
		if err := l.receive(&frames, checked.Add(now.Sub(checked)/2).Add(l.delay)); err != nil {
			l.err = err
			return
		}
		checked = now
		for {
			// The next check is grain + late from now. Frames due in the first half of that time are sent now, the
			// others then.
			data := frames.next(now.Add((grain + late) / 2))
			if data == nil {
				break
			}
			// Frames that the interface does not accept are lost.
			_, _ = move(unix.SYS_WRITE, l.tap, data)
		}
		if l.ending.Load() {
			return
		}
		if frames.empty() {
			_, _ = unix.Ppoll(wait, nil, nil) // after an interruption by a signal it checks once more
			checked = time.Now().Add(-2 * late)
			continue
		}
		start := time.Now()
		nap()
		late += (min(max(time.Since(start)-grain, 0), mostLate) - late) / 16
	}
}

// receive reads all frames that have arrived.
func (l *delayLine) receive(frames *travelling, due time.Time) error {
	for {
		room := frames.room()
		if room == nil {
			return nil // further frames wait in the interface's queue, or are lost
		}
		n, err := move(unix.SYS_READ, l.tap, room)
		switch err {
		case 0:
			frames.add(n, due)
		case unix.EAGAIN:
			return nil
		case unix.EINTR:
		default:
			return fmt.Errorf("reading packets of %s: %w", lineName, err)
		}
	}
}

// move is read or write, and nap sleeps for a grain. They bypass Go's scheduler: they are short, and at ten thousand
// naps a second telling the scheduler would take about 5 % of a processor.
func move(call uintptr, fd int, data []byte) (n int, err unix.Errno) {
	done, _, err := unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(data))),
		uintptr(len(data)))
	return int(done), err
}

func nap() {
	t := unix.NsecToTimespec(grain.Nanoseconds())
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}

// raisePriority gives this thread priority over all programs of the machines, as the kernel gives its own work on
// packets, until restore is called. If that isn't allowed, or timers stay coarse, packets are delayed longer on a busy
// machine, which the round trips show.
func raisePriority() (restore func()) {
	before, err := unix.SchedGetAttr(0, 0)
	if err == nil && unix.SchedSetAttr(0,
		&unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1}, 0) != nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20)
	}
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	return func() {
		if err == nil {
			_ = unix.SchedSetAttr(0, before, 0)
		}
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // the default
	}
}

// close ends the line and returns the error that it has failed with, if any.
func (l *delayLine) close() error {
	l.ending.Store(true)
	if _, err := unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		return fmt.Errorf("ending the delay line: %w", err)
	}
	<-l.done
	return errors.Join(l.err, l.release())
}

// release closes the descriptors, and with them the interface.
func (l *delayLine) release() (err error) {
	for _, fd := range []int{l.tap, l.wake} {
		if fd >= 0 {
			err = errors.Join(err, unix.Close(fd))
		}
	}
	return err
}

const (
	// longest is the longest frame that a delay line reads, bytes: a packet of 64 KiB, and its headers.
	longest = 64<<10 + 128
	// leastBuffer and mostBuffer bound the memory for frames in flight, bytes. Half of mostBuffer is room for
	// netemPackets frames of some 2.5 KiB each.
	leastBuffer = 1 << 20
	mostBuffer  = 512 << 20
)

// travelling is a queue of frames in flight in the order of their arrival, which is also the order of their departure:
// all are delayed by the same time. Its memory is reused, so that frames cause no garbage collection. One goroutine
// uses it.
type travelling struct {
	data   []byte // frames one after another
	frames []traveller
	sent   int // how many of the frames have left
}

// traveller is a frame: the bytes start to end of the data.
type traveller struct {
	start, end int
	due        time.Time
}

func (t *travelling) empty() bool { return t.sent == len(t.frames) }

// room returns the space for the next frame; nil if the queue is full. What has left makes room once it is at least
// half of the data, so that each byte is moved once at most.
func (t *travelling) room() []byte {
	if cap(t.data)-len(t.data) < longest {
		gone := len(t.data)
		if !t.empty() {
			gone = t.frames[t.sent].start
		}
		left := t.data[gone:]
		switch {
		case len(t.data) > 0 && gone >= len(left):
			t.data = t.data[:copy(t.data, left)]
		case cap(t.data) == mostBuffer:
			return nil
		default:
			t.data = append(make([]byte, 0, max(leastBuffer, 2*cap(t.data))), left...)
		}
		t.frames = append(t.frames[:0], t.frames[t.sent:]...)
		t.sent = 0
		for i := range t.frames {
			t.frames[i].start -= gone
			t.frames[i].end -= gone
		}
	}
	return t.data[len(t.data):][:longest]
}

// add queues the first n bytes of room until due, which must not be before that of the previous frame.
func (t *travelling) add(n int, due time.Time) {
	start := len(t.data)
	t.data = t.data[:start+n]
	t.frames = append(t.frames, traveller{start, start + n, due})
}

// next removes and returns the first frame if it is due by now, else nil. The bytes are valid until the next call of
// room.
func (t *travelling) next(now time.Time) []byte {
	if t.empty() || t.frames[t.sent].due.After(now) {
		return nil
	}
	first := t.frames[t.sent]
	t.sent++
	return t.data[first.start:first.end]
}
