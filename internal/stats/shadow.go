package stats

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
	// Servers returns the shadow's servers; nil: there are none. Static after construction.
	Servers func() []ServerSnapshot

	counts guarded[ShadowCounts]
}

// ShadowCounts are the counts of a Shadow.
type ShadowCounts struct {
	Copied  uint64 // copied requests, a retrieval once per key
	Dropped [NumShadowDrops]uint64
	Answers [NumShadowResults]uint64
	Delay   uint64 // ns from the client's answer to the shadow's, sum over Answers
}

// Copied counts n requests that are copied to the shadow.
func (s *Shadow) Copied(n int) { s.counts.change(func(c *ShadowCounts) { c.Copied += uint64(n) }) }

// Dropped counts n requests that were not copied.
func (s *Shadow) Dropped(why ShadowDrop, n int) {
	s.counts.change(func(c *ShadowCounts) { c.Dropped[why] += uint64(n) })
}

// Answered counts an answer of the shadow, which came delay ns after the client's.
func (s *Shadow) Answered(r ShadowResult, delay int64) {
	s.counts.change(func(c *ShadowCounts) {
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

// addShadows adds the shadows and their servers to s.
func (r *Registry) addShadows(s *Snapshot) {
	for _, shadow := range r.options.Shadows {
		s.Shadows = append(s.Shadows, ShadowSnapshot{shadow.Of, shadow.To, shadow.counts.load(), shadow})
		if shadow.Servers == nil {
			continue
		}
		for _, server := range shadow.Servers() {
			server.Pool, server.ShadowOf = shadow.To, shadow.Of
			s.Servers = append(s.Servers, server)
		}
	}
}
