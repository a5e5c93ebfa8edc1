package netstage

import (
	"errors"
	"time"

	"mcmw/internal/request"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

// memoryPatience is how long nobody who waits for the memory of a large request may have got any before a connection that waits is
// closed. Requests release theirs when they are served; the limit is for those whose clients are slow to send the announced bytes.
var memoryPatience = 10 * time.Second

// errNoMemory: other clients' large requests hold all the memory there is for them.
var errNoMemory = errors.New("no memory for a large request")

// receive waits for bytes and reads them behind those in buf, once.
func (c *conn) receive() error {
	if !c.makeRoom() {
		return errNoMemory
	}
	c.once = true
	err := c.sock.ReadLent(c)
	c.once = false
	return err
}

// receiveNow is receive without waiting for bytes; n is how many there were.
func (c *conn) receiveNow() (n int, err error) {
	if !c.makeRoom() {
		return 0, errNoMemory
	}
	n, err = c.sock.ReadNow(c.Lend())
	if n == 0 {
		c.TakeBack()
		return 0, err
	}
	c.arrived(n)
	return n, nil
}

// Lend implements wire.Lender. While nothing arrives a connection holds no more than the beginning of a request takes.
func (c *conn) Lend() []byte {
	c.lent = c.buf
	if c.buf == nil || len(c.buf.B) < request.ReadSize {
		c.lent = request.GetBuffer(request.ReadSize)
		if c.buf != nil {
			copy(c.lent.B, c.buf.B[:c.filled])
		}
	}
	free := c.lent.B[c.filled:]
	if c.need > 0 {
		// What is read behind a large request would have to be copied out of its buffer.
		free = free[:min(len(free), max(c.need-c.filled, request.ReadSize))]
	}
	return free
}

// TakeBack implements wire.Lender.
func (c *conn) TakeBack() {
	if c.lent != c.buf {
		c.lent.Release()
	}
	c.lent = nil
}

// Filled implements wire.Lender.
func (c *conn) Filled(n int) wire.Next {
	c.arrived(n)
	if c.once {
		return wire.Enough
	}
	c.replies = false
	c.ending, c.closing = c.queueAll()
	c.note()
	if !c.closing && !c.makeRoom() {
		c.ending, c.closing = stats.CloseMemory, true
	}
	switch {
	case c.closing || c.disturbed():
		return wire.Enough
	case c.replies && c.filled == 0 && c.skip == 0:
		return wire.MoreLater
	}
	return wire.More
}

// note keeps began and came, behind queueAll.
func (c *conn) note() {
	switch {
	case c.filled == 0 && c.skip == 0:
		if c.began.Load() != 0 {
			c.began.Store(0)
		}
	case c.queued || c.began.Load() == 0:
		c.came.Store(int64(c.filled))
		c.began.Store(c.active.Load())
	default:
		c.came.Add(int64(c.fresh))
	}
	c.fresh = 0
}

// disturbed reports whether the read deadline was moved for the reader to notice something. Where there is always more to read it
// would not.
func (c *conn) disturbed() bool {
	return c.draining.Load() || c.broken.Load() || c.reason.Load() != 0
}

// arrived takes over the buffer that n bytes were read into.
func (c *conn) arrived(n int) {
	if c.lent != c.buf && c.buf != nil {
		c.buf.Release()
	}
	c.buf, c.lent = c.lent, nil
	c.filled += n
	c.fresh += n
}

// makeRoom replaces a buffer that is full of the beginning of a request by a larger one. Larger ones are bounded over all
// connections: it waits until there is room for one more, and reports whether there was. Memory is taken for what has come, not for
// what was announced: up to four times as much.
func (c *conn) makeRoom() bool {
	if c.buf == nil || len(c.buf.B) < request.ReadSize || c.filled < len(c.buf.B) {
		return true
	}
	size := request.BufferSize(max(min(c.need, 4*len(c.buf.B)), 2*len(c.buf.B)))
	c.waits.Store(true)
	defer c.waits.Store(false)
	if !c.stage.input.Grow(c.buf.Taken(), int64(size), memoryPatience, c.stage.cut) {
		return false
	}
	larger := request.GetBuffer(size)
	larger.Counted(c.stage.input)
	copy(larger.B, c.buf.B)
	c.buf.Release()
	c.buf = larger
	return true
}

// keep drops the first used bytes of buf, in which there was no request.
func (c *conn) keep(used int) {
	switch rest := c.filled - used; {
	case rest == 0:
		c.forget()
	case used > 0 || (rest <= request.StubSize && len(c.buf.B) > request.StubSize):
		old := c.buf
		c.take(used)
		old.Release()
	}
}

// take gives buf away, and moves what stands behind its first used bytes, the beginning of a request, to a new one.
func (c *conn) take(used int) {
	rest := c.buf.B[used:c.filled]
	c.buf, c.filled = nil, 0
	if len(rest) == 0 {
		return
	}
	c.buf = request.GetBuffer(len(rest))
	// Only behind a long multi-get so much was read. It is counted if there is room; the buffer it was in is given back soon.
	if size := int64(len(c.buf.B)); size > request.ReadSize && c.stage.input.TryTake(size) {
		c.buf.Counted(c.stage.input)
	}
	c.filled = copy(c.buf.B, rest)
}

// forget lets go of what was read and is not in a batch.
func (c *conn) forget() {
	if c.buf != nil {
		c.buf.Release()
		c.buf = nil
	}
	c.filled = 0
}
