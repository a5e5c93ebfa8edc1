package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"mcmw/internal/link"
	"mcmw/internal/protocol"
)

// purgeTime bounds the time spent on deleting single keys that were placed elsewhere. Meanwhile the server serves no
// reads; after a flush it would serve them at once.
const purgeTime = 10 * time.Second

// Mark is put on a server that was cleaned for a change of placement, so that middlewares which learn of the change
// later don't clean it again.
type Mark struct {
	Key  string        // of the item with the mark: one for each kind of change
	Text string        // names the change; "": no mark is used
	For  time.Duration // how long the mark lasts
}

// on reports whether the server has the mark. A server that does not know the meta commands has none.
func (m Mark) on(l *link.Link) (bool, error) {
	if m.Text == "" {
		return false, nil
	}
	value, _, err := l.Get(m.Key)
	return string(value) == m.Text, known(err)
}

// put puts the mark on the server, if the server knows the meta commands.
func (m Mark) put(l *link.Link) error {
	if m.Text == "" {
		return nil
	}
	return known(l.Set(m.Key, []byte(m.Text), m.For))
}

// known returns err, unless it is that the server does not know the command.
func known(err error) error {
	if _, unexpected := errors.AsType[link.Unexpected](err); unexpected {
		return nil
	}
	return err
}

// Keep makes the mark last for its time from now on, if it is on the server.
func (m Mark) Keep(l *link.Link) error {
	if on, err := m.on(l); !on {
		return err
	}
	return m.put(l)
}

// Purge deletes the server's items whose keys gained accepts, and then puts the mark m on the server. If the server
// already has the mark, Purge does nothing. If deleting fails, the server serves no reads until its prober has done it.
func (s *Server) Purge(ctx context.Context, gained func(key []byte) bool, m Mark) {
	err := s.purgeOnce(ctx, gained, m)
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if earlier := s.moved; earlier == nil {
		s.moved = gained
	} else {
		s.moved = func(key []byte) bool { return earlier(key) || gained(key) }
	}
	s.stale(fmt.Errorf("its old copies of keys that it gets could not be deleted: %w", err))
}

func (s *Server) purgeOnce(ctx context.Context, gained func(key []byte) bool, m Mark) error {
	return s.Talk(ctx, func(l *link.Link) error {
		if on, err := m.on(l); on || err != nil {
			return err
		}
		if !s.purge(ctx, l, gained) {
			return errors.New("its keys cannot be listed in time")
		}
		return m.put(l)
	})
}

// purge deletes the keys that moved accepts: they were placed elsewhere meanwhile. It returns false if the server must
// be flushed instead.
func (s *Server) purge(ctx context.Context, l *link.Link, moved func(key []byte) bool) (done bool) {
	if moved == nil {
		return true
	}
	begin := time.Now()
	keys, deleted := 0, 0
	ctx, cancel := context.WithTimeout(ctx, purgeTime)
	defer cancel()
	errStop := errors.New("a deletion failed")
	var listErr error
	err := l.DeleteAll(func(yield func(string) bool) {
		listErr = s.List(ctx, false, func(item protocol.Dumped) error {
			keys++
			if !moved(item.Key) {
				return nil
			}
			deleted++
			if !yield(string(item.Key)) {
				return errStop
			}
			return nil
		})
	})
	log := s.options.Load().Log
	if err != nil || listErr != nil {
		log.Warn("a server's old copies of keys that were on other servers cannot be deleted one by one", "server",
			s.Name, "error", cmp.Or(err, listErr))
		return false
	}
	log.Info("a server's old copies of keys that were on other servers are deleted", "server", s.Name, "keys", keys,
		"deleted", deleted,
		"took", time.Since(begin).Round(time.Millisecond))
	return true
}
