package backend

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"mcmw/internal/protocol"
	"mcmw/internal/wire"
)

// Access says how connections to servers are made; the zero value is plain TCP.
type Access struct {
	// TLS, if not nil, returns the configuration of a connection to host. Unix sockets have no TLS.
	TLS func(host string) *tls.Config
	// Login, if not nil, returns the credentials that a connection sends first.
	Login func() (user, password string)
}

// Dial connects to the server's current address and returns a connection that is ready for requests. TLS and
// authentication are part of connecting, and of its timeout.
func (s *Server) Dial(ctx context.Context) (*wire.Socket, error) {
	return s.dial(ctx, s.versions.Load())
}

// dial is Dial; versions: as in open.
func (s *Server) dial(ctx context.Context, versions bool) (*wire.Socket, error) {
	o := s.options.Load()
	deadline := time.Now().Add(o.ConnectTimeout)
	var attempts atomic.Int32 // one for each address of a host
	d := net.Dialer{Deadline: deadline, Control: func(string, string, syscall.RawConn) error {
		attempts.Add(1)
		return nil
	}}
	network, addr := Network(s.Addr())
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		if attempts.Load() == 1 && errors.Is(err, syscall.ECONNREFUSED) {
			err = refusal{err}
		}
		return nil, err
	}
	sock, err := wire.NewSocket(c)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	if o.TLS == nil && o.Login == nil && !versions {
		return sock, nil
	}
	if err := o.Access.open(ctx, sock, network, addr, deadline, versions); err != nil {
		_ = sock.Close()
		return nil, err
	}
	return sock, nil
}

// refusal is the error if nobody listens at the only address of the server: it does not run.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// open makes sock, which is connected to addr, ready for requests. versions: the server must support versions; see
// NeedVersions.
func (a *Access) open(ctx context.Context, sock *wire.Socket, network, addr string, deadline time.Time,
	versions bool,
) error {
	if err := sock.SetDeadline(deadline); err != nil {
		return err
	}
	// The end of ctx interrupts blocked reads and writes.
	stop := context.AfterFunc(ctx, func() { _ = sock.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if a.TLS != nil && network != "unix" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return err
		}
		sock.UseTLS(a.TLS(host), true)
		if err := sock.Handshake(); err != nil {
			return stepFailed("TLS", err)
		}
	}
	if a.Login != nil {
		if err := login(sock, a.Login); err != nil {
			return stepFailed("authentication", err)
		}
	}
	if versions {
		if err := askVersions(sock); errors.Is(err, errNoVersions) {
			return err
		} else if err != nil {
			return stepFailed("versions", err)
		}
	}
	if !stop() {
		return ctx.Err()
	}
	return sock.SetDeadline(time.Time{})
}

// stepError is the failure of a step of connecting after the TCP connection. Only its text matters.
type stepError string

func (e stepError) Error() string { return string(e) }

func stepFailed(step string, err error) error {
	return stepError(step + ": " + strings.TrimPrefix(plain(err).Error(), "tls: "))
}

// login authenticates. A server without authentication takes the login for a set of a value that has already expired.
func login(sock *wire.Socket, credentials func() (user, password string)) error {
	user, password := credentials()
	reply, err := exchange(sock, protocol.AppendLogin(nil, user, password))
	if err != nil || string(reply) == protocol.TextStored {
		return err
	}
	line, _, _ := strings.Cut(string(reply), protocol.CRLF)
	return fmt.Errorf("refused with %q", line)
}

// maxLine bounds the reply in exchange, bytes.
const maxLine = 1024

// exchange sends a request of connecting, and reads the line of its reply, including its end. Bytes after the line are
// an error, because they would be lost to the connection's owner.
func exchange(sock *wire.Socket, request []byte) (line []byte, err error) {
	if err := sock.WriteRest(request); err != nil {
		return nil, err
	}
	for !bytes.HasSuffix(line, []byte(protocol.CRLF)) {
		if len(line) == maxLine {
			return nil, errors.New("unexpected reply")
		}
		buf := make([]byte, maxLine-len(line))
		n, err := sock.Read(buf)
		if err != nil {
			return nil, err
		}
		line = append(line, buf[:n]...)
	}
	return line, nil
}

// Network splits an address into the arguments of net.Dial and net.Listen: "unix:/path" names a unix socket, anything
// else is TCP.
func Network(addr string) (network, address string) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return "unix", path
	}
	return "tcp", addr
}
