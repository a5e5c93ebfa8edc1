package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"mcmw/internal/marker"
)

// purgeTime bounds the time for deleting keys that were placed elsewhere: until then the server serves no reads, which it
// would do right after a flush.
const purgeTime = 10 * time.Second

// ErrNoList says that a server does not list its keys: it is older than memcached 1.4.31, or runs without its crawler.
var ErrNoList = errors.New("the keys are not listed; accepted: memcached with the LRU crawler")

// purge deletes the keys that were placed elsewhere meanwhile; done is false if the server has to be flushed instead.
func (s *Server) purge(p *probe) (done bool, err error) {
	s.mu.Lock()
	moved := s.moved
	s.mu.Unlock()
	if moved == nil {
		return true, nil
	}
	begin := time.Now()
	keys, deleted := 0, 0
	listing, err := s.dialProbe(context.Background())
	if err != nil {
		return false, err
	}
	defer listing.close()
	late := errors.New("it takes too long")
	var listErr error
	err = p.invalidate(func(yield func(string) bool) {
		listErr = listing.list(func(key string) error {
			keys++
			switch {
			case time.Since(begin) > purgeTime:
				return late
			case !moved([]byte(key)):
				return nil
			}
			deleted++
			if !yield(key) {
				return late
			}
			return nil
		})
	})
	log := s.options.Load().Log
	if err != nil || listErr != nil {
		log.Warn("the keys of a server that were elsewhere cannot be deleted one by one", "server", s.Name, "error", cmp.Or(err, listErr))
		return false, nil
	}
	log.Info("the keys of a server that were elsewhere are deleted", "server", s.Name, "keys", keys, "deleted", deleted,
		"took", time.Since(begin).Round(time.Millisecond))
	return true, nil
}

// list calls each for every key that the server holds, other than those of middlewares, until it fails. Every server since
// memcached 1.4.31 has the command; newer ones go through their hash table, which misses no key.
func (p *probe) list(each func(key string) error) error {
	for _, what := range []string{"hash", "all"} {
		if err := p.send("lru_crawler metadump " + what + "\r\n"); err != nil {
			return err
		}
		for first := true; ; first = false {
			line, err := p.line()
			if err != nil {
				return err
			}
			if line == "END" {
				return nil
			}
			entry, ok := strings.CutPrefix(line, "key=")
			if !ok {
				if first && what == "hash" && !strings.HasPrefix(line, "BUSY") {
					break // the server may not know "all"
				}
				if strings.HasPrefix(line, "BUSY") {
					return errors.New("the list of keys: another is being made")
				}
				return fmt.Errorf("%w (%s)", ErrNoList, line)
			}
			entry, _, _ = strings.Cut(entry, " ")
			key, err := url.PathUnescape(entry)
			if err != nil {
				return fmt.Errorf("the list of keys: %w", err)
			}
			if strings.HasPrefix(key, marker.Prefix) {
				continue
			}
			if err := each(key); err != nil {
				return err
			}
			if p.r.Buffered() == 0 {
				if err := p.extend(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
