package netstage

import (
	"time"

	"mcmw/internal/request"
	"mcmw/internal/stats"
)

// memoryPatience is how long nobody who waits for the memory of a large request may have got any before a connection that waits is
// closed. Requests release theirs when they are served; the limit is for those whose clients are slow to send the announced bytes.
var memoryPatience = 10 * time.Second

// receive reads behind what is in buf what has arrived, without waiting; n is 0 if nothing has. more says whether there may be more.
// Only while it reads does a connection hold more memory than the beginning of a request takes.
func (c *conn) receive() (n int, more bool, err error) {
	if !c.makeRoom() {
		return 0, false, ending(stats.CloseMemory)
	}
	b := c.buf
	if b == nil || len(b.B) < request.ReadSize {
		b = request.GetBuffer(request.ReadSize)
		if c.buf != nil {
			copy(b.B, c.buf.B[:c.filled])
		}
	}
	free := b.B[c.filled:]
	if c.need > 0 {
		// What is read behind a large request would have to be copied out of its buffer.
		free = free[:min(len(free), max(c.need-c.filled, request.ReadSize))]
	}
	n, more, err = c.sock.ReadNow(free)
	unused := c.buf
	if n == 0 {
		unused = b
	}
	if b != c.buf && unused != nil {
		unused.Release()
	}
	if n > 0 {
		c.buf = b
		c.filled += n
	}
	return n, more, err
}

// receiveNext is receive, but waits for bytes.
func (c *conn) receiveNext() (n int, err error) {
	for err = range c.sock.Readable() {
		if err == nil {
			n, _, err = c.receive()
		}
		if n > 0 || err != nil {
			break
		}
	}
	return n, err
}

// note keeps began and came, behind a read of n bytes and the queueing of what was complete, if anything was.
func (c *conn) note(n int, queued bool) {
	switch {
	case c.filled == 0 && c.skip == 0:
		if c.began.Load() != 0 {
			c.began.Store(0)
		}
	case queued || c.began.Load() == 0:
		c.came.Store(int64(c.filled))
		c.began.Store(c.active.Load())
	default:
		c.came.Add(int64(n))
	}
}

// disturbed reports whether the read deadline was moved for the reader to notice something. Where there is always more to read it
// would not.
func (c *conn) disturbed() bool {
	return c.leaving.Load() != 0 || c.broken.Load() || c.reason.Load() != 0
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
