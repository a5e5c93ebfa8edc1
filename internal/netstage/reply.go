package netstage

import (
	"errors"
	"net"
	"os"
	"time"

	"mcmw/internal/request"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

// Crowded implements request.Client.
func (c *conn) Crowded(n int) bool {
	return c.broken.Load() || c.stage.output.Overdrawn() && c.sock.Room() < n
}

// User implements request.Client.
func (c *conn) User() string {
	if c.user == nil {
		return ""
	}
	return c.user.Name
}

// Values implements request.Client.
func (c *conn) Values() *request.ValueSize { return &c.values }

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

// fail records that the client is gone, and gets the reader's attention.
func (c *conn) fail() {
	c.broken.Store(true)
	_ = c.sock.SetReadDeadline(time.Unix(1, 0))
}

// Finish implements request.Client.
func (c *conn) Finish() {
	if c.batch.Swap(none) == awaited {
		c.answered <- struct{}{}
	}
}

// Stall implements request.Client.
func (c *conn) Stall(rest []byte, unanswered *request.Batch) {
	// The bytes are counted before the worker continues, because it may produce more. They are counted even beyond the
	// limit: replies can be refused only before they are requested from servers (Crowded).
	size := int64(len(rest))
	c.stage.output.Force(size)
	go func() {
		if len(rest) == 0 {
			c.awaitRoom(int(unanswered.Requests[unanswered.Next].Needs))
		}
		err := c.writeRest(rest)
		c.stage.output.Give(size)
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, errSlow):
			c.broken.Store(true)
			c.cut(stats.CloseSlow)
			c.stage.warn(c, &c.stage.laggards, "a client is closed: it does not read its replies")
		default:
			c.fail()
		}
		switch {
		case unanswered == nil:
		case err == nil:
			c.stage.options.Queue.Put(unanswered)
			return
		default:
			c.abandon(unanswered)
		}
		c.Finish()
	}()
}

// roomPause and roomPauseMax are the first and the longest pause between two looks at whether a client's socket takes a
// reply.
const (
	roomPause    = 5 * time.Millisecond
	roomPauseMax = 160 * time.Millisecond
)

// awaitRoom waits until there is memory for replies, or the client has read so much that its socket takes n more bytes;
// or the client is gone.
func (c *conn) awaitRoom(n int) {
	for pause := roomPause; !c.broken.Load() && !c.stage.output.Take(0, pause, c.stage.cut) && c.sock.Room() < n; {
		select {
		case <-c.stage.cut:
			return
		default:
		}
		pause = min(2*pause, roomPauseMax)
	}
}

// abandon drops the requests of b that are not served yet, because their client is gone.
func (c *conn) abandon(b *request.Batch) {
	c.stage.options.Net.Change(func(n *stats.NetRecord) { n.Abandoned += uint64(len(b.Requests) - b.Next) })
	b.Release()
}

// errSlow: the client left more replies unread than allowed.
var errSlow = errors.New("too many unread replies")

// restPiece is the number of bytes of waiting replies that a client must read within WriteTimeout. A TLS socket must
// first be given at least one of its batches.
const restPiece = 64 << 10

// writeRest writes the replies that a client was too slow to read, within the limits of MaxOutput and WriteTimeout.
func (c *conn) writeRest(rest []byte) error {
	if c.broken.Load() {
		return net.ErrClosed
	}
	if len(rest) > c.stage.options.MaxOutput {
		return errSlow
	}
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
