package stats

import "time"

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
