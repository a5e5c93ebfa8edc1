package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"mcmw/internal/marker"
	"mcmw/internal/protocol"
)

// purgeTime bounds the time for deleting keys that were placed elsewhere: until then the server serves no reads, which it
// would do right after a flush.
const purgeTime = 10 * time.Second

// Mark is put on a server that was cleaned for a change of placement, so that other middlewares which learn of the change later don't do it
// again.
type Mark struct {
	Text string        // names the change; "": there is none, and no mark
	For  time.Duration // how long it holds
}

// marked reports whether the server has the mark.
func (p *Link) marked(m Mark) (bool, error) {
	if m.Text == "" {
		return false, nil
	}
	value, err := p.Fetch(marker.CleanKey)
	if _, strange := errors.AsType[Unexpected](err); strange {
		return false, nil // it has no meta commands
	}
	return string(value) == m.Text, err
}

// mark puts the mark on the server, if that has meta commands.
func (p *Link) mark(m Mark) error {
	if m.Text == "" {
		return nil
	}
	err := p.Expect(expiringLine(marker.CleanKey, m.Text, m.For), "HD")
	if _, strange := errors.AsType[Unexpected](err); strange {
		return nil
	}
	return err
}

// Purge deletes what the server holds of the keys for which gained is true, unless it has the mark, which it gets then. If that fails it serves no
// reads until its prober has done so.
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
	s.stale(fmt.Errorf("what it held earlier of keys that it gets could not be deleted: %w", err))
}

func (s *Server) purgeOnce(ctx context.Context, gained func(key []byte) bool, m Mark) error {
	p, err := s.Link(ctx)
	if err != nil {
		return err
	}
	defer p.Close()
	if marked, err := p.marked(m); marked || err != nil {
		return err
	}
	done, err := s.purge(ctx, p, gained)
	if err == nil && !done {
		err = errors.New("its keys cannot be listed in time")
	}
	if err != nil {
		return err
	}
	return p.mark(m)
}

// purge deletes the keys that were placed elsewhere meanwhile; done is false if the server has to be flushed instead.
func (s *Server) purge(ctx context.Context, p *Link, moved func(key []byte) bool) (done bool, err error) {
	if moved == nil {
		return true, nil
	}
	begin := time.Now()
	keys, deleted := 0, 0
	ctx, cancel := context.WithTimeout(ctx, purgeTime)
	defer cancel()
	enough := errors.New("a deletion failed")
	var listErr error
	err = p.invalidate(func(yield func(string) bool) {
		listErr = s.List(ctx, func(item protocol.Dumped) error {
			keys++
			if !moved(item.Key) {
				return nil
			}
			deleted++
			if !yield(string(item.Key)) {
				return enough
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
