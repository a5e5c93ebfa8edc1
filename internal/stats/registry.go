package stats

import (
	"slices"
	"sync"
	"time"

	"mcmw/internal/hotkeys"
)

// Options say which servers, workers and queues a Registry counts for.
type Options struct {
	// Servers are the servers' names, in the order of their indexes.
	Servers []string
	// Workers is the number of workers.
	Workers int
	// Recorders is the number of recorders: one for each worker that may run at the same time, including stand-ins. At
	// least Workers.
	Recorders int
	// Depth is the number of requests that a worker serves at a time.
	Depth int
	// Queues are the queues in front of the workers.
	Queues []Queue
	// State adds to a snapshot what the registry does not count: the state of servers, pools and changes; nil: there is
	// none. It is called from any goroutine.
	State func(s *Snapshot)
	// Routes say which pool has which keys; nil: there is one pool, without a name. They must not be changed.
	Routes []Route
	// Tap receives the requests of the request log; nil means that there is no log.
	Tap *Tap
	// HotKeys counts the requested keys; nil: they are not counted.
	HotKeys *hotkeys.Keys
	// RouteOf returns the prefix of a key's route; required if there are Routes.
	RouteOf func(key []byte) string
	// Delimiter ends the prefixes of keys whose use is counted; "": none is. Change ignores it.
	Delimiter string
}

// Route says which pool has the keys with a prefix.
type Route struct {
	Prefix  string `json:"prefix"`
	Default bool   `json:"default,omitempty"` // the route of all other keys; Prefix is ""
	Pool    string `json:"pool"`              // by name
	Reads   string `json:"reads,omitempty"`   // the pool to which reads go; "": Pool
	Strip   bool   `json:"strip,omitempty"`   // the servers know the keys without Prefix
	Accepts string `json:"accepts"`           // which requests are served: "all", "reads" ..
}

// Health is the state of a server.
type Health struct {
	State   string
	Since   time.Time
	Why     string // "" while it is up
	Missed  int    // keys whose latest write it may not have received
	Stalls  uint64 // times it owed a reply for longer than --stall-after
	Flushes uint64 // times it was flushed because it might have held old values
	// MarkedHere: this middleware has marked it as a server that missed writes. MarkedElsewhere: another middleware
	// has.
	MarkedHere, MarkedElsewhere bool
	// writes that it missed and that were answered with an error because its mark was not in force
	Withheld uint64
	// LacksSince is since when it is not read because it must be refilled; zero: it need not be. Refilled counts the
	// keys that this middleware has copied to it.
	LacksSince  time.Time
	Refilled    uint64
	Transitions []Transition
}

// Transition counts how often a server entered a state.
type Transition struct {
	To    string
	Count uint64
}

// Queue is one queue in front of the workers.
type Queue struct {
	// Name is "shared", or "<server>/read" and "<server>/write".
	Name string
	// Capacity is in batches.
	Capacity int
	// Length returns the number of waiting batches; nil means always 0. It is called from any goroutine.
	Length func() int
}

// keepRemoved is the number of removed servers whose counts are kept, in case a server of the same name is added again.
const keepRemoved = 64

// Registry holds the recorders of one middleware.
type Registry struct {
	net     Net
	samples samples
	busy    monotonic // busy time of all workers in ns
	start   int64     // as Now
	usage   *Usage

	// mu guards the fields below, which Change replaces. Workers don't lock it: none of them runs during Change.
	mu      sync.RWMutex
	options Options
	workers []*Worker
	// removed are servers that have been removed, with their names and counts, the earliest first. Snapshots share it.
	removed []ServerSnapshot
}

// New returns a Registry in which everything is 0.
func New(o Options) *Registry {
	r := &Registry{start: Now(), usage: NewUsage(o.Delimiter)}
	r.Change(o)
	return r
}

// Change makes r count for other servers, workers and queues. No worker may run meanwhile. No counts are lost: a server
// continues the counts of an earlier server of the same name.
func (r *Registry) Change(o Options) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, continued := slices.Concat(r.removed, r.counted().Servers), make([]serverRecord, len(o.Servers))
	for i, name := range o.Servers {
		if k := slices.IndexFunc(known, func(s ServerSnapshot) bool { return s.Name == name }); k >= 0 {
			continued[i] = serverRecord{known[k].ServerCounts, known[k].Times}
			known = slices.Delete(known, k, k+1)
		}
	}
	r.removed = known[max(0, len(known)-keepRemoved):]
	for len(r.workers) < max(o.Workers, o.Recorders, 1) {
		r.workers = append(r.workers, &Worker{number: len(r.workers)})
	}
	for i, w := range r.workers {
		w.record.servers = make([]serverRecord, len(o.Servers))
		w.tap, w.sampler = o.Tap, o.HotKeys.Sketch(i).Sampler()
	}
	r.usage.setRoutes(o.Routes, o.RouteOf)
	r.workers[0].record.servers = continued
	r.options = o
}

// Worker returns recorder i. Only one worker at a time may write to it.
func (r *Registry) Worker(i int) *Worker { return r.workers[i] }

// Usage counts who uses the cache.
func (r *Registry) Usage() *Usage { return r.usage }

// Net returns the counters of the client connections.
func (r *Registry) Net() *Net { return &r.net }
