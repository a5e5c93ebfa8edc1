package stats

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"mcmw/internal/enum"
)

// SweepOutcome says how a comparison of the replicas ended.
type SweepOutcome uint8

// The outcomes.
const (
	SweepComplete   SweepOutcome = iota // all keys were compared
	SweepIncomplete                     // a server was not up; its keys must be compared later
	SweepUnlisted                       // a server does not list its keys
	SweepFailed                         // a server failed during the comparison
	NumSweepOutcomes
)

var sweepOutcomes = enum.New[SweepOutcome]("outcome of a sweep", "complete", "incomplete", "unlisted", "failed")

func (o SweepOutcome) String() string { return sweepOutcomes.Of(o) }

// Sweep counts the work of comparing the replicas of a pool. Any goroutine may use it.
type Sweep struct{ Guarded[SweepSnapshot] }

// SweepSnapshot holds the values of a Sweep, or those of Sweeps together, at one moment.
type SweepSnapshot struct {
	SweepCounts
	Running bool
	// Replicated: keys are on several servers. Every is the time between two comparisons in ns; 0: they are not
	// repeated.
	Replicated bool
	Every      int64
	// Last is the end of the last complete comparison by any middleware; zero: it is not known. LastDiffer is the
	// number of keys that differed in it.
	Last       time.Time
	LastDiffer uint64
	// Why is the reason for which the latest comparison of this middleware was not complete; "": it was.
	Why string
}

// SweepCounts are counts since the start.
type SweepCounts struct {
	Keys          uint64 // compared keys; a key counts once for each server that holds it
	Disagreements uint64 // keys whose copies differed in two comparisons in a row
	Cut           uint64 // deleted copies
	Busy          uint64 // ns spent comparing, without pauses
	Outcomes      [NumSweepOutcomes]uint64
}

// Runs sets whether replicas are being compared.
func (s *Sweep) Runs(running bool) { s.Change(func(c *SweepSnapshot) { c.Running = running }) }

// Repeats sets whether there are replicas, and how often they are compared.
func (s *Sweep) Repeats(replicated bool, every time.Duration) {
	s.Change(func(c *SweepSnapshot) { c.Replicated, c.Every = replicated, int64(every) })
}

// Compared counts compared keys, and the time that it took.
func (s *Sweep) Compared(keys int, took time.Duration) {
	s.Change(func(c *SweepSnapshot) {
		c.Keys += uint64(keys)
		c.Busy += uint64(took)
	})
}

// Disagreed counts a key whose copies differed.
func (s *Sweep) Disagreed() { s.Change(func(c *SweepSnapshot) { c.Disagreements++ }) }

// Deleted counts a deleted copy.
func (s *Sweep) Deleted() { s.Change(func(c *SweepSnapshot) { c.Cut++ }) }

// Ended counts a comparison. why is the reason for which it was not complete.
func (s *Sweep) Ended(o SweepOutcome, why string) {
	s.Change(func(c *SweepSnapshot) {
		c.Outcomes[o]++
		c.Why = why
	})
}

// Last sets how long ago the last complete comparison ended, and how many keys differed in it.
func (s *Sweep) Last(ago time.Duration, differ uint64) {
	s.Change(func(c *SweepSnapshot) { c.Last, c.LastDiffer = time.Now().Add(-ago), differ })
}

// Snapshot returns the current values.
func (s *Sweep) Snapshot() SweepSnapshot { return s.Load() }

// Sweeps are the Sweeps of all pools. Any goroutine may use it, and its zero value is ready.
type Sweeps struct {
	mu    sync.Mutex
	pools []*Sweep
	ended SweepCounts // of pools that were removed
}

// Begin returns the Sweep of one more pool.
func (s *Sweeps) Begin() *Sweep {
	s.mu.Lock()
	defer s.mu.Unlock()
	pool := new(Sweep)
	s.pools = append(s.pools, pool)
	return pool
}

// End removes a pool. Its counts stay.
func (s *Sweeps) End(pool *Sweep) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pools = slices.DeleteFunc(s.pools, func(p *Sweep) bool { return p == pool })
	last := pool.Load()
	add(&s.ended, &last.SweepCounts)
}

// Snapshot returns the values of all pools together: whatever one of them says must not be hidden by what another says.
// Last is that of the pool whose last comparison is the longest ago, and LastDiffer is of all pools. While some are
// compared regularly, these two are of those alone.
func (s *Sweeps) Snapshot() SweepSnapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := SweepSnapshot{SweepCounts: s.ended}
	pools := make([]SweepSnapshot, len(s.pools))
	for i, pool := range s.pools {
		pools[i] = pool.Load()
		p := &pools[i]
		add(&all.SweepCounts, &p.SweepCounts)
		all.Running, all.Replicated = all.Running || p.Running, all.Replicated || p.Replicated
		all.Every, all.Why = max(all.Every, p.Every), cmp.Or(all.Why, p.Why)
	}
	pools = slices.DeleteFunc(pools, func(p SweepSnapshot) bool {
		return all.Every > 0 && p.Every == 0 || all.Every == 0 && p.Last.IsZero()
	})
	for i, p := range pools {
		if i == 0 || p.Last.Before(all.Last) {
			all.Last = p.Last
		}
		all.LastDiffer += p.LastDiffer
	}
	return all
}
