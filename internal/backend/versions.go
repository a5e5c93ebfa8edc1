package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"mcmw/internal/wire"
)

// errNoVersions: the server does not store an item with the version that the request gives.
var errNoVersions = errors.New("no versions: a memcached before 1.6.27 (it does not know the flag E), or one with " +
	"-C; " +
	"with it several mcmw cannot keep replicas alike, and a cas that one server has given may win on another; " +
	"accepted: memcached 1.6.27 or later, " +
	"or --writers one, if mcmw is then restarted and not all servers have versions")

// NeedVersions sets whether connections are made only to servers that store items with the version that the request
// gives. Existing connections stay.
func (s *Server) NeedVersions(needed bool) { s.versions.Store(needed) }

// HasVersions reports whether the server stores items with the version that the request gives.
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

// probeVersions stores an item that has already expired, with a version, and requests its cas. The key is one of mcmw's
// own, "mcmw probe".
const (
	probeVersions  = "ms bWNtdyBwcm9iZQ== 0 b T-1 E4611686018427387904 c\r\n\r\n"
	versionsAnswer = "HD c4611686018427387904\r\n"
)

// askVersions returns errNoVersions if the server has no versions. If the server has too many connections or no memory,
// this stays unknown, and the error says so.
func askVersions(sock *wire.Socket) error {
	reply, err := exchange(sock, []byte(probeVersions))
	switch {
	case err != nil, string(reply) == versionsAnswer:
		return err
	case bytes.HasPrefix(reply, []byte("ERROR ")), bytes.HasPrefix(reply, []byte("SERVER_ERROR")):
		return fmt.Errorf("the server answered: %s", bytes.TrimSpace(reply))
	}
	return errNoVersions
}
