package netstage

import "time"

// SetMemoryPatience changes how long a large request waits for memory, until the returned function is called. No stage may be
// running meanwhile.
func SetMemoryPatience(d time.Duration) (restore func()) { return set(&memoryPatience, d) }

// SetWantedPatience changes for how long a client may be slow while others wait for its memory, likewise.
func SetWantedPatience(d time.Duration) (restore func()) { return set(&wantedPatience, d) }

func set(patience *time.Duration, d time.Duration) (restore func()) {
	before := *patience
	*patience = d
	return func() { *patience = before }
}

// SetLoginPause is the same for the time between two logins of an address that is slowed.
func SetLoginPause(d time.Duration) (restore func()) {
	before := loginPause
	loginPause = d
	return func() { loginPause = before }
}
