package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"mcmw/internal/protocol"
	"mcmw/internal/wire"
)

// errNoVersions: the server would take an item without the version that it is to have.
var errNoVersions = errors.New("no versions: a memcached before 1.6.27 (it does not know the flag E), or one with -C; " +
	"with them several mcmw cannot keep replicas alike; accepted: memcached 1.6.27 or later, or --writers one")

// NeedVersions says whether connections are made only to a memcached that gives items the version they are stored with. Those there are
// stay.
func (s *Server) NeedVersions(needed bool) { s.versions.Store(needed) }

// HasVersions reports whether the server gives items the version they are stored with.
func (s *Server) HasVersions(ctx context.Context) (bool, error) {
	sock, err := s.Dial(ctx)
	if err != nil {
		return false, err
	}
	defer sock.Close()
	defer context.AfterFunc(ctx, func() { _ = sock.Abort() })()
	if err := setDeadlines(sock, time.Now().Add(s.options.Load().ConnectTimeout)); err != nil {
		return false, err
	}
	switch err := askVersions(sock); {
	case errors.Is(err, errNoVersions):
		return false, nil
	case err != nil:
		return false, plain(err)
	}
	return true, nil
}

// probeVersions stores an item whose time is over, under a version, and asks for its cas. The key is one of mcmw's own, "mcmw probe".
const (
	probeVersions   = "ms bWNtdyBwcm9iZQ== 0 b T-1 E4611686018427387904 c\r\n\r\n"
	versionsAnswer  = "HD c4611686018427387904\r\n"
	maxProbedAnswer = 1024
)

// askVersions returns errNoVersions if the server has none. A server that has no connection or no memory to spare does not say.
func askVersions(sock *wire.Socket) error {
	if err := sock.WriteRest([]byte(probeVersions)); err != nil {
		return err
	}
	reply, err := readLine(sock, maxProbedAnswer)
	switch {
	case err != nil, string(reply) == versionsAnswer:
		return err
	case bytes.HasPrefix(reply, []byte("ERROR ")), bytes.HasPrefix(reply, []byte("SERVER_ERROR")):
		return fmt.Errorf("the server answered: %s", bytes.TrimSpace(reply))
	}
	return errNoVersions
}

// readLine reads a line of at most limit bytes with its end; nothing may come behind it.
func readLine(sock *wire.Socket, limit int) (line []byte, err error) {
	for !bytes.HasSuffix(line, []byte(protocol.CRLF)) {
		if len(line) == limit {
			return nil, errors.New("unexpected reply")
		}
		buf := make([]byte, limit-len(line))
		n, err := sock.Read(buf)
		if err != nil {
			return nil, err
		}
		line = append(line, buf[:n]...)
	}
	return line, nil
}
