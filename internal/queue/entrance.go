package queue

import "mcmw/internal/request"

// Entrance puts batches into the current lanes, which can be exchanged for others while clients are connected.
type Entrance struct {
	gate  gate   // a batch is inside from Put to Leave
	lanes *Lanes // written while no batch is inside, read by batches that have entered
}

// NewEntrance returns the entrance to lanes.
func NewEntrance(lanes *Lanes) *Entrance { return &Entrance{gate: newGate(), lanes: lanes} }

// Put queues b. It waits while the queue is full, and while the lanes are being exchanged.
func (e *Entrance) Put(b *request.Batch) {
	e.gate.enter()
	e.lanes.Put(b)
}

// TryPut is Put, unless the queue is full: then the batch stays the caller's.
func (e *Entrance) TryPut(b *request.Batch) bool {
	e.gate.enter()
	if e.lanes.TryPut(b) {
		return true
	}
	e.gate.leave()
	return false
}

// Leave records that a batch that was Put has left the lanes and their workers: it was answered, or its client will Put
// it again.
func (e *Entrance) Leave() { e.gate.leave() }

// Exchange waits until every batch has left, and then replaces the lanes by those that next returns. Batches that come
// meanwhile wait in Put. next is called while the previous lanes are empty.
func (e *Entrance) Exchange(next func() *Lanes) {
	e.gate.exchange(func() { e.lanes = next() })
}
