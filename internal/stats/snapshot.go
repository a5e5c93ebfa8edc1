package stats

import "mcmw/internal/protocol"

// Snapshot is the sum of all recorders at one moment: cumulative since the start, or, from Sub, what happened in a
// window. Recording goes on while it is taken, so that counts of requests on their way may differ by those few.
type Snapshot struct {
	At     int64 // when it was taken (Now)
	Uptime int64 // ns: since the start of the Registry; in a window its length

	Requests [protocol.NumCommands][NumResults]uint64
	Response [NumClasses]Histogram
	Stages   [NumStages]Histogram
	Servers  []ServerSnapshot
	Keys     uint64 // keys asked for by retrievals
	Misses   uint64 // of them not found

	Rounds        uint64 // rounds of the workers
	RoundRequests uint64 // requests served in them
	BusyTime      uint64 // ns, sum over the workers
	FromClients   uint64 // bytes
	ToClients     uint64 // bytes

	Opened uint64 // client connections
	Closed [NumCloseReasons]uint64
	// LoginsFailed counts the wrong names and passwords that clients gave.
	LoginsFailed uint64

	// Gauges: the values at the moment At, in a window those of its end.
	Workers       int
	WorkersBusy   int
	QueueLength   int // bursts, in all queues
	QueueCapacity int // bursts, of all queues
	Queues        []QueueSnapshot
	RequestMemory int64 // bytes: what clients' large requests take
	ReplyMemory   int64 // bytes: what replies take that clients have not read
}

// QueueSnapshot is the state of one queue at the moment of a Snapshot.
type QueueSnapshot struct {
	Name     string
	Length   int // bursts
	Capacity int // bursts
}

// ServerSnapshot is one server's share of a Snapshot.
type ServerSnapshot struct {
	Name   string
	Times  Histogram // one server's part of one request: from the write until its reply was read
	Errors [NumReasons]uint64
	// Repairs counts the keys deleted here because the server did not have the state that a write was answered with.
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
		Workers: r.options.Workers,
		Queues:  make([]QueueSnapshot, len(r.options.Queues)),
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
		if r.options.Health != nil {
			s.Servers[i].Health = r.options.Health(i)
		}
	}
	for _, w := range r.workers {
		w.addTo(s)
	}
	r.net.addTo(s)
	return s
}

// Open returns how many client connections are open at the moment of a cumulative snapshot.
func (s *Snapshot) Open() uint64 {
	open := s.Opened
	for _, n := range s.Closed {
		open -= n
	}
	return open
}

// Shed returns the number of requests that the queue had no room for.
func (s *Snapshot) Shed() (n uint64) {
	for c := range s.Requests {
		n += s.Requests[c][ResultShed]
	}
	return n
}

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
	d.Servers = make([]ServerSnapshot, len(s.Servers))
	for i := range d.Servers {
		now := &s.Servers[i]
		before := prev.server(now.Name)
		d.Servers[i] = ServerSnapshot{
			Name: now.Name, Times: now.Times.Sub(&before.Times), Errors: now.Errors, Repairs: now.Repairs - before.Repairs, Health: now.Health,
		}
		for r := range d.Servers[i].Errors {
			d.Servers[i].Errors[r] -= before.Errors[r]
		}
	}
	d.Keys -= prev.Keys
	d.Misses -= prev.Misses
	d.Rounds -= prev.Rounds
	d.RoundRequests -= prev.RoundRequests
	d.BusyTime -= prev.BusyTime
	d.FromClients -= prev.FromClients
	d.ToClients -= prev.ToClients
	d.Opened -= prev.Opened
	d.LoginsFailed -= prev.LoginsFailed
	for i := range d.Closed {
		d.Closed[i] -= prev.Closed[i]
	}
	return &d
}
