package stats

import (
	"sync/atomic"
	"time"

	"mcmw/internal/protocol"
)

const (
	// tapCapacity is the number of requests that may wait to be written to the request log: about as many as a slow
	// worker pool answers while a disk writes a block.
	tapCapacity = 1024
	// maxLoggedKey is the number of bytes of a key that go to the request log: memcached's default maximum length of a
	// key.
	maxLoggedKey = 250
)

// Tap passes requests from the workers to the request log: every N-th one of each worker, and slow ones. A worker never
// waits for the log; requests for which there is no room are counted as dropped.
type Tap struct {
	// Static after construction.
	every int   // 0: none is sampled
	slow  int64 // ns; 0: none is slow
	keys  bool  // keys are logged

	// workers -> the writer of the request log. Capacity in requests; never closed.
	events  chan Event
	dropped atomic.Uint64
}

// Event is one request of the request log.
type Event struct {
	Times
	Command protocol.Command
	Result  Result
	Class   Class
	Worker  int
	Keys    int // keys requested, or written
	Hits    int
	Bytes   int    // of the request and its data
	Calls   int    // requests to servers that it needed
	Server  string // the server of the first of them; "" if there was none

	key    [maxLoggedKey]byte
	keyLen int // 0: the key is not logged
}

// Key returns the request's first key, up to 250 bytes of it; empty unless keys are logged.
func (e *Event) Key() string { return string(e.key[:e.keyLen]) }

// NewTap returns a Tap for every N-th request (0: none) and those that take slow or longer (0: none). keys: their keys
// are logged.
func NewTap(every int, slow time.Duration, keys bool) *Tap {
	return &Tap{every: every, slow: int64(slow), keys: keys, events: make(chan Event, tapCapacity)}
}

// Events returns the channel of logged requests.
func (t *Tap) Events() <-chan Event { return t.events }

// Slow reports whether a request is in the log because of its response time.
func (t *Tap) Slow(e *Event) bool { return t.slow > 0 && e.Response() >= t.slow }

// wants reports whether a request of w must be logged.
func (t *Tap) wants(w *Worker, times *Times) bool {
	if t.every > 0 {
		w.unsampled++
		if w.unsampled >= t.every {
			w.unsampled = 0
			return true
		}
	}
	return t.slow > 0 && times.Response() >= t.slow
}

// Log passes a request for which Count returned true to the request log. key is its first key.
func (w *Worker) Log(e Event, key []byte) {
	e.Worker = w.number
	e.Class = ClassOf(e.Command, e.Keys)
	if w.tap.keys {
		e.keyLen = copy(e.key[:], key)
	}
	select {
	case w.tap.events <- e:
	default:
		w.tap.dropped.Add(1)
	}
}
