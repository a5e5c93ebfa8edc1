package mctest

import (
	"errors"
	"net"
	"time"
)

// FaultyConn is a connection that writes single bytes, and can fail after a number of them.
type FaultyConn struct {
	net.Conn
	// Pause is the time to wait after every byte, so that the other side is likely to read the byte alone; 0: no pause.
	Pause time.Duration
	// FailAfter, if above 0, is the number of bytes after which writing fails and the connection is closed.
	FailAfter int

	written int
}

// ErrFault is the error of a FaultyConn once FailAfter bytes are written.
var ErrFault = errors.New("the test cut this connection")

// Write writes p one byte at a time.
func (c *FaultyConn) Write(p []byte) (int, error) {
	for i := range p {
		if c.FailAfter > 0 && c.written >= c.FailAfter {
			c.Conn.Close()
			return i, ErrFault
		}
		if _, err := c.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
		c.written++
		if c.Pause > 0 {
			time.Sleep(c.Pause)
		}
	}
	return len(p), nil
}
