package backend

import (
	"errors"
	"time"

	"mcmw/internal/link"
	"mcmw/internal/marker"
)

// A server that returns without its keys is not read before it has been refilled from the other holders of its keys
// (package sweep, Refiller). Meanwhile it is stale: it is written to, and a mark of this middleware is on the servers.
// marker.RefilledKey on a server says that nothing has been lost there since it was refilled. Whatever empties the
// server removes the item as well.

// refill is what is known about the refilling of a server. Its times and counts are guarded by Server.mu.
type refill struct {
	since  time.Time // since when the server lacks keys; zero: it lacks none
	copied uint64    // keys that this middleware has copied to it
	// spared: it is read although it lacks keys, because no server can refill it now.
	spared bool
	// copying: copies that were not checked may be on it, so it must not be read whatever it holds.
	copying bool
	// distrusted: keys were deleted that another middleware may have seen there while it refilled the server.
	distrusted bool
}

// errRefill is why a server that lacks keys is stale.
var errRefill = errors.New("it lacks keys that other servers hold, and is refilled from them")

// lacks reports whether the server must be refilled before it is read.
func (s *Server) lacks(l *link.Link) (bool, error) {
	o := s.options.Load()
	if !o.Refills || o.Records == nil || !o.Alone && !o.Records.RespectsMarks() || s.recordless.Load() {
		return false, nil
	}
	s.mu.Lock()
	spared, distrusted := s.refill.spared, s.refill.distrusted
	s.mu.Unlock()
	if spared {
		return false, nil
	}
	value, _, err := l.Get(marker.RefilledKey)
	if err == nil && value != nil && distrusted {
		err = l.Delete(marker.RefilledKey)
		value = nil
		s.distrust(err != nil)
	}
	return value == nil, err
}

// Distrust says that keys are deleted that another middleware may have seen on the server while it refilled it: what
// that one says of the server then is taken back once.
func (s *Server) Distrust() { s.distrust(true) }

func (s *Server) distrust(is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill.distrusted = is
}

// Lacks reports whether the server is not read because it must be refilled.
func (s *Server) Lacks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.refill.since.IsZero()
}

// setLacks sets whether the server is not read because it must be refilled, and returns that; mu is held. While copies
// may be on it that were not checked, it is not read whatever it holds.
func (s *Server) setLacks(lacks bool) bool {
	lacks = lacks || s.refill.copying
	switch {
	case !lacks:
		s.refill.since = time.Time{}
	case s.refill.since.IsZero():
		s.refill.since, s.why = time.Now(), errRefill
	}
	return lacks
}

// Refill takes the server out of reads until it has been refilled.
func (s *Server) Refill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill.spared = false
	s.stale(errRefill)
	s.setLacks(true)
}

// Spare lets the server be read although it lacks keys.
func (s *Server) Spare() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill.spared = true
}

// BeginCopying says that copies that were not checked may be on the server until EndCopying is called. It returns false
// if the server is read.
func (s *Server) BeginCopying() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill.copying, s.refill.spared, s.refill.distrusted = !s.up(), false, false
	return s.refill.copying
}

// EndCopying ends what BeginCopying has begun.
func (s *Server) EndCopying() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill.copying = false
}

// Refilling records the progress of refilling the server: a text for operators, and how many further keys this
// middleware has copied.
func (s *Server) Refilling(progress string, copied int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill.copied += uint64(copied)
	if !s.refill.since.IsZero() {
		s.why = errors.New(progress)
	}
}
