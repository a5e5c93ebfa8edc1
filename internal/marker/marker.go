// Package marker decides which servers may be trusted, from the records and marks that middlewares keep on the servers.
// It is pure: no sockets, no clocks.
//
// Each server holds a Record: how keys are placed, and a version that grows with each change. A server that missed a
// write is marked on other servers before that write is answered: with n servers, on Copies(n) of them. A middleware
// that reads Witnesses(n) servers that have a record finds at least one of these marks. A server that has restarted or
// was flushed has lost its keys and with them its record, and is not a witness. If there is any doubt, a server is not
// trusted. Looks has these rules for a start.
//
// A Fleet has the rules by which middlewares respect each other's marks while they run.
//
// The keys contain a space, so classic commands can't name them, and no client reads or writes one by accident.
package marker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mcmw/internal/route"
)

const (
	// Prefix is the beginning of all keys that middlewares use themselves.
	Prefix = "mcmw "
	// RecordKey holds the Record.
	RecordKey = Prefix + "placement"
	// RunningKey holds the name of a middleware that writes to several replicas and runs, or did not shut down cleanly.
	// Acknowledging is at the end of it if the middleware acknowledges marks. A name without that is not replaced as
	// long as it is stored again.
	RunningKey    = Prefix + "running"
	Acknowledging = " acknowledges marks"
	// SweepKey is the claim of the middleware that is comparing the replicas.
	SweepKey = Prefix + "sweep"
	// SweptKey holds the record of the last comparison of the replicas.
	SweptKey = Prefix + "swept"
	// MigrationKey is the claim of the middleware that copies keys to another pool, and holds its progress.
	MigrationKey = Prefix + "migration"
	// RefilledKey says that the server has lost nothing since it was refilled, or since the first middleware was here.
	// RefillKey is the claim of the middleware that refills the server, and holds its progress.
	RefilledKey = Prefix + "refilled"
	RefillKey   = Prefix + "refill"
	// FollowKey and the name of a pool that follows say since when that pool may lack writes of the one that has the
	// server.
	FollowKey = Prefix + "follow "
	// CleanKey names, on each server, the change of placement for which the server was cleaned; the others the change
	// of routes, the change of gutters and the migration. None may overwrite another.
	CleanKey          = Prefix + "clean"
	CleanRoutesKey    = Prefix + "clean routes"
	CleanGutterKey    = Prefix + "clean gutter"
	CleanMigrationKey = Prefix + "clean migration"
	// DeletingKey, CopyingKey and ReadingKey hold the Record of a change of placement (see route.Phase) by a middleware
	// that has entered phase delete-new, has entered copy or hand-over, or will not copy any more because it hands over
	// or is about to enter read-new.
	DeletingKey = Prefix + "change deleting"
	CopyingKey  = Prefix + "change copying"
	ReadingKey  = Prefix + "change reading"
	// RoutesDeletingKey and RoutesReadingKey say the same of a change of routes, in JSON.
	RoutesDeletingKey = Prefix + "routes deleting"
	RoutesReadingKey  = Prefix + "routes reading"
	// MarksKey holds the Marks.
	MarksKey = Prefix + "marks"
)

// KeptKeys are those of what stays true when a server is flushed so that it holds nothing old: which changes are under
// way, and for which it is clean. If an announcement were gone until it is made again, another middleware could go on
// meanwhile.
var KeptKeys = []string{
	CleanKey, CleanRoutesKey, CleanGutterKey, CleanMigrationKey,
	DeletingKey, CopyingKey, ReadingKey, RoutesDeletingKey, RoutesReadingKey,
}

// Placement is everything that decides which servers hold a key.
type Placement struct {
	Servers  []route.Server `json:"servers"` // without addresses
	Replicas int            `json:"replicas"`
	Ring     string         `json:"ring"`
	Hash     string         `json:"hash"`
	HashTag  string         `json:"hash_tag,omitempty"`
	// Share says which keys the servers hold, if there are several pools; nil: all.
	Share *route.Share `json:"share,omitempty"`
}

// Of returns the placement of r, which was made with o.
func Of(r *route.Router, o route.Options) Placement {
	p := Placement{Replicas: r.N(), Ring: o.Ring.String(), Hash: o.Hash.String(), HashTag: o.HashTag}
	for _, s := range r.Servers() {
		p.Servers = append(p.Servers, route.Server{Name: s.Name, Weight: max(s.Weight, 1)})
	}
	return p
}

// Router returns the router of the placement.
func (p *Placement) Router() (*route.Router, error) {
	o, err := p.Options()
	if err != nil {
		return nil, err
	}
	r, err := route.New(p.Servers, o)
	if err != nil || p.Share.Own() != p.Share || p.Share == nil {
		return r, err // it may hold all keys
	}
	return p.Share.Of(r)
}

// Options returns the options with which the placement was made.
func (p *Placement) Options() (o route.Options, err error) {
	o.Replicas, o.HashTag = p.Replicas, p.HashTag
	if o.Ring, err = route.RingNames.Parse(p.Ring); err == nil {
		o.Hash, err = route.HashNames.Parse(p.Hash)
	}
	return o, err
}

// Equal reports whether p and q give every key the same servers, in the same order.
func (p *Placement) Equal(q *Placement) bool {
	return p.Replicas == q.Replicas && p.Ring == q.Ring && p.Hash == q.Hash && p.HashTag == q.HashTag &&
		slices.Equal(p.Servers, q.Servers) && p.Share.Equal(q.Share)
}

// Has reports whether server is one of the placement's servers.
func (p *Placement) Has(server string) bool {
	return slices.ContainsFunc(p.Servers, func(s route.Server) bool { return s.Name == server })
}

// Record is the record that a server holds.
type Record struct {
	// Version grows with every change of the placement.
	Version int64 `json:"version"`
	// Server is the name of the server that holds the record.
	Server    string    `json:"server"`
	Placement Placement `json:"placement"`
	// Previous are earlier placements, the latest first, by which servers may still hold keys. More: there were still
	// earlier ones, which are not known.
	Previous []Placement `json:"previous,omitempty"`
	More     bool        `json:"more,omitempty"`
	// Addresses are the addresses of the servers of all these placements, by name, and Entries their entries
	// (route.Server.Entry), unless "".
	Addresses map[string]string `json:"addresses,omitempty"`
	Entries   map[string]string `json:"entries,omitempty"`
	// Gutter: the pool has a gutter or is one. Writes that a server missed may then have been answered even if keys
	// have only one server.
	Gutter bool `json:"gutter,omitempty"`
	// Changing: the placement is changing, and servers may hold old values of keys that they have got back.
	Changing bool `json:"changing,omitempty"`
	// Wanted is the placement to which the change leads; nil: Placement.
	Wanted *Placement `json:"wanted,omitempty"`
	// Pools are the names of all pools that had keys, or could get some, when the record was put; empty: it is not
	// known, or the servers held copies of another pool's keys.
	Pools []string `json:"pools,omitempty"`
}

// InForce returns the placement to which all middlewares keep, or to which they are changing.
func (r *Record) InForce() *Placement {
	if r.Wanted != nil {
		return r.Wanted
	}
	return &r.Placement
}

// Encode returns the record as it is stored.
func (r *Record) Encode() ([]byte, error) { return json.Marshal(r) }

// Decode returns the record that is stored as b.
func Decode(b []byte) (*Record, error) {
	r := new(Record)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("the record of the placement: %w", err)
	}
	if len(r.Placement.Servers) == 0 || r.Placement.Replicas < 1 {
		return nil, fmt.Errorf("the record of the placement has %d servers and %d replicas", len(r.Placement.Servers),
			r.Placement.Replicas)
	}
	return r, nil
}

// SaysAs reports whether r and s say the same about where keys are and were.
func (r *Record) SaysAs(s *Record) bool {
	return r.Placement.Equal(&s.Placement) && r.InForce().Equal(s.InForce()) && r.More == s.More &&
		r.Gutter == s.Gutter && r.Changing == s.Changing &&
		slices.EqualFunc(r.Previous, s.Previous, func(a, b Placement) bool { return a.Equal(&b) })
}

// Follow is called before r replaces held on a server: another middleware has counted the changes that it made, and r
// must not look older than what it replaces. If both say the same, they get the same version, because a server with the
// lower one would look as if it had been away during a change. Follow reports whether the version has changed; then all
// servers must get r.
func (r *Record) Follow(held *Record) (changed bool) {
	version := held.Version
	if !r.SaysAs(held) {
		version++
	}
	if version <= r.Version {
		return false
	}
	r.Version = version
	return true
}

// Look is what a server that answered holds.
type Look struct {
	Record  *Record // nil: none
	Marks   *Marks  // nil: none
	Running string
}

// stale reports whether server is marked there.
func (l *Look) stale(server string) bool {
	return l.Marks != nil && slices.ContainsFunc(*l.Marks, func(k Mark) bool { return k.Server == server })
}

// Copies returns on how many of n servers a mark must be.
func Copies(n int) int { return (n + 1) / 2 }

// Witnesses returns how many of n servers must be read to find a mark that is on Copies(n) of them.
func Witnesses(n int) int { return n/2 + 1 }

// Looks has what the servers that answered hold, by the servers' names.
type Looks map[string]Look

// Newest returns the newest record; nil if there is none: no middleware has used these servers, or they have lost
// everything since.
func (l Looks) Newest() *Record {
	var newest *Record
	for _, look := range l {
		if r := look.Record; r != nil && (newest == nil || r.Version > newest.Version) {
			newest = r
		}
	}
	return newest
}

// During returns l for a middleware that joins changes between some placements, which other middlewares have announced.
// They are in different phases, and their records of the changes say the same: that keys are read by read.
func (l Looks) During(read Placement, some []Placement) Looks {
	newest, all := l.Newest(), Looks{}
	of := func(p Placement) bool {
		return slices.ContainsFunc(some, func(q Placement) bool { return p.Equal(&q) })
	}
	for name, look := range l {
		if r := look.Record; r != nil && of(r.Placement) &&
			!slices.ContainsFunc(r.Previous, func(p Placement) bool { return !of(p) }) {
			record := *r
			record.Version, record.Placement, record.Previous, record.Changing = newest.Version, read, nil, false
			look.Record = &record
		}
		all[name] = look
	}
	return all
}

// Running returns the name of a middleware that runs, or did not shut down cleanly; "" if there is none.
func (l Looks) Running() string {
	for _, look := range l {
		if look.Running != "" {
			return strings.TrimSuffix(look.Running, Acknowledging)
		}
	}
	return ""
}

// Suspicion returns why server may hold old values, judging by the other servers; "": there is no reason. The server is
// marked, or too few servers that would hold its mark have answered. It also judges servers that did not answer.
func (l Looks) Suspicion(server string) string {
	newest := l.Newest()
	if _, looked := l[server]; newest == nil && !looked {
		return "no server that answered has a record of the placement, but this server may have one"
	}
	for name, look := range l {
		if look.stale(server) {
			return "it missed writes, by a mark on " + name
		}
	}
	if newest == nil || newest.Placement.Replicas == 1 && !newest.Gutter {
		return "" // no other server has taken over its writes
	}
	var witnesses []string
	for name, look := range l {
		if look.Record != nil && newest.Placement.Has(name) {
			witnesses = append(witnesses, name)
		}
	}
	if n := len(newest.Placement.Servers); len(witnesses) < Witnesses(n) {
		slices.Sort(witnesses)
		return fmt.Sprintf("only %d of %d servers know whether it missed writes (%s)", len(witnesses), n,
			strings.Join(witnesses, ", "))
	}
	return ""
}

// Doubt returns why server, which is one of l, may hold old values, judging by its own record and those of the others;
// "" if it may be trusted with the keys that it held by the newest record. respected: marks need not be judged, because
// a Fleet respects them.
func (l Looks) Doubt(server string, respected bool) string {
	newest, own := l.Newest(), l[server].Record
	switch {
	case newest == nil:
		return ""
	case !newest.Placement.Has(server):
		return "it is not in the newest record of the placement"
	case own == nil:
		return "it has no record of the placement, but other servers have"
	case own.Server != server:
		return "it was called " + own.Server
	case own.Version < newest.Version:
		return "the placement of keys changed while it was away"
	case respected:
		return ""
	}
	return l.Suspicion(server)
}
