package stats

import "time"

// ReloadResult is the result of reloading the configuration.
type ReloadResult uint8

// The results of reloading the configuration.
const (
	ReloadApplied   ReloadResult = iota // the new configuration was applied
	ReloadUnchanged                     // the configuration has not changed
	ReloadRefused                       // the new configuration is not valid, and nothing was changed
	NumReloadResults
)

var reloadNames = [NumReloadResults]string{"applied", "unchanged", "refused"}

// String returns the result's metric label value.
func (r ReloadResult) String() string { return reloadNames[r] }

// LookupResult is the result of a DNS lookup of servers.
type LookupResult uint8

// The results of lookups.
const (
	LookupOK     LookupResult = iota // the name has records
	LookupEmpty                      // the name does not exist, or has no records
	LookupFailed                     // there was no answer
	NumLookupResults
)

var lookupNames = [NumLookupResults]string{"ok", "empty", "failed"}

// String returns the result's metric label value.
func (r LookupResult) String() string { return lookupNames[r] }

// Control counts configuration changes of a running middleware. Its methods may be called from any goroutine, and its
// zero value is ready.
type Control struct{ Guarded[ControlSnapshot] }

// Identity identifies a configuration by short hashes: equal hashes mean equal configurations.
type Identity struct {
	Options string // of the options, without addresses that are specific to one machine
	Servers string // of the servers' names, addresses and weights
}

// ControlSnapshot is a Control's values at one moment.
type ControlSnapshot struct {
	// Reloads counts reloads of the configuration.
	Reloads [NumReloadResults]uint64
	// Lookups counts DNS lookups of servers.
	Lookups [NumLookupResults]uint64
	// Updates counts changes of the list of servers that lookups returned.
	Updates [NumReloadResults]uint64
	// WatchesLive is the number of Kubernetes Services whose endpoints are watched, WatchesBroken the number of those
	// that should be watched but are not.
	WatchesLive, WatchesBroken int64
	// Unconfirmed is how long a name of servers has had no answer; 0: all names have one.
	Unconfirmed time.Duration
	since       time.Time // when it last had one, or none lacks one (zero)
	Identity
}

// Reloaded counts a reload of the configuration.
func (c *Control) Reloaded(r ReloadResult) { c.Change(func(s *ControlSnapshot) { s.Reloads[r]++ }) }

// LookedUp counts a lookup.
func (c *Control) LookedUp(r LookupResult) { c.Change(func(s *ControlSnapshot) { s.Lookups[r]++ }) }

// Updated counts a changed list of servers that lookups returned.
func (c *Control) Updated(r ReloadResult) { c.Change(func(s *ControlSnapshot) { s.Updates[r]++ }) }

// WatchLive adds n to the number of working watches, WatchBroken to the number of broken ones.
func (c *Control) WatchLive(n int64) { c.Change(func(s *ControlSnapshot) { s.WatchesLive += n }) }

func (c *Control) WatchBroken(n int64) { c.Change(func(s *ControlSnapshot) { s.WatchesBroken += n }) }

// Unconfirmed records that a name of servers has had no answer since the given time, Confirmed that all names have
// answers.
func (c *Control) Unconfirmed(since time.Time) {
	c.Change(func(s *ControlSnapshot) { s.since = since })
}
func (c *Control) Confirmed() { c.Unconfirmed(time.Time{}) }

// Holds records which configuration is in use.
func (c *Control) Holds(id Identity) { c.Change(func(s *ControlSnapshot) { s.Identity = id }) }

// Snapshot returns the current values.
func (c *Control) Snapshot() ControlSnapshot {
	s := c.Load()
	if !s.since.IsZero() {
		s.Unconfirmed = time.Since(s.since)
	}
	return s
}
