package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mcmw/internal/marker"
	"mcmw/internal/protocol"
)

// ErrNoList says that a server does not list its keys: it is older than memcached 1.4.31, or runs without its LRU crawler.
var ErrNoList = errors.New("the server does not list its keys; a memcached with the LRU crawler is needed")

const (
	// busyPause is the time between two requests for a list while memcached makes another one, or cleans up. After busyTries
	// further requests the attempt fails.
	busyPause = 100 * time.Millisecond
	busyTries = 300
)

// List calls each for every item that the server holds, except those of middlewares, until each returns an error. The item is
// valid during the call. Every memcached since 1.4.31 has the command; newer ones walk their hash table, which misses no key.
// While the server makes another list, List waits for half a minute at most.
func (s *Server) List(ctx context.Context, each func(item protocol.Dumped) error) error {
	l, err := s.Link(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	for tries := 0; ; tries++ {
		refused := ""
		for _, form := range []string{"hash", "all"} { // the server may know only one of the two
			if refused, err = l.list(form, each); err != nil || refused == "" {
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
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(busyPause):
		}
	}
}

// list is List with one form of the command. refused is the server's reply if it refuses to list its keys.
func (l *Link) list(form string, each func(item protocol.Dumped) error) (refused string, err error) {
	if err := l.Send("lru_crawler metadump " + form + "\r\n"); err != nil {
		return "", err
	}
	for first := true; ; first = false {
		line, err := l.rawLine()
		if err != nil {
			return "", err
		}
		if string(line) == "END" {
			return "", nil
		}
		if first && !bytes.HasPrefix(line, []byte("key=")) {
			return string(line), nil
		}
		var beginning [40]byte // kept for the error, because decoding overwrites the line
		n := copy(beginning[:], line)
		item, ok := protocol.DecodeDumped(line)
		if !ok {
			return "", fmt.Errorf("the list of keys: %w", Unexpected(beginning[:n]))
		}
		if !bytes.HasPrefix(item.Key, []byte(marker.Prefix)) {
			if err := each(item); err != nil {
				return "", err
			}
		}
		if l.r.Buffered() == 0 {
			if err := l.extend(); err != nil {
				return "", err
			}
		}
	}
}
