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
	"mcmw/internal/secret"
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
	// expires is when the connection reaches its maximum age, ns as stats.Now.
	expires int64
	// answered: the owner of this connection's batch -> its reader; one token when a batch is answered that the reader
	// awaits. Capacity 1, so that the sender never waits; never closed.
	answered chan struct{}

	// Owned by the reader goroutine.
	buf    *request.Buffer // bytes that were read and are not in a batch yet; nil while there are none
	filled int             // bytes of buf in use
	// expected is the size of the next buffer, bytes, up to request.ReadSize: what recent reads have filled. With many
	// clients most of the memory is in the buffers of requests that wait.
	expected int
	need     int // bytes that buf must hold before decoding makes sense; 0: unknown
	skip     int // bytes still to come of a refused value
	// a batch whose last request has the value that is being skipped; it is queued after the end of that value
	held            *request.Batch
	underway        bool            // a batch was queued, and its answer has not been awaited
	unauthenticated bool            // the client must log in first
	bound           bool            // user has prefixes
	hot             hotkeys.Sampler // of the keys that serveHot has answered

	// active is when bytes were last read, ns as stats.Now; written by the reader.
	active atomic.Int64
	// began is when the first bytes after the last complete request came, ns as stats.Now; 0 while there are none. came
	// is the number of these bytes. Written by the reader.
	began, came atomic.Int64
	// waits: the reader waits for memory, and therefore the client waits for the reader.
	waits atomic.Bool
	// batch is the state of the connection's batch. The reader sets it to served or awaited, the goroutine that answers
	// the batch to none.
	batch atomic.Int32
	// reason, if not 0, is the stats.CloseReason, plus 1, for which a goroutine other than the reader ends the
	// connection.
	reason atomic.Int32
	// broken is set by the goroutine that writes, when the client is gone; replies are dropped from then on.
	broken atomic.Bool
	// leaving, if not 0, is the stats.CloseReason, plus 1, for which the reader must close at the next moment without a
	// request.
	leaving atomic.Int32
	// lastRead is the time until which a leaving reader reads, ns as stats.Now. It only becomes earlier.
	lastRead atomic.Int64

	// user is who has logged in; nil: nobody. Set by the reader before it queues the first request.
	user *secret.User

	isText  bool   // the first byte has shown that the client speaks the text protocol
	refusal string // the reply to a client that does not

	// values belongs to the owner of the connection's batch.
	values request.ValueSize

	// owed is the number of bytes that wait for a client that is slow to read; written by the goroutine that writes
	// them.
	owed atomic.Int64

	// Owned by Watch: began, came and owed at its last check, and how long the client has been slow.
	sawBegan, sawCame, sawOwed int64
	slow                       time.Duration
}

// The states of a connection's batch.
const (
	none    = iota // there is none on the queue or with a worker
	served         // there is one
	awaited        // there is one, and the reader waits for conn.answered
)

func newConn(s *Stage, nc net.Conn) (*conn, error) {
	sock, err := wire.NewSocket(nc)
	if err != nil {
		return nil, err
	}
	c := &conn{
		stage: s, sock: sock, arrivals: s.options.Net.Arrivals(), answered: make(chan struct{}, 1),
		expected: request.FirstSize, unauthenticated: s.options.Login != nil,
	}
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

// lifetime returns a random lifetime for a connection, between half of maxAge and all of it. So clients that connected
// at the same time reconnect at different times.
func lifetime(maxAge time.Duration) time.Duration { return maxAge - rand.N(maxAge/2+1) }

// ending is an error with the reason for which a connection must be closed.
type ending stats.CloseReason

func (e ending) Error() string { return stats.CloseReason(e).String() }

// reasonOf returns the reason for closing a connection that ended with err.
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

// run serves the connection until it ends, and releases all that it holds.
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

// serve reads, decodes and queues requests until the connection must be closed; the error says why.
func (c *conn) serve() (err error) {
	for err = range c.sock.Readable() {
		for more := true; more && err == nil && !c.disturbed(); {
			var n int
			if n, more, err = c.receive(); n > 0 {
				var replies bool
				replies, err = c.queueAll(n)
				// If there is a reply, writing it shows whether the client is gone. Otherwise the next read does.
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

// lastRequests serves the requests of a client whose connection is about to close, until the client has all its replies
// and no request has arrived only in part. It stops reading at lastRead. Requests that come later have no effect. The
// client can tell, because the connection ends between two replies.
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
	// Goroutines that need the reader's attention set their flag before they move the deadline, so it is seen here or
	// by the read.
	if c.lastRead.Load() != until || c.broken.Load() || c.reason.Load() != 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return c.receiveNext()
}

// queueAll decodes the bytes read so far, n of which are new, and queues the complete requests: as one batch, or as
// several if there are too many for one or one must wait for the end of a refused value. replies reports that a reply
// will be written and no bytes are left over. After an error nothing more must be read.
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

// nextBatch decodes the bytes read so far and returns a batch of the complete requests among them; nil if there is
// none. more reports that other complete requests may follow them.
func (c *conn) nextBatch(created int64) (b *request.Batch, more bool, err error) {
	if c.filled < c.need {
		c.keep(0)
		return nil, false, nil
	}
	b, c.held = c.held, nil
	held := b != nil
	if !held {
		b = c.buf.Batch(c)
	}
	used, more, err := c.decode(b, created)
	switch {
	case held:
		c.keep(used)
	case len(b.Requests) == 0:
		c.keep(used)
		return nil, false, err
	default:
		c.take(used)
	}
	if c.skip > 0 {
		c.held = b
		return nil, false, nil
	}
	return b, more, err
}

// decode appends complete requests to b until b is full. used is the number of bytes of these requests and of skipped
// values; more reports that other complete requests may follow. A batch that was held ends where its value ends. A
// refused value that has arrived only in part is left to the next batch, so that it does not delay the requests before
// it.
func (c *conn) decode(b *request.Batch, created int64) (used int, more bool, err error) {
	c.need = 0
	if c.skip > 0 {
		used = min(c.skip, c.filled)
		c.skip -= used
		return used, true, nil
	}
	for used < c.filled && len(b.Requests) < request.MaxBatch {
		r := b.Add()
		n, need, err := c.stage.options.Limits.Decode(c.buf.B[used:c.filled], &r.Request)
		if n == 0 {
			b.DropLast()
			c.need = need
			if err != nil {
				err = ending(stats.CloseProtocol)
			}
			return used, false, err
		}
		if len(b.Requests) > 1 && int(r.Skip) > c.filled-used-n {
			b.DropLast()
			return used, true, nil
		}
		used += n
		r.Created = created
		if c.bound && (r.Answer == "" || r.Request.HasEffect()) && !c.mayAsk(&r.Request) {
			c.refuseForeign(&r.Request)
		}
		if r.Has(protocol.Local) {
			if r.Has(protocol.Closes) {
				return used, false, ending(stats.CloseQuit)
			}
			if r.Command.IsDiscovery() {
				r.Answer = c.announcement()
			}
		}
		if r.Skip > 0 {
			skipped := min(int(r.Skip), c.filled-used)
			used += skipped
			c.skip = int(r.Skip) - skipped
		}
	}
	return used, true, nil
}

// queue puts b on the queue once the batch before it is answered, and reports whether b has a reply. If the client is
// gone by then, b is dropped: servers should not work for a client that is gone, and a drain must end in time.
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
	c.begin()
	n := len(b.Requests) // once b is on the queue, the reader does not own it any more
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
	if c.underway && c.batch.CompareAndSwap(served, awaited) {
		<-c.answered
	}
	c.underway = false
}

// begin notes that a batch is under way.
func (c *conn) begin() {
	c.underway = true
	c.batch.Store(served)
}

// leave makes the reader close the connection at the next moment without a request. An earlier reason takes precedence.
// The reader reads until lastRead, ns as stats.Now. The stage's mu must be held.
func (c *conn) leave(reason stats.CloseReason, lastRead int64) {
	if c.leaving.Load() == 0 {
		c.lastRead.Store(lastRead)
		c.leaving.Store(int32(reason) + 1)
	} else {
		c.lastRead.Store(min(lastRead, c.lastRead.Load()))
	}
	_ = c.sock.SetReadDeadline(time.Unix(1, 0))
}

// left returns the error that ends the connection after leave.
func (c *conn) left() error { return ending(c.leaving.Load() - 1) }

// cut makes the reader end the connection, for the given reason.
func (c *conn) cut(reason stats.CloseReason) {
	c.reason.Store(int32(reason) + 1)
	_ = c.sock.SetReadDeadline(time.Unix(1, 0))
}
