package stats

import "time"

// Limiter lets one log line per second pass and counts the others. The zero value lets the first one pass. Its methods
// must not be called at the same time.
type Limiter struct {
	// Every is the minimum time between two lines that pass. 0: a second.
	Every time.Duration

	next       int64 // when the next line may pass, as Now
	suppressed int
}

// Pass reports whether a line may be logged now, and if so, how many were suppressed since the last one.
func (l *Limiter) Pass() (suppressed int, ok bool) {
	now := Now()
	if now < l.next {
		l.suppressed++
		return 0, false
	}
	suppressed, l.suppressed = l.suppressed, 0
	every := l.Every
	if every == 0 {
		every = time.Second
	}
	l.next = now + int64(every)
	return suppressed, true
}
