package stats

import (
	"runtime"
	"slices"
	"syscall"
	"time"
)

// Snapshot is the sum of all recorders: cumulative since the start, or, from Sub, of a window. For each worker it holds
// exactly the records up to one moment. These moments, and the moment of the net stage's counts, differ a little.
type Snapshot struct {
	At     int64 // when it was taken, as Now
	Uptime int64 // ns since the start of the Registry; of a window its length

	Counts
	NetCounts
	Totals
	Recipients
	Response [NumClasses]Histogram
	Stages   [NumStages]Histogram
	Servers  []ServerSnapshot // those of shadows come last
	removed  []ServerSnapshot // those that had been removed, whose counts go on if they are added again

	// The values at the moment At; of a window those at its end.
	Gutters []GutterSnapshot
	Sweep   SweepSnapshot
	Several bool // replicas are kept equal although other middlewares write the same servers
	// MarksUnknown: no server is read, because too few servers tell which servers missed writes of other middlewares.
	MarksUnknown bool
	// Phase is the phase of the change of placement, Placement a short hash of the placement that the change leads to.
	Phase, Placement string
	Routes           []Route
	Migrations       []Migration
	Workers          int
	WorkersBusy      int
	Depth            int // requests that a worker serves at a time
	Processors       int // processors that the process may use
	QueueLength      int // batches in all queues
	QueueCapacity    int // batches that all queues can hold
	Queues           []QueueSnapshot
	RequestMemory    int64 // bytes used for clients' large requests
	ReplyMemory      int64 // bytes used for replies that clients have not read
}

// Totals are counts of the whole middleware beyond those of its workers and its connections.
type Totals struct {
	Arrived  uint64 // requests that the net stage put on the queue
	Taken    uint64 // of these, requests that a worker took
	Answered uint64 // of these, requests that were answered
	Dropped  uint64 // requests for which the request log had no room

	Samples        uint64 // samples of the numbers of waiting requests and of requests in service
	SampledWaiting uint64 // sum of the samples of waiting requests
	SampledServing uint64 // sum of the samples of requests in service

	BusyTime      uint64 // ns, sum over the workers
	ProcessorTime uint64 // ns of processor time that the whole process has used
}

// QueueSnapshot is the state of one queue at the moment of a Snapshot.
type QueueSnapshot struct {
	Name     string `json:"name"`
	Length   int    `json:"length"`   // batches
	Capacity int    `json:"capacity"` // batches
}

// ServerSnapshot is the part of a Snapshot about one server.
type ServerSnapshot struct {
	Name string
	Zone string // "": unknown
	Pool string // "": the only pool, without a name
	// the pool whose shadow Pool is; "": it is no shadow. No request waits for the server of a shadow
	ShadowOf string
	Times    Histogram // from the write to the server until its reply was read, of each request to it
	ServerCounts
	Health Health // at the moment At
}

// Snapshot returns the current sums over all recorders.
func (r *Registry) Snapshot() *Snapshot {
	r.mu.RLock()
	defer r.mu.RUnlock()
	now := Now()
	s := r.counted()
	s.At, s.Uptime, s.removed = now, now-r.start, r.removed
	s.BusyTime = r.busy.of(s.BusyTime)
	s.Workers, s.Depth, s.Processors = r.options.Workers, r.options.Depth, runtime.GOMAXPROCS(0)
	user, system := ProcessorTimes()
	s.ProcessorTime = uint64(user + system)
	s.Queues = make([]QueueSnapshot, len(r.options.Queues))
	for i, q := range r.options.Queues {
		s.Queues[i] = QueueSnapshot{Name: q.Name, Capacity: q.Capacity}
		if q.Length != nil {
			s.Queues[i].Length = q.Length()
		}
		s.QueueLength += s.Queues[i].Length
		s.QueueCapacity += q.Capacity
	}
	s.Samples, s.SampledWaiting, s.SampledServing = r.samples.count.Load(), r.samples.waiting.Load(),
		r.samples.serving.Load()
	if r.options.Tap != nil {
		s.Dropped = r.options.Tap.dropped.Load()
	}
	s.Routes = r.options.Routes
	if r.options.State != nil {
		r.options.State(s)
	}
	r.net.addTo(s) // after the workers, so that Taken is at most Arrived
	return s
}

// counted returns what the workers have counted. The caller holds mu.
func (r *Registry) counted() *Snapshot {
	s := &Snapshot{Servers: make([]ServerSnapshot, len(r.options.Servers))}
	for i, name := range r.options.Servers {
		s.Servers[i].Name = name
	}
	for _, w := range r.workers {
		w.addTo(s)
	}
	return s
}

// ProcessorTimes returns the processor time that the process has used so far, itself and in the kernel; 0 if they are
// not known.
func ProcessorTimes() (user, system time.Duration) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())
}

// Open returns the number of open client connections; s must be cumulative. It may include connections that were opened
// and closed while s was taken.
func (s *Snapshot) Open() uint64 {
	open := s.Opened
	for _, n := range s.Closed {
		open -= n
	}
	return open
}

// Ended returns the number of requests with that result.
func (s *Snapshot) Ended(r Result) (n uint64) {
	for c := range s.Requests {
		n += s.Requests[c][r]
	}
	return n
}

// Hot returns the number of requests that were answered from memory. Like refused requests they have no response time.
func (s *Snapshot) Hot() uint64 { return s.Ended(ResultHot) }

// Waiting returns the number of requests that wait in the queue; s must be cumulative.
func (s *Snapshot) Waiting() uint64 { return excess(s.Arrived, s.Abandoned+s.Taken) }

// Serving returns the number of requests in service; s must be cumulative.
func (s *Snapshot) Serving() uint64 { return excess(s.Taken, s.Answered) }

// excess returns a - b, or 0 if b, which was read at a slightly different time, is larger.
func excess(a, b uint64) uint64 { return a - min(a, b) }

// Total returns the number of answered requests.
func (s *Snapshot) Total() (n uint64) {
	for r := range NumResults {
		n += s.Ended(r)
	}
	return n
}

// All returns the response times of all classes.
func (s *Snapshot) All() Histogram {
	var all Histogram
	for c := range s.Response {
		all = all.Plus(&s.Response[c])
	}
	return all
}

// Sub returns the window between prev, an earlier snapshot of the same Registry, and s.
func (s *Snapshot) Sub(prev *Snapshot) *Snapshot {
	d := *s
	d.Uptime = s.At - prev.At
	d.Counts, d.NetCounts = difference(s.Counts, prev.Counts), difference(s.NetCounts, prev.NetCounts)
	d.Totals = difference(s.Totals, prev.Totals)
	for c := range d.Response {
		d.Response[c] = s.Response[c].Sub(&prev.Response[c])
	}
	for i := range d.Stages {
		d.Stages[i] = s.Stages[i].Sub(&prev.Stages[i])
	}
	d.Servers = since(s.Servers, slices.Concat(prev.Servers, prev.removed), func(now, before *ServerSnapshot) bool {
		return now.Name == before.Name
	}, func(now, before *ServerSnapshot) {
		now.Times = now.Times.Sub(&before.Times)
		now.ServerCounts = difference(now.ServerCounts, before.ServerCounts)
	})
	d.Shadows = since(s.Shadows, prev.Shadows, func(now, before *ShadowSnapshot) bool {
		return now.counts == before.counts
	}, func(now, before *ShadowSnapshot) {
		now.ShadowCounts = difference(now.ShadowCounts, before.ShadowCounts)
	})
	return &d
}

// since returns a copy of now in which subtract has been called for each element that is the same as one of before.
func since[T any](now, before []T, same func(now, before *T) bool, subtract func(now, before *T)) []T {
	window := slices.Clone(now)
	for i := range window {
		for k := range before {
			if same(&window[i], &before[k]) {
				subtract(&window[i], &before[k])
				break
			}
		}
	}
	return window
}
