package backend

import (
	"errors"

	"mcmw/internal/enum"
)

// Rejoin says what is done about the keys whose writes a server missed before it may serve reads again.
type Rejoin uint8

// The policies.
const (
	RejoinInvalidate Rejoin = iota // the keys it missed are deleted on it; if not all of them are known, it is flushed
	RejoinFlush                    // it is flushed
	RejoinTrust                    // nothing: old values may be served
)

// RejoinNames are the policies' names.
var RejoinNames = enum.New[Rejoin]("rejoin", "invalidate", "flush", "trust")

func (r Rejoin) String() string { return RejoinNames.Of(r) }

// keyOverhead is roughly the memory, in bytes, of a remembered key in addition to its own bytes: its part of the map,
// and the string header.
const keyOverhead = 64

// missed is the set of keys whose values on a server may be out of date.
type missed struct {
	limit int // bytes
	keys  map[string]struct{}
	size  int  // bytes
	all   bool // any key may be out of date; keys is empty
}

func (m *missed) add(key []byte) {
	if m.all {
		return
	}
	if _, ok := m.keys[string(key)]; ok {
		return
	}
	m.size += len(key) + keyOverhead
	if m.size > m.limit {
		m.addAll()
		return
	}
	if m.keys == nil {
		m.keys = make(map[string]struct{})
	}
	m.keys[string(key)] = struct{}{}
}

func (m *missed) addAll() {
	m.all, m.keys, m.size = true, nil, 0
}

// take empties m and returns its previous contents.
func (m *missed) take() missed {
	taken := *m
	*m = missed{limit: m.limit}
	return taken
}

// putBack adds the contents of taken to m.
func (m *missed) putBack(taken missed) {
	if taken.all {
		m.addAll()
		return
	}
	for key := range taken.keys {
		m.add([]byte(key))
	}
}

// empty reports whether no key is out of date.
func (m *missed) empty() bool { return !m.all && len(m.keys) == 0 }

// LeaveBehind records that key was written on the servers that are responsible for it now, while this one may still
// have an old value. Nobody reads the key here until a change of placement makes this server responsible again; see
// Reclaim.
func (s *Server) LeaveBehind(key []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left.add(key)
}

// LeaveAllBehind is LeaveBehind for every key.
func (s *Server) LeaveAllBehind() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left.addAll()
}

// Reclaim is called when the server may become responsible again for keys that it left behind. Their writes elsewhere
// count as missed.
func (s *Server) Reclaim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left.empty() {
		return
	}
	s.missed.putBack(s.left.take())
	s.stale(errors.New("it gets back keys that were written elsewhere"))
}
