package netstage

import (
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

const textRefused = "SERVER_ERROR too many connections\r\n"

// refuse tells a client that there are too many; mu is held.
func (s *Stage) refuse(c *conn) {
	s.options.Net.Closed(stats.CloseRefused)
	if suppressed, ok := s.crowd.pass(); ok {
		s.options.Log.Warn("a client was refused: there are as many connections as allowed", "connections", len(s.conns), "not_logged", suppressed)
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

// sayRefused says so, unless that would take a TLS session.
func (c *conn) sayRefused() {
	if !c.sock.Secure() {
		c.say(textRefused)
	}
}

// say tells the client why its connection is being closed; all of its requests are answered.
func (c *conn) say(why string) {
	var g wire.Gather
	g.AddString(why)
	_, _ = c.sock.TryWrite(&g)
}
