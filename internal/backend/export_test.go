package backend

import "errors"

// Retired returns how many connections wait for the prober.
func (s *Server) Retired() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.abandoned.retired)
}

// EndFlush is what a look at the server does that finds no marks there.
var EndFlush = endFlush

// Refuses reports whether err says that nobody listens at the server's only address.
func Refuses(err error) bool { return errors.As(err, new(refusal)) }
