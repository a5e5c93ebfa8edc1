package stats

import (
	"math/bits"
	"sync"
	"unsafe"

	"mcmw/internal/protocol"
)

// Counts are what the workers count: one of them, all of them, or all of them in a window. All fields are counts, so
// that add and subtract need no list of them.
type Counts struct {
	Requests [protocol.NumCommands][NumResults]uint64
	// ClassStages is the time in ns that the requests of each class spent in each stage.
	ClassStages [NumClasses][NumStages]uint64
	Keys        uint64 // keys requested by retrievals
	Misses      uint64 // of these, keys that were not found

	Rounds        uint64                // rounds of the workers
	RoundSizes    [NumRoundSizes]uint64 // rounds by the number of requests served; see RoundSizeBound
	RoundRequests uint64                // requests served in them
	FromClients   uint64                // bytes
	ToClients     uint64                // bytes

	Planned
	Counted [NumCounted]uint64
}

// Planned is what the planner counts.
type Planned struct {
	Agreement Agreement
	Joined    uint64 // gets that were answered with the reply to an equal one
	Large     Large
}

// Agreement counts the results of checks, which compare the replicas after a write if several middlewares write the
// same servers.
type Agreement struct {
	Checks        uint64 // writes after which the replicas were compared to the end
	Disagreements uint64 // of these, writes after which replicas differed in two comparisons in a row
	Cuts          uint64 // copies that were deleted because of that
}

// Large counts values that are stored in chunks.
type Large struct {
	Stored     uint64 // values whose chunks were sent
	Read       uint64 // values that were assembled from their chunks
	Incomplete uint64 // values of which a chunk was missing, which read as misses
}

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

// NumRoundSizes is the number of buckets for the sizes of rounds. The last one has no upper bound.
const NumRoundSizes = 14

// RoundSizeBound returns the maximum number of requests of a round in bucket i of RoundSizes: a power of two.
func RoundSizeBound(i int) uint64 { return 1 << i }

// roundSizeOf returns the bucket of a round that served n requests.
func roundSizeOf(n int) int { return min(bits.Len(uint(max(n-1, 0))), NumRoundSizes-1) }

// ServerCounts are what the workers count about a server, without the times.
type ServerCounts struct {
	Errors [NumReasons]uint64
	Waited uint64 // ns that workers were blocked waiting for its replies
	// Repairs counts the keys deleted on it because its state differed from the answer to a write.
	Repairs uint64
}

// numbers returns the fields of v, which must be a struct of nothing but uint64, or of structs and arrays of these.
func numbers[T any](v *T) []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(v)), unsafe.Sizeof(*v)/unsafe.Sizeof(uint64(0)))
}

// add adds the fields of v, for which the rule of numbers holds, to those of sum.
func add[T any](sum, v *T) {
	to, from := numbers(sum), numbers(v)
	for i := range to {
		to[i] += from[i]
	}
}

// difference returns the fields of v less those of before, an earlier value; the rule of numbers holds for T.
func difference[T any](v, before T) T {
	to, from := numbers(&v), numbers(&before)
	for i := range to {
		to[i] -= from[i]
	}
	return v
}

// Guarded is a value that any goroutine may change and read. The zero value is ready.
type Guarded[T any] struct {
	mu sync.Mutex
	v  T // guarded by mu
}

// Change lets change change the value.
func (g *Guarded[T]) Change(change func(v *T)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(&g.v)
}

// Load returns the value.
func (g *Guarded[T]) Load() T {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.v
}

// Sum is the sum of counts since the start, for which the rule of numbers holds. Any goroutine may use it.
type Sum[T any] struct{ Guarded[T] }

// Add adds n.
func (s *Sum[T]) Add(n T) { s.Change(func(v *T) { add(v, &n) }) }
