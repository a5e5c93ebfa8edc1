package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

// Conn is one worker's connection to one server. It is made on demand, and made again after a failure. A worker works
// in rounds: it adds requests to Out, flushes once, fills and parses until every reply has been read, and ends the
// round. Parsed bytes stay valid until the round ends.
type Conn struct {
	// Out collects the round's requests.
	Out wire.Gather
	// Static after construction.
	server *Server
	slack  int64 // ns by which a read deadline may be too early

	// Owned by the worker.
	sock     *wire.Socket // nil while there is no connection
	move     int32        // the value of Server.moves when it was dialled: identifies the address
	deadline int64        // of reads, ns as stats.Now; 0: none set

	// in[start:end] holds bytes that were read. Those before start belong to complete replies, those up to pos are
	// parsed. When the buffer grows, its array is replaced; complete replies keep the old array.
	in              []byte
	start, pos, end int
	hole            int  // bytes before pos that belong to the reply and were dropped
	skip            int  // bytes still to come that are not kept
	lent            bool // Reply has returned slices of in

	// dialling: the goroutine that connects -> the worker; capacity 1; nil if there is none. While it is set, sock is
	// nil.
	dialling chan dialled

	// writing: the goroutine that writes the bytes that the socket did not take at once -> the worker; nil if the round
	// has none.
	writing chan error
}

// NewConn returns a connection of one worker to s, not yet connected. Fill may return before its deadline, by up to a
// tenth of patience.
func NewConn(s *Server, patience time.Duration) *Conn {
	return &Conn{server: s, slack: int64(patience) / 10}
}

const (
	// readSize is the initial size of the read buffer in bytes.
	readSize = 32 << 10
	// keepRead is the size in bytes of the largest read buffer that a connection keeps between rounds. Larger ones, of
	// mediumRead or largeRead bytes, come from pools that all connections share.
	keepRead   = 64 << 10
	mediumRead = 256 << 10
	largeRead  = 2 << 20
)

// Error is a failure of a server, as clients and the log see it.
type Error struct {
	Server string
	Reason stats.Reason
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Server, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

func (c *Conn) fail(reason stats.Reason, err error) *Error {
	return &Error{Server: c.server.Name, Reason: reason, Err: err}
}

// Refuse returns the error of a request that must not be sent because of the server's state.
func (c *Conn) Refuse() *Error { return c.fail(stats.ReasonDown, c.server.errState()) }

// Connect makes sure that there is a connection.
func (c *Conn) Connect(ctx context.Context) *Error {
	connected, err := c.Begin(ctx)
	if !connected && err == nil {
		_, err = c.Await(math.MaxInt64)
	}
	return err
}

// Begin makes sure that there is a connection or an attempt to make one, and does not wait. An attempt runs until Await
// returns its result or Close ends it. While the server is down Begin fails.
func (c *Conn) Begin(ctx context.Context) (connected bool, failure *Error) {
	if c.server.Down() {
		if c.sock != nil {
			c.Close()
		}
		return false, c.Refuse()
	}
	move := c.server.moves.Load()
	if c.dialling != nil && move != c.move {
		c.Close()
	}
	if c.sock != nil {
		// Checked once per round. Bytes after the last reply answer no request: Closed reports them, too.
		if move == c.move && !c.sock.Closed() {
			return true, nil
		}
		c.Close()
	}
	c.move = move
	if c.dialling == nil {
		done := make(chan dialled, 1)
		c.dialling = done
		go func() {
			sock, err := c.server.Dial(ctx)
			done <- dialled{sock, err}
		}()
	}
	return false, nil
}

// Connecting reports whether an attempt that Begin started is under way.
func (c *Conn) Connecting() bool { return c.dialling != nil }

// Await waits for the attempt that Begin started, until a time, ns as stats.Now. If it returns false and nil, the
// attempt is still under way.
func (c *Conn) Await(until int64) (connected bool, failure *Error) {
	var d dialled
	select {
	case d = <-c.dialling:
	default:
		timer := time.NewTimer(time.Duration(until - stats.Now()))
		defer timer.Stop()
		select {
		case d = <-c.dialling:
		case <-timer.C:
			return false, nil
		}
	}
	c.dialling = nil
	if d.err != nil {
		c.server.Failed(plain(d.err))
		return false, c.fail(stats.ReasonConnect, plain(d.err))
	}
	c.sock = d.sock
	c.Out.KeepUnits = d.sock.Secure()
	c.deadline = 0
	return true, nil
}

// NotConnected returns the error of requests that have no time left to wait for a connection.
func (c *Conn) NotConnected() *Error { return c.fail(stats.ReasonConnect, errConnectTimeout) }

// dialled is the result of connecting.
type dialled struct {
	sock *wire.Socket
	err  error
}

var errConnectTimeout = errors.New("connection timed out")

// plain strips the addresses and operation names that package net adds to an error: the server's name already tells a
// client as much.
func plain(err error) error {
	if step := stepError(""); errors.As(err, &step) {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("connection closed by the server")
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return fmt.Errorf("name %s: %s", dns.Name, dns.Err)
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errConnectTimeout
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// Flush writes the contents of Out. It never blocks: bytes that the socket does not take at once are written while the
// worker reads, because a server that waits for its replies to be read does not read requests.
func (c *Conn) Flush() *Error {
	if c.writing != nil {
		c.flushAfterPending()
		return nil
	}
	n, err := c.sock.TryWrite(&c.Out)
	if err != nil {
		return c.fail(stats.ReasonReset, plain(err))
	}
	if n < c.Out.Len() {
		rest := c.Out.AppendFrom(nil, n)
		sock, done := c.sock, make(chan error, 1)
		c.writing = done
		go func() { done <- sock.WriteRest(rest) }()
	}
	c.Out.Reset()
	return nil
}

// flushAfterPending is Flush in a round in which a goroutine writes, or has written, bytes of an earlier Flush. They
// may still be under way: a server can answer a request before it has read all of it.
func (c *Conn) flushAfterPending() {
	sock, before, done, out := c.sock, c.writing, make(chan error, 1), c.Out
	c.writing, c.Out = done, wire.Gather{KeepUnits: out.KeepUnits}
	go func() {
		err := <-before
		if err == nil {
			var n int
			if n, err = sock.TryWrite(&out); err == nil && n < out.Len() {
				err = sock.WriteRest(out.AppendFrom(nil, n))
			}
		}
		done <- err
	}()
}

// Unparsed returns the bytes that were read and are not yet taken.
func (c *Conn) Unparsed() []byte { return c.in[c.pos:c.end] }

// Take marks the next n unparsed bytes as parsed.
func (c *Conn) Take(n int) { c.pos += n }

// Drop discards the last n bytes taken. Until Reply, all bytes taken after them must be dropped, too.
func (c *Conn) Drop(n int) { c.hole += n }

// Skip takes and drops the next n bytes, including bytes still to come. Until those have come, Unparsed returns none.
func (c *Conn) Skip(n int) {
	here := min(n, c.end-c.pos)
	c.pos, c.hole, c.skip = c.pos+here, c.hole+here, n-here
}

// Reply returns the bytes taken since the last Reply, except those dropped. They stay valid until EndRound.
func (c *Conn) Reply() []byte {
	kept := c.pos - c.hole
	r := c.in[c.start:kept:kept]
	c.start, c.hole = c.pos, 0
	if len(r) == 0 {
		return nil
	}
	c.lent = true
	return r
}

// Parsed returns the number of bytes taken since the last Reply.
func (c *Conn) Parsed() int { return c.pos - c.start }

// Fill waits for bytes and appends them to the unparsed ones. need is the number of unparsed bytes known to be coming;
// 0: unknown. It waits until deadline, ns as stats.Now, which must be in the future. arrived is false if no bytes came.
func (c *Conn) Fill(need int, deadline int64) (arrived bool, failure *Error) {
	c.makeRoom(need)
	// Setting a deadline costs a timer operation, so a deadline that is only a little too early is kept.
	if c.deadline > deadline || c.deadline < deadline-c.slack {
		c.deadline = deadline
		if err := c.sock.SetReadDeadline(time.Now().Add(time.Duration(deadline - stats.Now()))); err != nil {
			return false, c.fail(stats.ReasonOther, plain(err))
		}
	}
	n, err := c.sock.Read(c.in[c.end:])
	return c.filled(n, err)
}

// FillNow is Fill without waiting: arrived reports whether bytes were there to read.
func (c *Conn) FillNow(need int) (arrived bool, failure *Error) {
	c.makeRoom(need)
	n, _, err := c.sock.ReadNow(c.in[c.end:])
	return c.filled(n, err)
}

// filled handles the result of a read.
func (c *Conn) filled(n int, err error) (arrived bool, failure *Error) {
	switch {
	case err == nil:
		c.end += n
		c.Skip(c.skip)
		return n > 0, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, nil
	default:
		return false, c.fail(stats.ReasonReset, plain(err))
	}
}

// TimedOut returns the error of requests whose replies did not come in time.
func (c *Conn) TimedOut() *Error { return c.fail(stats.ReasonTimeout, errors.New("no reply in time")) }

// Stalled returns the error of reads that are sent to other servers instead, because this one has not replied for too
// long.
func (c *Conn) Stalled() *Error { return c.fail(stats.ReasonTimeout, errors.New("stalled")) }

// makeRoom makes room in c.in for at least one more byte. Once a quarter of the reply has arrived it makes room for all
// need unparsed bytes, contiguous with the reply: memory is allocated for bytes that have come, not for bytes that were
// announced.
func (c *Conn) makeRoom(need int) {
	if c.hole > 0 {
		copy(c.in[c.pos-c.hole:], c.in[c.pos:c.end])
		c.pos, c.end, c.hole = c.pos-c.hole, c.end-c.hole, 0
	}
	held := c.end - c.start
	if c.end < len(c.in) && c.pos+min(need, 4*held) <= len(c.in) {
		return
	}
	// Doubled, so that after a few rounds a whole round fits and there are no more allocations.
	size := max(readSize, min(2*len(c.in), largeRead), 2*held, min(c.pos-c.start+need, 4*held))
	in := c.in
	if c.lent || len(in) < size {
		in, c.lent = buffer(size), false
	}
	copy(in, c.in[c.start:c.end])
	c.in = in
	c.pos -= c.start
	c.start, c.end = 0, held
}

// The pools have the buffers of mediumRead and of largeRead bytes.
var (
	mediumBuffers = sync.Pool{New: func() any { return new([mediumRead]byte) }}
	largeBuffers  = sync.Pool{New: func() any { return new([largeRead]byte) }}
)

// buffer returns a buffer of at least size bytes.
func buffer(size int) []byte {
	switch {
	case size <= keepRead || size > largeRead:
		return make([]byte, size)
	case size <= mediumRead:
		return mediumBuffers.Get().(*[mediumRead]byte)[:]
	}
	return largeBuffers.Get().(*[largeRead]byte)[:]
}

// EndRound ends a round in which every reply was parsed. The slices that Reply returned become invalid. Bytes that
// answer no request are an error: the connection must not be used again.
func (c *Conn) EndRound() *Error {
	if c.writing != nil {
		err := <-c.writing
		c.writing = nil
		if err != nil {
			return c.fail(stats.ReasonReset, plain(err))
		}
	}
	if c.pos != c.end {
		return c.fail(stats.ReasonProtocol, errors.New("bytes that answer no request"))
	}
	if c.end > 0 {
		c.server.Answered()
	}
	c.start, c.pos, c.end, c.hole, c.skip, c.lent = 0, 0, 0, 0, 0, false
	switch len(c.in) {
	case mediumRead:
		mediumBuffers.Put((*[mediumRead]byte)(c.in))
	case largeRead:
		largeBuffers.Put((*[largeRead]byte)(c.in))
	}
	if len(c.in) > keepRead {
		c.in = nil
	}
	return nil
}

// Retire gives up a connection with writes under way and hands it to the server's prober. The prober waits until these
// writes have taken effect or no longer can: only then may it delete their keys. The caller records the writes as
// missed after Retire.
func (c *Conn) Retire() {
	sock := c.sock
	switch {
	case sock == nil:
	case c.writing != nil: // bytes that have not been written yet must never arrive
		c.server.retire(nil)
	case sock.CloseWrite() != nil: // the server has reset it
	case c.server.retire(sock):
		c.forget()
		return
	}
	c.Close()
}

// Close closes the connection, if there is one; the next Connect makes a new one. Requests that were not sent are never
// sent: by then the prober may have deleted the keys that the server missed, and the server would get an old write.
func (c *Conn) Close() {
	if dialling := c.dialling; dialling != nil {
		c.dialling = nil
		go func() {
			if d := <-dialling; d.err == nil {
				_ = d.sock.Close()
			}
		}()
	}
	if c.sock == nil {
		return
	}
	_ = c.sock.Abort()
	if c.writing != nil {
		<-c.writing
		c.writing = nil
	}
	c.forget()
}

// forget drops the socket and all that was read from it.
func (c *Conn) forget() {
	c.sock = nil
	c.Out.Reset()
	c.in = nil // complete replies keep the old array until the round ends
	c.start, c.pos, c.end, c.hole, c.skip, c.lent = 0, 0, 0, 0, 0, false
}
