// Package backend is the middleware's side of the memcached servers: what is shared about a server, its health and what it
// missed, and one connection to it, owned by one worker.
package backend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

// ServerOptions are what an operator sets about servers. A middleware's Options say what a zero field means.
type ServerOptions struct {
	// ConnectTimeout is how long connecting may take, and a probe's reply.
	ConnectTimeout time.Duration
	// FailureLimit is the number of consecutive failures after which a server is down.
	FailureLimit int
	// Rejoin says what happens to what a server missed before it may serve reads again.
	Rejoin Rejoin
	// MissedMemory bounds the memory for the keys whose writes a server missed, bytes; a server that missed more is flushed.
	MissedMemory int
}

// Options are what the servers of a middleware share.
type Options struct {
	ServerOptions
	// Troubled counts the servers of a middleware that are stale or suspect: while it is 0, requests need not be checked for
	// such a server. Shared by the servers; required.
	Troubled *atomic.Int32
	// Records is what has to be known after a restart; nil: nothing. Shared by the servers.
	Records *Records
	Access
	Log *slog.Logger
}

// State is a server's health.
type State int32

// The states. A server starts up. It becomes stale when it missed a write, and down after FailureLimit consecutive
// failures; from both it comes back up through its prober alone, once it answers and holds nothing that it missed.
const (
	Up    State = iota
	Stale       // it answers, and is written to; it may hold keys that missed a write, and serves no read
	Down        // it fails at once, without an attempt
	NumStates
)

var stateNames = [NumStates]string{"up", "stale", "down"}

// String returns the state's name, the same in metrics and logs.
func (s State) String() string { return stateNames[s] }

// Server is one memcached server, shared by the workers and its prober.
type Server struct {
	// Static after construction.
	Name string
	// wake: whoever takes the server out of service -> its prober. Capacity 1; never closed.
	wake chan struct{}

	work
	options  atomic.Pointer[Options]
	state    atomic.Int32
	failures atomic.Int32 // consecutive
	// suspect: it has owed a reply for so long that requests which can use another server do; until it answers or is down.
	suspect atomic.Bool
	// moves counts the changes of addr: a connection made before the last one is of no use.
	moves atomic.Int32
	// judged: it was looked at since the start, and may be put what others and a later start have to know.
	judged atomic.Bool
	// marked: that it missed writes is on as many servers as it takes; kept by Records.
	marked atomic.Bool
	// recordless: it does not know the commands that records take.
	recordless atomic.Bool

	// mu guards the fields below, and every change of state and suspect. Nothing is waited for while it is held.
	mu          sync.Mutex
	addr        string
	since       time.Time // of the state
	why         error     // what ended the last time it was up
	transitions [NumStates]uint64
	stalls      uint64        // times it became suspect
	flushes     uint64        // times its prober flushed it
	changed     chan struct{} // closed at the next change of state; nil while nobody waits for it
	missed      missed
	left        missed                // keys that live elsewhere now and were written there: see LeaveBehind
	moved       func(key []byte) bool // keys to be deleted before it serves reads; nil: none
	troubled    bool                  // counted in Options.Troubled
	// retired are connections on which writes were under way when they were given up; the prober takes them. proberless: there
	// is no prober any more.
	retired    []*wire.Socket
	proberless bool
}

// maxRetired bounds the connections that wait for a server's prober. What is beyond is closed at once.
const maxRetired = 256

// NewServer returns the server that s names, up.
func NewServer(s route.Server, o Options) *Server {
	server := &Server{Name: s.Name, addr: s.Addr, wake: make(chan struct{}, 1), since: time.Now(), missed: missed{limit: o.MissedMemory}, left: missed{limit: o.MissedMemory}}
	server.options.Store(&o)
	return server
}

// Rename returns the server under another name, up, with what it has left behind.
func (s *Server) Rename(to route.Server, o Options) *Server {
	renamed := NewServer(to, o)
	s.mu.Lock()
	defer s.mu.Unlock()
	renamed.left = s.left
	renamed.judged.Store(s.judged.Load())
	return renamed
}

// Addr returns what is dialled now.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Tune replaces the options, but for Troubled.
func (s *Server) Tune(o Options) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.Troubled = s.options.Load().Troubled
	s.options.Store(&o)
	s.missed.limit, s.left.limit = o.MissedMemory, o.MissedMemory
}

// Move makes addr what is dialled. Connections to the previous address are not used again, and since nobody knows what a
// server there holds, it serves no read until its prober has seen to that.
func (s *Server) Move(addr string) {
	s.mu.Lock()
	previous := s.addr
	s.addr = addr
	s.mu.Unlock()
	if previous == addr {
		return
	}
	s.moves.Add(1)
	s.failures.Store(0)
	s.options.Load().Log.Info("a server has another address", "server", s.Name, "was", previous, "address", addr)
	if s.options.Load().Records == nil || s.judged.Load() { // otherwise it is looked at before it is used anyway
		s.MissedAll(errors.New("moved to " + addr))
	}
}

// Remove takes the server out of the count of troubled servers: it has left the middleware.
func (s *Server) Remove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suspect.Store(false)
	s.trouble(false)
}

// Readable reports whether the server may serve reads.
func (s *Server) Readable() bool { return State(s.state.Load()) == Up }

// Down reports whether the server fails at once.
func (s *Server) Down() bool { return State(s.state.Load()) == Down }

// Suspected reports whether the server owes a reply for longer than usual.
func (s *Server) Suspected() bool { return s.suspect.Load() }

// Stale reports whether the server may hold keys that missed a write, and will be up once it does not any more.
func (s *Server) Stale() bool { return State(s.state.Load()) == Stale }

// Suspect says that the server owes a reply for longer than usual.
func (s *Server) Suspect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspect.Load() || State(s.state.Load()) == Down {
		return
	}
	s.suspect.Store(true)
	s.stalls++
	s.trouble(true)
	s.options.Load().Log.Warn("a server does not answer; only what needs it waits for it", "server", s.Name)
	s.wakeProber()
}

// wakeProber wakes the prober.
func (s *Server) wakeProber() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// trouble updates Options.Troubled; mu is held.
func (s *Server) trouble(troubled bool) {
	if troubled == s.troubled {
		return
	}
	s.troubled = troubled
	if troubled {
		s.options.Load().Troubled.Add(1)
	} else {
		s.options.Load().Troubled.Add(-1)
	}
}

// AwaitReadable waits while the server is stale, until the deadline at most.
func (s *Server) AwaitReadable(ctx context.Context, deadline time.Time) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		s.mu.Lock()
		if State(s.state.Load()) != Stale {
			s.mu.Unlock()
			return
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Health returns what an operator wants to know of the server's state.
func (s *Server) Health() stats.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := stats.Health{State: State(s.state.Load()).String(), Since: s.since, Missed: len(s.missed.keys), Stalls: s.stalls, Flushes: s.flushes}
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
	if int(s.failures.Add(1)) < s.options.Load().FailureLimit {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(Down, err)
}

// Answered ends a run of failures, and suspicion.
func (s *Server) Answered() {
	if s.failures.Load() != 0 {
		s.failures.Store(0)
	}
	if !s.suspect.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspect.Swap(false) {
		s.trouble(State(s.state.Load()) == Stale)
		s.options.Load().Log.Info("a server answers again", "server", s.Name)
	}
}

// Missed remembers that the server may not have got the latest write of key, because of err.
func (s *Server) Missed(key []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missed.add(key)
	if r := s.options.Load().Records; r != nil && r.replicated.Load() && !s.marked.Load() {
		r.mark(s)
	}
	if State(s.state.Load()) == Up {
		s.change(Stale, err)
	}
}

// MissedAll remembers that anything the server holds may be out of date: it did not get a flush_all.
func (s *Server) MissedAll(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missed.addAll()
	s.stale(err)
}

// stale says that the server must not serve reads before something is done about what it holds; mu is held.
func (s *Server) stale(why error) {
	if r := s.options.Load().Records; r != nil {
		r.mark(s)
	}
	if State(s.state.Load()) == Up {
		s.change(Stale, why)
	}
}

// Join says that the server is new among the others, and may hold anything.
func (s *Server) Join() {
	s.MissedAll(errors.New("joined"))
	s.judged.Store(true)
}

// AwaitMarked waits until that the server missed writes is on so many servers that a restart finds it, or until it can't be.
func (s *Server) AwaitMarked(ctx context.Context) {
	if r := s.options.Load().Records; r != nil && !s.marked.Load() {
		r.Await(ctx, s)
	}
}

// Flushed says that a client had the server flushed: it has lost what has to be known after a restart, too.
func (s *Server) Flushed() {
	if r := s.options.Load().Records; r != nil {
		r.lost(s)
	}
}

// LeaveBehind notes that key was written on the servers that hold it now, while this one may still have the value from before. Nobody
// reads the key here until this server holds it again.
func (s *Server) LeaveBehind(key []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left.add(key)
}

// LeaveAllBehind says that any key may be one that LeaveBehind would have noted.
func (s *Server) LeaveAllBehind() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left.addAll()
}

// Reclaim says that the server may hold again what it left behind: what was written elsewhere meanwhile it has missed.
func (s *Server) Reclaim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left.nothing() {
		return
	}
	s.missed.putBack(s.left.take())
	s.stale(errors.New("keys come back that were written elsewhere"))
}

// change sets the state and wakes the prober; mu is held.
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
	if to == Down {
		s.suspect.Store(false) // what needs it fails at once
	}
	s.trouble(to == Stale || s.suspect.Load())
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
	lasted := now.Sub(s.since)
	s.since = now
	if r := s.options.Load().Records; r != nil && from == Down {
		r.call(s)
	}
	if to == Up {
		s.options.Load().Log.Info("a server is up", "server", s.Name, "was", from.String(), "for", lasted.Round(time.Millisecond))
		return
	}
	s.options.Load().Log.Warn("a server is "+to.String(), "server", s.Name, "was", from.String(), "why", why)
	s.wakeProber()
}

// retire leaves a retired socket to the prober; false means that the caller has to close it.
func (s *Server) retire(sock *wire.Socket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proberless || len(s.retired) == maxRetired {
		return false
	}
	s.retired = append(s.retired, sock)
	return true
}

// arrivalTime is how long what was sent on a given up connection may take to be acknowledged by a server that answers probes:
// more than a kernel delays an acknowledgement (40 ms). What it does not have by then was lost on the way.
const arrivalTime = 100 * time.Millisecond

// settle waits until nothing that was sent on given up connections takes effect any more, for as long as timeout.
func (s *Server) settle(timeout time.Duration) {
	s.mu.Lock()
	retired := s.retired
	s.retired = nil
	s.mu.Unlock()
	now := time.Now()
	for _, sock := range retired {
		sock.Settle(now.Add(min(arrivalTime, timeout)), now.Add(timeout))
	}
}

// errState is the failure of a request that needed a server which is down, or stale.
func (s *Server) errState() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := State(s.state.Load())
	if s.why == nil {
		return errors.New(state.String())
	}
	return fmt.Errorf("%s since %s: %w", state, s.since.UTC().Format(time.TimeOnly), s.why)
}
