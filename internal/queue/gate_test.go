package queue

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// closing starts an exchange, and returns once the gate is closed.
func closing(t *testing.T, g *gate, swap func()) {
	go g.exchange(swap)
	require.Eventually(t, func() bool { return g.inside.Load() < 0 }, mctest.Patience, mctest.Tick)
}

func TestAGateIsExchangedOnceNothingIsInside(t *testing.T) {
	g := newGate()
	g.empty <- struct{}{} // left over from an earlier exchange
	g.enter()
	g.enter()
	left, exchanged, entered := 0, -1, make(chan int)
	closing(t, &g, func() { exchanged = left })
	go func() {
		g.enter()
		entered <- exchanged
	}()
	for range 2 {
		left++
		g.leave()
	}
	assert.Equal(t, 2, <-entered,
		"the exchange comes after all leaves, and an enter at the closed gate comes after the exchange")
	g.leave()
	assert.Zero(t, g.inside.Load())
}

// The race detector would find a reader that is not inside, and a swap that comes too early.
func TestNoExchangeTakesPlaceWhileABatchIsInside(t *testing.T) {
	const goroutines, rounds, exchanges = 8, 20_000, 200
	g := newGate()
	generation := 0
	var running sync.WaitGroup
	for range goroutines {
		running.Go(func() {
			answered := make(chan int, 1)
			for range rounds {
				g.enter()
				before := generation
				running.Go(func() { // any goroutine may call leave
					answered <- generation
					g.leave()
				})
				if after := <-answered; after != before {
					t.Errorf("the exchange from %d to %d took place with one inside", before, after)
				}
			}
		})
	}
	for range 2 {
		running.Go(func() {
			for range exchanges {
				g.exchange(func() {
					before := generation
					for range goroutines {
						runtime.Gosched()
					}
					generation = before + 1
				})
			}
		})
	}
	running.Wait()
	assert.Equal(t, 2*exchanges, generation)
	assert.Zero(t, g.inside.Load())
}
