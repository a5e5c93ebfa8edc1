package netstage

import (
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

const textRefused = "SERVER_ERROR too many connections\r\n"

// refuse ends a connection above MaxConnections with an error reply; mu is held.
func (s *Stage) refuse(c *conn) {
	s.options.Net.Closed(stats.CloseRefused)
	if suppressed, ok := s.crowd.Pass(); ok {
		s.options.Log.Warn("a client was refused: the maximum number of connections is reached", "connections",
			len(s.conns), "not_logged", suppressed)
	}
	if len(s.refusing) >= s.options.MaxRefused {
		c.sayRefused()
		_ = c.sock.Close()
		return
	}
	s.refusing[c] = struct{}{}
	s.readers.Go(func() {
		c.sayRefused()
		c.linger(false)
		_ = c.sock.Close()
		s.mu.Lock()
		delete(s.refusing, c)
		s.mu.Unlock()
	})
}

// sayRefused sends the error reply, except over TLS, which would take a handshake.
func (c *conn) sayRefused() {
	if !c.sock.Secure() {
		c.say(textRefused)
	}
}

// say tells the client why its connection is closed. All of its requests are answered by then.
func (c *conn) say(why string) {
	var g wire.Gather
	g.AddString(why)
	_, _ = c.sock.TryWrite(&g)
}
