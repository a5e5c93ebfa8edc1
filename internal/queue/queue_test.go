package queue

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/request"
)

// batch returns a batch whose requests belong to lanes.
func batch(lanes ...int32) *request.Batch {
	b := new(request.Batch)
	for _, lane := range lanes {
		b.Requests = append(b.Requests, request.Request{Lane: lane})
	}
	return b
}

func TestBatchesComeOutInOrderAndTheRestAfterClosing(t *testing.T) {
	q := make(Queue, 3)
	first, second := batch(0), batch(0)
	q <- first
	q <- second
	assert.Equal(t, 2, q.Len())
	close(q)
	b, ok := <-q
	assert.True(t, ok && b == first)
	b, ok = q.TryTake()
	assert.True(t, ok && b == second)
	_, ok = q.TryTake()
	assert.False(t, ok)
	_, ok = <-q
	assert.False(t, ok)
}

func TestAFullQueueTakesNoMore(t *testing.T) {
	q := make(Queue, 1)
	require.True(t, q.TryPut(batch(0)))
	require.False(t, q.TryPut(batch(0)))
	waiting := make(chan struct{})
	late := batch(0)
	go func() {
		q <- late
		close(waiting)
	}()
	<-q
	<-waiting
	assert.Same(t, late, <-q)
}

func TestABatchMovesFromLaneToLaneUntilItIsAnswered(t *testing.T) {
	chosen := 0
	l := NewLanes(3, 1, func(*request.Batch) { chosen++ })
	b := batch(1, 1, 2, 0)
	l.Put(b)
	got := <-l.Queue(1)
	require.Same(t, b, got)
	b.Next = 2
	l.Pass(b)
	got = <-l.Queue(2)
	require.Same(t, b, got)
	// Passing a batch to a full queue does not block.
	other := batch(0)
	l.Put(other)
	b.Next = 3
	l.Pass(b)
	got = <-l.Queue(0)
	require.Same(t, other, got)
	got = <-l.Queue(0)
	require.Same(t, b, got)
	b.Next = 1
	l.Put(b) // back from a slow client: its lanes are chosen again, because they may have changed
	assert.Equal(t, 3, chosen)
	require.False(t, l.TryPut(batch(1)), "the queue is full")
	require.True(t, l.TryPut(batch(2)))
	l.Close()
	_, ok := <-l.Queue(1)
	assert.True(t, ok)
	_, ok = <-l.Queue(1)
	assert.False(t, ok)
}

func TestABatchBackFromASlowClientStartsInTheFirstLane(t *testing.T) {
	l := NewLanes(3, 2, nil)
	b := batch(0, 2, 2)
	b.Next = 1
	l.Put(b)
	got, _ := l.Queue(0).TryTake()
	assert.Same(t, b, got)
	assert.Equal(t, int32(0), b.Requests[2].Lane)
}

func TestLanesAreExchangedOnceEveryBatchHasLeft(t *testing.T) {
	previous, next := NewLanes(1, 1, nil), NewLanes(1, 1, nil)
	e := NewEntrance(previous)
	e.Put(batch(0))
	var left atomic.Bool
	exchanged := make(chan bool)
	go e.Exchange(func() *Lanes {
		exchanged <- left.Load()
		return next
	})
	<-previous.Queue(0)
	left.Store(true)
	e.Leave()
	assert.True(t, <-exchanged)
	e.Put(batch(0))
	assert.Zero(t, len(previous.Queue(0)))
	assert.Equal(t, 1, len(next.Queue(0)))
	e.Leave()
}
