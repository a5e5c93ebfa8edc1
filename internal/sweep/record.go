package sweep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"mcmw/internal/marker"
)

// record is what a server holds, under marker.SweptKey, about the last sweep that compared everything it was due to
// compare. Times are seconds of that server's own clock.
type record struct {
	Began int64 `json:"began"` // before the server listed its keys
	Ended int64 `json:"ended"`
	// Rounds is the number of sweeps since the last one that compared all keys.
	Rounds int `json:"rounds"`
	// Placement identifies the placement of keys. Keys that were compared by another placement must be compared again.
	Placement string `json:"placement"`
	Keys      uint64 `json:"keys"`   // keys compared
	Differ    uint64 `json:"differ"` // keys found to differ
	// Evictions is how many items the server had evicted when the sweep ended.
	Evictions uint64 `json:"evictions,omitempty"`
	// Filled is when the server was last refilled because a sweep had found that it lacks copies; 0: never.
	Filled int64 `json:"filled,omitempty"`
	// Took is how long that took, and Lacks says that this sweep has found that the server lacks a copy.
	Took  int64 `json:"took,omitempty"`
	Lacks bool  `json:"lacks,omitempty"`
}

// readRecord reads the record on server s; nil: there is none, or it is not valid.
func (w *Sweep) readRecord(ctx context.Context, s int) (*record, error) {
	l, err := w.link(ctx, s)
	if err != nil {
		return nil, err
	}
	value, _, err := l.Get(marker.SweptKey)
	return decodeRecord(value), err
}

// decodeRecord returns nil if b is no valid record, as if there had been no sweep.
func decodeRecord(b []byte) *record {
	r := new(record)
	if err := json.Unmarshal(b, r); err != nil || r.Began < 0 || r.Ended < 0 || r.Rounds < 0 {
		return nil
	}
	return r
}

// putRecord puts r on server s.
func (w *Sweep) putRecord(ctx context.Context, s int, r record) error {
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	l, err := w.link(ctx, s)
	if err != nil {
		return err
	}
	return l.Set(marker.SweptKey, value, 0)
}

// placement returns a text that identifies the placement.
func (w *Sweep) placement() (string, error) {
	b, err := json.Marshal(w.Placement)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8]), err
}
