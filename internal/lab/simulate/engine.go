package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// maxTokens bounds the memory of a system that grows without end.
const maxTokens = 5_000_000

// token is a customer on its path, or what goes one way of a fork for it.
type token struct {
	pc      int // instruction it is at
	class   int
	started float64 // when its pass began
	arrived float64 // at the station or pool it is at
	work    float64 // service that it needs yet, at a station with rates
	fork    int     // of which it goes one way; -1: it is the customer itself
	taken   int     // batch of a pool it is in
}

// forked is a fork under way.
type forked struct {
	token       int32 // that waits for the ways
	needed, out int   // ways to be through before it goes on; ways not yet through
}

// batch is what a worker of a pool took at a time.
type batch struct {
	tokens []int32
	out    int // not yet through
}

// stationState is a station at a moment.
type stationState struct {
	waiting      line
	present      int
	busy         int
	version      uint32  // of the event that counts, at a station with rates
	speed, since float64 // at which, and since when, the one in service is served, at a station with rates
	serving      int32
	tally        tally
}

// poolState is a pool at a moment.
type poolState struct {
	waiting line
	busy    int
	present int
	tally   tally
}

// engine is a simulation under way.
type engine struct {
	system   *System
	code     []instruction
	starts   []int
	random   *rand.Rand
	now      float64
	events   calendar
	ready    line // tokens to move on
	tokens   []token
	free     []int32
	forks    []forked
	noFork   []int
	batches  []batch
	noBatch  []int
	stations []stationState
	pools    []poolState
	passes   []passes // by class
	done     int      // passes in all
	count    int      // events in all
	problem  error
}

func newEngine(s *System, seed uint64) (*engine, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	p, starts, err := compileAll(s)
	if err != nil {
		return nil, err
	}
	e := &engine{
		system: s, code: p.code, starts: starts, random: rand.New(rand.NewPCG(seed, 0x6d636d77)),
		stations: make([]stationState, len(s.Stations)), pools: make([]poolState, len(s.Pools)), passes: make([]passes, len(s.Classes)),
	}
	for class := range s.Classes {
		e.passes[class].times = newTimes()
		if a := s.Classes[class].Arrivals; a != nil {
			e.events.push(event{time: a.Draw(e.random), token: int32(class), station: arriving})
		}
		for range s.Classes[class].Customers {
			e.think(e.create(token{class: class, fork: -1}))
		}
	}
	return e, nil
}

// create returns a new token.
func (e *engine) create(t token) int32 {
	if n := len(e.free); n > 0 {
		id := e.free[n-1]
		e.free = e.free[:n-1]
		e.tokens[id] = t
		return id
	}
	if len(e.tokens) >= maxTokens {
		e.problem = fmt.Errorf("there are %d customers in the system: expected arrivals that it can serve", maxTokens)
	}
	e.tokens = append(e.tokens, t)
	return int32(len(e.tokens) - 1)
}

// think lets a customer think, then begin a pass.
func (e *engine) think(id int32) {
	t := &e.tokens[id]
	t.pc = e.starts[t.class]
	var pause float64
	if d := e.system.Classes[t.class].Think; d != nil {
		pause = d.Draw(e.random)
	}
	e.events.push(event{time: e.now + pause, token: id, station: thinking})
}

// until runs events until so many passes were made in all.
func (e *engine) until(ctx context.Context, passes int) error {
	for e.done < passes {
		if len(e.events) == 0 {
			return errors.New("nothing happens any more: expected customers that can go on")
		}
		next := e.events.pop()
		e.now = next.time
		e.handle(next)
		for e.ready.count > 0 {
			e.move(e.ready.pop())
		}
		if e.problem != nil {
			return e.problem
		}
		const often = 1 << 16
		if e.count++; e.count%often == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

func (e *engine) handle(next event) {
	switch next.station {
	case arriving:
		class := int(next.token)
		e.ready.push(e.create(token{class: class, pc: e.starts[class], started: e.now, fork: -1}))
		e.events.push(event{time: e.now + e.system.Classes[class].Arrivals.Draw(e.random), token: next.token, station: arriving})
	case thinking:
		e.tokens[next.token].started = e.now
		e.ready.push(next.token)
	default:
		if e.system.Stations[next.station].Rates == nil || next.version == e.stations[next.station].version {
			e.served(int(next.station), next.token)
		}
	}
}

// move lets a token do its instructions until it waits for something or ends.
func (e *engine) move(id int32) {
	for {
		t := &e.tokens[id]
		i := &e.code[t.pc]
		switch i.op {
		case opVisit:
			e.arrive(i, id)
			return
		case opJump:
			t.pc = i.to[0]
		case opChoose:
			t.pc = i.pick(e.random.Float64())
		case opTurn:
			t.pc = i.to[i.next]
			i.next = (i.next + 1) % len(i.to)
		case opFork:
			e.fork(i, id)
			return
		case opJoin:
			e.join(id)
			return
		case opEnter:
			e.enter(i.n, id)
			return
		case opLeave:
			e.leave(i.n, id)
			return
		default:
			e.end(id)
			return
		}
	}
}

// arrive lets a token come to a station.
func (e *engine) arrive(i *instruction, id int32) {
	s, d := &e.stations[i.n], &e.system.Stations[i.n]
	if d.Room > 0 && s.present >= d.Room {
		e.lose(i.n, id)
		return
	}
	s.tally.step(e.now, s.present, s.busy)
	s.present++
	t := &e.tokens[id]
	t.arrived = e.now
	switch {
	case d.Rates != nil:
		t.work = i.service.Draw(e.random)
		if s.busy == 0 {
			s.busy, s.serving, s.since = 1, id, e.now
		} else {
			s.waiting.push(id)
		}
		e.change(i.n)
	case d.Servers == 0 || s.busy < d.Servers:
		s.busy++
		e.events.push(event{time: e.now + i.service.Draw(e.random), token: id, station: int32(i.n)})
	default:
		s.waiting.push(id)
	}
}

// change makes the event of a station with rates that of its present speed.
func (e *engine) change(n int) {
	s, rates := &e.stations[n], e.system.Stations[n].Rates
	t := &e.tokens[s.serving]
	t.work = math.Max(0, t.work-(e.now-s.since)*s.speed)
	s.since, s.speed = e.now, rates[min(s.present, len(rates))-1]
	s.version++
	e.events.push(event{time: e.now + t.work/s.speed, token: s.serving, station: int32(n), version: s.version})
}

// served lets a token leave a station, and the next be served.
func (e *engine) served(n int, id int32) {
	s := &e.stations[n]
	s.tally.step(e.now, s.present, s.busy)
	s.tally.left(e.now - e.tokens[id].arrived)
	s.present--
	s.busy--
	if s.waiting.count > 0 {
		next := s.waiting.pop()
		s.busy++
		if e.system.Stations[n].Rates != nil {
			s.serving, s.since = next, e.now
			e.change(n)
		} else {
			service := e.code[e.tokens[next].pc].service
			e.events.push(event{time: e.now + service.Draw(e.random), token: next, station: int32(n)})
		}
	}
	e.tokens[id].pc++
	e.ready.push(id)
}

// lose ends a token that found a station full. What was lost on one way of a fork, or by a worker, is through.
func (e *engine) lose(n int, id int32) {
	e.stations[n].tally.lost++
	t := &e.tokens[id]
	if t.fork < 0 && e.system.Classes[t.class].Arrivals != nil && t.taken == 0 {
		e.free = append(e.free, id)
		return
	}
	t.pc++
	e.ready.push(id)
}

// fork sends tokens all ways.
func (e *engine) fork(i *instruction, id int32) {
	f := forked{token: id, needed: i.n, out: len(i.to)}
	place := len(e.forks)
	if n := len(e.noFork); n > 0 {
		place = e.noFork[n-1]
		e.noFork = e.noFork[:n-1]
		e.forks[place] = f
	} else {
		e.forks = append(e.forks, f)
	}
	class := e.tokens[id].class
	e.tokens[id].pc = i.after
	for _, to := range i.to {
		e.ready.push(e.create(token{class: class, pc: to, fork: place}))
	}
}

// join ends a token at the end of its way of a fork.
func (e *engine) join(id int32) {
	place := e.tokens[id].fork
	f := &e.forks[place]
	e.free = append(e.free, id)
	f.out--
	if f.needed--; f.needed == 0 {
		e.ready.push(f.token)
	}
	if f.out == 0 {
		e.noFork = append(e.noFork, place)
	}
}

// enter lets a token wait for a worker.
func (e *engine) enter(n int, id int32) {
	p := &e.pools[n]
	p.tally.step(e.now, p.present, p.busy)
	p.present++
	e.tokens[id].arrived = e.now
	p.waiting.push(id)
	if p.busy < e.system.Pools[n].Workers {
		p.busy++
		e.take(n)
	}
}

// take lets a free worker take what waits, up to the pool's depth.
func (e *engine) take(n int) {
	p := &e.pools[n]
	place := len(e.batches)
	if k := len(e.noBatch); k > 0 {
		place = e.noBatch[k-1]
		e.noBatch = e.noBatch[:k-1]
	} else {
		e.batches = append(e.batches, batch{})
	}
	b := &e.batches[place]
	b.tokens, b.out = b.tokens[:0], 0
	for b.out < e.system.Pools[n].Depth && p.waiting.count > 0 {
		id := p.waiting.pop()
		b.tokens = append(b.tokens, id)
		b.out++
		e.tokens[id].taken = place + 1
		e.tokens[id].pc++
		e.ready.push(id)
	}
}

// leave lets a token be through with what its worker does for it; the last one of the batch lets all go on.
func (e *engine) leave(n int, id int32) {
	place := e.tokens[id].taken - 1
	b := &e.batches[place]
	if b.out--; b.out > 0 {
		return
	}
	p := &e.pools[n]
	p.tally.step(e.now, p.present, p.busy)
	for _, id := range b.tokens {
		t := &e.tokens[id]
		p.tally.left(e.now - t.arrived)
		p.present--
		t.taken = 0
		t.pc++
		e.ready.push(id)
	}
	e.noBatch = append(e.noBatch, place)
	if p.waiting.count > 0 {
		e.take(n)
	} else {
		p.busy--
	}
}

// end ends a pass.
func (e *engine) end(id int32) {
	t := &e.tokens[id]
	e.done++
	e.passes[t.class].add(e.now - t.started)
	if e.system.Classes[t.class].Arrivals != nil {
		e.free = append(e.free, id)
		return
	}
	e.think(id)
}
