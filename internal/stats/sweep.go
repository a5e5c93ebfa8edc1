package stats

import (
	"sync/atomic"
	"time"
)

// Sweep counts the work of comparing replicas. Any goroutine may use it.
type Sweep struct {
	running             atomic.Bool
	keys, disagreements atomic.Uint64
	busy                atomic.Int64 // ns
}

// SweepSnapshot is a Sweep at a moment.
type SweepSnapshot struct {
	Running       bool
	Keys          uint64 // looked at; a key counts once for each server that holds it
	Disagreements uint64 // keys of which a copy was deleted
	Busy          int64  // ns spent comparing, without pauses
}

// Runs says whether replicas are being compared, or will be.
func (s *Sweep) Runs(running bool) { s.running.Store(running) }

// Compared counts keys, and the time it took to compare them.
func (s *Sweep) Compared(keys int, took time.Duration) {
	s.keys.Add(uint64(keys))
	s.busy.Add(int64(took))
}

// Disagreed counts a key of which a copy was deleted.
func (s *Sweep) Disagreed() { s.disagreements.Add(1) }

// Snapshot returns the counts.
func (s *Sweep) Snapshot() SweepSnapshot {
	return SweepSnapshot{Running: s.running.Load(), Keys: s.keys.Load(), Disagreements: s.disagreements.Load(), Busy: s.busy.Load()}
}
