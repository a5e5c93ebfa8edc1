package netstage

import (
	"time"

	"mcmw/internal/request"
	"mcmw/internal/stats"
)

// memoryPatience bounds the time in which no connection that waits for the memory of a large request gets any. After it
// a waiting connection is closed. Requests release their memory when they are served; the limit is for clients that are
// slow to send the announced bytes.
var memoryPatience = 10 * time.Second

// expectedPart is the divisor for the part of conn.expected by which a read of fewer bytes lowers it.
const expectedPart = 8

// receive appends the bytes that have arrived to buf, without waiting; n is their number. more reports that further
// bytes may be there. Except while it reads, a connection holds no more memory than it needs for the beginning of a
// request.
func (c *conn) receive() (n int, more bool, err error) {
	if !c.makeRoom() {
		return 0, false, ending(stats.CloseMemory)
	}
	b := c.buf
	switch {
	case b == nil:
		b = request.GetBuffer(c.expected)
	case len(b.B) < request.ReadSize:
		b = request.GetBuffer(request.ReadSize)
		copy(b.B, c.buf.B[:c.filled])
	}
	free := b.B[c.filled:]
	if c.need > 0 {
		// Bytes read after a large request would have to be copied out of its buffer.
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
		if c.expected = max(c.filled, c.expected-c.expected/expectedPart); n == len(free) {
			c.expected = request.ReadSize
		}
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

// note updates began and came after a read of n bytes. queued: complete requests were queued.
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

// disturbed reports whether another goroutine has moved the read deadline to get the reader's attention. While there is
// always more to read, the reader would not notice the deadline.
func (c *conn) disturbed() bool {
	return c.leaving.Load() != 0 || c.broken.Load() || c.reason.Load() != 0
}

// makeRoom replaces a buffer that the beginning of a request fills by a larger one. The memory of these buffers is
// bounded over all connections: makeRoom waits until there is some, and reports whether it got it. It takes up to four
// times as much memory as bytes have come, however many were announced.
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

// keep drops the first used bytes of buf, which belong to no batch.
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

// take leaves buf to a batch, or to the caller. The bytes after the first used ones, the beginning of a request, move
// to a new buffer.
func (c *conn) take(used int) {
	rest := c.buf.B[used:c.filled]
	c.buf, c.filled = nil, 0
	if len(rest) == 0 {
		return
	}
	c.buf = request.GetBuffer(len(rest))
	// So much is left only after a long multi-get. It is counted if there is room; the buffer that held it is released
	// soon.
	if size := int64(len(c.buf.B)); size > request.ReadSize && c.stage.input.TryTake(size) {
		c.buf.Counted(c.stage.input)
	}
	c.filled = copy(c.buf.B, rest)
}

// forget drops the bytes that were read and are in no batch.
func (c *conn) forget() {
	if c.buf != nil {
		c.buf.Release()
		c.buf = nil
	}
	c.filled = 0
}
