// Package backend is the middleware's side of the memcached servers: what is shared about a server, its health and what it
// missed, and one connection to it, owned by one worker.
package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// Options are what the servers of a middleware share.
type Options struct {
	// ConnectTimeout is how long connecting may take, and a probe's reply.
	ConnectTimeout time.Duration
	// FailureLimit is the number of consecutive failures after which a server is down.
	FailureLimit int
	// Rejoin says what happens to what a server missed before it may serve reads again.
	Rejoin Rejoin
	// MissedMemory bounds what is remembered of the writes that a server missed, bytes; beyond it the server is flushed.
	MissedMemory int
	Log          *slog.Logger
}

// State is a server's health.
type State int32

// The states. A server starts up. It becomes stale when it missed a write, and down after FailureLimit consecutive
// failures; from both it comes back up through its keeper alone, once it answers and holds nothing that it missed.
const (
	Up    State = iota
	Stale       // it answers, and is written to; it may hold keys that missed a write, and serves no read
	Down        // it fails at once, without an attempt
	NumStates
)

var stateNames = [NumStates]string{"up", "stale", "down"}

// String returns the state's name, the same in metrics and logs.
func (s State) String() string { return stateNames[s] }

// Server is one memcached server, shared by the workers and its keeper.
type Server struct {
	// Static after construction.
	route.Server
	options Options
	// wake: whoever takes the server out of service -> its keeper. Capacity 1; never closed.
	wake chan struct{}

	work
	state    atomic.Int32
	failures atomic.Int32 // consecutive

	// mu guards the fields below, and every change of state. Nothing is waited for while it is held.
	mu          sync.Mutex
	since       time.Time // of the state
	why         error     // what ended the last time it was up
	transitions [NumStates]uint64
	missed      missed
}

// NewServer returns the server that s names, up.
func NewServer(s route.Server, o Options) *Server {
	return &Server{Server: s, options: o, wake: make(chan struct{}, 1), since: time.Now(), missed: missed{limit: o.MissedMemory}}
}

// Readable reports whether the server may serve reads.
func (s *Server) Readable() bool { return State(s.state.Load()) == Up }

// Down reports whether the server fails at once.
func (s *Server) Down() bool { return State(s.state.Load()) == Down }

// Health returns what an operator wants to know of the server's state.
func (s *Server) Health() stats.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := stats.Health{State: State(s.state.Load()).String(), Since: s.since, Missed: len(s.missed.keys)}
	for i, n := range s.transitions {
		h.Transitions = append(h.Transitions, stats.Transition{To: State(i).String(), Count: n})
	}
	if h.State != Up.String() && s.why != nil {
		h.Why = s.why.Error()
	}
	return h
}

// Failed counts a failure of a connection, or of connecting.
func (s *Server) Failed(err error) {
	if int(s.failures.Add(1)) < s.options.FailureLimit {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(Down, err)
}

// Answered ends a run of failures.
func (s *Server) Answered() {
	if s.failures.Load() != 0 {
		s.failures.Store(0)
	}
}

// Missed remembers that the server may not have got the latest write of key, because of err.
func (s *Server) Missed(key []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missed.add(key)
	if State(s.state.Load()) == Up {
		s.change(Stale, err)
	}
}

// MissedAll remembers that anything the server holds may be out of date: it did not get a flush_all.
func (s *Server) MissedAll(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missed.addAll()
	if State(s.state.Load()) == Up {
		s.change(Stale, err)
	}
}

// change sets the state and wakes the keeper; mu is held.
func (s *Server) change(to State, why error) {
	from := State(s.state.Load())
	if from == to {
		return
	}
	now := time.Now()
	if from == Up {
		s.why = why
	}
	s.state.Store(int32(to))
	s.transitions[to]++
	lasted := now.Sub(s.since)
	s.since = now
	if to == Up {
		s.options.Log.Info("a server is up", "server", s.Name, "was", from.String(), "for", lasted.Round(time.Millisecond))
		return
	}
	s.options.Log.Warn("a server is "+to.String(), "server", s.Name, "was", from.String(), "why", why)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// errDown is the failure of a request that needed a server which is down.
func (s *Server) errDown() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why == nil {
		return errors.New("down")
	}
	return fmt.Errorf("down since %s: %w", s.since.UTC().Format(time.TimeOnly), s.why)
}

// Dial connects to the server's current address.
func (s *Server) Dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: s.options.ConnectTimeout}
	network, addr := Network(s.Addr)
	return d.DialContext(ctx, network, addr)
}

// Network splits an address into what net.Dial and net.Listen want: "unix:/path" names a unix socket, all else is TCP.
func Network(addr string) (network, address string) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return "unix", path
	}
	return "tcp", addr
}
