package stats

import (
	"runtime"
	"slices"
	"syscall"

	"mcmw/internal/protocol"
)

// Snapshot is the sum of all recorders at one moment: cumulative since the start, or, from Sub, what happened in a window.
// For each worker it holds exactly what was recorded up to one moment; these moments, and that of the net stage's counts,
// differ a little.
type Snapshot struct {
	At     int64 // when it was taken (Now)
	Uptime int64 // ns: since the start of the Registry; in a window its length

	Requests [protocol.NumCommands][NumResults]uint64
	Response [NumClasses]Histogram
	Stages   [NumStages]Histogram
	// ClassStages is the time that the requests of each class spent in each stage, ns.
	ClassStages [NumClasses][NumStages]uint64
	Servers     []ServerSnapshot // those of shadows behind the others
	Shadows     []ShadowSnapshot
	Keys        uint64 // keys asked for by retrievals
	Misses      uint64 // of them not found

	Arrived   uint64 // requests that the net stage put on the queue
	Abandoned uint64 // of them not taken by a worker, because their client was gone
	Taken     uint64 // of them taken by a worker
	Answered  uint64 // of them answered
	Dropped   uint64 // requests that did not fit into the request log
	Sweep     SweepSnapshot
	Several   bool // replicas are kept alike though other middlewares write the same servers
	// MarksUnknown: no server is read, because too few say which of them missed writes of others.
	MarksUnknown bool
	Agreement    Agreement
	Joined       uint64 // gets that were answered by the reply to an equal one
	Large        Large
	// Phase is the phase of the change of placement, Placement a short hash of the placement that it leads to.
	Phase, Placement string
	Routes           []Route
	Gutters          []GutterSnapshot
	Migrations       []Migration

	Samples        uint64 // how often the numbers of waiting requests and of requests in service were sampled
	SampledWaiting uint64 // sum of the samples
	SampledServing uint64

	Rounds        uint64                // rounds of the workers
	RoundSizes    [NumRoundSizes]uint64 // rounds by the number of requests served; see RoundSizeBound
	RoundRequests uint64                // requests served in them
	BusyTime      uint64                // ns, sum over the workers
	FromClients   uint64                // bytes
	ToClients     uint64                // bytes

	Opened uint64 // client connections
	Closed [NumCloseReasons]uint64
	// Counters are those that the stages have created, by name.
	Counters []CounterValue

	ProcessorTime uint64 // ns that the process, all of it, has used

	// Gauges: the values at the moment At, in a window those of its end.
	Workers       int
	WorkersBusy   int
	Depth         int // requests a worker serves at a time
	Processors    int // that the process may use
	QueueLength   int // batches, in all queues
	QueueCapacity int // batches, of all queues
	Queues        []QueueSnapshot
	RequestMemory int64 // bytes: taken by clients' large requests
	ReplyMemory   int64 // bytes: taken by replies that clients have not read
}

// QueueSnapshot is the state of one queue at the moment of a Snapshot.
type QueueSnapshot struct {
	Name     string
	Length   int // batches
	Capacity int // batches
}

// ServerSnapshot is one server's share of a Snapshot.
type ServerSnapshot struct {
	Name     string
	Zone     string    // "": unknown
	Pool     string    // "": there is one, without a name
	ShadowOf string    // the pool whose shadow Pool is; "": it is none. Otherwise no request waits for the server
	Times    Histogram // of one server's part of each request: from the write until its reply was read
	Errors   [NumReasons]uint64
	Waited   uint64 // ns that workers were blocked waiting for its replies
	// Repairs counts the keys deleted on it because its state differed from the answer to a write.
	Repairs uint64
	// Health is the server's state at the moment of the snapshot.
	Health Health
}

// Snapshot returns the sums over all recorders as of now.
func (r *Registry) Snapshot() *Snapshot {
	r.mu.RLock()
	defer r.mu.RUnlock()
	now := Now()
	s := &Snapshot{
		At:      now,
		Uptime:  now - r.start,
		Servers: make([]ServerSnapshot, len(r.options.Servers)),
		Workers: r.options.Workers, Depth: r.options.Depth, Processors: runtime.GOMAXPROCS(0), ProcessorTime: processorTime(),
		Queues: make([]QueueSnapshot, len(r.options.Queues)),
	}
	for i, q := range r.options.Queues {
		s.Queues[i] = QueueSnapshot{Name: q.Name, Capacity: q.Capacity}
		if q.Length != nil {
			s.Queues[i].Length = q.Length()
		}
		s.QueueLength += s.Queues[i].Length
		s.QueueCapacity += q.Capacity
	}
	for i, name := range r.options.Servers {
		s.Servers[i].Name = name
		if r.options.Zones != nil {
			s.Servers[i].Zone = r.options.Zones[i]
		}
		if r.options.Pools != nil {
			s.Servers[i].Pool = r.options.Pools[i]
		}
		if r.options.Health != nil {
			s.Servers[i].Health = r.options.Health(i)
		}
	}
	s.Samples, s.SampledWaiting, s.SampledServing = r.samples.count.Load(), r.samples.waiting.Load(), r.samples.serving.Load()
	var scratch reading
	for _, w := range r.workers {
		w.addTo(s, &scratch)
	}
	s.BusyTime = r.busy.of(s.BusyTime)
	r.addShadows(s) // after the workers, which know their own servers by their indexes
	if r.options.Tap != nil {
		s.Dropped = r.options.Tap.dropped.Load()
	}
	s.Phase, s.Placement = r.options.Phase, r.options.Placement
	s.Routes = r.options.Routes
	for i := range r.options.Gutters {
		s.Gutters = append(s.Gutters, r.options.Gutters[i].snapshot())
	}
	if r.options.Migrations != nil {
		s.Migrations = r.options.Migrations()
	}
	s.Several = r.options.Several != nil && r.options.Several()
	s.MarksUnknown = r.options.MarksUnknown != nil && r.options.MarksUnknown()
	if r.options.Sweep != nil {
		s.Sweep = r.options.Sweep.Snapshot()
	}
	r.net.addTo(s) // after the workers, so that no more is taken than has arrived
	return s
}

// processorTime returns the processor time that the process has used so far, ns.
func processorTime() uint64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return uint64(u.Utime.Nano() + u.Stime.Nano())
}

// Open returns the number of open client connections; s must be cumulative.
func (s *Snapshot) Open() uint64 {
	open := s.Opened
	for _, n := range s.Closed {
		open -= n
	}
	return open
}

// Shed returns the number of requests refused because the queue was full.
func (s *Snapshot) Shed() (n uint64) {
	for c := range s.Requests {
		n += s.Requests[c][ResultShed]
	}
	return n
}

// Hot returns the number of requests that were answered from memory: like those refused they are in no response time.
func (s *Snapshot) Hot() uint64 { return s.Requests[protocol.Get][ResultHot] }

// Waiting returns how many requests wait in the queue; s must be cumulative.
func (s *Snapshot) Waiting() uint64 { return less(s.Arrived, s.Abandoned+s.Taken) }

// Serving returns how many requests are in service; s must be cumulative.
func (s *Snapshot) Serving() uint64 { return less(s.Taken, s.Answered) }

// less returns a - b, or 0 if b, which was read at a slightly different time, is larger.
func less(a, b uint64) uint64 { return a - min(a, b) }

// Total returns the number of answered requests.
func (s *Snapshot) Total() uint64 {
	var total uint64
	for c := range s.Requests {
		for _, n := range s.Requests[c] {
			total += n
		}
	}
	return total
}

// All returns the response times of all classes together.
func (s *Snapshot) All() Histogram {
	var all Histogram
	for c := range s.Response {
		all = all.Plus(&s.Response[c])
	}
	return all
}

// server returns the counts of the server called name; zero if there is none.
func (s *Snapshot) server(name string) *ServerSnapshot {
	for i := range s.Servers {
		if s.Servers[i].Name == name {
			return &s.Servers[i]
		}
	}
	return &ServerSnapshot{}
}

// Sub returns what happened between prev, an earlier snapshot of the same Registry, and s.
func (s *Snapshot) Sub(prev *Snapshot) *Snapshot {
	d := *s
	d.Uptime = s.At - prev.At
	for c := range d.Requests {
		for r := range d.Requests[c] {
			d.Requests[c][r] -= prev.Requests[c][r]
		}
	}
	for c := range d.Response {
		d.Response[c] = s.Response[c].Sub(&prev.Response[c])
	}
	for i := range d.Stages {
		d.Stages[i] = s.Stages[i].Sub(&prev.Stages[i])
	}
	for c := range d.ClassStages {
		for i := range d.ClassStages[c] {
			d.ClassStages[c][i] -= prev.ClassStages[c][i]
		}
	}
	d.Servers = make([]ServerSnapshot, len(s.Servers))
	for i := range d.Servers {
		now := &s.Servers[i]
		before := prev.server(now.Name)
		d.Servers[i] = ServerSnapshot{
			Name: now.Name, Zone: now.Zone, Pool: now.Pool, ShadowOf: now.ShadowOf, Times: now.Times.Sub(&before.Times), Waited: now.Waited - before.Waited, Errors: now.Errors,
			Repairs: now.Repairs - before.Repairs, Health: now.Health,
		}
		for r := range d.Servers[i].Errors {
			d.Servers[i].Errors[r] -= before.Errors[r]
		}
	}
	d.Shadows = s.shadowsSince(prev)
	d.Keys -= prev.Keys
	d.Misses -= prev.Misses
	d.Arrived -= prev.Arrived
	d.Abandoned -= prev.Abandoned
	d.Taken -= prev.Taken
	d.Answered -= prev.Answered
	d.Dropped -= prev.Dropped
	d.Samples -= prev.Samples
	d.SampledWaiting -= prev.SampledWaiting
	d.SampledServing -= prev.SampledServing
	for i := range d.RoundSizes {
		d.RoundSizes[i] -= prev.RoundSizes[i]
	}
	d.Rounds -= prev.Rounds
	d.Gutters = guttersSince(s.Gutters, prev.Gutters)
	d.Agreement.minus(prev.Agreement)
	d.Joined -= prev.Joined
	d.Large.minus(prev.Large)
	d.RoundRequests -= prev.RoundRequests
	d.BusyTime -= prev.BusyTime
	d.FromClients -= prev.FromClients
	d.ToClients -= prev.ToClients
	d.ProcessorTime -= prev.ProcessorTime
	d.Opened -= prev.Opened
	d.Counters = slices.Clone(s.Counters)
	for i := range d.Counters {
		d.Counters[i].Value -= prev.Counter(d.Counters[i].Name)
	}
	for i := range d.Closed {
		d.Closed[i] -= prev.Closed[i]
	}
	return &d
}
