package stats

import "sync/atomic"

// ShadowResult is what came of a copy of a request that a shadow got, a closed list.
type ShadowResult uint8

// The results.
const (
	ShadowSame      ShadowResult = iota // it says what the client was told: the value and the flags, or that there is none
	ShadowDifferent                     // it has another value, or other flags; at two reads, with no write between that this middleware knows of
	ShadowMiss                          // the client got a value, and it has none
	ShadowHit                           // it has a value, and the client got none
	ShadowUnknown                       // they differ, and a write under way, or one that it did not get, may be why
	ShadowError                         // it gave no answer, or an error
	ShadowIgnored                       // its answer is not compared
	NumShadowResults
)

var shadowResults = [NumShadowResults]string{"same", "different", "miss", "hit", "unknown", "error", "ignored"}

// String returns the result's metric label value.
func (r ShadowResult) String() string { return shadowResults[r] }

// ShadowDrop is why a request was not copied to a shadow, a closed list.
type ShadowDrop uint8

// The reasons.
const (
	ShadowQueueFull ShadowDrop = iota // too many copies wait
	ShadowNoMemory                    // those that wait are too large
	NumShadowDrops
)

var shadowDrops = [NumShadowDrops]string{"queue", "memory"}

// String returns the reason's metric label value.
func (d ShadowDrop) String() string { return shadowDrops[d] }

// Shadow counts what the shadow of a pool gets and answers. Any goroutine may count.
type Shadow struct {
	// Of is the name of the pool, To that of its shadow. Static after construction.
	Of, To string
	// Servers returns the shadow's servers; nil: there are none. Static after construction.
	Servers func() []ServerSnapshot

	copied  atomic.Uint64
	dropped [NumShadowDrops]atomic.Uint64
	answers [NumShadowResults]atomic.Uint64
	delay   atomic.Uint64
}

// Copied counts requests that the shadow gets.
func (s *Shadow) Copied(n int) { s.copied.Add(uint64(n)) }

// Dropped counts requests that were not copied.
func (s *Shadow) Dropped(why ShadowDrop, n int) { s.dropped[why].Add(uint64(n)) }

// Answered counts an answer of the shadow, which came so many ns after the client's.
func (s *Shadow) Answered(r ShadowResult, delay int64) {
	s.answers[r].Add(1)
	s.delay.Add(uint64(max(delay, 0)))
}

// ShadowSnapshot is a Shadow at one moment, or what it counted in a window.
type ShadowSnapshot struct {
	Of, To  string
	Copied  uint64 // requests that it got, a retrieval once per key
	Dropped [NumShadowDrops]uint64
	Answers [NumShadowResults]uint64
	Delay   uint64 // ns from the client's answer to the shadow's, sum over Answers

	counts *Shadow // tells it from a later shadow of the same name
}

// snapshot returns the counts as of now.
func (s *Shadow) snapshot() ShadowSnapshot {
	snapshot := ShadowSnapshot{Of: s.Of, To: s.To, Copied: s.copied.Load(), Delay: s.delay.Load(), counts: s}
	for i := range s.dropped {
		snapshot.Dropped[i] = s.dropped[i].Load()
	}
	for i := range s.answers {
		snapshot.Answers[i] = s.answers[i].Load()
	}
	return snapshot
}

// sub returns what was counted since prev, an earlier snapshot of the same shadow, or one without counts.
func (s ShadowSnapshot) sub(prev ShadowSnapshot) ShadowSnapshot {
	s.Copied -= prev.Copied
	s.Delay -= prev.Delay
	for i := range s.Dropped {
		s.Dropped[i] -= prev.Dropped[i]
	}
	for i := range s.Answers {
		s.Answers[i] -= prev.Answers[i]
	}
	return s
}

// addShadows adds the shadows and their servers to s.
func (r *Registry) addShadows(s *Snapshot) {
	for _, shadow := range r.options.Shadows {
		s.Shadows = append(s.Shadows, shadow.snapshot())
		if shadow.Servers == nil {
			continue
		}
		for _, server := range shadow.Servers() {
			server.Pool, server.ShadowOf = shadow.To, shadow.Of
			s.Servers = append(s.Servers, server)
		}
	}
}

// shadowsSince returns what the shadows of s counted since prev.
func (s *Snapshot) shadowsSince(prev *Snapshot) []ShadowSnapshot {
	var since []ShadowSnapshot
	for _, now := range s.Shadows {
		var before ShadowSnapshot
		for _, then := range prev.Shadows {
			if then.counts == now.counts {
				before = then
			}
		}
		since = append(since, now.sub(before))
	}
	return since
}
