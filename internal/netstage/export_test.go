package netstage

import "time"

// SetMemoryPatience changes how long a large request waits for memory, until the returned function is called. No stage may be
// running meanwhile.
func SetMemoryPatience(d time.Duration) (restore func()) {
	before := memoryPatience
	memoryPatience = d
	return func() { memoryPatience = before }
}

// SetLoginPause is the same for the time between two logins of an address that is slowed.
func SetLoginPause(d time.Duration) (restore func()) {
	before := loginPause
	loginPause = d
	return func() { loginPause = before }
}
