package admin

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Starting answers on the admin address until there is a middleware, and with it a Server: /livez answers 200, and all
// other paths answer 503 with the reason.
type Starting struct {
	listener *net.TCPListener
	server   *http.Server
	ended    chan struct{} // closed when the server has ended
}

// Start binds addr and answers there until Stop. It logs to log.
func Start(addr, reason string, log *slog.Logger) (*Starting, error) {
	l, err := listen(addr)
	if err != nil {
		return nil, err
	}
	never := func() bool { return false }
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", health(always, ""))
	mux.HandleFunc("GET /", health(never, "not ready: "+reason))
	s := &Starting{
		listener: l.(*net.TCPListener),
		server: &http.Server{
			Handler: ownHost(l.Addr(), addr, mux), ReadTimeout: readTimeout, WriteTimeout: readTimeout,
			IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		},
		ended: make(chan struct{}),
	}
	go func() {
		defer close(s.ended)
		_ = s.server.Serve(staysOpen{s.listener}) // returns because of Stop
	}()
	return s, nil
}

// Addr returns the bound address.
func (s *Starting) Addr() net.Addr { return s.listener.Addr() }

// Stop stops answering and returns the listener for Options.Listener. The listener is still bound: clients that connect
// now wait.
func (s *Starting) Stop() (net.Listener, error) {
	grace, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if s.server.Shutdown(grace) != nil {
		s.server.Close()
	}
	<-s.ended
	return s.listener, s.listener.SetDeadline(time.Time{})
}

// staysOpen is a listener whose Close ends Accept but leaves the socket bound.
type staysOpen struct{ *net.TCPListener }

func (l staysOpen) Close() error { return l.SetDeadline(time.Unix(1, 0)) }

// listen binds the admin address.
func listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("admin address %q: %w", addr, err)
	}
	return l, nil
}
