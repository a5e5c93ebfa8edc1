package stats

import "time"

// logEvery is the minimum time between two log lines that a Limiter lets pass, ns.
const logEvery = int64(time.Second)

// Limiter lets one log line per second pass and counts the others. The zero value lets the first one pass. Its methods must not be called at the same time.
type Limiter struct {
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
	suppressed = l.suppressed
	*l = Limiter{next: now + logEvery}
	return suppressed, true
}
