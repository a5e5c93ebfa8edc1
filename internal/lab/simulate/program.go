package simulate

import (
	"errors"
	"fmt"
)

// opcode is what an instruction does.
type opcode uint8

const (
	opVisit  opcode = iota // be served at station n
	opJump                 // go on at to[0]
	opChoose               // go on at one of to, by cumulative
	opTurn                 // go on at the next of to
	opFork                 // go all ways of to; what is after the last goes on when n are through
	opJoin                 // the end of a way of a fork
	opEnter                // wait for a worker of pool n
	opLeave                // wait for the others that the worker took
	opEnd                  // the end of the path
)

// instruction is one of a program.
type instruction struct {
	op         opcode
	n          int
	service    Distribution // of opVisit
	to         []int
	after      int // where opFork goes on
	cumulative []float64
	next       int // of opTurn, changes as the simulation runs
}

// program is the paths of all classes, one after the other.
type program struct {
	system *System
	code   []instruction
}

// compileAll returns the program and where each class's path begins.
func compileAll(s *System) (*program, []int, error) {
	p := &program{system: s}
	var starts []int
	for i, c := range s.Classes {
		starts = append(starts, len(p.code))
		if err := p.steps(c.Path, false); err != nil {
			return nil, nil, fmt.Errorf("class %d %q: %w", i, c.Name, err)
		}
		p.add(instruction{op: opEnd})
	}
	return p, starts, nil
}

// add appends an instruction and returns its place.
func (p *program) add(i instruction) int {
	p.code = append(p.code, i)
	return len(p.code) - 1
}

func (p *program) steps(steps []Step, inPool bool) error {
	for i, s := range steps {
		if s == nil {
			return fmt.Errorf("step %d is nil", i)
		}
		if err := s.compile(p, inPool); err != nil {
			return err
		}
	}
	return nil
}

// ways compiles ways that the instruction at place leads to and that end with last; jumps go behind them.
func (p *program) ways(place int, ways [][]Step, last opcode, inPool bool) error {
	if len(ways) == 0 {
		return errors.New("a step has no ways: expected one at least")
	}
	var to, ends []int
	for _, way := range ways {
		to = append(to, len(p.code))
		if err := p.steps(way, inPool); err != nil {
			return err
		}
		ends = append(ends, p.add(instruction{op: last}))
	}
	p.code[place].to = to
	p.code[place].after = len(p.code)
	for _, end := range ends {
		p.code[end].to = []int{len(p.code)}
	}
	return nil
}

func (v Visit) compile(p *program, _ bool) error {
	if v.Station < 0 || v.Station >= len(p.system.Stations) {
		return fmt.Errorf("a visit to station %d: expected 0 to %d", v.Station, len(p.system.Stations)-1)
	}
	service := v.Service
	if service == nil {
		service = p.system.Stations[v.Station].Service
	}
	if service == nil {
		return fmt.Errorf("a visit to station %d %q has no service time, nor has the station", v.Station, p.system.Stations[v.Station].Name)
	}
	if !(service.Mean() >= 0) {
		return fmt.Errorf("a visit to station %d %q has the mean service time %v: expected a number, 0 or above",
			v.Station, p.system.Stations[v.Station].Name, service.Mean())
	}
	p.add(instruction{op: opVisit, n: v.Station, service: service})
	return nil
}

func (c Choose) compile(p *program, inPool bool) error {
	if len(c.Weights) != len(c.Ways) {
		return fmt.Errorf("a choice has %d weights for %d ways", len(c.Weights), len(c.Ways))
	}
	var sum float64
	var cumulative []float64
	for _, w := range c.Weights {
		if !(w >= 0) {
			return fmt.Errorf("a choice has the weights %v: expected numbers, 0 or above", c.Weights)
		}
		sum += w
		cumulative = append(cumulative, sum)
	}
	if !(sum > 0) {
		return fmt.Errorf("a choice has the weights %v: expected one above 0", c.Weights)
	}
	for i := range cumulative {
		cumulative[i] /= sum
	}
	return p.ways(p.add(instruction{op: opChoose, cumulative: cumulative}), c.Ways, opJump, inPool)
}

func (t Turns) compile(p *program, inPool bool) error {
	return p.ways(p.add(instruction{op: opTurn}), t.Ways, opJump, inPool)
}

func (f Fork) compile(p *program, _ bool) error {
	needed := f.Needed
	if needed == 0 {
		needed = len(f.Ways)
	}
	if needed < 0 || needed > len(f.Ways) {
		return fmt.Errorf("a fork of %d ways goes on when %d are through: expected 0, for all, to %d", len(f.Ways), f.Needed, len(f.Ways))
	}
	// What goes the ways of a fork is its own, so it may enter a pool also where the customer holds a worker.
	return p.ways(p.add(instruction{op: opFork, n: needed}), f.Ways, opJoin, false)
}

func (w Within) compile(p *program, inPool bool) error {
	if w.Pool < 0 || w.Pool >= len(p.system.Pools) {
		return fmt.Errorf("a step within pool %d: expected 0 to %d", w.Pool, len(p.system.Pools)-1)
	}
	if inPool {
		return fmt.Errorf("a step within pool %d %q inside of another pool: expected pools one after the other", w.Pool, p.system.Pools[w.Pool].Name)
	}
	p.add(instruction{op: opEnter, n: w.Pool})
	if err := p.steps(w.Steps, true); err != nil {
		return err
	}
	p.add(instruction{op: opLeave, n: w.Pool})
	return nil
}

// pick returns the way of an opChoose that u, 0 to below 1, leads to.
func (i *instruction) pick(u float64) int {
	for way, c := range i.cumulative {
		if u < c {
			return i.to[way]
		}
	}
	return i.to[len(i.to)-1]
}
