package queue

import (
	"sync"

	"mcmw/internal/request"
)

// Entrance puts batches into the current lanes, which can be exchanged for others while clients are connected.
type Entrance struct {
	// inside is read-locked for each batch from Put to Leave, which another goroutine may call, and locked while the
	// lanes are exchanged. A batch that is inside must not enter again: if an exchange waits for it, both would wait.
	inside sync.RWMutex
	lanes  *Lanes // guarded by inside
}

// NewEntrance returns the entrance to lanes.
func NewEntrance(lanes *Lanes) *Entrance { return &Entrance{lanes: lanes} }

// Put queues b. It waits while the queue is full, and while the lanes are being exchanged.
func (e *Entrance) Put(b *request.Batch) {
	e.inside.RLock()
	e.lanes.Put(b)
}

// TryPut is Put, unless the queue is full: then the batch stays the caller's.
func (e *Entrance) TryPut(b *request.Batch) bool {
	e.inside.RLock()
	if e.lanes.TryPut(b) {
		return true
	}
	e.inside.RUnlock()
	return false
}

// Leave records that a batch that was Put has left the lanes and their workers: it was answered, or its client will Put
// it again.
func (e *Entrance) Leave() { e.inside.RUnlock() }

// Exchange waits until every batch has left, and then replaces the lanes by those that next returns. Batches that come
// meanwhile wait in Put. next is called while the previous lanes are empty.
func (e *Entrance) Exchange(next func() *Lanes) {
	e.inside.Lock()
	defer e.inside.Unlock()
	e.lanes = next()
}
