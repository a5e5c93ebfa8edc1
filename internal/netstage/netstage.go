// Package netstage is the first stage of a request's path: it accepts client connections and reads them, one goroutine
// per connection, the reader. A reader decodes the bytes of one read into a batch of requests, stamps them, and puts
// the batch on the queue.
//
// A connection has at most one batch under way (see request.Batch). Until that is answered, the reader may read and
// decode the next batch, but not queue it.
package netstage

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"mcmw/internal/budget"
	"mcmw/internal/hotkeys"
	"mcmw/internal/protocol"
	"mcmw/internal/queue"
	"mcmw/internal/secret"
	"mcmw/internal/stats"
)

// ClientOptions are the settings of client connections that an operator can change. A middleware's Options say what a
// zero field means.
type ClientOptions struct {
	// MaxConnections is the number of clients that may be connected. A further one gets an error and is closed. 0: no
	// limit.
	MaxConnections int
	// IdleTimeout is the time without a request after which a client is closed. 0: never.
	IdleTimeout time.Duration
	// MaxAge is the maximum age of a connection. At a random age between half of it and all of it, the connection is
	// closed at the next moment without a request, so that the client reconnects, perhaps to another middleware. 0: any
	// age.
	MaxAge time.Duration
	// MinRate is the minimum number of bytes per second that a client must send of a request that takes counted memory,
	// or that takes longer than IdleTimeout. Below 1: no minimum.
	MinRate int
	// MaxOutput is the number of bytes of replies that may wait for one client that does not read them. With more the
	// client is closed.
	MaxOutput int
	// WriteTimeout is the time within which a client must read 64 KiB of the replies that wait for it, or all of them
	// if they are fewer. Otherwise it is closed.
	WriteTimeout time.Duration
	// ClientMemory bounds the memory, in bytes over all clients, for requests larger than request.ReadSize. A second
	// limit of the same size bounds the replies that clients have not read yet.
	ClientMemory int
	// Shed: if the queue has no room for a batch, its requests are answered with errors and none is executed. Otherwise
	// the connection is not read until there is room.
	Shed bool
	// Announce are the addresses, each with a port, that clients learn from `config get cluster`. Empty: the address
	// that the client is connected to.
	Announce []string
	// Limits bound what a client may send.
	Limits protocol.Limits
}

// Options are what a Stage needs. All fields are required, except those whose zero value has a meaning.
type Options struct {
	ClientOptions
	// MaxRefused is the number of refused clients that are waited for at a time, so that they can read the refusal,
	// which takes a round trip. Beyond it a refused connection is closed at once, and the refusal may be lost.
	MaxRefused int
	// TLS is the configuration of the listeners that use TLS; nil if none does.
	TLS *tls.Config
	// HandshakeTimeout bounds the time of a TLS handshake.
	HandshakeTimeout time.Duration
	// Login returns the user with this name and password; nil: there is none, and the client is not served. A nil Login
	// serves all clients, without a login.
	Login func(user, password []byte) *secret.User
	// Hot holds the values of hot keys; nil: all requests are queued.
	Hot   *hotkeys.Values
	Queue *queue.Entrance
	// Usage counts who uses the cache.
	Usage *stats.Usage
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
	began    time.Time // when Options.Announce began to be announced

	// mu guards the fields below. Its holder never waits for anything else.
	mu       sync.Mutex
	conns    map[*conn]struct{}
	refusing map[*conn]struct{} // connections above MaxConnections, until they are closed
	draining bool
	// These limit the log lines about clients that failed, one per kind of failure.
	crowd, handshakes, logins, slowed, laggards, binaries, foreign stats.Limiter
}

// New returns a Stage without connections.
func New(o Options) *Stage {
	s := &Stage{
		options: o, input: budget.New(int64(o.ClientMemory)), output: budget.New(int64(o.ClientMemory)),
		cut:     make(chan struct{}),
		closing: make(chan struct{}), throttle: newThrottle(), began: time.Now(),
		conns: make(map[*conn]struct{}), refusing: make(map[*conn]struct{}),
		binaries: stats.Limiter{Every: time.Minute},
	}
	o.Net.Memory(s.memory)
	return s
}

// memory returns the bytes of Options.ClientMemory that are in use for large requests, and for replies that clients
// have not read.
func (s *Stage) memory() (requests, replies int64) { return s.input.Used(), s.output.Used() }

// acceptPauseMin and acceptPauseMax bound the pause after a failed accept. If the process ran out of file descriptors,
// they become free when other connections end.
const (
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

// Serve accepts connections from l until l is closed, with TLS or without.
func (s *Stage) Serve(l net.Listener, secure bool) {
	pause := acceptPauseMin
	var reported stats.Limiter
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			if suppressed, ok := reported.Pass(); ok {
				s.options.Log.Warn("a client connection could not be accepted", "listen", l.Addr().String(),
					"not_logged", suppressed, "error", err)
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

// start starts the reader of nc, or refuses it.
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

// readingPart is the divisor of a drain's timeout that gives the time in which clients are read; the rest is for their
// replies.
var readingPart = time.Duration(2)

// Drain closes every connection once the requests that its client has sent are answered, and returns when none is left.
// Clients that keep sending are read for half of timeout. When timeout ends, the remaining connections are reset; their
// number is returned.
func (s *Stage) Drain(timeout time.Duration) (cut int) {
	ended := time.After(timeout)
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
	case <-ended:
	}
	close(s.cut)
	s.mu.Lock()
	cut = len(s.conns)
	rest := slices.AppendSeq(slices.Collect(maps.Keys(s.conns)), maps.Keys(s.refusing))
	s.mu.Unlock()
	// A reset, because after an orderly end a client could take unanswered requests for not executed. Abort waits until
	// the reader has left the socket, and the reader may need mu before.
	for _, c := range rest {
		_ = c.sock.Abort()
	}
	<-done
	return cut
}
