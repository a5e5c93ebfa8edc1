package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mcmw/internal/link"
	"mcmw/internal/marker"
	"mcmw/internal/protocol"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

// Link connects to the server, apart from the workers' connections.
func (s *Server) Link(ctx context.Context) (*link.Link, error) {
	sock, err := s.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return link.New(ctx, sock, s.options.Load().ConnectTimeout), nil
}

// Talk calls say with a link to the server.
func (s *Server) Talk(ctx context.Context, say func(l *link.Link) error) error {
	l, err := s.Link(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	return say(l)
}

// Line is a link to a server that stays open until it fails, or the server moves. Owned by one goroutine.
type Line struct {
	Open   *link.Link // nil: there is none
	server *Server
	moves  int32 // of the server, when the link was made
}

// Line returns a line to the server, without a link yet.
func (s *Server) Line() Line { return Line{server: s} }

// Link returns the link that is open, or a new one. What still answers at an address that the server has left says
// nothing about the server.
func (l *Line) Link(ctx context.Context) (open *link.Link, err error) {
	moves := l.server.Moves()
	if moves != l.moves {
		l.HangUp()
	}
	if l.Open == nil {
		if open, err = l.server.Link(ctx); err != nil {
			return nil, err
		}
		l.Open, l.moves = open, moves
	}
	return l.Open, nil
}

// HangUp closes the link.
func (l *Line) HangUp() {
	if l.Open != nil {
		l.Open.Close()
		l.Open = nil
	}
}

// errNoVersions: the server does not store an item with the version that the request gives.
const errNoVersions stepError = "no versions: a memcached before 1.6.27 (it does not know the flag E), or one with " +
	"-C; with it several mcmw cannot keep replicas alike, and a cas that one server has given may win on another; " +
	"accepted: memcached 1.6.27 or later, or --writers one, if mcmw is then restarted and not all servers have " +
	"versions"

// NeedVersions sets whether connections are made only to servers that store items with the version that the request
// gives. Existing connections stay.
func (s *Server) NeedVersions(needed bool) { s.versions.Store(needed) }

// HasVersions reports whether the server stores items with the version that the request gives. One that is not used
// without versions fails.
func (s *Server) HasVersions(ctx context.Context) (bool, error) {
	sock, err := s.dial(ctx, true)
	if errors.Is(err, errNoVersions) && !s.versions.Load() {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_ = sock.Close()
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

// ErrNoList says that a server does not list its keys: it is older than memcached 1.4.31, or runs without its LRU
// crawler.
var ErrNoList = errors.New("the server does not list its keys; a memcached with the LRU crawler is needed")

const (
	// busyPause is the time between two requests for a list while memcached makes another one, or cleans up. After
	// busyTries further requests the attempt fails.
	busyPause = 100 * time.Millisecond
	busyTries = 300
)

// List calls each for every item that the server holds, except those of middlewares, until each returns an error. The
// item is valid during the call. Every memcached since 1.4.31 has the command; newer ones walk their hash table, which
// misses no key. While the server makes another list, List waits for half a minute at most.
//
// pauses: each pauses, or waits for what it asks the server. Then a server that would keep items locked meanwhile walks
// its lists of items by age instead, and misses a few of those that are read during that time.
func (s *Server) List(ctx context.Context, pauses bool, each func(item protocol.Dumped) error) error {
	return s.Talk(ctx, func(l *link.Link) error {
		forms := []string{"hash", "all"} // the server may know only one of the two
		if pauses {
			version, err := l.Version()
			if err != nil {
				return err
			}
			if locksListed(version) {
				slices.Reverse(forms)
			}
		}
		for tries := 0; ; tries++ {
			refused := ""
			for _, form := range forms {
				var err error
				refused, err = l.List(form, func(item protocol.Dumped) error {
					if bytes.HasPrefix(item.Key, []byte(marker.Prefix)) {
						return nil
					}
					return each(item)
				})
				if err != nil || refused == "" {
					return err
				}
				if strings.HasPrefix(refused, "BUSY") {
					break
				}
			}
			switch {
			case !strings.HasPrefix(refused, "BUSY"):
				return fmt.Errorf("%w (%s)", ErrNoList, refused)
			case tries == busyTries:
				return errors.New("the list of keys: the server has been making another list for too long")
			}
			if !Pause(ctx, busyPause) {
				return ctx.Err()
			}
		}
	})
}

// locksListed reports whether a memcached of this version keeps the items of a bucket of its hash table locked while
// it waits for the reader of a list, which those before 1.6.19 do: whoever needs such an item waits as well.
func locksListed(version string) bool {
	var v [3]int
	n, _ := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2])
	return n == len(v) && slices.Compare(v[:], []int{1, 6, 19}) < 0
}

// Ask returns the server's own statistics. It uses a connection of its own. A server that is down or suspect is not
// asked.
func (s *Server) Ask(ctx context.Context) (m stats.Memcached, err error) {
	if s.Down() || s.Suspected() {
		return m, s.errState()
	}
	names := []string{
		"bytes", "limit_maxbytes", "curr_items", "evictions", "get_hits", "get_misses",
		"curr_connections", "max_connections",
	}
	err = s.Talk(ctx, func(l *link.Link) error {
		told, err := l.Stats("", names...)
		if err == nil && len(told) < len(names) {
			err = errors.New("stats without the memory and connection statistics of memcached 1.6")
		}
		for i, to := range []*uint64{
			&m.Bytes, &m.Limit, &m.Items, &m.Evictions, &m.Hits, &m.Misses, &m.Connections,
			&m.MaxConnections,
		} {
			*to = told[names[i]]
		}
		return err
	})
	return m, err
}

// sinceStart is what memcached's clock, in which it counts seconds, is ahead of its uptime.
const sinceStart = 60

// endFlush ends the second in which a flush_all that was delayed takes effect: until that second is over, the server
// forgets at once whatever it is told to store, as if it had been there before. So no marks can be put there, and if
// that is so on most servers none may be read. An immediate flush_all loses nothing more, and the server stores again.
// It does not matter who sent the delayed flush, or whether several middlewares end that second.
//
// kept is for how long the server has lost no item that had not expired; 0: unknown.
func endFlush(l *link.Link) (kept time.Duration, err error) {
	general, err := l.Stats("", "uptime", "evictions")
	settings := map[string]uint64{}
	if err == nil {
		settings, err = l.Stats("settings", "oldest")
	}
	if _, unexpected := errors.AsType[link.Unexpected](err); unexpected {
		return 0, nil // it does not tell
	}
	up, ok := general["uptime"]
	evicted, tells := general["evictions"]
	flushed := max(settings["oldest"], sinceStart)
	switch {
	case err != nil || !ok:
		return 0, err
	case settings["oldest"] == up+sinceStart:
		return 0, l.Flush()
	case tells && evicted == 0 && up+sinceStart > flushed+1: // in whole seconds
		kept = time.Duration(up+sinceStart-flushed-1) * time.Second
	}
	return kept, nil
}
