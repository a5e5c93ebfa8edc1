package stats

// Counted is what memcached counts about a request beyond what its command and result say.
type Counted uint8

// These count as in memcached 1.6.38. An mg with T and a gat count as touches if they find their item; a gat also if it
// does not.
const (
	CountGetHits Counted = iota // mg
	CountGetMisses
	CountSets // ms
	CountTouchHits
	CountTouchMisses
	CountDeleteHits // md, unless it marks the item as stale
	CountDeleteMisses
	CountIncrHits // ma
	CountIncrMisses
	CountDecrHits
	CountDecrMisses
	CountCasMisses // cas, ms
	CountCasBad
	CountCasHits // ms
	CountMeta    // me
	CountGats    // the keys of gats, which are no gets
	CountGatMisses
	NumCounted
)

// Counted counts n of what.
func (w *Worker) Counted(what Counted, n int) {
	if recording && n > 0 {
		w.counted[what].Add(uint64(n))
	}
}
