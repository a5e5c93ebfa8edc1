package queue

import (
	"math"
	"sync"
	"sync/atomic"
)

// gate counts the batches inside, and can be closed until none is inside. A batch may leave from another goroutine than
// it entered from. While the gate is open, enter and leave cost one atomic addition each.
type gate struct {
	// inside is the number of batches that have entered and not left. While the gate is closed, the constant closed is
	// added to it.
	inside atomic.Int64
	// empty: the last leave from a closed gate -> exchange. Capacity 1, so that leave never waits. A token may be left
	// over from an earlier exchange.
	empty chan struct{}
	// exchanging is held while the gate is closed. Only batches that are not inside wait for it.
	exchanging sync.Mutex
}

// closed is so low that inside is negative, however many batches try to enter.
const closed = math.MinInt64 / 2

func newGate() gate { return gate{empty: make(chan struct{}, 1)} }

// enter counts one more batch inside. While the gate is closed it waits, so a batch that is inside must not enter a
// second time.
func (g *gate) enter() {
	for g.inside.Add(1) < 0 {
		g.leave()
		g.awaitOpen()
	}
}

func (g *gate) awaitOpen() {
	g.exchanging.Lock()
	defer g.exchanging.Unlock()
}

// leave counts one batch less inside.
func (g *gate) leave() {
	if g.inside.Add(-1) == closed {
		select {
		case g.empty <- struct{}{}:
		default:
		}
	}
}

// exchange closes the gate, waits until no batch is inside, calls swap, and opens the gate. Memory written before a
// leave is visible to swap, and memory written by swap is visible after a later enter.
func (g *gate) exchange(swap func()) {
	g.exchanging.Lock()
	defer g.exchanging.Unlock()
	g.inside.Add(closed)
	defer g.inside.Add(-closed)
	// A batch that finds the gate closed is counted for a moment, too. So a count of none means that none is inside.
	for g.inside.Load() != closed {
		<-g.empty
	}
	swap()
}
