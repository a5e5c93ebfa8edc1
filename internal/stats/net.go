package stats

import (
	"sync/atomic"

	"mcmw/internal/protocol"
)

// arrivalShards is the number of counters over which the connections are spread, so that their readers rarely write to
// the same one.
const arrivalShards = 16

// Net counts client connections, the requests they put on the queue, and the requests that end in the net stage. Its
// methods may be called from any goroutine.
type Net struct {
	Guarded[NetRecord]
	// memory returns the memory used for clients' large requests, and for replies that they have not read, in bytes;
	// nil means 0. Static once set.
	memory func() (requests, replies int64)

	next   atomic.Uint32 // the shard of the next connection
	shards [arrivalShards]Arrivals
}

// NetRecord is what the net stage has counted since the start, without Arrivals.
type NetRecord struct {
	NetCounts
	Counts // of requests that were shed. They have no response time, because their short one would improve the mean
}

// NetCounts are counts of client connections, and of what they sent.
type NetCounts struct {
	Opened        uint64 // client connections
	Closed        [NumCloseReasons]uint64
	Abandoned     uint64 // requests that were put on the queue but that no worker took, because their client was gone
	LoginFailures uint64
	ForeignKeys   uint64 // requests that were refused because their user is bound to other prefixes
	BinaryClients uint64 // connections that were closed because their client uses the binary protocol
}

// Arrivals counts the requests that some connections put on the queue.
type Arrivals struct {
	n                      atomic.Uint64
	hotGet, hotGets        atomic.Uint64
	fromClients, toClients atomic.Uint64
	_                      [cacheLine - 5*8]byte
}

// Hot counts requests get and gets of one key that their reader answered, and the bytes of these requests and of the
// replies. Like shed requests they pass no stage after the net stage, and have no response time.
func (a *Arrivals) Hot(get, gets, fromClients, toClients int) {
	a.hotGet.Add(uint64(get))
	a.hotGets.Add(uint64(gets))
	a.fromClients.Add(uint64(fromClients))
	a.toClients.Add(uint64(toClients))
}

// Add counts requests that are put on the queue now, or wait for room in it.
func (a *Arrivals) Add(requests int) {
	a.n.Add(uint64(requests))
}

// Memory sets the function that returns the memory used for clients' large requests, and for replies that they have not
// read, in bytes. It must be called before the first Snapshot. f is called from any goroutine.
func (n *Net) Memory(f func() (requests, replies int64)) { n.memory = f }

// Opened counts an accepted connection.
func (n *Net) Opened() { n.Change(func(r *NetRecord) { r.Opened++ }) }

// Closed counts a connection that ended; once for each one opened.
func (n *Net) Closed(reason CloseReason) { n.Change(func(r *NetRecord) { r.Closed[reason]++ }) }

func (n *Net) addTo(s *Snapshot) {
	record := n.Load()
	s.NetCounts = record.NetCounts
	add(&s.Counts, &record.Counts)
	if n.memory != nil {
		s.RequestMemory, s.ReplyMemory = n.memory()
	}
	s.Arrived = n.arrived()
	for i := range n.shards {
		a := &n.shards[i]
		get, gets := a.hotGet.Load(), a.hotGets.Load()
		s.Requests[protocol.Get][ResultHot] += get
		s.Requests[protocol.Gets][ResultHot] += gets
		s.Keys += get + gets
		s.FromClients += a.fromClients.Load()
		s.ToClients += a.toClients.Load()
	}
}

// Arrivals returns the counter for one more connection.
func (n *Net) Arrivals() *Arrivals { return &n.shards[n.next.Add(1)%arrivalShards] }

// arrived returns the number of requests put on the queue.
func (n *Net) arrived() (all uint64) {
	for i := range n.shards {
		all += n.shards[i].n.Load()
	}
	return all
}
