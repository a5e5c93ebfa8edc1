package stats

import (
	"sync"
	"time"

	"mcmw/internal/enum"
)

// SweepOutcome says how a comparison of the replicas ended.
type SweepOutcome uint8

// The outcomes.
const (
	SweepComplete   SweepOutcome = iota // everything was compared
	SweepIncomplete                     // a server was not up, and is to be compared later
	SweepUnlisted                       // a server does not list its keys
	SweepFailed                         // a server failed meanwhile
	NumSweepOutcomes
)

var sweepOutcomes = enum.New[SweepOutcome]("outcome of a sweep", "complete", "incomplete", "unlisted", "failed")

func (o SweepOutcome) String() string { return sweepOutcomes.Of(o) }

// Sweep counts the work of comparing replicas. Any goroutine may use it.
type Sweep struct {
	mu     sync.Mutex
	counts SweepSnapshot // guarded by mu
}

// SweepSnapshot is a Sweep at a moment.
type SweepSnapshot struct {
	Running       bool
	Keys          uint64 // looked at; a key counts once for each server that holds it
	Disagreements uint64 // keys whose copies differed on two looks
	Cut           uint64 // copies deleted
	Busy          int64  // ns spent comparing, without pauses
	Outcomes      [NumSweepOutcomes]uint64
	// Replicated: keys are on several servers. Every is the time between two comparisons, ns; 0: they are not repeated.
	Replicated bool
	Every      int64
	// Last is when everything had been compared last, by any middleware; zero: that is not known. LastDiffer keys differed then.
	Last       time.Time
	LastDiffer uint64
	// Why says what kept the latest comparison of this middleware from being complete; "": nothing.
	Why string
}

func (s *Sweep) change(change func(c *SweepSnapshot)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.counts)
}

// Runs says whether replicas are being compared, or will be at once.
func (s *Sweep) Runs(running bool) { s.change(func(c *SweepSnapshot) { c.Running = running }) }

// Repeats says whether there are replicas, and how often they are compared.
func (s *Sweep) Repeats(replicated bool, every time.Duration) {
	s.change(func(c *SweepSnapshot) { c.Replicated, c.Every = replicated, int64(every) })
}

// Compared counts keys, and the time it took to compare them.
func (s *Sweep) Compared(keys int, took time.Duration) {
	s.change(func(c *SweepSnapshot) {
		c.Keys += uint64(keys)
		c.Busy += int64(took)
	})
}

// Disagreed counts a key whose copies differed.
func (s *Sweep) Disagreed() { s.change(func(c *SweepSnapshot) { c.Disagreements++ }) }

// Deleted counts a copy that was deleted.
func (s *Sweep) Deleted() { s.change(func(c *SweepSnapshot) { c.Cut++ }) }

// Ended counts a comparison; why is what was not as it should be.
func (s *Sweep) Ended(o SweepOutcome, why string) {
	s.change(func(c *SweepSnapshot) {
		c.Outcomes[o]++
		c.Why = why
	})
}

// Last says when everything had been compared last, and how many keys differed then.
func (s *Sweep) Last(ago time.Duration, differ uint64) {
	s.change(func(c *SweepSnapshot) { c.Last, c.LastDiffer = time.Now().Add(-ago), differ })
}

// Snapshot returns the counts.
func (s *Sweep) Snapshot() SweepSnapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}
