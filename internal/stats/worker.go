package stats

import (
	"sync"
	"sync/atomic"

	"mcmw/internal/hotkeys"
	"mcmw/internal/protocol"
)

// cacheLine is the padding, in bytes, between memory that different workers write: two cache lines, because processors
// fetch pairs of them.
const cacheLine = 128

// Worker records the work of one worker, which alone calls its methods. They allocate only for the first time in an
// unused page of a histogram, and wait only while a Snapshot reads this Worker.
type Worker struct {
	_ [cacheLine]byte

	number int // static after construction

	// Replaced by Registry.Change, while no worker runs.
	tap *Tap // nil: there is no request log

	// Owned by the worker.
	pending   pending
	unsampled int // requests since the last one sampled for the request log
	sampler   hotkeys.Sampler

	// Atomic: written only by the worker.
	clock    clock
	taken    atomic.Uint64 // requests taken from the queue
	answered atomic.Uint64 // of these, requests that were answered

	// mu guards record. The worker holds it while it adds what is pending, a Snapshot while it reads record. So each
	// request is in all counts of a Snapshot or in none.
	mu     sync.Mutex
	record counted

	_ [cacheLine]byte
}

// counted is what a worker has counted since the start.
type counted struct {
	Counts
	response [NumClasses]Histogram
	stages   [NumStages]Histogram // without run
	run      run
	servers  []serverRecord // replaced by Registry.Change
}

// run is a number of requests, one after the other, that spent the same times, in ns, in the two stages whose times
// most requests of a round share.
type run struct {
	worker, server int64
	n              uint64
}

type serverRecord struct {
	ServerCounts
	times Histogram
}

// pending is what a worker has recorded since its last Flush.
type pending struct {
	requests               answered // the last ones, whose fields are equal
	servers                []serverTime
	fromClients, toClients uint64 // bytes
}

// answered is n requests with equal fields.
type answered struct {
	n            uint64 // 0: none
	command      protocol.Command
	result       Result
	class        Class
	stages       [NumStages]int64 // ns
	keys, misses uint64           // of all n; only those of retrievals are counted
}

// serverTime is a time spent on a server, n times: the duration of a call, or the time that the worker was blocked by
// the server.
type serverTime struct {
	server int
	ns     int64
	n      uint64 // 0: the worker was blocked
}

// Request records one answered request: its result, its response time, and its stages. For a retrieval, keys is the
// number of requested keys and hits the number of those that were found. Keys of a retrieval that ended with an error
// do not count as misses. Keys of other commands are not counted.
func (w *Worker) Request(c protocol.Command, res Result, keys, hits int, t *Times) {
	w.Count(c, res, keys, hits, t)
	w.Flush()
}

// Count is Request for one of several requests that are answered together. The request becomes visible with Flush at
// the latest. wanted reports that the request must be logged.
func (w *Worker) Count(c protocol.Command, res Result, keys, hits int, t *Times) (wanted bool) {
	net, queue, worker := max(t.Enqueued-t.Created, 0), max(t.Dequeued-t.Enqueued, 0), max(t.Sent-t.Dequeued, 0)
	server, reply := max(t.Received-t.Sent, 0), max(t.Replied-t.Received, 0)
	class := ClassOf(c, keys)
	a := &w.pending.requests
	if s := &a.stages; s[0] != net || s[1] != queue || s[2] != worker || s[3] != server || s[4] != reply ||
		a.command != c || a.result != res || a.class != class {
		if a.n > 0 {
			w.Flush()
		}
		s[0], s[1], s[2], s[3], s[4] = net, queue, worker, server, reply
		a.command, a.result, a.class = c, res, class
	}
	a.n++
	if c.IsRetrieval() {
		a.keys += uint64(keys)
		if hits < keys && res < ResultClientError {
			a.misses += uint64(keys - hits)
		}
	}
	return w.tap != nil && w.tap.wants(w, t)
}

// Server records a server's part of one request, in ns: from the write to the server until its reply was read. server
// is an index in Options.Servers. The record becomes visible with Flush or Round.
func (w *Worker) Server(server int, ns int64) {
	all := w.pending.servers
	switch last := len(all) - 1; {
	case last >= 0 && all[last].server == server && all[last].ns == ns && all[last].n > 0:
		all[last].n++
	default:
		w.pending.servers = append(all, serverTime{server, ns, 1})
	}
}

// Waited records that the worker was blocked for ns while it waited for a server's reply. The record becomes visible
// with Flush or Round.
func (w *Worker) Waited(server int, ns int64) {
	w.pending.servers = append(w.pending.servers, serverTime{server, ns, 0})
}

// Bytes counts the bytes of requests taken from clients and of replies handed to them. They become visible with Flush
// or Round.
func (w *Worker) Bytes(fromClients, toClients int) {
	w.pending.fromClients += uint64(fromClients)
	w.pending.toClients += uint64(toClients)
}

// Flush makes the records of Count, Server, Waited and Bytes visible.
func (w *Worker) Flush() {
	w.mu.Lock()
	w.settle()
	w.mu.Unlock()
}

// settle adds what is pending to the record. The caller holds mu.
func (w *Worker) settle() {
	r, p := &w.record, &w.pending
	if a := &p.requests; a.n > 0 {
		w.answered.Add(a.n)
		r.Requests[a.command][a.result] += a.n
		r.Keys += a.keys
		r.Misses += a.misses
		t, sums := &a.stages, &r.ClassStages[a.class]
		sums[0] += uint64(t[0]) * a.n
		sums[1] += uint64(t[1]) * a.n
		sums[2] += uint64(t[2]) * a.n
		sums[3] += uint64(t[3]) * a.n
		sums[4] += uint64(t[4]) * a.n
		r.response[a.class].record(t[0]+t[1]+t[2]+t[3]+t[4], a.n)
		r.stages[StageNet].record(t[StageNet], a.n)
		r.stages[StageQueue].record(t[StageQueue], a.n)
		r.stages[StageReply].record(t[StageReply], a.n)
		if t[StageWorker] != r.run.worker || t[StageServer] != r.run.server {
			r.endRun()
			r.run = run{worker: t[StageWorker], server: t[StageServer]}
		}
		r.run.n += a.n
		a.n, a.keys, a.misses = 0, 0, 0
	}
	for _, t := range p.servers {
		if s := &r.servers[t.server]; t.n > 0 {
			s.times.record(t.ns, t.n)
		} else {
			s.Waited += uint64(max(t.ns, 0))
		}
	}
	r.FromClients += p.fromClients
	r.ToClients += p.toClients
	p.servers, p.fromClients, p.toClients = p.servers[:0], 0, 0
}

// endRun adds the run to the stages.
func (r *counted) endRun() {
	if r.run.n > 0 {
		r.stages[StageWorker].record(r.run.worker, r.run.n)
		r.stages[StageServer].record(r.run.server, r.run.n)
		r.run = run{}
	}
}

// Planned adds what the planner has counted in a round.
func (w *Worker) Planned(p *Planned) {
	if *p != (Planned{}) {
		w.Add(func(c *Counts) { add(&c.Planned, p) })
	}
}

// Add lets change add to the worker's counts.
func (w *Worker) Add(change func(c *Counts)) {
	w.mu.Lock()
	change(&w.record.Counts)
	w.mu.Unlock()
}

// Counted counts n of what.
func (w *Worker) Counted(what Counted, n int) {
	if n > 0 {
		w.Add(func(c *Counts) { c.Counted[what] += uint64(n) })
	}
}

// addServer lets change add to the counts of a server.
func (w *Worker) addServer(server int, change func(c *ServerCounts)) {
	w.mu.Lock()
	change(&w.record.servers[server].ServerCounts)
	w.mu.Unlock()
}

// ServerError counts a failure of a server.
func (w *Worker) ServerError(server int, reason Reason) {
	w.addServer(server, func(c *ServerCounts) { c.Errors[reason]++ })
}

// Repair counts a key that is deleted on a server because its state differed from the answer to a write.
func (w *Worker) Repair(server int) { w.addServer(server, func(c *ServerCounts) { c.Repairs++ }) }

// Skips reports whether none of the next n keys is in the worker's sample. Otherwise Sampled must follow.
func (w *Worker) Skips(n int) bool { return w.sampler.Skips(n) }

// Sampled returns those of n keys, which are separated by blanks, that are in the worker's sample, and counts them for
// the search for hot keys. now is the time, as Now. They are valid until the next Sampled.
func (w *Worker) Sampled(keys []byte, n int, now int64) [][]byte { return w.sampler.Take(keys, n, now) }

// Begin marks the worker as busy from now on: it has taken a batch from the queue. now is the time, as Now.
func (w *Worker) Begin(now int64) {
	w.clock.begin(now)
}

// Take counts requests that leave the queue. They are in service until Flush after their Count.
func (w *Worker) Take(requests int) {
	w.taken.Add(uint64(requests))
}

// Round marks the worker as idle from now on and records the round that ends. requests is the number of requests that
// it served; a round without requests only checked replicas. now is the time, as Now.
func (w *Worker) Round(requests int, now int64) {
	w.clock.end(now)
	w.mu.Lock()
	w.settle()
	if requests > 0 {
		w.record.Rounds++
		w.record.RoundSizes[roundSizeOf(requests)]++
		w.record.RoundRequests += uint64(requests)
	}
	w.mu.Unlock()
}

// addTo adds the record of w to s.
func (w *Worker) addTo(s *Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &w.record
	r.endRun()
	add(&s.Counts, &r.Counts)
	for i := range r.response {
		s.Response[i].add(&r.response[i])
	}
	for i := range r.stages {
		s.Stages[i].add(&r.stages[i])
	}
	for i := range r.servers {
		add(&s.Servers[i].ServerCounts, &r.servers[i].ServerCounts)
		s.Servers[i].Times.add(&r.servers[i].times)
	}
	s.Taken += w.taken.Load()
	s.Answered += w.answered.Load()
	busyTime, busy := w.clock.read()
	s.BusyTime += busyTime
	if busy {
		s.WorkersBusy++
	}
}
