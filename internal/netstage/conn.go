package netstage

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

// conn is one client connection.
type conn struct {
	// Static after construction.
	stage *Stage
	sock  *wire.Socket
	// arrivals counts the requests put on the queue, for this connection and some others.
	arrivals *stats.Arrivals
	// answered: the owner of this connection's batch -> its reader; one token when the batch is answered. Capacity 1, so
	// that the sender never waits; never closed.
	answered chan struct{}

	// Owned by the reader goroutine.
	buf             *request.Buffer // what was read and is not yet in a batch; nil while there is nothing
	lent            *request.Buffer // what is being read into: buf, or what takes its place if anything arrives
	filled          int             // bytes of buf in use
	need            int             // bytes buf must hold before decoding makes sense; 0: unknown
	skip            int             // bytes to come that belong to a refused value
	held            *request.Batch  // ends with the request whose value is being skipped, and waits for the end of that
	underway        bool            // a batch is on the queue or with a worker
	unauthenticated bool            // it has to give a name and a password first
	once            bool            // only what comes next is read, and not decoded
	replies         bool            // what was read last has a reply: if the client is gone, writing that tells
	fresh           int             // bytes read since the last queueAll
	queued          bool            // the last queueAll queued something
	closing         bool            // nothing further is to be read, for
	ending          stats.CloseReason

	// active is when something was last read, ns as stats.Now; written by the reader.
	active atomic.Int64
	// began is when the first bytes came of what was read behind the last complete request, ns as stats.Now, 0 while there is nothing;
	// came is how many came. Written by the reader.
	began, came atomic.Int64
	// waits: the reader waits for memory, and its client for the reader.
	waits atomic.Bool
	// busy: a batch is on the queue or with a worker; written by the reader before, and by the goroutine that answers it after.
	busy atomic.Bool
	// reason, if not 0, is one more than the stats.CloseReason for which someone else than the reader ends the connection.
	reason atomic.Int32
	// broken is set by the goroutine that writes, when the client is gone; replies are dropped from then on.
	broken atomic.Bool
	// draining is set by the stage; the reader closes at the next moment without a request.
	draining atomic.Bool

	isText  bool   // the client speaks the text protocol, as its first byte tells
	refusal string // what a client that doesn't is told

	// owed is how many bytes wait for a client that is slow to read; written by the goroutine that writes them.
	owed atomic.Int64

	// Owned by Watch: began, came and owed as it saw them last, and for how long the client has been slow.
	sawBegan, sawCame, sawOwed int64
	slow                       time.Duration
}

func newConn(s *Stage, nc net.Conn) (*conn, error) {
	sock, err := wire.NewSocket(nc)
	if err != nil {
		return nil, err
	}
	c := &conn{stage: s, sock: sock, arrivals: s.options.Net.Arrivals(), answered: make(chan struct{}, 1), unauthenticated: s.options.Allow != nil}
	c.active.Store(stats.Now())
	return c, nil
}

// run reads until the connection ends, and leaves nothing behind.
func (c *conn) run() {
	reason, ok := stats.CloseReason(0), true
	if c.sock.Secure() {
		reason, ok = c.handshake()
	}
	if ok {
		reason = c.read()
	}
	c.awaitAnswer()
	if cut := c.reason.Load(); cut != 0 {
		reason = stats.CloseReason(cut - 1)
	}
	if c.held != nil {
		c.held.Release()
	}
	c.forget()
	c.began.Store(0)
	switch {
	case reason == stats.CloseMemory:
		c.say("SERVER_ERROR out of memory reading request\r\n")
	case reason == stats.CloseSlow && !c.broken.Load():
		c.say("SERVER_ERROR request came too slowly\r\n")
	case c.refusal != "":
		c.say(c.refusal)
	}
	if lingers[reason] && !c.broken.Load() {
		c.linger(reason == stats.CloseMemory)
	}
	_ = c.sock.Close()
	c.stage.ended(c, reason)
}

// read turns bytes into batches until the connection is to be closed, and returns why.
func (c *conn) read() stats.CloseReason {
	for {
		err := c.sock.ReadLent(c)
		switch {
		case c.closing:
			return c.ending
		case errors.Is(err, os.ErrDeadlineExceeded) && c.draining.Load():
			return c.lastRequests()
		case err != nil:
			return reasonOf(err)
		}
	}
}

// queueAll queues all complete requests that were read: one batch, or several where there are too many for one or one has to wait
// for the end of a refused value.
func (c *conn) queueAll() (reason stats.CloseReason, closing bool) {
	created := stats.Now()
	c.active.Store(created)
	c.queued = false
	if !c.isText {
		if reason, closing = c.greet(); closing || !c.isText {
			return reason, closing
		}
	}
	if c.unauthenticated {
		if reason, closing = c.login(); closing || c.unauthenticated || c.filled == 0 {
			return reason, closing
		}
	}
	for {
		more, reason, closing := c.queueRequests(created)
		if closing || !more || c.filled == 0 {
			return reason, closing
		}
	}
}

func reasonOf(err error) stats.CloseReason {
	switch {
	case errors.Is(err, io.EOF):
		return stats.CloseClient
	case errors.Is(err, errNoMemory):
		return stats.CloseMemory
	}
	return stats.CloseError
}

// lastRequests serves what the client sends until it has all its replies, and the rest of a request that has arrived
// in part.
func (c *conn) lastRequests() stats.CloseReason {
	for {
		n, err := c.receiveNow()
		if err == nil && n == 0 {
			if c.underway {
				c.awaitAnswer()
				continue
			}
			if c.filled == 0 && c.skip == 0 {
				return stats.CloseShutdown
			}
			// Drain cuts the connection when its time is over.
			_ = c.sock.SetReadDeadline(time.Time{})
			err = c.receive()
		}
		if err != nil {
			return reasonOf(err)
		}
		reason, closing := c.queueAll()
		if closing {
			return reason
		}
		c.note()
	}
}

// queueRequests decodes what was read and queues the complete requests as one batch. more means that there may be others behind
// them, closing that nothing further is to be read.
func (c *conn) queueRequests(created int64) (more bool, reason stats.CloseReason, closing bool) {
	if c.filled < c.need {
		c.keep(0)
		return false, 0, false
	}
	more = c.held != nil
	b := c.held
	c.held = nil
	if b == nil {
		b = request.GetBatch()
		b.Client = c
	}
	before := len(b.Requests)
	used, apart, reason, closing := c.decode(b, created)
	more = more || apart || len(b.Requests) == request.MaxBatch
	switch {
	case len(b.Requests) == 0:
		b.Release()
		c.keep(used)
		return false, reason, closing
	case before > 0:
		c.keep(used)
	default:
		b.Buffer = c.buf
		c.take(used)
	}
	if c.skip > 0 {
		c.held = b
		return false, reason, closing
	}
	c.awaitAnswer()
	c.queued = true
	enqueued := stats.Now()
	for i := range b.Requests {
		b.Requests[i].Enqueued = enqueued
		c.replies = c.replies || b.Requests[i].Replies()
	}
	c.underway = true
	c.busy.Store(true)
	n := len(b.Requests) // b is not the reader's any more once it is put
	switch {
	case !c.stage.options.Shed:
		c.arrivals.Add(n)
		c.stage.options.Queue.Put(b)
	case c.stage.options.Queue.TryPut(b):
		c.arrivals.Add(n)
	default:
		c.shed(b)
	}
	return more, reason, closing
}

// decode appends complete requests to b until it is full, and returns the bytes they and skipped values took. A batch that was held ends
// where its value does. apart: a refused value that has arrived in part follows, and does not delay the requests before it.
func (c *conn) decode(b *request.Batch, created int64) (used int, apart bool, reason stats.CloseReason, closing bool) {
	c.need = 0
	if c.skip > 0 {
		used = min(c.skip, c.filled)
		c.skip -= used
		return used, false, 0, false
	}
	for used < c.filled && len(b.Requests) < request.MaxBatch {
		b.Requests = append(b.Requests, request.Request{})
		r := &b.Requests[len(b.Requests)-1]
		n, need, err := c.stage.options.Limits.Decode(c.buf.B[used:c.filled], &r.Request)
		if n == 0 {
			b.Requests = b.Requests[:len(b.Requests)-1]
			c.need = need
			return used, false, stats.CloseProtocol, err != nil
		}
		if len(b.Requests) > 1 && r.Skip > c.filled-used-n {
			b.Requests = b.Requests[:len(b.Requests)-1]
			return used, true, 0, false
		}
		used += n
		r.Created = created
		if r.Has(protocol.Closes) {
			return used, false, stats.CloseQuit, true
		}
		if r.Skip > 0 {
			skipped := min(r.Skip, c.filled-used)
			used += skipped
			c.skip = r.Skip - skipped
		}
	}
	return used, false, 0, false
}

// awaitAnswer waits until no batch is under way.
func (c *conn) awaitAnswer() {
	if c.underway {
		<-c.answered
		c.underway = false
	}
}

// drain makes the reader look at draining; called by the stage.
func (c *conn) drain() {
	c.draining.Store(true)
	_ = c.sock.SetReadDeadline(time.Unix(1, 0))
}

// Crowded implements request.Client.
func (c *conn) Crowded() bool { return !c.broken.Load() && c.stage.output.Overdrawn() }

// Reply implements request.Client.
func (c *conn) Reply(g *wire.Gather) int {
	if c.broken.Load() {
		return g.Len()
	}
	n, err := c.sock.TryWrite(g)
	if err != nil {
		c.fail()
		return g.Len()
	}
	return n
}

// fail notes that the client is gone, and makes the reader notice.
func (c *conn) fail() {
	c.broken.Store(true)
	_ = c.sock.SetReadDeadline(time.Unix(1, 0))
}

// Finish implements request.Client.
func (c *conn) Finish() {
	c.busy.Store(false)
	c.answered <- struct{}{}
}

// Stall implements request.Client.
func (c *conn) Stall(rest []byte, unanswered *request.Batch) {
	go func() {
		if len(rest) == 0 {
			c.stage.output.Take(0, c.stage.options.WriteTimeout, c.stage.cut)
		}
		err := c.writeRest(rest)
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errSlow):
			c.broken.Store(true)
			c.cut(stats.CloseSlow)
			c.stage.lagged(c, "a client is closed: it does not read its replies")
		default:
			c.fail()
		}
		switch {
		case unanswered == nil:
		case err == nil:
			c.stage.options.Queue.Put(unanswered)
			return
		default:
			c.stage.options.Net.Abandoned(len(unanswered.Requests) - unanswered.Next)
			unanswered.Release()
		}
		c.Finish()
	}()
}

// errSlow: the client left more replies unread than allowed.
var errSlow = errors.New("too many unread replies")

// restPiece is how much of what waits for a client it has to take within WriteTimeout, bytes. A TLS socket must be given at least one
// of its batches at first.
const restPiece = 64 << 10

// writeRest writes what a client was too slow to take, within the limits for that. It is counted even where others have taken all there is:
// what could be refused was, before it was asked for (Crowded).
func (c *conn) writeRest(rest []byte) error {
	if len(rest) > c.stage.options.MaxOutput {
		return errSlow
	}
	size := int64(len(rest))
	c.stage.output.Force(size)
	defer c.stage.output.Give(size)
	defer c.owed.Store(0)
	for len(rest) > 0 {
		c.owed.Store(int64(len(rest)))
		if err := c.sock.SetWriteDeadline(time.Now().Add(c.stage.options.WriteTimeout)); err != nil {
			return err
		}
		piece := rest[:min(len(rest), restPiece)]
		if err := c.sock.WriteRest(piece); err != nil {
			return err
		}
		rest = rest[len(piece):]
	}
	return c.sock.SetWriteDeadline(time.Time{})
}

// cut makes the reader end the connection, for reason.
func (c *conn) cut(reason stats.CloseReason) {
	c.reason.Store(int32(reason) + 1)
	_ = c.sock.SetReadDeadline(time.Unix(1, 0))
}
