package netstage

import (
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"time"

	"mcmw/internal/hotkeys"
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
	// expires is when the connection is as old as it may get, ns as stats.Now.
	expires int64
	// answered: the owner of this connection's batch -> its reader; one token when the batch is answered. Capacity 1, so
	// that the sender never waits; never closed.
	answered chan struct{}

	// Owned by the reader goroutine.
	buf             *request.Buffer // what was read and is not yet in a batch; nil while there is nothing
	filled          int             // bytes of buf in use
	need            int             // bytes buf must hold before decoding makes sense; 0: unknown
	skip            int             // bytes to come that belong to a refused value
	held            *request.Batch  // ends with the request whose value is being skipped, and waits for the end of that
	underway        bool            // a batch is on the queue or with a worker
	unauthenticated bool            // it has to give a name and a password first
	hot             hotkeys.Sampler // of the keys that serveHot has answered

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
	// leaving, if not 0, is one more than the stats.CloseReason for which the reader is to close at the next moment without a request.
	leaving atomic.Int32
	// lastRead is until when it then reads, ns as stats.Now. It only becomes earlier.
	lastRead atomic.Int64

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
	if s.options.Hot != nil {
		c.hot = s.options.Hot.Sampler()
	}
	now := stats.Now()
	c.active.Store(now)
	c.expires = math.MaxInt64
	if age := s.options.MaxAge; age > 0 {
		c.expires = now + int64(lifetime(age))
	}
	return c, nil
}

// lifetime returns after what time to close a connection that may get as old as maxAge: clients that connected at once come back spread
// over half of it.
func lifetime(maxAge time.Duration) time.Duration { return maxAge - rand.N(maxAge/2+1) }

// ending is the error that says why a connection is to be closed.
type ending stats.CloseReason

func (e ending) Error() string { return stats.CloseReason(e).String() }

// reasonOf returns why a connection is closed of which err is the end.
func reasonOf(err error) stats.CloseReason {
	var e ending
	switch {
	case errors.As(err, &e):
		return stats.CloseReason(e)
	case errors.Is(err, io.EOF):
		return stats.CloseClient
	}
	return stats.CloseError
}

// run serves the connection to its end, and leaves nothing behind.
func (c *conn) run() {
	err := c.handshake()
	if err == nil {
		err = c.serve()
	}
	reason := reasonOf(err)
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

// serve reads what arrives, decodes it and queues the requests, until the connection is to be closed; the error says why.
func (c *conn) serve() (err error) {
	for err = range c.sock.Readable() {
		for more := true; more && err == nil && !c.disturbed(); {
			var n int
			if n, more, err = c.receive(); n > 0 {
				var replies bool
				replies, err = c.queueAll(n)
				// That the client is gone shows when the reply is written; if there is none, the next read shows it.
				more = more || !replies
			}
		}
		if err != nil {
			break
		}
	}
	if c.leaving.Load() != 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		err = c.lastRequests()
	}
	return err
}

// lastRequests serves what the client sends until it has all its replies, and the rest of a request that has arrived in part. What
// has not come until lastRead is not read: it has no effect, and the end of the connection between two replies says so.
func (c *conn) lastRequests() error {
	for stats.Now() < c.lastRead.Load() {
		n, _, err := c.receive()
		if n == 0 && err == nil {
			if c.underway {
				c.awaitAnswer()
				continue
			}
			if c.filled == 0 && c.skip == 0 {
				break
			}
			n, err = c.receiveRest()
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && !c.broken.Load() && c.reason.Load() == 0 {
			continue
		}
		if err == nil {
			_, err = c.queueAll(n)
		}
		if err != nil {
			return err
		}
	}
	return c.left()
}

// receiveRest waits for more of a request that has arrived in part, until lastRead.
func (c *conn) receiveRest() (n int, err error) {
	until := c.lastRead.Load()
	_ = c.sock.SetReadDeadline(time.Now().Add(time.Duration(until - stats.Now())))
	// Whoever wants the reader to notice something says so before it moves the deadline: here or there it is seen.
	if c.lastRead.Load() != until || c.broken.Load() || c.reason.Load() != 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return c.receiveNext()
}

// queueAll decodes what was read, the last n bytes of it now, and queues the complete requests: as one batch, or as several if there
// are too many for one or one has to wait for the end of a refused value. replies says that no bytes are left over and that a reply
// will be written. After an error nothing further is to be read.
func (c *conn) queueAll(n int) (replies bool, err error) {
	created := stats.Now()
	c.active.Store(created)
	if !c.isText {
		err = c.greet()
	}
	if err == nil && c.isText && c.unauthenticated {
		err = c.login()
	}
	queued := false
	for more := err == nil && c.isText && !c.unauthenticated; more && c.filled > 0; {
		var b *request.Batch
		if b, more, err = c.nextBatch(created); b != nil {
			queued = true
			replies = c.queue(b) || replies
		}
	}
	c.note(n, queued)
	return replies && c.filled == 0 && c.skip == 0, err
}

// nextBatch decodes what was read and takes the complete requests out of it, up to a batch of them; nil if there is none. more says
// that there may be others behind them.
func (c *conn) nextBatch(created int64) (b *request.Batch, more bool, err error) {
	if c.filled < c.need {
		c.keep(0)
		return nil, false, nil
	}
	b, c.held = c.held, nil
	if b == nil {
		b = request.GetBatch()
		b.Client = c
	}
	used, more, err := c.decode(b, created)
	switch {
	case len(b.Requests) == 0:
		b.Release()
		c.keep(used)
		return nil, false, err
	case b.Buffer != nil: // it was held
		c.keep(used)
	default:
		b.Buffer = c.buf
		c.take(used)
	}
	if c.skip > 0 {
		c.held = b
		return nil, false, nil
	}
	return b, more, err
}

// decode appends complete requests to b until it is full, and returns the bytes they and skipped values took, and whether others may
// be complete behind them. A batch that was held ends where its value does. A refused value that has arrived in part is left to the
// next batch, so that it does not delay the requests before it.
func (c *conn) decode(b *request.Batch, created int64) (used int, more bool, err error) {
	c.need = 0
	if c.skip > 0 {
		used = min(c.skip, c.filled)
		c.skip -= used
		return used, true, nil
	}
	for used < c.filled && len(b.Requests) < request.MaxBatch {
		b.Requests = append(b.Requests, request.Request{})
		r := &b.Requests[len(b.Requests)-1]
		n, need, err := c.stage.options.Limits.Decode(c.buf.B[used:c.filled], &r.Request)
		if n == 0 {
			b.Requests = b.Requests[:len(b.Requests)-1]
			c.need = need
			if err != nil {
				err = ending(stats.CloseProtocol)
			}
			return used, false, err
		}
		if len(b.Requests) > 1 && r.Skip > c.filled-used-n {
			b.Requests = b.Requests[:len(b.Requests)-1]
			return used, true, nil
		}
		used += n
		r.Created = created
		if r.Has(protocol.Closes) {
			return used, false, ending(stats.CloseQuit)
		}
		if r.Skip > 0 {
			skipped := min(r.Skip, c.filled-used)
			used += skipped
			c.skip = r.Skip - skipped
		}
	}
	return used, true, nil
}

// queue puts b on the queue once the batch before is answered, and reports whether b has a reply. If the client is gone by then, b is
// dropped: servers need not work for nobody, and a drain has to end in time.
func (c *conn) queue(b *request.Batch) (replies bool) {
	c.awaitAnswer()
	if c.broken.Load() {
		c.abandon(b)
		return true
	}
	enqueued := stats.Now()
	if c.stage.options.Hot != nil && c.serveHot(b, enqueued) {
		return true
	}
	for i := range b.Requests {
		b.Requests[i].Enqueued = enqueued
		replies = replies || b.Requests[i].Replies()
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
	return replies
}

// awaitAnswer waits until no batch is under way.
func (c *conn) awaitAnswer() {
	if c.underway {
		<-c.answered
		c.underway = false
	}
}

// leave makes the reader close at the next moment without a request, for reason unless it is to for another one already. It reads until
// lastRead, ns as stats.Now. The stage's mu must be held.
func (c *conn) leave(reason stats.CloseReason, lastRead int64) {
	if c.leaving.Load() == 0 {
		c.lastRead.Store(lastRead)
		c.leaving.Store(int32(reason) + 1)
	} else {
		c.lastRead.Store(min(lastRead, c.lastRead.Load()))
	}
	_ = c.sock.SetReadDeadline(time.Unix(1, 0))
}

// left says that the connection is to be closed because of leave.
func (c *conn) left() error { return ending(c.leaving.Load() - 1) }

// cut makes the reader end the connection, for reason.
func (c *conn) cut(reason stats.CloseReason) {
	c.reason.Store(int32(reason) + 1)
	_ = c.sock.SetReadDeadline(time.Unix(1, 0))
}
