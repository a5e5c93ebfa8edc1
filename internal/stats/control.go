package stats

import (
	"sync/atomic"
	"time"
)

// ReloadResult is the result of reading the configuration again.
type ReloadResult uint8

// The results of reading the configuration again.
const (
	ReloadApplied   ReloadResult = iota // something was changed
	ReloadUnchanged                     // the same configuration is in force already
	ReloadRefused                       // it is not valid, and nothing was changed
	NumReloadResults
)

var reloadNames = [NumReloadResults]string{"applied", "unchanged", "refused"}

// String returns the result's metric label value.
func (r ReloadResult) String() string { return reloadNames[r] }

// LookupResult is the result of looking up a name of servers.
type LookupResult uint8

// The results of lookups.
const (
	LookupOK     LookupResult = iota // it found something
	LookupEmpty                      // the name does not exist, or has no records
	LookupFailed                     // there was no answer
	NumLookupResults
)

var lookupNames = [NumLookupResults]string{"ok", "empty", "failed"}

// String returns the result's metric label value.
func (r LookupResult) String() string { return lookupNames[r] }

// Control counts configuration changes of a running middleware. Its methods may be called from any goroutine, and its zero
// value is ready.
type Control struct {
	reloads  [NumReloadResults]atomic.Uint64
	lookups  [NumLookupResults]atomic.Uint64
	updates  [NumReloadResults]atomic.Uint64
	identity atomic.Pointer[Identity]

	watchesLive, watchesBroken atomic.Int64
	unconfirmed                atomic.Pointer[time.Time] // when all names had answers for the last time; nil: now
}

// Identity identifies a configuration by short hashes: equal hashes mean equal configurations.
type Identity struct {
	Options string // of the options, without addresses that are specific to one machine
	Servers string // of the servers' names, addresses and weights
}

// ControlSnapshot is a Control's values at one moment.
type ControlSnapshot struct {
	// Reloads counts how often the configuration was read again.
	Reloads [NumReloadResults]uint64
	// Lookups counts lookups of names.
	Lookups [NumLookupResults]uint64
	// Updates counts changed lists of servers that lookups returned.
	Updates [NumReloadResults]uint64
	// WatchesLive and WatchesBroken are how many services' endpoints are watched, and how many should be.
	WatchesLive, WatchesBroken int64
	// Unconfirmed is for how long some name of servers has had no answer; 0: all have.
	Unconfirmed time.Duration
	Identity
}

// Reloaded counts that the configuration was read again.
func (c *Control) Reloaded(r ReloadResult) { c.reloads[r].Add(1) }

// LookedUp counts a lookup.
func (c *Control) LookedUp(r LookupResult) { c.lookups[r].Add(1) }

// Updated counts a changed list of servers that lookups returned.
func (c *Control) Updated(r ReloadResult) { c.updates[r].Add(1) }

// WatchLive adds to the number of watches that are up to date, WatchBroken to that of the others.
func (c *Control) WatchLive(n int64)   { c.watchesLive.Add(n) }
func (c *Control) WatchBroken(n int64) { c.watchesBroken.Add(n) }

// Unconfirmed says that some name of servers has had no answer since a time, Confirmed that all have.
func (c *Control) Unconfirmed(since time.Time) { c.unconfirmed.Store(&since) }
func (c *Control) Confirmed()                  { c.unconfirmed.Store(nil) }

// Holds says which configuration is in force now.
func (c *Control) Holds(id Identity) { c.identity.Store(&id) }

// Snapshot returns the values as of now.
func (c *Control) Snapshot() ControlSnapshot {
	var s ControlSnapshot
	for i := range c.reloads {
		s.Reloads[i] = c.reloads[i].Load()
		s.Updates[i] = c.updates[i].Load()
	}
	for i := range c.lookups {
		s.Lookups[i] = c.lookups[i].Load()
	}
	s.WatchesLive, s.WatchesBroken = c.watchesLive.Load(), c.watchesBroken.Load()
	if since := c.unconfirmed.Load(); since != nil {
		s.Unconfirmed = time.Since(*since)
	}
	if id := c.identity.Load(); id != nil {
		s.Identity = *id
	}
	return s
}
