package faults

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// keysPerClient is how many keys a connection writes.
	keysPerClient = 24
	// maxKeys is the largest number of keys of one get.
	maxKeys = 8
	// maxOutstanding bounds the unanswered requests of a connection: more than become due while any answer is awaited.
	maxOutstanding = 1 << 15
	// answerWithin is the time within which every request must be answered, whatever has failed: far longer than all
	// timeouts of the middleware on a busy machine. Later answers count as lost.
	answerWithin = 30 * time.Second
	// redialPause is the time between attempts to connect.
	redialPause = 20 * time.Millisecond
)

// op is one request.
type op struct {
	kind   kind
	group  int
	due    time.Time
	form   form
	opaque uint32 // which the replies to its meta commands repeat
	keys   []*record
	floors []uint64 // of a get: what record.floor returned, by key
	addr   int      // number of the address that it is sent to
	seq    uint64   // write number; 0 for a get
}

// form is the syntax of a request.
type form uint8

const (
	classic form = iota
	meta         // one meta command
	quiet        // meta commands without replies to the usual outcome, and mn
	numForms
)

// String describes the request.
func (o *op) String() string {
	text := [numForms][numKinds]string{
		{"get", "set", "delete", "incr"},
		{"mg", "ms", "md", "ma"},
		{"mg q", "ms q", "md q", "ma q"},
	}[o.form][o.kind]
	for _, r := range o.keys {
		text += " " + r.key
	}
	if o.kind != get {
		text += fmt.Sprintf(" (write %d)", o.seq)
	}
	return text
}

// client is one connection. It sends requests when they are due, whether or not earlier ones are answered, and judges
// the answers. When the connection ends it opens another one. Unless the end was orderly it then writes other keys:
// unanswered requests can still take effect later.
type client struct {
	id     int
	group  int      // of connections
	addrs  []string // it connects to them in turn
	dials  int
	period time.Duration
	rng    *rand.Rand
	keys   *keyspace
	tally  *tally
	quit   <-chan struct{} // closed when it must send no more requests
	manners
}

// textCut is the failure of a request whose connection ended because mcmw was killed.
const textCut = "the connection ended"

// ended returns the outcome to count. A request that was lost because mcmw was killed counts as failed.
func (c *client) ended(o outcome) outcome {
	if c.kills && o.lost && !unserved(o.cause) {
		return outcome{op: o.op, failure: textCut}
	}
	return o
}

// run sends requests until quit is closed, and returns when each is answered or lost.
func (c *client) run(start time.Time) {
	// The connections' requests are spread over the period.
	next := start.Add(time.Duration(c.rng.Int64N(int64(c.period))))
	var own []*record
	var again []*op
	for generation, orderly := 0, false; ; generation++ {
		conn, addr := c.dial()
		if conn == nil {
			for _, o := range again {
				c.tally.count(c.ended(outcome{op: o, lost: true, failure: "no connection to repeat it on"}))
			}
			return
		}
		if !orderly {
			own = c.keys.renew(c.id, generation)
		}
		for _, o := range again {
			o.through(addr)
		}
		next, again, orderly = c.converse(conn, addr, own, again, next)
		if c.ending() && len(again) == 0 {
			return
		}
	}
}

// ending reports whether quit is closed.
func (c *client) ending() bool {
	select {
	case <-c.quit:
		return true
	default:
		return false
	}
}

// dial connects to the next address, repeatedly until it succeeds or quit is closed. It returns the number of the
// address.
func (c *client) dial() (conn net.Conn, addr int) {
	for {
		addr = (c.id + c.dials) % len(c.addrs)
		conn, err := net.DialTimeout("tcp", c.addrs[addr], answerWithin)
		c.dials++
		if err == nil && c.logsIn {
			if err = logIn(conn); err != nil {
				conn.Close()
			}
		}
		if err == nil {
			return conn, addr
		}
		if unserved(err) || (c.resend && !c.restarts) {
			c.tally.refuse(err)
		}
		select {
		case <-c.quit:
			return nil, 0
		case <-time.After(redialPause):
		}
	}
}

// through notes that o is sent now to address number addr.
func (o *op) through(addr int) {
	o.addr, o.floors = addr, nil
	if o.kind != get {
		return
	}
	for _, r := range o.keys {
		o.floors = append(o.floors, r.floor(time.Now(), addr))
	}
}

// converse sends requests and checks the replies on one connection to address number addr, until quit is closed or the
// connection ends. It first sends the requests in again. It returns when the next request is due, whether the
// connection ended in an orderly way, and if so, the unanswered requests.
func (c *client) converse(conn net.Conn, addr int, own []*record, again []*op, next time.Time) (due time.Time,
	unanswered []*op, orderly bool,
) {
	sent := make(chan *op, maxOutstanding) // sender -> receiver; closed by the sender
	broken := make(chan struct{})          // closed by the receiver when the connection can no longer be used
	var receiver sync.WaitGroup
	receiver.Go(func() {
		defer close(broken)
		unanswered, orderly = c.receive(conn, sent)
	})
	next, unsent, reset := c.transmit(conn, addr, own, again, next, sent, broken)
	close(sent)
	receiver.Wait()
	conn.Close()
	for o := range sent {
		unanswered = append(unanswered, o)
	}
	unanswered = append(unanswered, unsent...)
	if orderly && !reset {
		c.tally.ended()
		return next, unanswered, true
	}
	for _, o := range unanswered {
		c.tally.count(c.ended(outcome{op: o, lost: true, failure: "the connection had ended"}))
	}
	return next, nil, false
}

// transmit sends the requests in again and then those that become due, until quit or broken is closed. It returns when
// the next request is due, the requests that were not passed to the receiver, and whether a write reported a reset,
// which looks like an orderly end to the reader.
func (c *client) transmit(conn net.Conn, addr int, own []*record, again []*op, next time.Time, sent chan<- *op,
	broken <-chan struct{},
) (due time.Time, unsent []*op, reset bool) {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	var out []byte
	for batch := again; ; {
		out = out[:0]
		for i, o := range batch {
			out = o.append(out)
			select {
			case sent <- o:
			case <-broken:
				return next, batch[i:], reset
			}
		}
		// The receiver sees all other errors as well.
		_ = conn.SetWriteDeadline(time.Now().Add(answerWithin))
		_, err := conn.Write(out)
		reset = reset || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
		select {
		case <-c.quit:
			return next, nil, reset
		case <-broken:
			return next, nil, reset
		case <-timer.C:
		}
		if c.ending() {
			return next, nil, reset
		}
		batch = nil
		for now := time.Now(); !next.After(now); next = next.Add(c.period) {
			o := c.draw(own, next)
			o.through(addr)
			batch = append(batch, o)
		}
		timer.Reset(time.Until(next))
	}
}

// draw makes the next request. At first every key is written once. Then seven in ten requests are reads, some of
// several keys.
func (c *client) draw(own []*record, due time.Time) *op {
	o := &op{group: c.group, due: due, form: form(c.rng.IntN(int(numForms))), opaque: c.rng.Uint32()}
	populated := own[len(own)-1].issued.Load() > 0
	if !populated || c.rng.IntN(10) < 3 {
		r := own[c.rng.IntN(len(own))]
		if c.keys.hot && c.rng.IntN(2) == 0 {
			r = own[0] // the hot key of this client, if it has one
		}
		if !populated {
			r = own[slices.IndexFunc(own, func(r *record) bool { return r.issued.Load() == 0 })]
		}
		o.kind, o.keys, o.seq = set, []*record{r}, r.issued.Add(1)
		switch {
		case r.counts:
			// A repeated increment would count twice, and the reply to a quiet one does not say whether it was done.
			o.kind, o.form = count, min(o.form, meta)
		case deletes(o.seq):
			o.kind = del
		}
		return o
	}
	n := 1
	if o.form != meta && c.rng.IntN(4) == 0 {
		n = 2 + c.rng.IntN(maxKeys-1)
	}
	for range n {
		r := c.keys.draw(c.group, c.rng)
		if slices.Contains(o.keys, r) {
			continue
		}
		o.keys = append(o.keys, r)
	}
	return o
}

// append appends the request's bytes.
func (o *op) append(b []byte) []byte {
	switch {
	case o.form != classic:
		return o.appendMeta(b)
	case o.kind == set:
		value := appendValue(nil, o.keys[0].key, o.seq)
		b = fmt.Appendf(b, "set %s 7 0 %d\r\n", o.keys[0].key, len(value))
		return append(append(b, value...), '\r', '\n')
	case o.kind == del:
		return fmt.Appendf(b, "delete %s\r\n", o.keys[0].key)
	case o.kind == count:
		return fmt.Appendf(b, "incr %s 1\r\n", o.keys[0].key)
	}
	b = append(b, "get"...)
	for _, r := range o.keys {
		b = append(append(b, ' '), r.key...)
	}
	return append(b, '\r', '\n')
}

// appendMeta appends one meta command per key, and mn after quiet ones.
func (o *op) appendMeta(b []byte) []byte {
	flags := fmt.Sprintf("O%d k", o.opaque)
	if o.form == quiet {
		flags += " q"
	}
	for _, r := range o.keys {
		switch o.kind {
		case get:
			b = fmt.Appendf(b, "mg %s v f %s\r\n", r.key, flags)
		case set:
			value := appendValue(nil, r.key, o.seq)
			b = fmt.Appendf(b, "ms %s %d T0 F7 %s\r\n", r.key, len(value), flags)
			b = append(append(b, value...), '\r', '\n')
		case del:
			b = fmt.Appendf(b, "md %s %s\r\n", r.key, flags)
		case count:
			b = fmt.Appendf(b, "ma %s N0 J1 v %s\r\n", r.key, flags)
		}
	}
	if o.form == quiet {
		b = append(b, "mn\r\n"...)
	}
	return b
}

// receive reads and checks the answers in the order of the requests. A missing answer ends the connection. If the end
// was orderly and requests may be repeated, it returns the unanswered request.
func (c *client) receive(conn net.Conn, sent <-chan *op) (unanswered []*op, orderly bool) {
	// The sender notices this when its next write fails.
	defer conn.Close()
	r := &reader{Reader: bufio.NewReaderSize(conn, 64<<10)}
	for o := range sent {
		_ = conn.SetReadDeadline(o.due.Add(answerWithin))
		if _, err := r.Peek(1); c.resend && errors.Is(err, io.EOF) {
			return []*op{o}, true
		} else if err != nil {
			c.tally.count(c.ended(outcome{op: o, lost: true, failure: err.Error(), cause: err}))
			return nil, false
		}
		result := r.answer(o)
		if c.resend && o.form == quiet && result.lost && result.failure == io.EOF.Error() {
			// it ended between two of the replies; none of these commands does harm if it is done twice
			return []*op{o}, true
		}
		c.tally.count(c.ended(result))
		if result.lost {
			return nil, false
		}
	}
	return nil, false
}

// answer reads the answer to o and judges it.
func (r *reader) answer(o *op) outcome {
	result := outcome{op: o}
	var err error
	switch {
	case o.form != classic:
		err = r.metaReplies(o, &result)
	case o.kind == get:
		err = r.values(o, &result)
	default:
		err = r.line(o, &result)
	}
	result.took = time.Since(o.due)
	if err != nil {
		result.lost, result.failure, result.cause = true, err.Error(), err
		if bad := new(badReply); errors.As(err, &bad) {
			// The bytes can be the reply to another request.
			result.wrong = append(result.wrong, fmt.Sprintf("wrong: %s was answered by %s", o, bad.text))
		}
	}
	return result
}

// badReply is an error for bytes that do not answer the request.
type badReply struct{ text string }

func (e *badReply) Error() string { return "not an answer: " + e.text }

// reader reads answers; its buffers are reused.
type reader struct {
	*bufio.Reader
	value, scratch []byte
}

// isError reports whether a line says that the request failed.
func isError(line []byte) bool {
	return bytes.HasPrefix(line, []byte("SERVER_ERROR ")) || bytes.HasPrefix(line, []byte("CLIENT_ERROR ")) ||
		string(line) == "ERROR"
}

// next reads a line and returns it without its end.
func (r *reader) next() ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	body, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok {
		return nil, &badReply{strconv.Quote(string(line))}
	}
	return body, nil
}

// line reads the answer to a write.
func (r *reader) line(o *op, result *outcome) error {
	line, err := r.next()
	if err != nil {
		return err
	}
	text := string(line)
	switch {
	case isError(line):
		result.failure = text
		return nil
	case o.kind == set && text == "STORED", o.kind == del && (text == "DELETED" || text == "NOT_FOUND"):
		o.acknowledged()
		return nil
	case o.kind == count && text == "NOT_FOUND":
		result.misses = 1
		return nil
	case o.kind == count:
		return o.counted(text)
	}
	return &badReply{strconv.Quote(text)}
}

// acknowledged notes that o, a write, has succeeded.
func (o *op) acknowledged() { o.keys[0].acknowledge(o.seq, time.Now(), o.addr) }

// counted checks the reply to an increment. Only this client increments the key, and no increment is repeated.
func (o *op) counted(text string) error {
	if n, err := strconv.ParseUint(text, 10, 64); err != nil || n == 0 || n > o.seq {
		return &badReply{fmt.Sprintf("count %q after %d increments", text, o.seq)}
	}
	return nil
}

// metaReplies reads the answers to meta commands.
func (r *reader) metaReplies(o *op, result *outcome) error {
	at := 0
	found := 0
	for {
		line, err := r.next()
		if err != nil {
			return err
		}
		text := string(line)
		key := o.keys[min(at, len(o.keys)-1)].key
		flags := fmt.Sprintf(" O%d k%s", o.opaque, key)
		switch {
		case isError(line):
			result.failure = text
			at++
		case text == "MN" && o.form == quiet:
			if o.kind == get {
				result.misses = len(o.keys) - found
			} else if result.failure == "" {
				o.acknowledged()
			}
			return nil
		case o.kind == get && o.form == meta && (text == "EN" || text == "EN"+flags):
			result.misses = 1
		case (o.kind == get || o.kind == count) && strings.HasPrefix(text, "VA "):
			if err := r.metaValue(o, text, &at, result); err != nil {
				return err
			}
			found++
			at++
		case o.form == meta && (text == "HD"+flags && (o.kind == set || o.kind == del) || text == "NF"+flags &&
			o.kind == del):
			o.acknowledged()
		// while the key moves to another pool, increments neither count nor create
		case o.kind == count && text == "NF"+flags:
			result.misses = 1
		case o.form == quiet && o.kind == del && text == "NF"+flags:
			// memcached 1.6.18 answers quiet deletes with NF, too.
		default:
			return &badReply{strconv.Quote(text)}
		}
		if o.form == meta {
			return nil
		}
	}
}

// metaValue reads the value after head, the line of a VA. For a quiet mg it can be the value of any key from number at
// on.
func (r *reader) metaValue(o *op, head string, at *int, result *outcome) error {
	fields := strings.Fields(head)
	want := []string{"f7", fmt.Sprintf("O%d", o.opaque)}
	if o.kind == count {
		want = want[1:]
	}
	if len(fields) != len(want)+3 || !slices.Equal(fields[2:2+len(want)], want) {
		return &badReply{fmt.Sprintf("%q with opaque %d", head, o.opaque)}
	}
	key, ok := strings.CutPrefix(fields[len(fields)-1], "k")
	for *at < len(o.keys) && o.keys[*at].key != key {
		*at++
	}
	if !ok || *at >= len(o.keys) {
		return &badReply{fmt.Sprintf("%q, which was not requested or is out of order", head)}
	}
	value, err := r.data(key, fields[1], head)
	if err != nil {
		return err
	}
	if o.kind == count {
		return o.counted(string(value))
	}
	r.judge(o, *at, value, result)
	return nil
}

// data reads a value whose line, head, says its size, and the line end after it. The value is valid until the next
// call.
func (r *reader) data(key, size, head string) ([]byte, error) {
	n, err := strconv.Atoi(size)
	if err != nil || n < 0 || n > 1<<20 {
		return nil, &badReply{strconv.Quote(head)}
	}
	r.value = slices.Grow(r.value[:0], n+2)[:n+2]
	if _, err := io.ReadFull(r, r.value); err != nil {
		return nil, err
	}
	if string(r.value[n:]) != "\r\n" {
		return nil, &badReply{fmt.Sprintf("the value of %s does not end after the %d bytes that its line says", key, n)}
	}
	return r.value[:n], nil
}

// judge judges value as that of key number at.
func (r *reader) judge(o *op, at int, value []byte, result *outcome) {
	record := o.keys[at]
	r.scratch = slices.Grow(r.scratch[:0], len(value))
	switch record.judge(value, o.floors[at], r.scratch) {
	case wrong:
		result.wrong = append(result.wrong, fmt.Sprintf("wrong: %s of %d writes holds %.60q (%d bytes)", record.key,
			record.issued.Load(), value, len(value)))
	case stale:
		acked, how := record.acked.Load(), "acknowledged"
		if acked < o.floors[at] {
			how = fmt.Sprintf("read and write %d acknowledged", acked)
		}
		text := fmt.Sprintf("stale: %s returned %.40q after write %d had been %s", record.key, value, o.floors[at], how)
		if seq, _ := numberOf(record.key, value, r.scratch); seq >= acked {
			result.withdrawn = append(result.withdrawn, text)
		} else {
			result.stale = append(result.stale, text)
		}
	}
}

// values reads the answer to a get.
func (r *reader) values(o *op, result *outcome) error {
	at, found := 0, 0 // the first key that may come next; keys that had a value
	for {
		line, err := r.next()
		if err != nil {
			return err
		}
		switch {
		case string(line) == "END":
			result.misses = len(o.keys) - found
			return nil
		case isError(line):
			result.failure = string(line)
			return nil
		}
		fields := bytes.Fields(line)
		if len(fields) != 4 || string(fields[0]) != "VALUE" {
			return &badReply{strconv.Quote(string(line))}
		}
		key := string(fields[1])
		for at < len(o.keys) && o.keys[at].key != key {
			at++
		}
		if at == len(o.keys) {
			return &badReply{"the value of " + key + ", which was not requested or is out of order"}
		}
		value, err := r.data(key, string(fields[3]), string(line))
		if err != nil {
			return err
		}
		r.judge(o, at, value, result)
		at++
		found++
	}
}
