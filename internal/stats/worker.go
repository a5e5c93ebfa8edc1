package stats

import (
	"sync/atomic"

	"mcmw/internal/protocol"
)

// cacheLine keeps what one worker writes off the cache lines of another; two lines, because processors fetch pairs.
const cacheLine = 128

// Worker records what one worker does. The worker is its only writer; none of its methods locks, and none allocates
// except for the first time that falls into a part of a histogram that was not used before.
type Worker struct {
	_ [cacheLine]byte

	requests [protocol.NumCommands][NumResults]atomic.Uint64
	response [NumClasses]recorder
	stages   [NumStages]recorder
	servers  []*serverRecorder // replaced by Registry.Change
	keys     atomic.Uint64     // keys asked for by retrievals
	misses   atomic.Uint64     // of them not found

	busy          atomic.Bool
	rounds        atomic.Uint64
	roundRequests atomic.Uint64
	busyTime      atomic.Uint64 // ns
	fromClients   atomic.Uint64 // bytes
	toClients     atomic.Uint64 // bytes

	_ [cacheLine]byte
}

type serverRecorder struct {
	times   recorder
	errors  [NumReasons]atomic.Uint64
	repairs atomic.Uint64
}

// Request records one answered request: how it ended, its response time, and its stages. For a retrieval, keys is how
// many keys were asked for and hits how many of them were found; keys of a retrieval that ended with an error are no
// misses. Other commands' keys are not counted.
func (w *Worker) Request(c protocol.Command, res Result, keys, hits int, t *Times) {
	w.requests[c][res].Add(1)
	w.response[ClassOf(c, keys)].record(t.Response())
	for s := range NumStages {
		w.stages[s].record(t.Of(s))
	}
	if c.IsRetrieval() {
		w.keys.Add(uint64(keys))
		if hits < keys && res < ResultClientError {
			w.misses.Add(uint64(keys - hits))
		}
	}
}

// Server records one server's part of one request, ns: from the write to the server until its reply was read.
// The server is its index in Options.Servers.
func (w *Worker) Server(server int, ns int64) { w.servers[server].times.record(ns) }

// ServerError counts a failure of a server.
func (w *Worker) ServerError(server int, reason Reason) { w.servers[server].errors[reason].Add(1) }

// Repair counts a key that is deleted on a server because it did not have the state that a write was answered with.
func (w *Worker) Repair(server int) { w.servers[server].repairs.Add(1) }

// Begin marks the worker as busy: it has taken requests from the queue.
func (w *Worker) Begin() { w.busy.Store(true) }

// Round marks the worker as idle and records the round that ends: how many requests it served, and when it began and
// ended (Now).
func (w *Worker) Round(requests int, begin, end int64) {
	w.busy.Store(false)
	w.rounds.Add(1)
	w.roundRequests.Add(uint64(requests))
	w.busyTime.Add(uint64(max(end-begin, 0)))
}

// Bytes counts the bytes of requests taken from clients and of replies handed to them.
func (w *Worker) Bytes(fromClients, toClients int) {
	w.fromClients.Add(uint64(fromClients))
	w.toClients.Add(uint64(toClients))
}

func (w *Worker) addTo(s *Snapshot) {
	for c := range w.requests {
		for r := range w.requests[c] {
			s.Requests[c][r] += w.requests[c][r].Load()
		}
	}
	for c := range w.response {
		w.response[c].addTo(&s.Response[c])
	}
	for i := range w.stages {
		w.stages[i].addTo(&s.Stages[i])
	}
	for i := range w.servers {
		w.servers[i].times.addTo(&s.Servers[i].Times)
		s.Servers[i].Repairs += w.servers[i].repairs.Load()
		for r := range w.servers[i].errors {
			s.Servers[i].Errors[r] += w.servers[i].errors[r].Load()
		}
	}
	s.Keys += w.keys.Load()
	s.Misses += w.misses.Load()
	if w.busy.Load() {
		s.WorkersBusy++
	}
	s.Rounds += w.rounds.Load()
	s.RoundRequests += w.roundRequests.Load()
	s.BusyTime += w.busyTime.Load()
	s.FromClients += w.fromClients.Load()
	s.ToClients += w.toClients.Load()
}
