package backend

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mcmw/internal/link"
	"mcmw/internal/marker"
	"mcmw/internal/protocol"
)

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
func (s *Server) List(ctx context.Context, each func(item protocol.Dumped) error) error {
	return s.Talk(ctx, func(l *link.Link) error {
		for tries := 0; ; tries++ {
			refused := ""
			for _, form := range []string{"hash", "all"} { // the server may know only one of the two
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
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(busyPause):
			}
		}
	})
}
