package netstage

import "time"

// Lifetime is lifetime.
var Lifetime = lifetime

// SetMemoryPatience changes how long a large request waits for memory, until the returned function is called. No stage may be
// running meanwhile.
func SetMemoryPatience(d time.Duration) (restore func()) { return set(&memoryPatience, d) }

// SetWantedPatience changes for how long a client may be slow while others wait for its memory, likewise.
func SetWantedPatience(d time.Duration) (restore func()) { return set(&wantedPatience, d) }

func set[T any](variable *T, to T) (restore func()) {
	before := *variable
	*variable = to
	return func() { *variable = before }
}

// SetLoginPause is the same for the time between two logins of an address that is slowed.
func SetLoginPause(d time.Duration) (restore func()) { return set(&loginPause, d) }

// SetAgePatience is the same for how long a client that never pauses is read when its connection is too old.
func SetAgePatience(d time.Duration) (restore func()) { return set(&agePatience, d) }

// SetReadingPart is the same for the part of a drain's timeout in which clients are read.
func SetReadingPart(part time.Duration) (restore func()) { return set(&readingPart, part) }
