// Package plan decides what is sent to which server for a request, what follows from the replies, and what the client
// is answered. It has no socket, clock or lock: a worker sends its calls and passes it each reply, or the fact that no
// reply comes. It plans in rounds; the requests of a round that come from one client are a part.
//
// A request takes a course of steps (steps, in step.go). A step ends when each of its calls has a reply, or will have
// none. These are the courses, by their first step; the other steps are in brackets.
//
//	direct    ask one server or all ------------------------------------------------------------------> answer
//	asking    ask a server that answers --> ask another one if it fails [asking] --> .. --------------> answer
//	reading   ask a server for each key --> ask other servers for what failed [retrying] --> .. ------> answer
//	writing   send to all servers of the key --> delete the key where the reply differs [deleting] ---> answer
//	deciding  send to the key's first server --> copy to the others [copying] --> [deleting] ---------> answer
//	               '--> refused, or no reply ---------------------------------------------------------> answer
//	removing  delete the key everywhere: its new value was refused, or two servers might decide ------> answer
//
// Each course is in a file, from its first step to its last: direct.go, read.go and warmup.go, write.go, deciding.go;
// of values in chunks, large.go and largeread.go.
//
// A gat reads each key on its first server; the same step touches the other copies. Package replica decides which
// replies differ, and which of them the client gets.
//
// With Pool.Versions every stored item gets a version as its cas, and the first server decides every write that depends
// on the present item. With Pool.Several other mcmw instances write the same servers: then a check follows each write
// that several servers stored:
//
//	writing   set: store it on all ---------------------------------------------> answer --> check
//	deciding  ask the first server --> copy to the others [copying] ------------> answer --> check
//	               |'--> refused, or no reply ----------------------------------> answer
//	               '--> (append, incr: and fetch the item) it has a cas of the server's own --> give it a version [stamping] --> copy ..
package plan

import (
	"slices"

	"mcmw/internal/large"
	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/request"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// Options configure a planner. All fields are required, unless their comments say otherwise.
type Options struct {
	Router *route.Router
	// Names are the servers' names, in the router's order.
	Names []string
	// Stripe returns the key-lock stripe of a key. Locked reports whether another worker of this mcmw holds the stripe.
	Stripe func(key []byte) uint32
	Locked func(stripe uint32) bool
	// Home is the server that reads go to if it can answer them; -1: no particular server.
	Home int
	// Pools are the options of the router's pools, by number.
	Pools []Pool
	// Sharded and GetErrorMiss are set by the operator; see worker.RequestOptions.
	Sharded      bool
	GetErrorMiss bool
	// MaxValue is the size of the largest value that a server's reply may contain, bytes.
	MaxValue int
	// Join lets equal gets of a round share one call.
	Join bool
	// Today returns the time of day, seconds since 1970, for exptimes that are dates. It is required if a pool has a
	// gutter or large values.
	Today func() int64
	// Version returns the version that server s last told; "": none is known. nil: no version is known.
	Version func(s int) string
	// Versions gives out versions for the pools whose servers other mcmw instances write, too; nil if there is no such
	// pool.
	Versions *Versions
	// LargeVersion returns a new version for each value that is stored in chunks. It is required if a pool has large
	// values.
	LargeVersion func() large.Version
	// Hold decides whether there is memory for a value of n bytes that requests[i] is about to fetch, and reserves it;
	// nil: there always is.
	Hold func(i int32, n int) bool
}

// Pool has the options of a pool's writes.
type Pool struct {
	// Ack says how many replicas must have given an answer before the client gets it.
	Ack replica.Ack
	// Versions: every item that is stored gets a version as its cas. The servers must support that.
	Versions bool
	// Several: other mcmw instances write the same servers. It requires Versions, and has an effect only where a key
	// has several servers.
	Several bool
	// Agreed: all instances must let the same server decide what depends on an item; see elect.go.
	Agreed bool
	Policy
}

// Policy is what an operator can choose about the requests of a pool.
type Policy struct {
	// Holds: what stores on a condition does not bring back a key that has a tombstone; see hold.go.
	Holds bool
	// Large says how large values may be.
	Large Large
}

// Server is what is known about a server.
type Server struct {
	// Readable: it is up and has missed no write. Stale: it answers, but may hold keys whose latest write it missed.
	// Recovers: it is stale, and may be readable soon.
	Readable, Stale, Recovers bool
	// Suspect: it has owed a reply for longer than usual.
	Suspect bool
	// Marked: all who read it know that it missed writes, so that a write may be answered without it.
	Marked bool
	// Away: no mcmw instance reads the server, and all know that. Open: its pool's gutter may hold keys of it. Both
	// matter only if the pool has a gutter, and Away implies Open.
	Away, Open bool
	// The server's role, if its pool is agreed: it decides what depends on an item, or other servers do in its place.
	// RoleDue: the role may be known soon. Turn changes when a role ends. A request that was created before Since, ns
	// as stats.Now, fails.
	Decides, Replaced, RoleDue bool
	Turn                       uint32
	Since                      int64
	// Load is the work that waits for the server, ns; for least-busy reads.
	Load int64
}

// Planner plans requests, one round after another. It belongs to one goroutine. Requests and calls are identified by
// their indexes, which are valid until Reset. Slices keep their memory from round to round.
type Planner struct {
	// Servers has the state of each server. The caller keeps it up to date.
	Servers []Server
	// Requests and Calls are those of the round. Plan, PlanChecks and Next append to Calls.
	Requests []Request
	Calls    []Call
	// Planned is counted up; the caller may reset it to zero.
	stats.Planned
	// Warming counts, by pool, the keys that were looked up in the pool that is warmed up from it. Lacking are the keys
	// that the warmed-up pool does not hold: they are to be copied. The caller may reset Warming to zero and empty
	// Lacking.
	Warming []stats.Warming
	Lacking []Lacking
	// Diverted counts, by pool, the requests that went to the pool's gutter; the caller may reset it to zero.
	Diverted []stats.Diverted

	options Options
	layout
	turn int // number of choices of servers for reads so far, to spread them
	checking
	part     part
	joins    joins
	lines    []byte // protocol lines that were written here and not by a client
	arrivals int32  // number of replies, and of calls that got none, so far
	extras
	scratch
}

// layout is what the options say about pools and servers.
type layout struct {
	reads   *route.Router // routes reads; options.Router unless reads have routes of their own
	strips  bool          // servers of some pool know keys without a prefix
	common  *route.Group  // of requests without a key, or with several
	all     []int         // every server
	pools   [][]int       // by pool: its servers
	fills   []bool        // by server: it is being warmed up
	warmsUp bool          // some server is
	large   bool          // some pool has large values
	holds   bool          // some pool has Pool.Holds
	refuses bool          // some route refuses requests
}

// part is what the requests of a round that come from one client share.
type part struct {
	number int32
	choice choice    // the servers to which its reads go
	read   stripeSet // the keys that they read
}

// extras are the extras of the round's requests.
type extras struct {
	writes   stock[writeExtra]
	readings stock[readExtra]
	splits   stock[split]
	renames  stock[stripped]
}

// scratch is memory for results that last until the function that asked for them ends. place are the servers of a key.
// Of these, holders store the key, emptied delete it, and readers are read; decides is who decides.
type scratch struct {
	place     []route.Holder
	other     []route.Holder
	decides   route.Decider
	holders   []int
	electors  []int
	readers   []int
	emptied   []int
	readable  []int
	states    route.States
	failed    []bool
	stripes   []uint32
	changed   stripeSet
	answers   []replica.Answer
	answered  []int32 // the calls whose answers are in answers
	decisions []int
	stored    []int32 // the servers that a check compares
}

// New returns a planner. turn is where it starts to spread its reads over the servers.
func New(o Options, turn int) *Planner {
	p := &Planner{
		Servers: make([]Server, len(o.Names)), options: o, turn: turn,
		Diverted: make([]stats.Diverted, len(o.Pools)), Warming: make([]stats.Warming, len(o.Pools)),
		layout: layout{
			reads: o.Router.ForReads(), common: o.Router.Common(), strips: o.Router.Strips(),
			refuses: o.Router.Refuses(),
		},
		checking: checking{inspections: make([]inspection, len(o.Names))},
		scratch:  scratch{failed: make([]bool, len(o.Names))},
	}
	for s := range o.Names {
		p.all, p.fills = append(p.all, s), append(p.fills, o.Router.WarmsUpServer(s))
	}
	p.warmsUp = slices.Contains(p.fills, true)
	for i, in := range o.Router.Pools() {
		p.pools = append(p.pools, p.all[in.Base():][:len(in.Servers())])
		p.holds = p.holds || o.Pools[i].Holds
		p.large = p.large || o.Pools[i].Large.Limit > 0
	}
	p.states = func(s int) (away, open bool) { return p.Servers[s].Away, p.Servers[s].Open }
	p.joins.start()
	return p
}

// Reset ends the round: the planner lets go of everything that it was given. It keeps the checks that have not ended.
func (p *Planner) Reset() {
	p.judgeChecks()
	clear(p.Requests)
	clear(p.Calls)
	p.extras.reset()
	p.Requests, p.Calls = p.Requests[:0], p.Calls[:0]
	p.lines = p.lines[:0]
	p.arrivals, p.part.number = 0, 0
	p.joins.start()
}

// Part says that the requests that follow come from another client than the previous ones.
func (p *Planner) Part() {
	p.part.choice = choice{}
	p.part.read.clear()
	p.part.number++
}

// Add adds a request to the round.
func (p *Planner) Add(r *request.Request) (i int32) {
	start := len(p.lines)
	key := r.Key(p.lines)
	if r.Has(protocol.Encoded) {
		p.lines, key = key, key[start:]
	}
	i = int32(len(p.Requests))
	p.Requests = extend(p.Requests)
	added := &p.Requests[i]
	added.Request, added.number, added.key, added.join = r, i, key, join{leader: -1, next: -1}
	if r.Has(protocol.Conditional) {
		added.state = decided
	}
	added.in = p.common
	switch {
	case r.NumKeys == 1:
		in, stored := p.routerOf(added).At(key)
		if len(stored) < len(key) {
			p.strip(added, stored)
		}
		p.enter(added, in)
		if p.large {
			p.admitLarge(added)
		}
	case p.strips:
		p.stripAll(added)
	}
	if p.refuses {
		p.refuse(added)
	}
	return i
}

// routerOf returns the router that routes r.
func (p *Planner) routerOf(r *Request) *route.Router {
	if p.reads != p.options.Router && r.IsRead() {
		return p.reads
	}
	return p.options.Router
}

// PoolOf returns the number of the pool to which r goes for key. key is as clients have it.
func (p *Planner) PoolOf(r *protocol.Request, key []byte) int {
	if r.IsRead() {
		return p.reads.In(key).Number()
	}
	return p.options.Router.In(key).Number()
}

// enter makes in the pool of r's only key.
func (p *Planner) enter(r *Request, in *route.Group) {
	r.in = in
	r.set(versioned, p.versioned(in))
	if r.is(versioned) && r.Answer == "" {
		p.addVersioned(r)
	}
	r.set(guarded, p.holds && p.options.Pools[in.Number()].Holds && r.StoresIf() && r.Answer == "")
}

// extend returns s with one more element: the one behind s in its memory, or a zero one if there is no room. Appending
// one would copy it.
func extend[E any](s []E) []E {
	if len(s) == cap(s) {
		return append(s, *new(E))
	}
	return s[:len(s)+1]
}

// DropLast removes the request that was added last and has not been planned.
func (p *Planner) DropLast() {
	last := len(p.Requests) - 1
	p.Requests[last] = Request{}
	p.Requests = p.Requests[:last]
}

// CallsOf returns the calls of the request's present step, or those of the request that it has joined.
func (p *Planner) CallsOf(i int32) []Call {
	r := p.answering(&p.Requests[i])
	return p.Calls[r.first:r.last]
}

// Stored reports whether requests[i], which has ended, is a set that all servers of its key have stored, including
// those that reads of the key ask.
func (p *Planner) Stored(i int32) bool {
	r := &p.Requests[i]
	if !r.IsSet() || r.first == r.last || r.split != nil || p.reads != p.options.Router && p.reads.In(r.ClientKey()) !=
		p.options.Router.In(r.ClientKey()) {
		return false
	}
	for n := r.first; n < r.last; n++ {
		if c := &p.Calls[n]; c.kind != protocol.ReplyStored && c.kind != protocol.ReplyMetaDone {
			return false
		}
	}
	return true
}

// Repairs returns the servers on which the next step deletes the key of a write, because their answer differs from the
// client's; none if the next step deletes nothing.
func (p *Planner) Repairs(i int32) []int32 {
	if w := p.Requests[i].write; w != nil {
		return w.repairs
	}
	return nil
}

// RepairAll makes the next step of a write with Repairs delete its key on all its servers: later writes of the key were
// sent already, and deleting it on one server could remove such a write there alone.
func (p *Planner) RepairAll(i int32) {
	r := &p.Requests[i]
	p.findHolders(r)
	r.write.repairs = r.write.repairs[:0]
	for _, s := range p.holders {
		r.write.repairs = append(r.write.repairs, int32(s))
	}
}
