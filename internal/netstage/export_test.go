package netstage

import "time"

// Lifetime is lifetime.
var Lifetime = lifetime

// SetMemoryPatience changes how long a large request waits for memory, until the returned function is called. No stage
// may run while either function is called.
func SetMemoryPatience(d time.Duration) (restore func()) { return set(&memoryPatience, d) }

// SetWantedPatience is the same for the time that a client may be slow while others wait for its memory.
func SetWantedPatience(d time.Duration) (restore func()) { return set(&wantedPatience, d) }

func set[T any](variable *T, to T) (restore func()) {
	before := *variable
	*variable = to
	return func() { *variable = before }
}

// SetLoginPause is the same for the time between two logins from an address that is slowed.
func SetLoginPause(d time.Duration) (restore func()) { return set(&loginPause, d) }

// SetAgePatience is the same for the time that a client which never pauses is read when its connection is too old.
func SetAgePatience(d time.Duration) (restore func()) { return set(&agePatience, d) }

// SetReadingPart is the same for the part of a drain's timeout in which clients are read.
func SetReadingPart(part time.Duration) (restore func()) { return set(&readingPart, part) }
