package history

import (
	"bufio"
	"errors"
	"io"
	"math/rand/v2"
	"net"
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
	// AnswerWithin is the time within which every request must be answered, whatever has failed: far longer than all
	// timeouts of the middleware on a busy machine. Later answers count as lost.
	AnswerWithin = 30 * time.Second
	// redialPause is the time between attempts to connect.
	redialPause = 20 * time.Millisecond
)

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
	Manners
}

// TextCut is the failure of a request whose connection ended because mcmw was killed.
const TextCut = "the connection ended"

// ended returns the outcome to count. A request that was lost because mcmw was killed counts as failed.
func (c *client) ended(o outcome) outcome {
	if c.Kills && o.lost && !Unserved(o.cause) {
		return outcome{op: o.op, failure: TextCut}
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
		conn, err := net.DialTimeout("tcp", c.addrs[addr], AnswerWithin)
		c.dials++
		if err == nil && c.LogsIn {
			if err = LogIn(conn); err != nil {
				conn.Close()
			}
		}
		if err == nil {
			return conn, addr
		}
		if Unserved(err) || (c.Resend && !c.Restarts) {
			c.tally.refuse(err)
		}
		select {
		case <-c.quit:
			return nil, 0
		case <-time.After(redialPause):
		}
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
		_ = conn.SetWriteDeadline(time.Now().Add(AnswerWithin))
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

// receive reads and checks the answers in the order of the requests. A missing answer ends the connection. If the end
// was orderly and requests may be repeated, it returns the unanswered request.
func (c *client) receive(conn net.Conn, sent <-chan *op) (unanswered []*op, orderly bool) {
	// The sender notices this when its next write fails.
	defer conn.Close()
	r := &reader{Reader: bufio.NewReaderSize(conn, 64<<10)}
	for o := range sent {
		_ = conn.SetReadDeadline(o.due.Add(AnswerWithin))
		if _, err := r.Peek(1); c.Resend && errors.Is(err, io.EOF) {
			return []*op{o}, true
		} else if err != nil {
			c.tally.count(c.ended(outcome{op: o, lost: true, failure: err.Error(), cause: err}))
			return nil, false
		}
		result := r.answer(o)
		if c.Resend && o.form == quiet && result.lost && result.failure == io.EOF.Error() {
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
