package stats

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Counter is a counter that is exported as the metric mcmw_NAME. Its methods may be called from any goroutine.
type Counter struct {
	name, help string
	n          atomic.Uint64
}

// Add adds one.
func (c *Counter) Add() { c.n.Add(1) }

// CounterValue is the value of a Counter at one moment.
type CounterValue struct {
	Name, Help string
	Value      uint64
}

// counters are the Counters of a Registry. The zero value is ready.
type counters struct {
	mu  sync.Mutex
	all []*Counter // by name
}

// counter returns the Counter with this name, and creates it if there is none.
func (c *counters) counter(name, help string) *Counter {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, found := slices.BinarySearchFunc(c.all, name, func(c *Counter, name string) int {
		return strings.Compare(c.name, name)
	})
	if !found {
		c.all = slices.Insert(c.all, i, &Counter{name: name, help: help})
	}
	return c.all[i]
}

// values returns the current values.
func (c *counters) values() []CounterValue {
	c.mu.Lock()
	defer c.mu.Unlock()
	values := make([]CounterValue, len(c.all))
	for i, counter := range c.all {
		values[i] = CounterValue{counter.name, counter.help, counter.n.Load()}
	}
	return values
}

// Counter returns the value of the Counter with this name; 0 if there is none.
func (s *Snapshot) Counter(name string) uint64 {
	for _, c := range s.Counters {
		if c.Name == name {
			return c.Value
		}
	}
	return 0
}
