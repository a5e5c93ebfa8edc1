package stats

import (
	"sync/atomic"

	"mcmw/internal/hotkeys"
	"mcmw/internal/protocol"
)

// cacheLine is the padding, in bytes, between memory that different workers write: two cache lines, because processors
// fetch pairs of them.
const cacheLine = 128

// Worker records the work of one worker, which is its only writer. None of its methods locks, and none allocates,
// except for the first time in an unused page of a histogram.
type Worker struct {
	_ [cacheLine]byte

	number int // static after construction

	// Replaced by Registry.Change.
	tap     *Tap // nil: there is no request log
	servers []*serverRecorder

	// Owned by the worker: the entries that will be written to the journal next, and the number of entries written.
	pending                 answered
	pendingServer           serverEntry // 0: none
	newRequests, newServers int
	unflushed               uint64 // requests counted by Count since the last Flush
	unsampled               int    // requests since the last one sampled for the request log
	hot                     hotkeys.Sampler

	// Atomic: written only by the worker, read by Snapshot.
	clock         clock
	taken         atomic.Uint64 // requests taken from the queue
	answered      atomic.Uint64 // of these, requests that were answered
	roundRequests atomic.Uint64
	fromClients   atomic.Uint64                // bytes
	toClients     atomic.Uint64                // bytes
	roundSizes    [NumRoundSizes]atomic.Uint64 // rounds
	joined        atomic.Uint64
	counted       [NumCounted]atomic.Uint64
	large         struct{ stored, read, incomplete atomic.Uint64 }
	agreement     struct{ checks, disagreements, cuts atomic.Uint64 }
	journal       journal

	// Atomic, too: counted from the journal.
	requests  [protocol.NumCommands][NumResults]atomic.Uint64
	response  [NumClasses]recorder
	stages    [NumStages]recorder
	stageSums [NumClasses][NumStages]atomic.Uint64 // ns
	keys      atomic.Uint64                        // keys requested by retrievals
	misses    atomic.Uint64                        // of these, keys that were not found

	_ [cacheLine]byte
}

type serverRecorder struct {
	times   recorder
	sum     atomic.Uint64 // ns
	waited  atomic.Uint64 // ns
	errors  [NumReasons]atomic.Uint64
	repairs atomic.Uint64
}

// Request records one answered request: its result, its response time, and its stages. For a retrieval, keys is the
// number of requested keys and hits the number of those that were found. Keys of a retrieval that ended with an error
// do not count as misses. Keys of other commands are not counted.
func (w *Worker) Request(c protocol.Command, res Result, keys, hits int, t *Times) {
	w.Count(c, res, keys, hits, t)
	w.Flush()
}

// Count is Request for one of several requests that are answered together. The request becomes visible with Flush.
// wanted reports that the request must be logged.
func (w *Worker) Count(c protocol.Command, res Result, keys, hits int, t *Times) (wanted bool) {
	if !recording {
		return false
	}
	a := answered{n: 1, command: c, result: res, class: ClassOf(c, keys), stages: [NumStages]int64{
		max(t.Of(StageNet), 0), max(t.Of(StageQueue), 0), max(t.Of(StageWorker), 0), max(t.Of(StageServer), 0),
		max(t.Of(StageReply), 0),
	}}
	if c.IsRetrieval() {
		a.keys = uint64(keys)
		if hits < keys && res < ResultClientError {
			a.misses = uint64(keys - hits)
		}
	}
	if w.pending.n == 0 || !w.pending.join(&a) {
		w.writeRequests()
		w.pending = a
	}
	w.unflushed++
	return w.tap != nil && w.tap.wants(w, t)
}

// Keys counts the n keys of a request, which are separated by blanks, for the search for hot keys. now is the time, as
// Now.
func (w *Worker) Keys(keys []byte, n int, now int64) {
	if recording {
		w.hot.Saw(keys, n, now)
	}
}

// Flush makes the records of Count, Server and Waited visible.
func (w *Worker) Flush() {
	if !recording {
		return
	}
	w.writeRequests()
	w.journal.numRequests.Store(uint32(w.newRequests))
	w.answered.Add(w.unflushed)
	w.unflushed = 0
	w.flushServers()
}

func (w *Worker) flushServers() {
	w.writeServer()
	w.journal.numServers.Store(uint32(w.newServers))
}

// writeRequests writes the pending requests to the journal.
func (w *Worker) writeRequests() {
	switch a := &w.pending; {
	case a.n == 0:
		return
	case !a.fits():
		w.journal.version.Add(1)
		w.count(a)
		w.journal.version.Add(1)
	default:
		if w.newRequests == journalRoom || (w.newRequests >= journalRequests && w.journal.readers.Load() == 0) {
			w.settle()
		}
		w.journal.requests[w.newRequests].store(a)
		w.newRequests++
	}
	w.pending.n = 0
}

// writeServer writes the pending server times to the journal.
func (w *Worker) writeServer() {
	if w.pendingServer == 0 {
		return
	}
	if w.newServers == journalServers {
		w.settle()
	}
	w.journal.servers[w.newServers].Store(uint64(w.pendingServer))
	w.newServers++
	w.pendingServer = 0
}

// settle adds the journal's entries to the counters and empties it.
func (w *Worker) settle() {
	j := &w.journal
	j.version.Add(1)
	w.settleRequests(j.requests[:w.newRequests])
	for i := range w.newServers {
		e := serverEntry(j.servers[i].Load())
		s := w.servers[e.server()]
		if e.waited() {
			s.waited.Add(uint64(e.ns()))
			continue
		}
		s.times.count(e.ns(), e.n())
		s.times.squares.add(square(e.ns(), e.n()))
		s.sum.Add(uint64(e.ns()) * e.n())
	}
	w.newRequests, w.newServers = 0, 0
	j.numRequests.Store(0)
	j.numServers.Store(0)
	j.version.Add(1)
}

// Server records a server's part of one request, in ns: from the write to the server until its reply was read. server
// is an index in Options.Servers. The record becomes visible with Flush or Round.
func (w *Worker) Server(server int, ns int64) {
	if !recording {
		return
	}
	e := newServerEntry(server, ns)
	if w.pendingServer.joins(e) && w.pendingServer.n() < maxServerTimes {
		w.pendingServer += oneServerTime
		return
	}
	w.writeServer()
	w.pendingServer = e
}

// Waited records that the worker was blocked for ns while it waited for a server's reply. The record becomes visible
// with Flush or Round.
func (w *Worker) Waited(server int, ns int64) {
	if !recording {
		return
	}
	w.writeServer()
	w.pendingServer = newServerEntry(server, ns) | serverWaited
}

// ServerError counts a failure of a server.
func (w *Worker) ServerError(server int, reason Reason) { w.servers[server].errors[reason].Add(1) }

// Repair counts a key that is deleted on a server because its state differed from the answer to a write.
func (w *Worker) Repair(server int) { w.servers[server].repairs.Add(1) }

// Agreed counts the results of checks.
func (w *Worker) Agreed(a *Agreement) {
	if *a == (Agreement{}) {
		return
	}
	w.agreement.checks.Add(a.Checks)
	w.agreement.disagreements.Add(a.Disagreements)
	w.agreement.cuts.Add(a.Cuts)
}

// SplitValues counts values that are stored in chunks.
func (w *Worker) SplitValues(l *Large) {
	if *l == (Large{}) {
		return
	}
	w.large.stored.Add(l.Stored)
	w.large.read.Add(l.Read)
	w.large.incomplete.Add(l.Incomplete)
}

// Joined counts gets that were answered with the reply to an equal one.
func (w *Worker) Joined(requests uint64) {
	if recording && requests > 0 {
		w.joined.Add(requests)
	}
}

// Begin marks the worker as busy from now on: it has taken a batch from the queue. now is the time, as Now.
func (w *Worker) Begin(now int64) {
	if recording {
		w.clock.begin(now)
	}
}

// Take counts requests that leave the queue. They are in service until Flush after their Count.
func (w *Worker) Take(requests int) {
	if recording {
		w.taken.Add(uint64(requests))
	}
}

// Round marks the worker as idle from now on and records the round that ends. requests is the number of requests that
// it served; a round without requests only checked replicas. now is the time, as Now.
func (w *Worker) Round(requests int, now int64) {
	if !recording {
		return
	}
	w.flushServers()
	w.clock.end(now)
	if requests == 0 {
		return
	}
	w.roundSizes[roundSizeOf(requests)].Add(1)
	w.roundRequests.Add(uint64(requests))
}

// Bytes counts the bytes of requests taken from clients and of replies handed to them.
func (w *Worker) Bytes(fromClients, toClients int) {
	if !recording {
		return
	}
	w.fromClients.Add(uint64(fromClients))
	w.toClients.Add(uint64(toClients))
}
