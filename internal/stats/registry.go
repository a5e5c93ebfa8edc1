package stats

import (
	"sync"
	"time"

	"mcmw/internal/hotkeys"
)

// Options say what a Registry counts for.
type Options struct {
	// Servers are the servers' names, in the order of their indices.
	Servers []string
	// Zones are those that the servers are in, "": unknown; nil: all are.
	Zones []string
	// Pools are the names of those that the servers are in; nil: there is one, without a name.
	Pools []string
	// Health returns the state of server i; nil means that it is unknown. It is called from any goroutine.
	Health func(i int) Health
	// Workers is the number of workers.
	Workers int
	// Recorders is the number of recorders, one for each worker that ever runs at the same time: the workers and their
	// stand-ins. At least Workers.
	Recorders int
	// Depth is how many requests a worker serves at a time.
	Depth int
	// Queues are the queues before the workers.
	Queues []Queue
	// Sweep counts the comparisons of the replicas; nil: none are made.
	Sweep *Sweep
	// Several reports whether replicas are kept alike though other middlewares write the same servers; nil: they are not.
	Several func() bool
	// MarksUnknown reports whether no server is read, because too few say which of them missed writes of others; nil: that does not matter.
	MarksUnknown func() bool
	// Migrations returns what is known of the migrations of keys; nil: there are none.
	Migrations func() []Migration
	// Phase is the phase of the change of placement, Placement a short hash of the placement that it leads to.
	Phase, Placement string
	// Routes say which pool has which keys; nil: there is one pool, without a name. They are not changed.
	Routes []Route
	// Gutters are those of the pools that have one.
	Gutters []GutterOptions
	// Tap receives the requests of the request log; nil means that there is no log.
	Tap *Tap
	// HotKeys counts the keys that are asked for; nil: nobody does.
	HotKeys *hotkeys.Keys
	// Shadows are those of the pools.
	Shadows []*Shadow
}

// Route says in which pool the keys of a prefix are.
type Route struct {
	Prefix  string
	Default bool   // of the keys that begin with no other prefix; Prefix is ""
	Pool    string // by name
	Reads   string // the pool that reads go to; "": Pool
	Strip   bool   // the servers know the keys without Prefix
}

// Health is the state of a server.
type Health struct {
	State   string
	Since   time.Time
	Why     string // "" while it is up
	Missed  int    // keys whose latest write it may not have got
	Stalls  uint64 // times it owed a reply for longer than usual
	Flushes uint64 // times it was flushed because it might have held old values
	// MarkedHere: this middleware has marked it as one that missed writes. MarkedElsewhere: another has.
	MarkedHere, MarkedElsewhere bool
	Withheld                    uint64 // writes that it missed, and whose success was withheld because its mark was not in force
	Transitions                 []Transition
}

// Transition counts how often a server entered a state.
type Transition struct {
	To    string
	Count uint64
}

// Queue is one queue before the workers.
type Queue struct {
	// Name tells the queue from the others: "shared", or "<server>/read" and "<server>/write".
	Name string
	// Capacity is in batches.
	Capacity int
	// Length returns how many batches are waiting; nil means always 0. It is called from any goroutine.
	Length func() int
}

// keepRemoved is the number of removed servers whose counts are kept, in case a server of the same name is added again.
const keepRemoved = 64

// Registry holds the recorders of one middleware.
type Registry struct {
	net     Net
	samples samples
	busy    monotonic // time of all workers, ns
	start   int64     // Now

	// mu guards what Change replaces. Workers don't lock it: none of them runs during Change.
	mu      sync.RWMutex
	options Options
	workers []*Worker
	removed []removedServer // the earliest first
}

// removedServer holds the counts of a server that has been removed.
type removedServer struct {
	name    string
	workers []*serverRecorder
}

// New returns a Registry in which everything is 0.
func New(o Options) *Registry {
	r := &Registry{start: Now()}
	r.Change(o)
	return r
}

// Change makes r count for other servers, workers and queues. No worker may run meanwhile. No counts are lost: a server
// continues the counts of the previous one of its name.
func (r *Registry) Change(o Options) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.workers { // the journals identify servers by their index
		w.Flush()
		w.settle()
	}
	known := map[string][]*serverRecorder{}
	for _, s := range r.removed {
		known[s.name] = s.workers
	}
	for i, name := range r.options.Servers {
		var of []*serverRecorder
		for _, w := range r.workers {
			of = append(of, w.servers[i])
		}
		known[name] = of
		r.removed = append(r.removed, removedServer{name, of})
	}
	there := map[string]bool{}
	for _, name := range o.Servers {
		there[name] = true
	}
	kept := r.removed[:0]
	for _, s := range r.removed {
		if !there[s.name] {
			kept = append(kept, s)
		}
	}
	r.removed = kept[max(0, len(kept)-keepRemoved):]
	for len(r.workers) < max(o.Workers, o.Recorders) {
		r.workers = append(r.workers, &Worker{number: len(r.workers)})
	}
	for i, w := range r.workers {
		servers := make([]*serverRecorder, len(o.Servers))
		for s, name := range o.Servers {
			if of := known[name]; i < len(of) {
				servers[s] = of[i]
			} else {
				servers[s] = new(serverRecorder)
			}
		}
		w.servers, w.tap, w.hot = servers, o.Tap, o.HotKeys.Sketch(i).Sampler()
	}
	r.options = o
}

// Worker returns recorder i, which one worker at a time may write to.
func (r *Registry) Worker(i int) *Worker { return r.workers[i] }

// Net returns the counters of the client connections.
func (r *Registry) Net() *Net { return &r.net }
