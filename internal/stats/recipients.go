package stats

import "time"

// Recipients is the part of a Snapshot about pools that get what the workers of other pools did, later.
type Recipients struct {
	Shadows []ShadowSnapshot
	Follows []Follow // at the moment At
}

// ShadowResult is the result of a copied request: how the shadow's answer compares with the client's. The list is
// closed.
type ShadowResult uint8

// The results.
const (
	ShadowSame      ShadowResult = iota // the same answer: value and flags are equal, or neither has a value
	ShadowDifferent                     // another value or other flags, at two reads without a known write between them
	ShadowMiss                          // the client got a value, the shadow has none
	ShadowHit                           // the shadow has a value, the client got none
	// they differ, perhaps because of a write that is under way or that the shadow did not get
	ShadowUnknown
	ShadowError   // the shadow gave no answer, or an error
	ShadowIgnored // answers to such requests are not compared
	NumShadowResults
)

var shadowResults = [NumShadowResults]string{"same", "different", "miss", "hit", "unknown", "error", "ignored"}

// String returns the result's metric label value.
func (r ShadowResult) String() string { return shadowResults[r] }

// ShadowDrop is the reason for which a request was not copied to a shadow. The list is closed.
type ShadowDrop uint8

// The reasons.
const (
	ShadowQueueFull ShadowDrop = iota // too many copies are waiting
	ShadowNoMemory                    // the waiting copies are too large in total
	NumShadowDrops
)

var shadowDrops = [NumShadowDrops]string{"queue", "memory"}

// String returns the reason's metric label value.
func (d ShadowDrop) String() string { return shadowDrops[d] }

// Shadow counts the requests that the shadow of a pool gets, and its answers. Any goroutine may call its methods.
type Shadow struct {
	// Of is the name of the pool, To the name of its shadow. Static after construction.
	Of, To string

	counts Guarded[ShadowCounts]
}

// ShadowCounts are the counts of a Shadow.
type ShadowCounts struct {
	Copied  uint64 // copied requests, a retrieval once per key
	Dropped [NumShadowDrops]uint64
	Answers [NumShadowResults]uint64
	Delay   uint64 // ns from the client's answer to the shadow's, sum over Answers
}

// Copied counts n requests that are copied to the shadow.
func (s *Shadow) Copied(n int) { s.counts.Change(func(c *ShadowCounts) { c.Copied += uint64(n) }) }

// Dropped counts a request that was not copied.
func (s *Shadow) Dropped(why ShadowDrop) { s.counts.Change(func(c *ShadowCounts) { c.Dropped[why]++ }) }

// Answered counts an answer of the shadow, which came delay ns after the client's.
func (s *Shadow) Answered(r ShadowResult, delay int64) {
	s.counts.Change(func(c *ShadowCounts) {
		c.Answers[r]++
		c.Delay += uint64(max(delay, 0))
	})
}

// ShadowSnapshot holds the counts of a Shadow at one moment, or those of a window.
type ShadowSnapshot struct {
	Of, To string
	ShadowCounts

	counts *Shadow // distinguishes it from a later shadow of the same name
}

// AddTo adds the counts to s, and the shadow's servers.
func (s *Shadow) AddTo(to *Snapshot, servers []ServerSnapshot) {
	to.Shadows = append(to.Shadows, ShadowSnapshot{s.Of, s.To, s.counts.Load(), s})
	for _, server := range servers {
		server.Pool, server.ShadowOf = s.To, s.Of
		to.Servers = append(to.Servers, server)
	}
}

// Follow is the state of a pool that follows another one.
type Follow struct {
	Of   string `json:"of"`
	To   string `json:"to"`
	What string `json:"what"` // deletes, purges or all
	// Debts is the number of keys that its servers are owed, and Age how long the oldest of these writes has been
	// waiting; in ns.
	Debts int           `json:"debts"`
	Age   time.Duration `json:"age"`
	// Delivered counts the debts that were delivered, Deletes the copies that failed and became deletes, and Dropped
	// the debts for which there was no memory.
	Delivered uint64 `json:"delivered"`
	Deletes   uint64 `json:"deletes"`
	Dropped   uint64 `json:"dropped"`
	// Doubt is since when writes may be missing for good; zero: none are.
	Doubt time.Time `json:"doubt,omitzero"`
}
