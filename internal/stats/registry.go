package stats

import (
	"sync/atomic"
	"time"
)

// Options say what a Registry counts for.
type Options struct {
	// Servers are the servers' names, in the order of their indices.
	Servers []string
	// Health returns the state of server i; nil means that it is not known. It is called from any goroutine.
	Health func(i int) Health
	// Workers is the number of workers.
	Workers int
	// Queues are the queues before the workers.
	Queues []Queue
}

// Health is the state of a server.
type Health struct {
	State       string
	Since       time.Time
	Why         string // "" while it is up
	Missed      int    // keys whose latest write it may not have got
	Transitions []Transition
}

// Transition counts how often a server came to a state.
type Transition struct {
	To    string
	Count uint64
}

// Queue is one queue before the workers.
type Queue struct {
	// Name tells the queue from the others: "shared", or "<server>/read" and "<server>/write".
	Name string
	// Capacity is in bursts.
	Capacity int
	// Length returns how many bursts are waiting; nil means always 0. It is called from any goroutine.
	Length func() int
}

// Registry holds the recorders of one middleware.
type Registry struct {
	options Options
	workers []*Worker
	net     Net
	start   int64 // Now
}

// New returns a Registry in which everything is 0.
func New(o Options) *Registry {
	r := &Registry{options: o, workers: make([]*Worker, o.Workers), start: Now()}
	for i := range r.workers {
		r.workers[i] = &Worker{servers: make([]serverRecorder, len(o.Servers))}
	}
	return r
}

// Worker returns the recorder of worker i, which alone may write to it.
func (r *Registry) Worker(i int) *Worker { return r.workers[i] }

// Net returns the counters of the client connections.
func (r *Registry) Net() *Net { return &r.net }

// Net counts client connections. Its methods may be called from any goroutine.
type Net struct {
	opened atomic.Uint64
	closed [NumCloseReasons]atomic.Uint64
}

// Opened counts an accepted connection.
func (n *Net) Opened() { n.opened.Add(1) }

// Closed counts a connection that ended; once for each one opened.
func (n *Net) Closed(reason CloseReason) { n.closed[reason].Add(1) }
