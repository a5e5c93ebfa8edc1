package backend

import (
	"cmp"
	"context"
	"errors"
	"time"

	"mcmw/internal/protocol"
)

// purgeTime bounds the time for deleting keys that were placed elsewhere: until then the server serves no reads, which it
// would do right after a flush.
const purgeTime = 10 * time.Second

// purge deletes the keys that were placed elsewhere meanwhile; done is false if the server has to be flushed instead.
func (s *Server) purge(p *Link) (done bool, err error) {
	s.mu.Lock()
	moved := s.moved
	s.mu.Unlock()
	if moved == nil {
		return true, nil
	}
	begin := time.Now()
	keys, deleted := 0, 0
	ctx, cancel := context.WithTimeout(context.Background(), purgeTime)
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
