package stats

import "time"

// Migration is the state of the migration of a pool's keys to another pool.
type Migration struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Inside: To names servers of the pool From, which are filled from its other servers.
	Inside bool   `json:"inside,omitempty"`
	Phase  string `json:"phase"`
	// Start and End are those of the whole migration, Since and Until those of the phase; zero: there is no such time
	// yet. From Back on, everything is as before the migration.
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
	Back  time.Time `json:"back,omitzero"`
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// One middleware copies keys from CopyFrom until CopyUntil, in rounds through all keys. In this round, number
	// Round, it has looked at Listed of all Items keys, at Rate keys per second, and has copied Copied keys so far.
	// These fields are 0 if they are not known.
	CopyFrom  time.Time `json:"copyFrom"`
	CopyUntil time.Time `json:"copyUntil"`
	Round     int       `json:"round"`
	Listed    uint64    `json:"listed"`
	Items     uint64    `json:"items"`
	Copied    uint64    `json:"copied"`
	Rate      float64   `json:"rate"`
	// Remaining is the estimated rest of the round, in ns.
	Remaining time.Duration `json:"remaining"`
	// Left is the number of keys that could not be copied in this round.
	Left uint64 `json:"left"`
	// Complete: all keys were looked at. Late: that will not happen by CopyUntil, so that keys which are not copied
	// will be misses.
	Complete bool `json:"complete"`
	Late     bool `json:"late"`
	// WarmsUp: only keys that reads miss in the new pool are copied. Read counts the keys that reads of this middleware
	// have looked for there since its start, Recent those of roughly the last minute. The pool is Warm if its hit ratio
	// differs from that of both pools by at most Within.
	WarmsUp bool    `json:"missed"`
	Read    Warming `json:"read"`
	Recent  Warming `json:"recent"`
	Within  float64 `json:"within"`
	Warm    bool    `json:"warm"`
	// Here is the number of keys that this middleware has copied. Why is the reason why it does not copy now; "": there
	// is none.
	Here uint64 `json:"here"`
	Why  string `json:"why,omitempty"`
}

// Warming counts keys that reads have looked for in a pool that is being warmed up.
type Warming struct {
	// New keys were found there, Old keys in the pool from which it is warmed up, Neither keys in neither of the two.
	// Unanswered keys are those for which a server has not answered; if the new pool doesn't hold such a key, the read
	// is a miss.
	New        uint64 `json:"new"`
	Old        uint64 `json:"old"`
	Neither    uint64 `json:"neither"`
	Unanswered uint64 `json:"unanswered"`
}

// Ratios returns the hit ratios of the new pool and of both pools together; 0 if there were no reads.
func (w *Warming) Ratios() (newPool, both float64) {
	all := float64(max(1, w.New+w.Old+w.Neither+w.Unanswered))
	return float64(w.New) / all, float64(w.New+w.Old) / all
}

// Since returns the difference of w and an earlier value.
func (w Warming) Since(before Warming) Warming { return difference(w, before) }
