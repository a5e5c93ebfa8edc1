package netstage

import (
	"errors"
	"io"
	"os"
	"time"

	"mcmw/internal/protocol"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

// handshake makes the TLS session of c, if its listener uses TLS.
func (c *conn) handshake() error {
	if !c.sock.Secure() {
		return nil
	}
	deadline := time.Now().Add(c.stage.options.HandshakeTimeout)
	_ = c.sock.SetWriteDeadline(deadline)
	_ = c.sock.SetReadDeadline(deadline)
	// Goroutines that end the connection set their flag before they move the deadline, so it is seen here or by the
	// handshake.
	if c.leaving.Load() != 0 {
		return c.left()
	}
	if c.reason.Load() != 0 {
		return ending(stats.CloseHandshake)
	}
	err := c.sock.Handshake()
	if err == nil {
		_ = c.sock.SetWriteDeadline(time.Time{})
		_ = c.sock.SetReadDeadline(time.Time{})
	}
	switch {
	case c.leaving.Load() != 0:
		return c.left()
	case err == nil && c.reason.Load() == 0:
		return nil
	case err == nil:
		return ending(stats.CloseHandshake)
	case errors.Is(err, io.EOF):
		return err // port checks close without a handshake
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = errors.New("not finished in time")
	}
	c.stage.warn(c, &c.stage.handshakes, "a client failed the TLS handshake", "error", err)
	return ending(stats.CloseHandshake)
}

// settingsForText are the settings with which widespread clients that use the binary protocol by default use text.
const settingsForText = "PHP: memcached.sess_binary_protocol=0, Memcached::OPT_BINARY_PROTOCOL false; Dalli: " +
	"protocol: :meta; " +
	"pylibmc: binary=False; Rust memcache: ?protocol=ascii; others: docs/clients.md"

// greet recognizes the protocol by the client's first byte, as memcached does. A binary client is refused once the
// header of its request has come.
func (c *conn) greet() error {
	switch {
	case c.buf.B[0] != protocol.BinaryRequest:
		c.isText = true
		return nil
	case c.filled < protocol.BinaryHeader:
		c.need = protocol.BinaryHeader
		c.keep(0)
		return nil
	}
	c.refusal = protocol.RefuseBinary(c.buf.B[:protocol.BinaryHeader])
	c.stage.options.Net.Change(func(n *stats.NetRecord) { n.BinaryClients++ })
	c.stage.warn(c, &c.stage.binaries, "a client was closed: it uses the binary protocol, which mcmw does not speak",
		"settings", settingsForText)
	return ending(stats.CloseProtocol)
}

// login answers the requests of an unauthenticated client, as memcached does, until the client is authenticated.
func (c *conn) login() error {
	if c.filled < c.need {
		c.keep(0)
		return nil
	}
	var g wire.Gather
	var end error
	used := 0
	c.need = 0
	for c.unauthenticated {
		var l protocol.Login
		n, need, err := protocol.DecodeLogin(c.buf.B[used:c.filled], &l)
		if n == 0 {
			c.need = need
			if err != nil {
				end = ending(stats.CloseProtocol)
			}
			break
		}
		used += n
		switch {
		case l.Answer != "":
			g.AddString(l.Answer)
		default:
			g.AddString(c.tryLogin(&l))
		}
		if cut := c.reason.Load(); cut != 0 {
			return ending(cut - 1)
		}
	}
	c.keep(used)
	if g.Len() == 0 {
		return end
	}
	// No batch is under way, so the reader itself may write.
	n, err := c.sock.TryWrite(&g)
	switch {
	case err != nil:
		return ending(stats.CloseError)
	case n < g.Len() && c.writeRest(g.AppendFrom(nil, n)) != nil:
		c.broken.Store(true)
		return ending(stats.CloseSlow)
	}
	return end
}

// textThrottled is the reply to a login that is refused without a check of its password.
const textThrottled = "SERVER_ERROR too many failed logins from this address\r\n"

// tryLogin checks l once its address has a turn, and returns the reply. It waits up to maxTurns pauses.
func (c *conn) tryLogin(l *protocol.Login) (answer string) {
	s := c.stage
	addr := throttledAddr(c.sock.RemoteAddr())
	wait, taken, ok := s.throttle.turn(addr, stats.Now())
	if ok && wait > 0 {
		turn := time.NewTimer(wait)
		defer turn.Stop()
		select {
		case <-turn.C:
		case <-s.closing:
			ok = false
		}
	}
	if !ok {
		s.warn(c, &s.slowed, "a login was refused without a check: too many logins from this address have failed")
		return textThrottled
	}
	if user := s.options.Login(l.User, l.Password); user != nil {
		s.throttle.succeeded(addr, taken)
		c.unauthenticated, c.user, c.bound = false, user, len(user.Prefixes) > 0
		return protocol.TextStored
	}
	s.throttle.failed(addr, stats.Now(), taken)
	s.options.Net.Change(func(n *stats.NetRecord) { n.LoginFailures++ })
	s.warn(c, &s.logins, "a client gave a wrong name or password")
	return protocol.TextLoginFailed
}

// warn logs a client's error, as often as l allows.
func (s *Stage) warn(c *conn, l *stats.Limiter, text string, fields ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if suppressed, ok := l.Pass(); ok {
		s.options.Log.Warn(text, append([]any{"client", c.sock.RemoteAddr().String(), "not_logged", suppressed},
			fields...)...)
	}
}
