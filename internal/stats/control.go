package stats

import "sync/atomic"

// ReloadResult is how an attempt to read the configuration again ended.
type ReloadResult uint8

// The results of reading the configuration again.
const (
	ReloadApplied   ReloadResult = iota // something was changed
	ReloadUnchanged                     // it says what holds already
	ReloadRefused                       // it is not accepted, and nothing was changed
	NumReloadResults
)

var reloadNames = [NumReloadResults]string{"applied", "unchanged", "refused"}

// String returns the result's metric label value.
func (r ReloadResult) String() string { return reloadNames[r] }

// LookupResult is how a lookup of a name under which servers are found ended.
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

// Control counts what happens to the configuration of a running middleware. Its methods may be called from any goroutine,
// and its zero value is ready.
type Control struct {
	reloads  [NumReloadResults]atomic.Uint64
	lookups  [NumLookupResults]atomic.Uint64
	updates  [NumReloadResults]atomic.Uint64
	identity atomic.Pointer[Identity]
}

// Identity tells configurations apart by short hashes: equal ones mean the same.
type Identity struct {
	Options string // of the options, but for addresses that belong to one machine
	Servers string // of the servers' names, addresses and weights
}

// ControlSnapshot is a Control's values at one moment.
type ControlSnapshot struct {
	// Reloads counts how often the configuration was read again.
	Reloads [NumReloadResults]uint64
	// Lookups counts lookups of names.
	Lookups [NumLookupResults]uint64
	// Updates counts lists of servers that lookups brought. Those without a change are not counted.
	Updates [NumReloadResults]uint64
	Identity
}

// Reloaded counts that the configuration was read again.
func (c *Control) Reloaded(r ReloadResult) { c.reloads[r].Add(1) }

// LookedUp counts a lookup.
func (c *Control) LookedUp(r LookupResult) { c.lookups[r].Add(1) }

// Updated counts a list of servers that lookups brought, and that is not the one before.
func (c *Control) Updated(r ReloadResult) { c.updates[r].Add(1) }

// Holds says which configuration holds now.
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
	if id := c.identity.Load(); id != nil {
		s.Identity = *id
	}
	return s
}
