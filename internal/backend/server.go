// Package backend is the middleware's side of the memcached servers. A Server is the shared state of one server: its
// health and the writes it missed. A Conn is one worker's connection to a server. Records are what a middleware keeps
// on the servers for its next start and for other middlewares.
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
)

// ServerOptions are the settings of servers that an operator can change. A middleware's Options say what a zero field
// means.
type ServerOptions struct {
	// ConnectTimeout bounds the time to connect, and the time to reply to a probe.
	ConnectTimeout time.Duration
	// FailureLimit is the number of consecutive failures after which a server is down.
	FailureLimit int
	// Rejoin says what is done about the keys whose writes a server missed before it may serve reads again.
	Rejoin Rejoin
	// MissedMemory bounds the memory for the keys whose writes a server missed, in bytes. A server that missed more is
	// flushed.
	MissedMemory int
}

// Options are the settings that the servers of a pool share.
type Options struct {
	ServerOptions
	// Changes is incremented after each change of what Readable, Stale or Suspected returns. Shared by the servers;
	// required.
	Changes *atomic.Uint32
	// Records are kept on the servers for the next start; nil: none are kept. Shared by the servers.
	Records *Records
	// Gutter is how long the gutter of the servers' pool may still hold keys of a server after reads return to that
	// server; 0: the pool has no gutter.
	Gutter time.Duration
	// Alone: no other middleware writes to the servers.
	Alone bool
	// Refills: a server that lacks keys which others hold is not read until it has been refilled.
	Refills bool
	Access
	Log *slog.Logger
}

// State is a server's health.
type State int32

// The states. A server starts as up. It becomes stale when it misses a write, and down after FailureLimit consecutive
// failures. Only its prober brings it back up, once it answers and holds no old value of a key whose write it missed.
const (
	Up    State = iota
	Stale       // it answers and is written to, but serves no reads, because it may hold old values
	Down        // requests fail at once, without an attempt
	NumStates
)

var stateNames = [NumStates]string{"up", "stale", "down"}

// String returns the state's name, the same in metrics and logs.
func (s State) String() string { return stateNames[s] }

// Server is one memcached server, shared by the workers and its prober.
type Server struct {
	// Static after construction.
	Name string
	// wake: any goroutine that takes the server out of service -> its prober. Capacity 1; never closed.
	wake chan struct{}

	work
	options  atomic.Pointer[Options]
	state    atomic.Int32
	failures atomic.Int32 // consecutive
	// suspect: it has owed a reply for too long. Until it answers or is down, requests that can use another server do
	// so.
	suspect atomic.Bool
	// moves: see Moves.
	moves atomic.Int32
	// judged: what it holds has been judged since the start, and records may be put on it.
	judged atomic.Bool
	// held: see Hold. returns: it is held, down, and answers its prober. Maintained by the prober.
	held, returns atomic.Bool
	// marking: this middleware has marked it as a server that missed writes. marked is the time until which the mark is
	// in force, ns as stats.Now; 0: it is not in force. Maintained by Records.
	marking atomic.Bool
	marked  atomic.Int64
	// barred: it is not read, because another middleware has marked it or it is unknown whether one has. Changed with
	// mu held.
	barred atomic.Bool
	// unknowable: it stays barred until servers that do not answer do. Changed with mu held.
	unknowable atomic.Bool
	// markedElsewhere: another middleware has marked it. Maintained by Records.
	markedElsewhere atomic.Bool
	// away: with marks that all middlewares respect, all of them respect one of this server. Maintained by Records; see
	// Away.
	away atomic.Bool
	// Maintained by Records; see Decides, Turn, DecidesSince, RoleSince, HadRole.
	decides   atomic.Bool
	turn      atomic.Uint32
	cleared   atomic.Int64
	roleSince atomic.Int64
	hadRole   atomic.Bool
	// open is the time until which its pool's gutter may hold keys of it although it is read, ns as stats.Now. Stored
	// before the server becomes readable.
	open atomic.Int64
	// unsettled: when its prober ended, writes sent to it could still take effect.
	unsettled atomic.Bool
	// versions: see NeedVersions.
	versions atomic.Bool
	// tellsExpiry: see TellsExpiry. Set when its prober, or Reach, asks for its version.
	tellsExpiry atomic.Bool
	// version is the last one that it told its prober, or Reach; nil: none.
	version atomic.Pointer[string]
	// recordless: it does not support the commands that records need.
	recordless atomic.Bool

	// mu guards the fields below, and every change of state and suspect. Its holder never waits for anything else.
	mu          sync.Mutex
	addr        string
	since       time.Time // when the state began
	why         error     // the error that last ended the up state
	barredBy    string    // why it is barred; "": it is not
	transitions [NumStates]uint64
	stalls      uint64        // times it became suspect
	flushes     uint64        // times its prober flushed it
	withheld    uint64        // see Withheld
	changed     chan struct{} // closed at the next change of state; nil while nobody waits for it
	missed      missed
	left        missed                // keys that were moved to other servers and written there; see LeaveBehind
	moved       func(key []byte) bool // keys to delete before it serves reads; nil: none
	joins       *Mark                 // it has joined and is not clean yet; nil: it is clean, or is no new server
	refill      refill
	abandoned   abandoned // the prober takes them
	proberless  bool      // the prober has ended
}

// NewServer returns the server that s names, up.
func NewServer(s route.Server, o Options) *Server {
	server := &Server{
		Name: s.Name, addr: s.Addr, wake: make(chan struct{}, 1), since: time.Now(),
		missed: missed{limit: o.MissedMemory}, left: missed{limit: o.MissedMemory},
	}
	server.options.Store(&o)
	return server
}

// Rename returns the server under another name, up. Once no request is under way on s, the caller calls Succeed(s) on
// the result.
func (s *Server) Rename(to route.Server, o Options) *Server {
	renamed := NewServer(to, o)
	renamed.judged.Store(s.judged.Load())
	renamed.tellsExpiry.Store(s.TellsExpiry())
	renamed.version.Store(s.version.Load())
	return renamed
}

// Succeed takes over the keys that previous, the server under its previous name, missed or left behind. If previous is
// not readable, its prober may hold keys that it is about to delete: then any key may be out of date.
func (s *Server) Succeed(previous *Server) {
	previous.mu.Lock()
	left, missed, up := previous.left.take(), previous.missed.take(), previous.Readable()
	previous.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left.putBack(left)
	s.missed.putBack(missed)
	if !up {
		s.missed.addAll()
	}
	if !s.missed.empty() {
		s.stale(errors.New("missed writes under its previous name"))
	}
}

// Addr returns the address that is dialled now.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Tune replaces the options except Changes.
func (s *Server) Tune(o Options) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.Changes = s.options.Load().Changes
	s.options.Store(&o)
	s.missed.limit, s.left.limit = o.MissedMemory, o.MissedMemory
}

// Move sets the address that is dialled. Connections to the previous address are not used again. The server at the new
// address may hold anything, so it serves no reads until its prober has cleaned it.
func (s *Server) Move(addr string) {
	s.mu.Lock()
	previous := s.addr
	if previous != addr {
		if s.options.Load().Records == nil || s.judged.Load() { // otherwise it is judged before its first use
			s.missed.addAll()
			s.stale(errors.New("moved to " + addr))
		}
		s.addr = addr // last, so that nobody reads there before
		s.moves.Add(1)
		s.failures.Store(0)
	}
	s.mu.Unlock()
	if previous != addr {
		s.options.Load().Log.Info("a server has another address", "server", s.Name, "was", previous, "address", addr)
	}
}

// Moves counts the changes of the address. Connections made before the last one must not be used.
func (s *Server) Moves() int32 { return s.moves.Load() }

// Readable reports whether the server may serve reads.
func (s *Server) Readable() bool { return s.up() && !s.barred.Load() }

func (s *Server) up() bool { return State(s.state.Load()) == Up }

// Down reports whether requests to the server fail at once, without being sent.
func (s *Server) Down() bool { return State(s.state.Load()) == Down }

// Suspected reports whether the server has owed a reply for too long.
func (s *Server) Suspected() bool { return s.suspect.Load() }

// Stale reports whether the server serves no reads because it may hold old values, though it is not down.
func (s *Server) Stale() bool {
	state := State(s.state.Load())
	return state == Stale || state == Up && s.barred.Load()
}

// Recovers reports whether the server is stale and may be read again soon, as far as is known: a read may wait for it.
func (s *Server) Recovers() bool { return s.Stale() && !s.unknowable.Load() }

// bar sets why the server must not be read although it is up; "": it may be read. It returns the reason set before.
// unknowable: it stays so until servers that do not answer do.
func (s *Server) bar(why string, unknowable bool) (previous string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unknowable.Swap(unknowable) != unknowable {
		s.options.Load().Changes.Add(1)
		s.notify()
	}
	previous, s.barredBy = s.barredBy, why
	if why == "" && previous != "" {
		s.KeepOpen(0)
	}
	if s.barred.Swap(why != "") != (why != "") {
		if s.up() {
			s.since = time.Now()
			s.transitions[s.shown()]++
		}
		s.options.Load().Changes.Add(1)
		s.notify()
	}
	return previous
}

// notify wakes the goroutines that wait for a change; mu is held.
func (s *Server) notify() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// Suspect marks the server as suspect: it has owed a reply for too long.
func (s *Server) Suspect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.suspect.Load() || State(s.state.Load()) == Down {
		return
	}
	s.suspect.Store(true)
	s.stalls++
	s.options.Load().Changes.Add(1)
	s.options.Load().Log.Warn("a server does not answer; only requests that need it wait for it", "server", s.Name)
	wake(s.wake)
}

// AwaitReadable waits while the server recovers and is not away, until the deadline at the latest.
func (s *Server) AwaitReadable(ctx context.Context, deadline time.Time) {
	s.await(ctx, deadline, func() bool { return s.Recovers() && !s.Away() })
}

// await waits while pending returns true, until the deadline at the latest. Who makes it return false calls notify.
func (s *Server) await(ctx context.Context, deadline time.Time, pending func() bool) {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		s.mu.Lock()
		if !pending() {
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

// shown returns the state that operators see: a barred server is shown as stale. mu is held.
func (s *Server) shown() State {
	if s.Stale() {
		return Stale
	}
	return State(s.state.Load())
}

// Health returns the server's state for operators.
func (s *Server) Health() stats.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := stats.Health{
		State: s.shown().String(), Since: s.since, Missed: len(s.missed.keys), Stalls: s.stalls, Flushes: s.flushes,
		MarkedHere: s.marking.Load(), MarkedElsewhere: s.markedElsewhere.Load(), Withheld: s.withheld,
		Refilled: s.refill.copied, LacksSince: s.refill.since,
	}
	for i, n := range s.transitions {
		h.Transitions = append(h.Transitions, stats.Transition{To: State(i).String(), Count: n})
	}
	switch {
	case s.up():
		h.Why = s.barredBy
	case s.why != nil:
		h.Why = s.why.Error()
	}
	return h
}

// Failed counts a failed connection, or a failed attempt to connect.
func (s *Server) Failed(err error) {
	if int(s.failures.Add(1)) < s.options.Load().FailureLimit {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(Down, err)
}

// Answered ends a series of failures; the server is no longer suspect.
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
		s.options.Load().Changes.Add(1)
		s.options.Load().Log.Info("a server answers again", "server", s.Name)
	}
}

// Missed records that the server may not have got the latest write of key, because of err.
func (s *Server) Missed(key []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missed.add(key)
	if r := s.options.Load().Records; r != nil && r.replicated.Load() && !s.marking.Load() {
		r.mark(s)
	}
	if State(s.state.Load()) == Up {
		s.change(Stale, err)
	}
}

// MissedAll records that any value on the server may be out of date, because of err.
func (s *Server) MissedAll(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missed.addAll()
	s.stale(err)
}

// stale takes the server out of reads until its prober has cleaned it; mu is held.
func (s *Server) stale(why error) {
	if r := s.options.Load().Records; r != nil {
		r.mark(s)
	}
	if State(s.state.Load()) == Up {
		s.change(Stale, why)
	}
}

// Join records that the server is new and may hold anything. Its prober flushes it unless mark is on it.
func (s *Server) Join(mark Mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joins = &mark
	s.stale(errors.New("joined"))
	s.judged.Store(true)
}

// Joins reports whether the server has joined and is not clean yet.
func (s *Server) Joins() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joins != nil
}

// Flushed records that a client flushed the server, which has thereby lost its records, too.
func (s *Server) Flushed() {
	if r := s.options.Load().Records; r != nil {
		r.lost(s)
	}
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
	if to == Up {
		s.KeepOpen(0)
	}
	s.state.Store(int32(to))
	s.transitions[to]++
	if to == Down {
		s.suspect.Store(false) // requests that need it fail at once
	}
	s.options.Load().Changes.Add(1)
	s.notify()
	lasted := now.Sub(s.since)
	s.since = now
	if r := s.options.Load().Records; r != nil {
		switch {
		case from == Down:
			r.call(s)
		case to == Down && (s.options.Load().Gutter != 0 || r.RespectsMarks()):
			r.mark(s) // other servers, and the gutter, may take its place only once it is marked
		}
	}
	if to == Up {
		s.options.Load().Log.Info("a server is up", "server", s.Name, "was", from.String(), "for",
			lasted.Round(time.Millisecond))
		return
	}
	s.options.Load().Log.Warn("a server is "+to.String(), "server", s.Name, "was", from.String(), "why", why)
	wake(s.wake)
}

// errState returns the error of a request that needs a server which is down or stale.
func (s *Server) errState() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := State(s.state.Load())
	if state == Up && s.barredBy != "" {
		return errors.New(s.barredBy)
	}
	if s.why == nil {
		return errors.New(state.String())
	}
	return fmt.Errorf("%s since %s: %w", state, s.since.UTC().Format(time.TimeOnly), s.why)
}
