// Package explore runs clients' commands through several workers against models of memcached, in every order in which
// their messages can be sent, served and received, with a bounded number of faults. It reaches states that no test with
// real servers reaches, because it controls time. Test use only.
//
//	worker 0 --- queue of requests ---> server 0        an event: a worker starts its next command; a server serves the first request
//	         <-- queue of replies -----                 of a connection; a worker receives the first reply of a connection; a fault
//	worker 1 --- ...
//
// A state consists of the servers' items, the messages in flight, the progress of each worker, and the answers to the
// clients, in the order as far as clients can know it. A state is explored only once.
package explore

import (
	"bufio"
	"fmt"
	"hash/maphash"
	"io"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"mcmw/internal/mctest/model"
	"mcmw/internal/mctest/strict"
)

// Driver is the code under test: a worker that serves one command at a time. It has no clock and no sockets, and is
// deterministic.
type Driver interface {
	// Locks returns the keys that no other worker of the middleware may hold when command starts, and whether the
	// driver then holds them until it is no longer busy.
	Locks(command string) (keys []string, holds bool)
	// Start starts a command.
	Start(command string)
	// Reply passes one reply of a server to the driver.
	Reply(server int, reply string)
	// Lost says that the connection to a server broke: pending requests to it will not be answered.
	Lost(server int)
	// Out returns the bytes to write to a server, and forgets them.
	Out(server int) string
	// Answer returns the answer to the client, once it is known.
	Answer() (answer string, ok bool)
	// Busy reports whether the command is not finished yet, which may be after its answer.
	Busy() bool
	// AppendState appends a text that is equal for two drivers exactly if they behave equally from now on.
	AppendState(dst []byte) []byte
}

// Worker is one worker of a middleware with the commands of its clients, which it serves one after the other.
type Worker struct {
	Middleware int
	Driver     Driver
	Commands   []string
	// Silent says that its commands are not a client's, and not in the history.
	Silent bool

	current string // the command being served
	running bool
	said    bool // the client has the answer
	dead    bool
	conns   []conn
}

// Running reports whether the driver is busy with a command.
func (w *Worker) Running() bool { return w.running }

// Ended reports whether the worker is dead or has served all its commands, and no request of a broken connection can be
// served any more.
func (w *Worker) Ended() bool {
	return !w.running && len(w.Commands) == 0 && !w.Late()
}

// Late reports whether a request of a broken connection of the worker can still be served.
func (w *Worker) Late() bool {
	return slices.ContainsFunc(w.conns, func(c conn) bool { return c.broken && len(c.requests) > 0 })
}

// conn is a worker's connection to a server.
type conn struct {
	requests []strict.Request
	replies  []string
	broken   bool // requests may still be served, but nobody receives the replies
}

// Operation is a command as its client sees it.
type Operation struct {
	Worker  int
	Command string
	// Answer is empty if the client got none because the middleware died.
	Answer string
	// Began and Ended number the starts and ends of all operations of a history in their order; Ended is 0 without an
	// answer.
	Began, Ended int
}

// Linear reports whether a history is linearizable: whether its operations can have been served one after the other,
// each between its start and its end, beginning with state. serve returns the state after an operation, and whether the
// operation's answer is possible in state.
func Linear[State any](history []Operation, state State, serve func(o Operation, state State) (State, bool)) bool {
	for i, o := range history {
		if slices.ContainsFunc(history, func(p Operation) bool { return p.Ended != 0 && p.Ended < o.Began }) {
			continue
		}
		after, ok := serve(o, state)
		if ok && Linear(slices.Delete(slices.Clone(history), i, i+1), after, serve) {
			return true
		}
	}
	return len(history) == 0
}

// Faults are the maximum numbers of faults in one history.
type Faults struct {
	// In an eviction a server drops Key.
	Evictions int
	Key       string
	// In a break a connection breaks; the server may or may not serve the pending requests.
	Breaks int
	// In a death a middleware ends with all its connections.
	Deaths int
}

// World is the system to explore. The caller sets all exported fields.
type World struct {
	Servers []*model.Server
	Workers []*Worker
	Faults  Faults
	// May reports whether worker i may start its next command now, if locks allow it; nil: always.
	May func(w *World, i int) bool

	history []Operation
	moment  int
	// known caches parsed requests, for all worlds of an exploration.
	known map[string][]strict.Request
}

// History returns the operations in the order of their starts.
func (w *World) History() []Operation { return w.history }

// Result describes an exploration.
type Result struct {
	States int // the number of different states
	Ends   int // the number of states in which nothing is in flight
	// Cut says that there are more states, which UpTo has not seen.
	Cut bool
}

// event is something that can happen next.
type event struct {
	kind           kind
	worker, server int
}

type kind uint8

const (
	start   kind = iota // a worker starts its next command
	serve               // a server serves a worker's first request
	receive             // a worker receives a server's first reply
	drop                // the pending requests of a broken connection are never served
	evict
	breaks
	die // a middleware
)

func (e event) String() string {
	return fmt.Sprintf("%s worker=%d server=%d",
		[...]string{"start", "serve", "receive", "drop", "evict", "break", "die"}[e.kind], e.worker, e.server)
}

// Failure is a history that violates a check.
type Failure struct {
	Err error
	// Events are the events that led to it, one per line.
	Events []string
}

func (f *Failure) Error() string { return f.Err.Error() + "\n" + strings.Join(f.Events, "\n") }

// Checks judge states; the first error ends the exploration. Either may be nil.
type Checks struct {
	Always func(w *World) error // in every state
	AtEnd  func(w *World) error // in states in which nothing is in flight
}

// All explores every history of the world that build returns; build must always return an equal world. All also fails
// if there are more than limit states.
func All(build func() *World, limit int, checks Checks) (Result, *Failure) {
	result, failure := UpTo(build, limit, checks)
	if result.Cut && failure == nil {
		failure = build().failure(fmt.Errorf("there are more than %d states", limit), nil)
	}
	return result, failure
}

// UpTo is All, but ends when it has seen limit states, in depth-first order.
func UpTo(build func() *World, limit int, checks Checks) (Result, *Failure) {
	// collecting garbage would take two thirds of the time, and little memory is live
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	x := explorer{
		build: build, limit: limit, checks: checks, seen: map[uint64]struct{}{}, seed: maphash.MakeSeed(),
		known: map[string][]strict.Request{},
	}
	failure := x.from(x.again(nil), nil)
	return x.result, failure
}

type explorer struct {
	build  func() *World
	checks Checks
	limit  int
	seen   map[uint64]struct{}
	seed   maphash.Seed
	known  map[string][]strict.Request
	result Result
}

// from explores w, the world after path, and everything that can follow.
func (x *explorer) from(w *World, path []event) *Failure {
	sum := maphash.Bytes(x.seed, w.appendState(nil))
	if _, ok := x.seen[sum]; ok {
		return nil
	}
	if x.result.States == x.limit {
		x.result.Cut = true
		return nil
	}
	x.seen[sum] = struct{}{}
	x.result.States++
	next := w.events()
	if !slices.ContainsFunc(next, func(e event) bool { return e.kind < evict }) {
		x.result.Ends++
		if err := w.finished(); err != nil {
			return w.failure(err, path)
		}
		if err := judge(x.checks.AtEnd, w); err != nil {
			return w.failure(err, path)
		}
	}
	if err := judge(x.checks.Always, w); err != nil {
		return w.failure(err, path)
	}
	for i, e := range next {
		if x.result.Cut {
			return nil
		}
		// A world can't be copied, because drivers can't: for all events but the first it is built again.
		if i > 0 {
			w = x.again(path)
		}
		w.apply(e)
		if f := x.from(w, append(path[:len(path):len(path)], e)); f != nil {
			return f
		}
	}
	return nil
}

// again builds the world after path.
func (x *explorer) again(path []event) *World {
	w := x.build()
	w.known = x.known
	for _, worker := range w.Workers {
		worker.conns = make([]conn, len(w.Servers))
	}
	for _, e := range path {
		w.apply(e)
	}
	return w
}

func judge(check func(w *World) error, w *World) error {
	if check == nil {
		return nil
	}
	return check(w)
}

// finished returns an error if a command has not ended although its middleware lives.
func (w *World) finished() error {
	for i, worker := range w.Workers {
		if !worker.dead && (worker.running || len(worker.Commands) > 0) {
			return fmt.Errorf("worker %d never ends %q", i, worker.current)
		}
	}
	return nil
}

// events returns the events that can happen next.
func (w *World) events() (list []event) {
	for i, worker := range w.Workers {
		if !worker.dead && !worker.running && len(worker.Commands) > 0 && w.mayLock(worker) &&
			(w.May == nil || w.May(w, i)) {
			list = append(list, event{start, i, 0})
		}
		for s := range worker.conns {
			c := &worker.conns[s]
			if len(c.requests) > 0 {
				list = append(list, event{serve, i, s})
				if c.broken {
					list = append(list, event{drop, i, s})
				}
			}
			if len(c.replies) > 0 {
				list = append(list, event{receive, i, s})
			}
			if w.Faults.Breaks > 0 && !c.broken && !worker.dead && worker.running {
				list = append(list, event{breaks, i, s})
			}
		}
		if w.Faults.Deaths > 0 && !worker.dead && worker.running {
			list = append(list, event{die, i, 0})
		}
	}
	for s, server := range w.Servers {
		if _, ok := server.Get(w.Faults.Key); ok && w.Faults.Evictions > 0 {
			list = append(list, event{evict, 0, s})
		}
	}
	return list
}

// mayLock reports whether no other worker of its middleware holds a key that worker's next command locks.
func (w *World) mayLock(worker *Worker) bool {
	needs, _ := worker.Driver.Locks(worker.Commands[0])
	return !w.held(worker, needs)
}

// Locked reports whether another worker of its middleware holds a key of worker's current command.
func (w *World) Locked(worker *Worker) bool {
	keys, _ := worker.Driver.Locks(worker.current)
	return w.held(worker, keys)
}

// held reports whether another worker of worker's middleware holds one of the keys.
func (w *World) held(worker *Worker, keys []string) bool {
	for _, other := range w.Workers {
		if other == worker || other.Middleware != worker.Middleware || !other.running {
			continue
		}
		held, holds := other.Driver.Locks(other.current)
		if holds && slices.ContainsFunc(held, func(key string) bool { return slices.Contains(keys, key) }) {
			return true
		}
	}
	return false
}

func (w *World) apply(e event) {
	worker := w.Workers[e.worker]
	switch e.kind {
	case start:
		worker.current, worker.Commands = worker.Commands[0], worker.Commands[1:]
		worker.running, worker.said = true, false
		if !worker.Silent {
			w.moment++
			w.history = append(w.history, Operation{Worker: e.worker, Command: worker.current, Began: w.moment})
		}
		worker.Driver.Start(worker.current)
		w.moved(e.worker)
	case serve:
		c := &worker.conns[e.server]
		reply := w.Servers[e.server].Do(&c.requests[0])
		c.requests = c.requests[1:]
		if reply != "" && !c.broken {
			c.replies = append(c.replies, reply)
		}
	case receive:
		c := &worker.conns[e.server]
		reply := c.replies[0]
		c.replies = c.replies[1:]
		worker.Driver.Reply(e.server, reply)
		w.moved(e.worker)
	case drop:
		worker.conns[e.server].requests = nil
	case evict:
		w.Faults.Evictions--
		w.Servers[e.server].Evict(w.Faults.Key)
	case breaks:
		w.Faults.Breaks--
		c := &worker.conns[e.server]
		c.broken, c.replies = true, nil
		worker.Driver.Lost(e.server)
		w.moved(e.worker)
	case die:
		w.Faults.Deaths--
		for _, other := range w.Workers {
			if other.Middleware != worker.Middleware {
				continue
			}
			other.dead, other.running, other.Commands = true, false, nil
			for s := range other.conns {
				other.conns[s].broken, other.conns[s].replies = true, nil
			}
		}
	}
}

// read parses the requests that a driver wrote.
func (w *World) read(out string) (list []strict.Request) {
	if list, ok := w.known[out]; ok {
		return list
	}
	defer func() { w.known[out] = list }()
	r := bufio.NewReader(strings.NewReader(out))
	for {
		q, err := strict.Read(r)
		if err == io.EOF {
			return list
		}
		if err != nil {
			panic(fmt.Sprintf("%q was sent to a server: %v", out, err))
		}
		list = append(list, q)
	}
}

// moved collects the requests and the answer of worker i after an event.
func (w *World) moved(i int) {
	worker := w.Workers[i]
	for s := range worker.conns {
		out := worker.Driver.Out(s)
		if out == "" {
			continue
		}
		if worker.conns[s].broken {
			// After the break the server can't be reached.
			worker.Driver.Lost(s)
			w.moved(i)
			return
		}
		worker.conns[s].requests = append(worker.conns[s].requests, w.read(out)...)
	}
	if answer, ok := worker.Driver.Answer(); ok && !worker.said && !worker.Silent {
		worker.said = true
		w.moment++
		for h := len(w.history) - 1; h >= 0; h-- {
			if w.history[h].Worker == i {
				w.history[h].Answer, w.history[h].Ended = answer, w.moment
				break
			}
		}
	}
	worker.running = worker.Driver.Busy()
}

// appendState appends a text that is equal for worlds with the same future, and with the same past as seen by clients.
func (w *World) appendState(dst []byte) []byte {
	for _, s := range w.Servers {
		dst = append(s.AppendState(dst), '\n')
	}
	for _, worker := range w.Workers {
		dst = fmt.Appendf(dst, "%t %t %t %d ", worker.dead, worker.running, worker.said, len(worker.Commands))
		dst = append(worker.Driver.AppendState(dst), '\n')
		for _, c := range worker.conns {
			for _, q := range c.requests {
				dst = append(append(append(append(dst, q.Line...), 0), q.Data...), 0)
			}
			for _, reply := range c.replies {
				dst = append(append(dst, reply...), 1)
			}
			dst = append(strconv.AppendBool(dst, c.broken), '\n')
		}
	}
	dst = fmt.Appendf(dst, "%v", w.Faults)
	// Operations are in the order of their starts. Clients can know only which of them started after the end of
	// another.
	for i, o := range w.history {
		dst = fmt.Appendf(dst, "\n%d %q %t", o.Worker, o.Answer, o.Ended > 0)
		for _, earlier := range w.history[:i] {
			dst = strconv.AppendBool(dst, earlier.Ended > 0 && earlier.Ended < o.Began)
		}
	}
	return dst
}

func (w *World) failure(err error, path []event) *Failure {
	f := &Failure{Err: err}
	for _, e := range path {
		f.Events = append(f.Events, e.String())
	}
	for s, server := range w.Servers {
		f.Events = append(f.Events, fmt.Sprintf("server %d holds %s", s, server.AppendState(nil)))
	}
	for _, o := range w.history {
		f.Events = append(f.Events, fmt.Sprintf("worker %d, %d to %d: %q -> %q", o.Worker, o.Began, o.Ended, o.Command,
			o.Answer))
	}
	return f
}
