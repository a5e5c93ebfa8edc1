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
func (c *conn) Crowded() bool { return c.broken.Load() || c.stage.output.Overdrawn() }

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
	// It is counted before the worker goes on, which may ask for more; even where others have taken all there is: what could be refused was, before it was
	// asked for (Crowded).
	size := int64(len(rest))
	c.stage.output.Force(size)
	go func() {
		if len(rest) == 0 && !c.broken.Load() {
			c.stage.output.Take(0, c.stage.options.WriteTimeout, c.stage.cut)
		}
		err := c.writeRest(rest)
		c.stage.output.Give(size)
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
			c.abandon(unanswered)
		}
		c.Finish()
	}()
}

// abandon drops what b's client, which is gone, asked for.
func (c *conn) abandon(b *request.Batch) {
	c.stage.options.Net.Abandoned(len(b.Requests) - b.Next)
	b.Release()
}

// errSlow: the client left more replies unread than allowed.
var errSlow = errors.New("too many unread replies")

// restPiece is how much of what waits for a client it has to take within WriteTimeout, bytes. A TLS socket must be given at least one
// of its batches at first.
const restPiece = 64 << 10

// writeRest writes what a client was too slow to take, within the limits for that.
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
