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
	opened      atomic.Uint64
	closed      [NumCloseReasons]atomic.Uint64
	shed        [protocol.NumCommands]atomic.Uint64
	fromClients atomic.Uint64 // bytes of shed requests
	toClients   atomic.Uint64 // bytes of the replies to them
	// memory returns the memory used for clients' large requests, and for replies that they have not read, in bytes;
	// nil means 0. Static once set.
	memory func() (requests, replies int64)

	counters  counters
	abandoned atomic.Uint64
	next      atomic.Uint32 // the shard of the next connection
	shards    [arrivalShards]Arrivals
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
func (n *Net) Opened() { n.opened.Add(1) }

// Closed counts a connection that ended; once for each one opened.
func (n *Net) Closed(reason CloseReason) { n.closed[reason].Add(1) }

// Counter returns the counter of the metric mcmw_NAME, and creates it at the first call. A stage must create its
// counters when it is created itself: later ones are not exported.
func (n *Net) Counter(name, help string) *Counter { return n.counters.counter(name, help) }

// Shed counts a request that was answered without being queued. It has no response time, because its short one would
// improve the mean.
func (n *Net) Shed(c protocol.Command) { n.shed[c].Add(1) }

// Bytes counts the bytes of requests that were shed, and of their replies.
func (n *Net) Bytes(fromClients, toClients int) {
	n.fromClients.Add(uint64(fromClients))
	n.toClients.Add(uint64(toClients))
}

func (n *Net) addTo(s *Snapshot) {
	for i := range n.closed { // closed is read before opened, so that Open is never negative
		s.Closed[i] = n.closed[i].Load()
	}
	s.Opened = n.opened.Load()
	s.Counters = n.counters.values()
	for c := range n.shed {
		s.Requests[c][ResultShed] += n.shed[c].Load()
	}
	if n.memory != nil {
		s.RequestMemory, s.ReplyMemory = n.memory()
	}
	s.FromClients += n.fromClients.Load()
	s.ToClients += n.toClients.Load()
	s.Arrived, s.Abandoned = n.arrived()
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

// Abandoned counts requests that arrived but that no worker will take, because their client is gone.
func (n *Net) Abandoned(requests int) { n.abandoned.Add(uint64(requests)) }

// arrived returns the number of requests put on the queue, and the number of those that no worker will take.
func (n *Net) arrived() (all, abandoned uint64) {
	abandoned = n.abandoned.Load()
	for i := range n.shards {
		all += n.shards[i].n.Load()
	}
	return all, abandoned
}
