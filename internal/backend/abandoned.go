package backend

import (
	"errors"
	"time"

	"mcmw/internal/wire"
)

// maxRetired bounds the connections that wait for a server's prober. Further ones are reset at once.
const maxRetired = 256

// retire hands a retired socket to the prober. If it returns false, the caller must reset the socket. A nil sock
// reports a connection that the caller resets in any case.
func (s *Server) retire(sock *wire.Socket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sock == nil || s.proberless || len(s.abandoned.retired) == maxRetired {
		s.abandoned.reset = true
		return false
	}
	s.abandoned.retired = append(s.abandoned.retired, sock)
	return true
}

// arrivalTime is how long a server that answers probes may take to acknowledge the bytes sent on an abandoned
// connection. It is longer than a kernel delays an acknowledgement (40 ms). Bytes that are not acknowledged by then
// were lost on the way.
const arrivalTime = 100 * time.Millisecond

// abandoned are connections that were given up with writes under way.
type abandoned struct {
	retired []*wire.Socket
	reset   bool // another connection had to be reset at once
}

// takeAbandoned removes and returns the abandoned connections, which the caller must settle; mu is held.
func (s *Server) takeAbandoned() abandoned {
	a := s.abandoned
	s.abandoned = abandoned{}
	return a
}

// errUnsettled: writes sent on an abandoned connection may still take effect.
var errUnsettled = errors.New("does not close connections that were given up")

// settle waits until no write sent on the connections can still take effect, for timeout at most. It returns
// errUnsettled if the server has not closed one of them by then, or if one had to be reset.
func (a abandoned) settle(timeout time.Duration) (err error) {
	if a.reset {
		err = errUnsettled
	}
	now := time.Now()
	for _, sock := range a.retired {
		if !sock.Settle(now.Add(min(arrivalTime, timeout)), now.Add(timeout)) {
			err = errUnsettled
		}
	}
	return err
}

// Settled reports, after Probe has returned, that no write sent to the server can still take effect.
func (s *Server) Settled() bool { return !s.unsettled.Load() }
