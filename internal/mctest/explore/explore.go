// Package explore runs clients' commands through several workers against models of memcached in every order in which their messages can
// be sent, served and received, with a bounded number of faults. It finds what no test with real servers reaches, because it controls
// time. Test use only.
//
//	worker 0 --- queue of requests ---> server 0        an event: a worker takes its next command; a server serves the first request
//	         <-- queue of replies -----                 of a connection; a worker receives the first reply of a connection; a fault
//	worker 1 --- ...
//
// A state is what the servers hold, what is under way, how far each worker is, and what the clients were told, in which order as far as
// they can know it. States that were seen are not explored again.
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

// Driver is the code under test: a worker that serves one command at a time. It has neither clock nor sockets, and does the same
// whenever it is told the same.
type Driver interface {
	// Locks returns the keys that no other worker of the middleware may hold when command begins, and whether it holds them until the
	// driver is no longer busy.
	Locks(command string) (keys []string, holds bool)
	// Start takes a command.
	Start(command string)
	// Reply hands over one reply of a server.
	Reply(server int, reply string)
	// Lost says that the connection to a server broke: nothing that was asked of it will be answered.
	Lost(server int)
	// Out returns what is to be written to a server, and forgets it.
	Out(server int) string
	// Answer returns what the client is told, once that is known.
	Answer() (answer string, ok bool)
	// Busy reports whether something is still to be done, also behind the answer.
	Busy() bool
	// AppendState appends a text that is the same for two drivers exactly if they do the same from now on.
	AppendState(dst []byte) []byte
}

// Worker is one worker of a middleware with the commands that its clients send, one after the other.
type Worker struct {
	Middleware int
	Driver     Driver
	Commands   []string
	// Silent: its commands are no client's, and in no history.
	Silent bool

	current string // the command being served
	running bool
	said    bool // the client has its answer
	dead    bool
	conns   []conn
}

// Running reports whether a command is being served, or what follows its answer is being done.
func (w *Worker) Running() bool { return w.running }

// conn is a worker's connection to a server.
type conn struct {
	requests []strict.Request
	replies  []string
	broken   bool // what is in requests may still be served, and nobody gets the reply
}

// Operation is a command as its client saw it.
type Operation struct {
	Worker  int
	Command string
	// Answer is empty if the client has none: its middleware died.
	Answer string
	// Began and Ended order the beginnings and ends of all operations of a history; Ended is 0 without an answer.
	Began, Ended int
}

// Linear reports whether the operations of a history can have been served one after the other, each between its beginning and its end,
// from state on. serve returns the state behind an operation, and whether it can be answered in state as it was.
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

// Faults bounds how many of each kind there are in one history.
type Faults struct {
	// Evictions: a server drops Key.
	Evictions int
	Key       string
	// Breaks: a connection breaks, and what the server has not served yet it may still serve, or never.
	Breaks int
	// Deaths: a middleware ends, with all its connections.
	Deaths int
}

// World is what is explored. All fields are set by who makes it.
type World struct {
	Servers []*model.Server
	Workers []*Worker
	Faults  Faults
	// May says whether worker i may take its next command now, besides what locks say; nil: always.
	May func(w *World, i int) bool

	history []Operation
	moment  int
	// known holds what was read before, for all worlds of an exploration.
	known map[string][]strict.Request
}

// History returns the operations in the order they began.
func (w *World) History() []Operation { return w.history }

// Result tells what was explored.
type Result struct {
	States int // different ones
	Ends   int // of them those where nothing is under way
	// Cut: there are more states, which UpTo has not seen.
	Cut bool
}

// event is something that can happen next.
type event struct {
	kind           kind
	worker, server int
}

type kind uint8

const (
	start   kind = iota // a worker takes its next command
	serve               // a server serves a worker's first request
	receive             // a worker receives a server's first reply
	drop                // what a broken connection still held is never served
	evict
	breaks
	die // a middleware
)

func (e event) String() string {
	return fmt.Sprintf("%s worker=%d server=%d", [...]string{"start", "serve", "receive", "drop", "evict", "break", "die"}[e.kind], e.worker, e.server)
}

// Failure is a history that ends as it must not.
type Failure struct {
	Err error
	// Events tell how it came, a line each.
	Events []string
}

func (f *Failure) Error() string { return f.Err.Error() + "\n" + strings.Join(f.Events, "\n") }

// Checks judge states; the first error ends the exploration. Either may be nil.
type Checks struct {
	Always func(w *World) error // of every state
	AtEnd  func(w *World) error // of those where nothing is under way
}

// All explores every history of the world that build makes, which must always be the same one. It fails as well if there are more than
// limit states.
func All(build func() *World, limit int, checks Checks) (Result, *Failure) {
	result, failure := UpTo(build, limit, checks)
	if result.Cut && failure == nil {
		failure = build().failure(fmt.Errorf("there are more than %d states", limit), nil)
	}
	return result, failure
}

// UpTo is All, but ends when it has seen limit states: those that depth comes to first.
func UpTo(build func() *World, limit int, checks Checks) (Result, *Failure) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // little is kept of what it allocates: it takes two thirds of the time
	x := explorer{build: build, limit: limit, checks: checks, seen: map[uint64]struct{}{}, seed: maphash.MakeSeed(), known: map[string][]strict.Request{}}
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

// from explores w, which path led to, and what can follow on it.
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
		// A world can't be copied, as drivers can't: all but the first event begin anew.
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

// again returns the world that path leads to.
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

// finished returns an error if a command was not answered though its middleware lives.
func (w *World) finished() error {
	for i, worker := range w.Workers {
		if !worker.dead && (worker.running || len(worker.Commands) > 0) {
			return fmt.Errorf("worker %d never ends %q", i, worker.current)
		}
	}
	return nil
}

// events returns what can happen next.
func (w *World) events() (list []event) {
	for i, worker := range w.Workers {
		if !worker.dead && !worker.running && len(worker.Commands) > 0 && w.mayLock(worker) && (w.May == nil || w.May(w, i)) {
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

// mayLock reports whether no other worker of its middleware holds what worker's next command needs.
func (w *World) mayLock(worker *Worker) bool {
	needs, _ := worker.Driver.Locks(worker.Commands[0])
	return !w.held(worker, needs)
}

// Locked reports whether another worker of its middleware holds a key of worker's command.
func (w *World) Locked(worker *Worker) bool {
	keys, _ := worker.Driver.Locks(worker.current)
	return w.held(worker, keys)
}

// held reports whether another worker of its middleware than worker holds one of the keys.
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

// read reads what a driver wrote.
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

// moved takes from worker i what it wants to have sent, and its answer.
func (w *World) moved(i int) {
	worker := w.Workers[i]
	for s := range worker.conns {
		out := worker.Driver.Out(s)
		if out == "" {
			continue
		}
		if worker.conns[s].broken {
			// What follows a break goes to a server that can't be reached.
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

// appendState appends a text that is the same for worlds that have the same future, and the same past as clients saw it.
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
	// Operations are in the order in which they began; which of them began behind an end is what clients can know.
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
		f.Events = append(f.Events, fmt.Sprintf("worker %d, %d to %d: %q -> %q", o.Worker, o.Began, o.Ended, o.Command, o.Answer))
	}
	return f
}
