package backend

import "mcmw/internal/enum"

// Rejoin says what happens to the keys a server missed before it may serve reads again.
type Rejoin uint8

// The policies.
const (
	RejoinInvalidate Rejoin = iota // the keys it missed are deleted on it; if they are not all known, it is flushed
	RejoinFlush                    // it is flushed
	RejoinTrust                    // nothing: what it holds is served
)

// RejoinNames are the policies' names.
var RejoinNames = enum.New[Rejoin]("rejoin", "invalidate", "flush", "trust")

func (r Rejoin) String() string { return RejoinNames.Of(r) }

// keyOverhead is roughly the memory of a remembered key besides its bytes: its share of the map, and the string's header.
const keyOverhead = 64

// missed is what a server may hold out of date.
type missed struct {
	limit int // bytes
	keys  map[string]struct{}
	size  int  // bytes
	all   bool // some of the keys are not known
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

// take empties m and returns what it held.
func (m *missed) take() missed {
	taken := *m
	*m = missed{limit: m.limit}
	return taken
}

// putBack adds keys that were taken and could not be dealt with.
func (m *missed) putBack(taken missed) {
	if taken.all {
		m.addAll()
		return
	}
	for key := range taken.keys {
		m.add([]byte(key))
	}
}

// nothing reports whether nothing is out of date.
func (m *missed) nothing() bool { return !m.all && len(m.keys) == 0 }
