package stats

import "time"

// Migration is what is known of the migration of a pool's keys to another pool.
type Migration struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Phase string `json:"phase"`
	// Start and End are those of the whole, Since and Until of the phase; zero: it has no such end.
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
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
	// Here is how many keys this middleware has copied. Why says what kept it from copying; "": nothing.
	Here uint64 `json:"here"`
	Why  string `json:"why,omitempty"`
}

// Warming counts keys that reads have looked for in a pool that is warmed up.
type Warming struct {
	// New were found there, Old in the pool that it is warmed up from, Neither in none of the two. Unanswered keys are those of which a server has not
	// answered; what the new pool doesn't hold was a miss then.
	New, Old, Neither, Unanswered uint64
}
