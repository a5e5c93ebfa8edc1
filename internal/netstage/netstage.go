// Package netstage is the first stage of a request's path: it accepts client connections and reads them, one goroutine
// each. A reader turns what one read brought into a batch of requests, stamps them, and puts the batch on the queue.
//
// A connection has at most one batch under way (see request.Batch). Until it is answered the reader may read and decode
// the next one, but not queue it.
package netstage

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"mcmw/internal/budget"
	"mcmw/internal/hotkeys"
	"mcmw/internal/protocol"
	"mcmw/internal/queue"
	"mcmw/internal/stats"
)

// ClientOptions are what an operator sets about clients. A middleware's Options say what a zero field means.
type ClientOptions struct {
	// MaxConnections is how many clients may be connected; one more gets an error and is closed. 0: no limit.
	MaxConnections int
	// IdleTimeout is after how long without a request a client is closed. 0: never.
	IdleTimeout time.Duration
	// MaxAge is how old a connection may get: between half of it and all of it, by chance, its client is closed at the next moment
	// without a request, so that it connects anew, perhaps to another middleware. 0: any age.
	MaxAge time.Duration
	// MinRate is how many bytes per second a client must send of a request that takes counted memory, or more time than
	// IdleTimeout. Below 1: any number.
	MinRate int
	// MaxOutput is how many bytes of replies may wait for one client that does not read them; with more it is closed.
	MaxOutput int
	// WriteTimeout is how long a client may take to read 64 KiB of the replies that wait for it, or all of them if they are fewer; then it
	// is closed.
	WriteTimeout time.Duration
	// ClientMemory is the limit, bytes over all clients, of the memory for requests larger than request.ReadSize. A second limit of the same
	// size is for the replies that clients have not read yet.
	ClientMemory int
	// Shed answers the requests of a batch with errors, and executes none, if the queue has no room for it. Otherwise the connection is
	// not read until there is room.
	Shed bool
	// Limits bound what a client may send.
	Limits protocol.Limits
}

// Options are what a Stage needs; all fields are required, but for those whose zero value has a meaning.
type Options struct {
	ClientOptions
	// MaxRefused is how many refused clients are waited for at a time: one that stays to read its refusal does so for the time of a
	// round trip. Beyond it a connection is closed at once, and the refusal may be lost.
	MaxRefused int
	// TLS is for the listeners that speak it; nil if none does.
	TLS *tls.Config
	// HandshakeTimeout is how long a client may take to make a TLS session.
	HandshakeTimeout time.Duration
	// Allow says whether a client that gives this name and password is served; nil: all are, and give none.
	Allow func(user, password []byte) bool
	// Hot has the values of hot keys; nil: all requests are queued.
	Hot   *hotkeys.Values
	Queue *queue.Entrance
	Net   *stats.Net
	Log   *slog.Logger
}

// Stage owns the client connections.
type Stage struct {
	options  Options
	readers  sync.WaitGroup // one for each connection
	input    *budget.Budget // bytes of buffers above request.ReadSize
	output   *budget.Budget // bytes of replies that wait for slow clients
	cut      chan struct{}  // closed when Drain stops waiting
	closing  chan struct{}  // closed when Drain begins
	throttle *throttle

	loginFailures *stats.Counter

	// mu guards the fields below; nothing is waited for while it is held.
	mu       sync.Mutex
	conns    map[*conn]struct{}
	refusing map[*conn]struct{} // connections above MaxConnections, until they are closed
	draining bool
	// Of the log lines about clients that failed.
	crowd, handshakes, logins, slowed, laggards limiter
}

// New returns a Stage without connections.
func New(o Options) *Stage {
	s := &Stage{
		options: o, input: budget.New(int64(o.ClientMemory)), output: budget.New(int64(o.ClientMemory)), cut: make(chan struct{}),
		closing: make(chan struct{}), throttle: newThrottle(),
		conns: make(map[*conn]struct{}), refusing: make(map[*conn]struct{}),
		loginFailures: o.Net.Counter("login_failures_total", "Failed logins of clients."),
	}
	o.Net.Memory(s.memory)
	return s
}

// memory returns what large requests, and replies that slow clients have not read, take of Options.ClientMemory, bytes.
func (s *Stage) memory() (requests, replies int64) { return s.input.Used(), s.output.Used() }

// Pauses after a failed accept: file descriptors that ran out come back when other connections end.
const (
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

// Serve accepts connections from l until l is closed, with TLS or without.
func (s *Stage) Serve(l net.Listener, secure bool) {
	pause := acceptPauseMin
	var reported time.Time
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if time.Since(reported) > time.Duration(refusalEvery) {
				reported = time.Now()
				s.options.Log.Warn("a client connection could not be accepted", "listen", l.Addr().String(), "error", err)
			}
			time.Sleep(pause)
			pause = min(2*pause, acceptPauseMax)
			continue
		}
		pause = acceptPauseMin
		if err := s.start(c, secure); err != nil {
			s.options.Log.Warn("a client connection could not be used", "client", c.RemoteAddr().String(), "error", err)
			_ = c.Close()
		}
	}
}

// start begins to read nc.
func (s *Stage) start(nc net.Conn, secure bool) error {
	c, err := newConn(s, nc)
	if err != nil {
		return err
	}
	if secure {
		c.sock.UseTLS(s.options.TLS, false)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining {
		return nc.Close()
	}
	s.options.Net.Opened()
	if limit := s.options.MaxConnections; limit > 0 && len(s.conns) >= limit {
		s.refuse(c)
		return nil
	}
	s.conns[c] = struct{}{}
	s.readers.Add(1)
	go c.run()
	return nil
}

// ended is called by the reader of c as its last act.
func (s *Stage) ended(c *conn, reason stats.CloseReason) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.options.Net.Closed(reason)
	s.readers.Done()
}

// readingPart is the part of a drain's timeout, its divisor, in which clients are read; the rest is for their replies.
var readingPart = time.Duration(2)

// Drain closes every connection once what its client has sent is answered, and returns when none is left. Clients that go on sending
// are read for half of timeout. At its end the remaining connections are reset, and their number is returned.
func (s *Stage) Drain(timeout time.Duration) (cut int) {
	over := time.After(timeout)
	close(s.closing)
	s.mu.Lock()
	s.draining = true
	lastRead := stats.Now() + int64(timeout/readingPart)
	for c := range s.conns {
		c.leave(stats.CloseShutdown, lastRead)
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.readers.Wait()
		close(done)
	}()
	select {
	case <-done:
		return 0
	case <-over:
	}
	close(s.cut)
	s.mu.Lock()
	cut = len(s.conns)
	// A reset: an orderly end would tell a client that what is not answered was not done.
	for c := range s.conns {
		_ = c.sock.Abort()
	}
	for c := range s.refusing {
		_ = c.sock.Abort()
	}
	s.mu.Unlock()
	<-done
	return cut
}
