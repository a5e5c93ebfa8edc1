package load

import (
	"errors"
	"fmt"
	"math"
	"time"

	"golang.org/x/sys/unix"

	"mcmw/internal/nonblock"
	"mcmw/internal/stats"
)

const (
	// readSize is the most that one read can bring, bytes: 16 pipelined values of 4 KiB, or a few dozen keys of a
	// multi-get, at once.
	readSize = 256 << 10
	// maxBatch is how many bytes of requests are built before they are written. The rest of the pipeline follows in the
	// next batch.
	maxBatch = 1 << 20
	// maxEvents is how many connections one epoll_wait reports.
	maxEvents = 512
	// maxSleep bounds how late a thread notices the end of the run or an overdue reply, ms.
	maxSleep = 100
	// publishEvery is the longest time between updates of the published counters while there is traffic, ns.
	publishEvery = int64(time.Millisecond)
)

// thread is one epoll loop with the connections that it owns: a goroutine that waits only for them. It isn't locked to
// an operating system thread: the Go scheduler interrupts every goroutine after 10 ms, and needs two changes of thread
// to resume a locked one. That takes milliseconds when the cores are busy.
type thread struct {
	// static after construction
	o       *Options
	work    *workload
	phase   *phase
	pacer   *pacer       // nil: requests are sent as soon as the pipeline has room
	now     func() int64 // stats.Now
	wait    func(epoll int, events []unix.EpollEvent, ns int64) (int, error)
	conns   []*conn
	epoll   int
	dialler *dialler       // nil unless connections are reopened
	windows chan<- *window // thread -> Run: finished windows; always read by Run, never closed
	spare   <-chan *window // Run -> thread: windows for reuse; never closed
	live    liveCounts     // written by the loop, read by anyone

	// owned by the loop; Run reads them after the loop has ended
	commands     [numCommands]counts // since the start
	traffic      traffic             // since the start
	trafficFrom  traffic             // traffic at the beginning of recording
	trafficTo    traffic             // traffic at the end of recording
	lastReply    int64               // time of the last recorded reply, ns of stats.Now
	unsent       uint64              // requests that were due but could not be sent
	firstFailure string              // text of the first error reply

	// owned by the loop
	in, out   []byte
	drawn     []uint64
	events    []unix.EpollEvent
	agenda    agenda // with a pacer: connections that will send at a certain time
	active    int    // connections that have not finished
	recording bool
	recorded  bool // recording has ended
	sending   bool
	window    *window
	published int64 // ns
	bunches   bunches
	checked   int64 // when overdue replies were last checked for, ns
}

func newThread(w *workload, p *phase, windows chan<- *window, spare <-chan *window) *thread {
	o := w.o
	t := &thread{
		o:       o,
		work:    w,
		now:     stats.Now,
		phase:   p,
		epoll:   -1,
		windows: windows,
		spare:   spare,
		in:      make([]byte, readSize),
		out:     make([]byte, 0, 64<<10),
		drawn:   make([]uint64, o.KeysPerGet),
		events:  make([]unix.EpollEvent, maxEvents),
		window:  newWindow(o),
		wait:    epollWait,
	}
	if o.paced() {
		t.wait = epollWaitNanos
	}
	return t
}

// open makes the thread's epoll instance and adds its connections.
func (t *thread) open() (err error) {
	if t.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	for i, c := range t.conns {
		c.index = i
		if err := t.watch(c, unix.EPOLL_CTL_ADD, unix.EPOLLIN); err != nil {
			return err
		}
	}
	return nil
}

// close closes the connections and the epoll instance.
func (t *thread) close() {
	if t.dialler != nil {
		t.dialler.close()
	}
	for _, c := range t.conns {
		if c.fd >= 0 {
			unix.Close(c.fd)
		}
	}
	if t.epoll >= 0 {
		unix.Close(t.epoll)
	}
	t.conns, t.epoll = nil, -1
}

// watch changes which events epoll reports for a connection.
func (t *thread) watch(c *conn, operation int, events uint32) error {
	c.watched = operation != unix.EPOLL_CTL_DEL
	event := unix.EpollEvent{Events: events, Fd: int32(c.index)}
	if err := unix.EpollCtl(t.epoll, operation, c.fd, &event); err != nil {
		return fmt.Errorf("target %s: epoll_ctl: %w", c.target, err)
	}
	return nil
}

// unwatch makes epoll report no more events for a connection.
func (t *thread) unwatch(c *conn) error { return t.watch(c, unix.EPOLL_CTL_DEL, 0) }

// run makes the thread's share of the load. When it returns, also with an error, everything recorded has been passed
// on.
func (t *thread) run() error {
	err := t.loop()
	t.live.publish(&t.commands)
	if t.recording { // without a cool-down: the last reply is there, or will not come any more
		t.finish()
	}
	return err
}

// loop returns when every connection has all its replies, when the run is abandoned, or at an error.
func (t *thread) loop() error {
	t.sending = true
	now := t.now()
	t.checked = now
	t.lastReply = now
	t.beginIfDue(now)
	if t.o.paced() {
		t.pacer = &pacer{o: t.o, begin: t.phase.begin}
		for _, c := range t.conns {
			t.pacer.start(c)
		}
		sharpenTimers()
	}
	// The end of the run is not checked yet: however late a thread starts on a busy machine, every connection of a
	// closed loop sends a request.
	for _, c := range t.conns {
		t.active++
		if err := t.fill(c); err != nil {
			return err
		}
	}
	longest := int64(maxSleep)
	for t.active > 0 && !t.phase.abandon.Load() {
		if t.pacer != nil {
			longest = t.untilDue()
		}
		n, err := t.wait(t.epoll, t.events, longest)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("epoll_wait: %w", err)
		}
		now = t.now()
		if t.pacer != nil {
			if err := t.sendDue(now); err != nil {
				return err
			}
		}
		if err := t.advance(now); err != nil {
			return err
		}
		for _, event := range t.events[:max(n, 0)] {
			if event.Fd == wakeIndex {
				if err := t.takeRedialled(); err != nil {
					return err
				}
				continue
			}
			if err := t.serve(t.conns[event.Fd], event.Events); err != nil {
				return err
			}
		}
		// Not before: if this thread was late itself, replies may have been waiting for it.
		if err := t.overdue(now); err != nil {
			return err
		}
	}
	return nil
}

// advance does what is due by the clock: it begins recording, ends windows, publishes counters, and stops sending.
func (t *thread) advance(now int64) error {
	t.beginIfDue(now)
	for t.recording && t.windowEnd() <= now && t.windowEnd() < t.phase.recorded {
		t.window.length = windowLength
		t.passWindow()
	}
	if t.recording && now >= t.phase.recorded {
		t.lastReply = t.phase.recorded
		t.finish()
	}
	if now-t.published >= publishEvery {
		t.published = now
		t.live.publish(&t.commands)
	}
	if t.sending && t.phase.isOver(now) {
		return t.stopSending(now)
	}
	return nil
}

// beginIfDue begins recording when it is due.
func (t *thread) beginIfDue(now int64) {
	if !t.recording && !t.recorded && now >= t.phase.begin {
		t.recording = true
		t.trafficFrom = t.traffic
	}
}

// windowEnd returns when the window ends, ns of stats.Now.
func (t *thread) windowEnd() int64 {
	return t.phase.begin + int64(t.window.index+1)*int64(windowLength)
}

// finish ends recording at the last reply and passes the last window on.
func (t *thread) finish() {
	t.recording, t.recorded, t.trafficTo = false, true, t.traffic
	t.window.length = time.Duration(max(t.lastReply-t.phase.begin-int64(t.window.index)*int64(windowLength), 0))
	t.window.last = true
	t.passWindow()
}

// passWindow passes the window on and begins the next one.
func (t *thread) passWindow() {
	next := t.window.index + 1
	t.windows <- t.window
	select {
	case t.window = <-t.spare:
	default:
		t.window = newWindow(t.o)
	}
	t.window.reset(next)
}

// overdue returns an error if a reply is overdue. It checks this only from time to time.
func (t *thread) overdue(now int64) error {
	if now-t.checked < min(int64(time.Second), int64(t.o.Timeout)/4) {
		return nil
	}
	t.checked = now
	for _, c := range t.conns {
		if c.inFlight > 0 && now-c.oldest().sent > int64(t.o.Timeout) {
			return fmt.Errorf("target %s: no reply to %s for %v (%d requests outstanding on that connection)",
				c.target, c.oldest().command, t.o.Timeout, c.inFlight)
		}
	}
	return nil
}

// serve handles an event on a connection.
func (t *thread) serve(c *conn, events uint32) error {
	if !c.watched {
		return nil // the connection has finished since epoll reported the event
	}
	if events&unix.EPOLLOUT != 0 && c.waiting {
		if err := t.flush(c); err != nil {
			return err
		}
	}
	if events&^unix.EPOLLOUT != 0 {
		if err := t.receive(c); err != nil {
			return err
		}
	}
	return t.fill(c)
}

// fill sends what a connection has to send: SETs of keys that it has missed, for which no schedule has times, and the
// requests that are due; without a pacer they always are. Then it updates the connection's position in the agenda, or
// removes it if it waits for replies. A connection that waits for nothing and has nothing to send any more has
// finished.
func (t *thread) fill(c *conn) error {
	limit := int64(math.MaxInt64)
	if t.pacer != nil {
		limit = min(t.now(), t.phase.end-1)
	}
	for t.sending && (c.ready() && len(c.missed) > 0 || c.canSend() && c.pace.due <= limit) {
		first := c.inFlight
		out := c.appendMissed(t.out[:0], t.work)
		missed := c.inFlight - first
		for c.canSend() && c.pace.due <= limit && len(out) < maxBatch {
			r := &c.ring[c.slot(c.inFlight)]
			out = c.appendRequest(out, t.work, t.drawn)
			r.due = c.pace.due
			if t.pacer != nil {
				t.pacer.advance(c)
			}
		}
		t.out = out
		t.stamp(c, first, missed)
		if err := t.send(c, out); err != nil {
			return err
		}
	}
	more := c.left != 0 && c.pace.due != notDue
	if t.pacer != nil {
		t.agenda.set(c, t.sending && c.canSend() && more)
	}
	switch {
	case c.inFlight > 0 || c.dialling:
		return nil
	case t.sending && c.worn() && (more || len(c.missed) > 0):
		return t.redial(c)
	case t.sending && more:
		return nil
	}
	t.active--
	return t.unwatch(c)
}

// stamp sets the times of the requests from number first on, counted from the oldest, which are sent now. The first of
// them store keys that were missed.
func (t *thread) stamp(c *conn, first, missed int) {
	sent := t.now()
	for i := first; i < c.inFlight; i++ {
		r := &c.ring[c.slot(i)]
		r.sent = sent
		paced := t.pacer != nil && i >= first+missed
		if paced && t.recording {
			t.window.slip.record(sent - r.due)
			t.window.ownSlip.record(sent - max(r.due, c.pace.free))
			t.bunches.count(sent)
		}
		if !paced || t.o.Schedule == nil {
			r.due = sent // the excess of a think time does not count as response time
		}
	}
}

// send writes a batch. Bytes that the socket does not accept are kept until it does.
func (t *thread) send(c *conn, batch []byte) error {
	n, err := nonblock.Write(c.fd, batch)
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		return c.broken(err)
	}
	t.traffic.out += uint64(n)
	if n == len(batch) {
		return nil
	}
	c.pending = append(c.pending[:0], batch[n:]...)
	c.waiting = true
	return t.watch(c, unix.EPOLL_CTL_MOD, unix.EPOLLIN|unix.EPOLLOUT)
}

// flush writes the bytes that the socket did not accept before.
func (t *thread) flush(c *conn) error {
	n, err := nonblock.Write(c.fd, c.pending)
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		return c.broken(err)
	}
	t.traffic.out += uint64(n)
	c.pending = c.pending[:copy(c.pending, c.pending[n:])]
	if len(c.pending) > 0 {
		return nil
	}
	c.waiting = false
	if t.pacer != nil {
		c.pace.free = t.now()
	}
	return t.watch(c, unix.EPOLL_CTL_MOD, unix.EPOLLIN)
}

// receive reads what there is and handles the replies in it.
func (t *thread) receive(c *conn) error {
	n, err := nonblock.Read(c.fd, t.in)
	now := t.now()
	switch {
	case errors.Is(err, unix.EAGAIN):
		return nil
	case err != nil:
		return c.broken(err)
	case n == 0:
		return c.broken(errors.New("end of file"))
	}
	t.traffic.in += uint64(n)
	for buf := t.in[:n]; len(buf) > 0; {
		if c.inFlight == 0 {
			return fmt.Errorf("target %s: bytes that answer no request: %s", c.target, excerpt(buf))
		}
		oldest := c.oldest()
		if c.scan.atStart() {
			c.scan.keys = int(oldest.keys)
			if c.scan.check != nil && oldest.command != set {
				c.scan.check.beginReply(c.oldestKeys(t.o))
			}
		}
		taken, done, err := c.scan.next(buf, oldest.command)
		if err != nil {
			return fmt.Errorf("target %s: %w", c.target, err)
		}
		buf = buf[taken:]
		if done {
			if err := t.replied(c, oldest, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// replied counts the oldest request of c, whose reply is complete.
func (t *thread) replied(c *conn, r *request, now int64) error {
	reply := &c.scan.reply
	requested := int(r.keys)
	if reply.values > requested {
		return fmt.Errorf("target %s: %d values for %d keys of a %s", c.target, reply.values, requested, r.command)
	}
	one := counts{requests: 1, keys: uint64(requested), hits: uint64(reply.values)}
	if reply.failed != nil {
		one.keys, one.hits, one.failures = 0, 0, 1
		if t.firstFailure == "" {
			t.firstFailure = string(reply.failed)
		}
	}
	t.commands[r.command].add(&one)
	if !t.recorded {
		t.lastReply = now
	}
	if t.recording {
		w := &t.window.commands[r.command]
		w.add(&one)
		w.latency.record(now - r.due)
		if t.o.Schedule != nil {
			w.service.record(now - r.sent)
		}
	}
	if t.o.CacheAside && r.command == get && reply.values == 0 && reply.failed == nil {
		c.missed = append(c.missed, c.oldestKeys(t.o)[0])
	}
	wasFull := c.inFlight == len(c.ring)
	c.drop()
	if t.pacer != nil {
		t.pacer.replied(c, now, wasFull)
	}
	return nil
}

// broken returns an error for a connection that failed, with its target and how many requests were lost.
func (c *conn) broken(err error) error {
	return fmt.Errorf("target %s: the connection broke with %d requests unanswered: %w", c.target, c.inFlight, err)
}
