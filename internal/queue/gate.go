package queue

import (
	"math"
	"sync"
	"sync/atomic"
)

// gate counts what is inside, and can be closed until nothing is. What entered may leave from another goroutine. While the gate is open
// enter and leave cost one atomic addition each.
type gate struct {
	// inside is how many have entered and not left; while the gate is closed, closed is added.
	inside atomic.Int64
	// empty: the leave that left nothing inside a closed gate -> exchange. Capacity 1, so that leave never waits; a token may be
	// left over from an earlier exchange.
	empty chan struct{}
	// exchanging is held while the gate is closed. Only what is not inside waits for it.
	exchanging sync.Mutex
}

// closed is so low that inside is negative, however many try to enter.
const closed = math.MinInt64 / 2

func newGate() gate { return gate{empty: make(chan struct{}, 1)} }

// enter counts one more inside. While the gate is closed it waits; so what is inside must not enter a second time.
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

// leave counts one less inside.
func (g *gate) leave() {
	if g.inside.Add(-1) == closed {
		select {
		case g.empty <- struct{}{}:
		default:
		}
	}
}

// exchange closes the gate, waits until nothing is inside, calls swap, and opens the gate. swap sees what everything that left has
// written, and what enters later sees what swap has written.
func (g *gate) exchange(swap func()) {
	g.exchanging.Lock()
	defer g.exchanging.Unlock()
	g.inside.Add(closed)
	defer g.inside.Add(-closed)
	// Those that found the gate closed are counted for a moment, too: none counted means that none is inside.
	for g.inside.Load() != closed {
		<-g.empty
	}
	swap()
}
