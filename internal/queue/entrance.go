package queue

import (
	"sync"

	"mcmw/internal/request"
)

// Entrance puts batches into the current lanes, which can be exchanged for others while clients are connected.
type Entrance struct {
	// served is read-locked for every batch from Put to Leave. Its write lock means that no batch is in the lanes or with
	// their workers.
	served sync.RWMutex
	lanes  *Lanes // guarded by served
}

// NewEntrance returns the entrance to lanes.
func NewEntrance(lanes *Lanes) *Entrance { return &Entrance{lanes: lanes} }

// Put queues b. It waits while the queue is full, and while the lanes are being exchanged.
func (e *Entrance) Put(b *request.Batch) {
	e.served.RLock()
	e.lanes.Put(b)
}

// TryPut is Put, unless the queue is full: then the batch stays the caller's.
func (e *Entrance) TryPut(b *request.Batch) bool {
	e.served.RLock()
	if e.lanes.TryPut(b) {
		return true
	}
	e.served.RUnlock()
	return false
}

// Leave says that a batch that was Put has left the lanes and their workers: it was answered, or its client will Put it
// again.
func (e *Entrance) Leave() { e.served.RUnlock() }

// Exchange waits until every batch has left, and then replaces the lanes by those that next returns; no batch enters
// meanwhile. next is called while the previous lanes are empty.
func (e *Entrance) Exchange(next func() *Lanes) {
	e.served.Lock()
	defer e.served.Unlock()
	e.lanes = next()
}
