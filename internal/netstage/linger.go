package netstage

import (
	"errors"
	"os"
	"time"

	"mcmw/internal/stats"
)

// lingers are the reasons for which mcmw ends a connection although its client may still be sending or reading.
var lingers = [stats.NumCloseReasons]bool{
	stats.CloseQuit: true, stats.CloseProtocol: true, stats.CloseShutdown: true, stats.CloseRefused: true,
	stats.CloseIdle:   true,
	stats.CloseMemory: true, stats.CloseSlow: true, stats.CloseHandshake: true, stats.CloseAge: true,
}

const (
	// lingerTime is how long a client from which bytes came lately may take to close its side, in ns.
	lingerTime = int64(time.Second)
	// lingerPauseMin and lingerPauseMax bound the pause between two checks of what the client has acknowledged.
	lingerPauseMin = time.Millisecond
	lingerPauseMax = 64 * time.Millisecond
)

// linger ends a connection without losing replies. A socket that is closed with unread bytes, or that receives bytes
// after it is closed, answers with a reset, and the client loses the replies that are still on their way. Therefore the
// stream to the client ends first. Bytes from the client are dropped until it closes its side, or has acknowledged
// everything and is silent. The client may take WriteTimeout to read its replies. With sends it may also finish sending
// in that time, because many clients read only then.
func (c *conn) linger(sends bool) {
	if c.sock.CloseWrite() != nil {
		return
	}
	begin := stats.Now()
	until, limit := c.active.Load()+lingerTime, begin+int64(c.stage.options.WriteTimeout)
	for pause := lingerPauseMin; ; pause = min(2*pause, lingerPauseMax) {
		_ = c.sock.SetReadDeadline(time.Now().Add(pause))
		_, err := c.receiveNext()
		c.forget()
		switch {
		case err == nil:
			until = begin + lingerTime
			if sends {
				until = stats.Now() + lingerTime
			}
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return
		}
		if now := stats.Now(); now > limit || (now > until && c.sock.Unsent() == 0) {
			return
		}
	}
}
