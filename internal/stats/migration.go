package stats

import (
	"sync/atomic"
	"time"
)

// Migration is what is known of the migration of a pool's keys to another pool.
type Migration struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Inside: To are servers of the pool From, which are filled from its others.
	Inside bool   `json:"inside,omitempty"`
	Phase  string `json:"phase"`
	// Start and End are those of the whole, Since and Until of the phase; zero: it has no such end. From Back on it is as if it had not begun.
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	Back  time.Time `json:"back,omitzero"`
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Keys are copied from CopyFrom until CopyUntil, by one middleware: Listed keys of the Items that there are were looked at in this round through
	// all of them, the Round-th, at Rate per second, and Copied were copied so far. All that is 0 where it is not known.
	CopyFrom  time.Time `json:"copyFrom"`
	CopyUntil time.Time `json:"copyUntil"`
	Round     int       `json:"round"`
	Listed    uint64    `json:"listed"`
	Items     uint64    `json:"items"`
	Copied    uint64    `json:"copied"`
	Rate      float64   `json:"rate"`
	// Remaining is how long the round will take, ns.
	Remaining time.Duration `json:"remaining"`
	// Left keys of this round were not copied.
	Left uint64 `json:"left"`
	// Complete: all keys were looked at. Late: they will not be by CopyUntil, so that those that were not copied will be misses.
	Complete bool `json:"complete"`
	Late     bool `json:"late"`
	// Missed: only what reads miss in the new pool is copied. Read are the keys that reads of this middleware have looked for there since its start, Recent
	// those of the last minute or so. Within is how far apart the hit ratios of the new pool and of both may be for it to be Warm.
	Missed bool    `json:"missed"`
	Read   Warming `json:"read"`
	Recent Warming `json:"recent"`
	Within float64 `json:"within"`
	Warm   bool    `json:"warm"`
	// Here is how many keys this middleware has copied. Why says what kept it from copying; "": nothing.
	Here uint64 `json:"here"`
	Why  string `json:"why,omitempty"`
}

// Warming counts keys that reads have looked for in a pool that is warmed up.
type Warming struct {
	// New were found there, Old in the pool that it is warmed up from, Neither in none of the two. Unanswered keys are those of which a server has not
	// answered; what the new pool doesn't hold was a miss then.
	New        uint64 `json:"new"`
	Old        uint64 `json:"old"`
	Neither    uint64 `json:"neither"`
	Unanswered uint64 `json:"unanswered"`
}

// Ratios returns the hit ratios of the new pool and of both together; 0 where nothing was looked for.
func (w *Warming) Ratios() (newPool, both float64) {
	all := float64(max(1, w.New+w.Old+w.Neither+w.Unanswered))
	return float64(w.New) / all, float64(w.New+w.Old) / all
}

// Since returns w without what was counted before.
func (w Warming) Since(before Warming) Warming {
	return Warming{w.New - before.New, w.Old - before.Old, w.Neither - before.Neither, w.Unanswered - before.Unanswered}
}

// WarmUp is Warming since the start. Safe for concurrent use.
type WarmUp struct{ new, old, neither, unanswered atomic.Uint64 }

// Add adds what was counted.
func (w *WarmUp) Add(n Warming) {
	w.new.Add(n.New)
	w.old.Add(n.Old)
	w.neither.Add(n.Neither)
	w.unanswered.Add(n.Unanswered)
}

// Load returns what was counted.
func (w *WarmUp) Load() Warming {
	return Warming{w.new.Load(), w.old.Load(), w.neither.Load(), w.unanswered.Load()}
}
