package stats

import (
	"sync/atomic"

	"mcmw/internal/protocol"
)

// journal holds the latest records of a worker, in order. A request changes some thirty counters, which are far apart
// in memory and have left the processor's caches by the next request. Therefore the worker writes one entry per
// request, and adds all entries to the counters when the journal is full. A reader of the counters reads the journal,
// too.
type journal struct {
	requests [journalRoom]entry
	servers  [journalServers]atomic.Uint64 // see serverEntry
	// numRequests and numServers are the numbers of valid entries. Entries after them are being written.
	numRequests, numServers atomic.Uint32
	// version is odd while entries are added to the counters. It is incremented before and after.
	version atomic.Uint64
	// readers is the number of readers. While there are any, the journal is emptied only if it has no room left.
	readers atomic.Int32
}

const (
	// journalRequests is the number of entries after which the journal is emptied. With 32 bytes each they take a small
	// part of a processor's first-level cache. An entry stands for several equal requests: the requests of a batch
	// share most of their times.
	journalRequests = 64
	// journalRoom is the capacity of the journal, with room for the entries that come while it is read.
	journalRoom = 4 * journalRequests
	// journalServers is the capacity for server times, with room for several calls per request.
	journalServers = 3 * journalRoom
)

// entry is n requests with equal fields:
//
//	0  net   << 32 | queue      stages, ns
//	1  worker << 32 | server
//	2  reply << 32 | n << 22 | command << 16 | result << 8 | class
//	3  keys  << 32 | misses      of all of them
type entry [4]atomic.Uint64

// maxEntryTime is the maximum time of a stage that an entry can hold, in ns: 4.3 s.
const maxEntryTime = int64(1<<32 - 1)

const (
	// maxEntryKeys is the maximum number of keys that an entry can hold.
	maxEntryKeys = 1<<32 - 1
	// maxEntryRequests is the maximum number of requests that an entry can hold.
	maxEntryRequests = 1<<10 - 1
)

// The commands fit in six bits.
var _ [1<<6 - protocol.NumCommands]struct{}

// answered is n requests with equal fields, as an entry holds them.
type answered struct {
	n       uint64 // 0: none
	command protocol.Command
	result  Result
	class   Class
	stages  [NumStages]int64 // ns
	keys    uint64           // of all requests; only those of retrievals are counted
	misses  uint64
}

// join adds the requests of b to those of a, if their fields are equal and one entry can hold all of them. It reports
// whether it did.
func (a *answered) join(b *answered) bool {
	if a.stages != b.stages || a.command != b.command || a.result != b.result || a.class != b.class ||
		a.n+b.n > maxEntryRequests || a.keys+b.keys > maxEntryKeys {
		return false
	}
	a.n += b.n
	a.keys += b.keys
	a.misses += b.misses
	return true
}

// response returns the response time in ns.
func (a *answered) response() int64 {
	s := &a.stages
	return s[0] + s[1] + s[2] + s[3] + s[4]
}

// fits reports whether an entry can hold a.
func (a *answered) fits() bool {
	s := &a.stages
	return s[0]|s[1]|s[2]|s[3]|s[4] <= maxEntryTime && a.keys <= maxEntryKeys // all bits of maxEntryTime are set
}

func (e *entry) store(a *answered) {
	e[0].Store(uint64(a.stages[StageNet])<<32 | uint64(a.stages[StageQueue]))
	e[1].Store(uint64(a.stages[StageWorker])<<32 | uint64(a.stages[StageServer]))
	e[2].Store(uint64(a.stages[StageReply])<<32 | a.n<<22 | uint64(a.command)<<16 | uint64(a.result)<<8 |
		uint64(a.class))
	e[3].Store(a.keys<<32 | a.misses)
}

func (e *entry) load() (a answered) {
	const low = 1<<32 - 1
	times, more, kind, keys := e[0].Load(), e[1].Load(), e[2].Load(), e[3].Load()
	a.stages = [NumStages]int64{
		int64(times >> 32), int64(times & low), int64(more >> 32), int64(more & low),
		int64(kind >> 32),
	}
	a.n = kind >> 22 & maxEntryRequests
	a.command, a.result, a.class = protocol.Command(kind>>16&(1<<6-1)), Result(kind>>8), Class(kind)
	a.keys, a.misses = keys>>32, keys&low
	return a
}

// serverEntry is a time spent on a server, n times: the duration of a call, or the time that the worker was blocked by
// the server.
//
//	waited << 63 | server << 53 | n << 43 | ns
type serverEntry uint64

const (
	// maxServerTime is the maximum time that an entry can hold, in ns: two hours.
	maxServerTime = int64(1<<43 - 1)
	// maxServerTimes is the maximum number of times that an entry can hold.
	maxServerTimes = 1<<10 - 1
	// oneServerTime is n = 1 in an entry.
	oneServerTime = serverEntry(1 << 43)
	serverWaited  = serverEntry(1 << 63)
)

func newServerEntry(server int, ns int64) serverEntry {
	return serverEntry(server)<<53 | oneServerTime | serverEntry(min(max(ns, 0), maxServerTime))
}

func (e serverEntry) server() int  { return int(e >> 53 & (1<<10 - 1)) }
func (e serverEntry) n() uint64    { return uint64(e >> 43 & maxServerTimes) }
func (e serverEntry) ns() int64    { return int64(e) & maxServerTime }
func (e serverEntry) waited() bool { return e&serverWaited != 0 }

// joins reports whether e and o differ at most in n, so that one entry can stand for both.
func (e serverEntry) joins(o serverEntry) bool { return (e^o)&^(maxServerTimes<<43) == 0 }
