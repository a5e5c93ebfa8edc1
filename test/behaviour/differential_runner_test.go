package behaviour_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"mcmw/internal/mctest"
)

// delivery is how the bytes of a script are sent.
type delivery int

const (
	whole    delivery = iota // everything up to the next barrier in one write
	pieces                   // in a few writes, cut anywhere
	bytewise                 // one byte at a time, each read by the other side before the next is sent
	numDeliveries
)

func (d delivery) String() string { return [...]string{"in whole", "in pieces", "byte by byte"}[d] }

// outcome is how a part of a script ended.
type outcome string

const (
	isOpen    outcome = "open"    // all answered, the connection can still be used
	isClosed  outcome = "closed"  // by the server
	isStalled outcome = "waiting" // the server waits for more, or is out of sync
)

// part has the replies to the steps between two barriers.
type part struct {
	replies []byte
	outcome outcome
}

// target is a server against which scripts run. One goroutine uses it.
type target struct {
	addr string
	// readsSeen says that addr is a unix socket, so that a write can wait until the server has read it.
	readsSeen bool
	// patience is the maximum time for a reply; after it the outcome is isStalled.
	patience time.Duration
	prefix   string // of the scripts' keys

	conn      net.Conn
	sentinels int
	cas       map[string]string // key -> cas id last seen
}

// largestBytewise is the size above which a part is not sent byte by byte, to save time.
const largestBytewise = 3000

// run executes a script and returns its parts. cuts determines where writes are cut.
func (t *target) run(steps []step, d delivery, cuts uint64) ([]part, error) {
	t.cas = make(map[string]string)
	defer t.disconnect()
	if err := t.connect(); err != nil {
		return nil, err
	}
	var prologue bytes.Buffer
	prologue.WriteString("verbosity 0 noreply\r\n")
	for _, key := range keysOf(t.prefix) {
		fmt.Fprintf(&prologue, "delete %s noreply\r\n", key)
	}
	patience := t.patience
	t.patience = mctest.Patience // the prologue is always answered, but the machine may be busy
	p := t.exchange(prologue.Bytes(), whole, nil, bySentinel)
	t.patience = patience
	if p.outcome != isOpen {
		return nil, fmt.Errorf("%s: the connection is %s after the script's prologue, which got %q", t.addr, p.outcome,
			p.replies)
	}
	rng := rand.New(rand.NewPCG(cuts, 0))
	var parts []part
	for len(steps) > 0 {
		n := partLength(steps)
		var p part
		if t.conn == nil {
			if err := t.connect(); err != nil {
				return parts, err
			}
		}
		p = t.exchange(t.bytes(steps[:n]), d.of(steps[:n]), rng, steps[n-1].ending())
		t.learn(p.replies)
		if p.outcome != isOpen {
			t.disconnect()
		}
		parts = append(parts, p)
		steps = steps[n:]
	}
	return parts, nil
}

// partLength returns the number of steps that are sent before all replies are awaited.
func partLength(steps []step) int {
	for i := 1; i < len(steps); i++ {
		here, before := steps[i].effect(), steps[i-1].effect()
		if steps[i].barrier || here.alone || before.onePiece {
			return i
		}
	}
	return len(steps)
}

// ending is how the end of a part's replies is recognised.
type ending int

const (
	bySentinel  ending = iota // a request of the test follows, with an unmistakable answer
	byClosing                 // the server closes the connection
	byHalfClose               // the server waits for more, and closes when the client half-closes
)

// ending returns the ending of a part whose last step is s.
func (s step) ending() ending {
	switch e := s.effect(); {
	case e.closes:
		return byClosing
	case e.wants > ends:
		return byHalfClose
	}
	return bySentinel
}

// of returns the delivery, restricted to what a part's steps allow.
func (d delivery) of(steps []step) delivery {
	for _, s := range steps {
		if s.effect().onePiece {
			return whole
		}
	}
	return d
}

// bytes returns the bytes of a part: its steps, and data that completes the blocks that steps left short.
func (t *target) bytes(steps []step) []byte {
	var b bytes.Buffer
	missing, off := 0, false
	for _, s := range steps {
		line := s.line
		if s.casOf != "" {
			id, ok := t.cas[s.casOf]
			if !ok {
				id = "1"
			}
			line = strings.Replace(line, casMark, id, 1)
		}
		b.WriteString(line)
		b.WriteString(s.data)
		if e := s.effect(); e.wants <= ends {
			off = off || e.wants != 0 || (s.data != "" && !strings.HasSuffix(s.data, "\r\n"))
			missing += max(0, e.wants)
		}
	}
	if off {
		// Once the block is full, each empty line is answered with an ERROR.
		b.Write(bytes.Repeat([]byte("\n"), missing+8))
	}
	return b.Bytes()
}

// exchange sends a part and receives the replies.
func (t *target) exchange(data []byte, d delivery, rng *rand.Rand, end ending) part {
	closing := ""
	if end == bySentinel {
		t.sentinels++
		id := fmt.Sprintf("%08d", t.sentinels)
		key := t.prefix + "mcmw-sentinel"
		data = fmt.Appendf(data, "set %s 0 0 8\r\n%s\r\nget %s\r\n", key, id, key)
		closing = "VALUE " + key + " 0 8\r\n" + id + "\r\nEND\r\n"
	}
	sent := make(chan error, 1)
	go func() {
		err := t.send(data, d, rng)
		if end == byHalfClose && err == nil {
			err = t.conn.(interface{ CloseWrite() error }).CloseWrite()
		}
		sent <- err
	}()
	p := t.receive(closing)
	if p.outcome == isStalled {
		// Ends a write that the other side does not read.
		_ = t.conn.SetDeadline(time.Unix(1, 0))
	}
	<-sent
	return p
}

func (t *target) receive(closing string) part {
	var p part
	buf := make([]byte, 64<<10)
	for {
		_ = t.conn.SetReadDeadline(time.Now().Add(t.patience))
		n, err := t.conn.Read(buf)
		p.replies = append(p.replies, buf[:n]...)
		switch {
		case closing != "" && bytes.HasSuffix(p.replies, []byte(closing)):
			p.outcome = isOpen
			return p
		case errors.Is(err, os.ErrDeadlineExceeded):
			p.outcome = isStalled
			return p
		case err != nil:
			p.outcome = isClosed
			return p
		}
	}
}

func (t *target) send(data []byte, d delivery, rng *rand.Rand) error {
	_ = t.conn.SetWriteDeadline(time.Now().Add(4 * t.patience))
	switch {
	case d == whole:
		_, err := t.conn.Write(data)
		return err
	case d == bytewise && len(data) <= largestBytewise:
		for i := range data {
			if err := t.sendPart(data[i : i+1]); err != nil {
				return err
			}
		}
		return nil
	}
	for len(data) > 0 {
		n := 1 + rng.IntN(len(data))
		if rng.IntN(3) > 0 {
			n = min(n, 1+rng.IntN(200))
		}
		if len(data) > 100_000 {
			n = max(n, 50_000)
		}
		if err := t.sendPart(data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func (t *target) sendPart(data []byte) error {
	if _, err := t.conn.Write(data); err != nil {
		return err
	}
	if !t.readsSeen {
		return nil
	}
	return mctest.AwaitRead(t.conn, t.patience)
}

// learn records the cas ids in a part's replies.
func (t *target) learn(replies []byte) {
	for _, r := range splitReplies(replies) {
		if f := strings.Split(r.line, " "); f[0] == "VALUE" && len(f) == 5 {
			t.cas[f[1]] = f[4]
		}
	}
}

func (t *target) connect() error {
	network, address := mctest.Network(t.addr)
	conn, err := net.DialTimeout(network, address, mctest.Patience)
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", t.addr, err)
	}
	t.conn = conn
	return nil
}

func (t *target) disconnect() {
	if t.conn != nil {
		t.conn.Close()
		t.conn = nil
	}
}

// pair has a memcached and a server that must behave like it.
type pair struct {
	direct *target
	tcp    *target // the other, by TCP
	unix   *target // the other, by its unix socket; nil if it has none

	sentinels int // the number that scripts have used

	// stalled says that the last script left a connection waiting on both servers.
	stalled bool
}

// errHarness says that the comparison could not be made.
var errHarness = errors.New("the comparison could not be made")

// difference is a point at which two servers behaved differently.
type difference struct {
	what string
	// direct and other are all parts of the two servers.
	direct, other []part
}

// compare runs a script against both and returns nil if they behave equally. If only one seems to wait for more, it may
// just be slow because the machine is busy: it counts as a difference only if it persists with ten times the patience.
func (p *pair) compare(steps []step, d delivery, cuts uint64) (*difference, error) {
	diff, err := p.compareOnce(steps, d, cuts)
	if diff == nil || !diff.oneWaits() {
		return diff, err
	}
	for _, t := range []*target{p.direct, p.tcp, p.unix} {
		if t != nil {
			before := t.patience
			defer func() { t.patience = before }()
			t.patience *= 10
		}
	}
	return p.compareOnce(steps, d, cuts)
}

// oneWaits reports whether a part leaves one connection waiting and the other not.
func (d *difference) oneWaits() bool {
	for i := range min(len(d.direct), len(d.other)) {
		if (d.direct[i].outcome == isStalled) != (d.other[i].outcome == isStalled) {
			return true
		}
	}
	return false
}

func (p *pair) compareOnce(steps []step, d delivery, cuts uint64) (*difference, error) {
	other := p.tcp
	if p.unix != nil && d != whole {
		other = p.unix
	}
	// Both use the same sentinels, and none that was used before.
	p.sentinels += len(steps) + 1
	p.direct.sentinels, other.sentinels = p.sentinels, p.sentinels
	type result struct {
		parts []part
		err   error
	}
	ran := make(chan result, 1)
	go func() {
		parts, err := other.run(steps, d, cuts)
		ran <- result{parts, err}
	}()
	direct, err := p.direct.run(steps, d, cuts)
	o := <-ran
	diff := &difference{direct: direct, other: o.parts}
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errHarness, err)
	case o.err != nil:
		diff.what = o.err.Error()
		return diff, nil
	}
	ids := newCasIDs()
	p.stalled = false
	for i := range direct {
		p.stalled = p.stalled || direct[i].outcome == isStalled
		if what := compareReplies(direct[i].replies, o.parts[i].replies, ids); what != "" {
			diff.what = fmt.Sprintf("part %d, %s", i+1, what)
			return diff, nil
		}
		if direct[i].outcome != o.parts[i].outcome {
			diff.what = fmt.Sprintf("part %d leaves the connection %s and %s", i+1, direct[i].outcome,
				o.parts[i].outcome)
			return diff, nil
		}
	}
	return nil, nil
}

// minimise leaves out steps and returns the smallest script it can find that still shows a difference, with that
// difference. If the given difference depends on timing and does not recur, it returns the script unchanged.
func (p *pair) minimise(steps []step, first *difference, d delivery, cuts uint64) ([]step, *difference, delivery) {
	found, least := steps, first
	if diff, err := p.compareOnce(steps, whole, cuts); err == nil && diff != nil {
		d, least = whole, diff
	}
	// For a script with missing replies every trial takes the patience. The difference is known already, so the script
	// may stay long.
	begin := time.Now()
	for size := len(found) / 2; size >= 1; {
		shorter := false
		for at := 0; at+size <= len(found) && time.Since(begin) < time.Minute; {
			trial := append(append([]step(nil), found[:at]...), found[at+size:]...)
			if diff, err := p.compareOnce(trial, d, cuts); err == nil && diff != nil && len(trial) > 0 {
				found, least, shorter = trial, diff, true
				continue
			}
			at += size
		}
		if !shorter || size > len(found) {
			size /= 2
		}
	}
	return found, least, d
}

// report describes a difference so that one can reproduce it by hand.
func report(steps []step, d delivery, diff *difference) string {
	var b strings.Builder
	fmt.Fprintf(&b, "memcached and the other differ: %s\nthe script, sent %s, after every key of it was deleted:\n",
		diff.what, d)
	for n := 0; n < len(steps); {
		length := partLength(steps[n:])
		for _, s := range steps[n : n+length] {
			fmt.Fprintf(&b, "    %v\n", s)
		}
		fmt.Fprintf(&b, "    (everything up to here was answered)\n")
		n += length
	}
	for i := range max(len(diff.direct), len(diff.other)) {
		describe := func(who string, parts []part) {
			if i < len(parts) {
				fmt.Fprintf(&b, "part %d, %-9s %q, connection %s\n", i+1, who, cut(string(parts[i].replies)),
					parts[i].outcome)
			}
		}
		describe("memcached", diff.direct)
		describe("other", diff.other)
	}
	return b.String()
}
