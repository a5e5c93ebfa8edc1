package worker

// Semaphore bounds how many workers serve a lane at a time. A lane has more workers than slots: a worker that waits for a
// server which does not answer releases its slot, and another acquires it, so that the lane is served by as many as before.
type Semaphore struct {
	// slots holds a token for every free slot. Workers -> workers; never closed.
	slots chan struct{}
}

// NewSemaphore returns a semaphore with n slots, all of them taken.
func NewSemaphore(n int) *Semaphore { return &Semaphore{slots: make(chan struct{}, n)} }

// acquire waits for a free slot.
func (s *Semaphore) acquire() { <-s.slots }

// release frees a slot. It never waits.
func (s *Semaphore) release() { s.slots <- struct{}{} }
