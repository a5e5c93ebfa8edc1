// Package marker decides, from what earlier middlewares have left on the servers, which servers may be trusted after a
// start. It is pure.
//
// Each server holds a record: where keys were placed, and since when. A server that missed a write is marked on others
// before that write is answered: with n servers on Copies(n) of them. A middleware that reads Witnesses(n) servers that have
// a record finds one of these copies. A server that has restarted or was flushed has lost its keys and with them its record,
// and is not a witness. In doubt a server is not trusted.
//
// The keys contain a space: classic commands can't name them, so no client reads or writes one by accident.
package marker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"mcmw/internal/route"
)

const (
	// Prefix begins all keys of middlewares.
	Prefix = "mcmw "
	// RecordKey holds the Record.
	RecordKey = Prefix + "placement"
	// RunningKey holds the name of a middleware that writes to several replicas and has not shut down cleanly.
	RunningKey = Prefix + "running"
	// SweepKey is held by the middleware that is comparing the replicas.
	SweepKey = Prefix + "sweep"
	// SweptKey holds what is known about the last comparison of the replicas.
	SweptKey = Prefix + "swept"
	// MigrationKey is held by the middleware that copies keys to another pool, and says how far it is.
	MigrationKey = Prefix + "migration"
	// CleanKey says, on a server, that it was cleaned for a change of placement, and for which.
	CleanKey = Prefix + "clean"
	// DeletingKey and ReadingKey hold the record of a change of placement: of a middleware that has entered the phase in which keys are deleted on
	// their new servers, or is about to enter the one in which they are read there.
	DeletingKey = Prefix + "change deleting"
	ReadingKey  = Prefix + "change reading"
	// MarksKey holds the Marks.
	MarksKey = Prefix + "marks"
)

// Placement is everything that decides which servers hold a key.
type Placement struct {
	Servers  []route.Server `json:"servers"` // without addresses
	Replicas int            `json:"replicas"`
	Ring     string         `json:"ring"`
	Hash     string         `json:"hash"`
	HashTag  string         `json:"hash_tag,omitempty"`
	// Share is which keys the servers hold, if there are other pools; nil: all.
	Share *route.Share `json:"share,omitempty"`
}

// Of returns the placement that r was made from with o.
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

// Options returns what the placement was made with, but for the servers.
func (p *Placement) Options() (o route.Options, err error) {
	o.Replicas, o.HashTag = p.Replicas, p.HashTag
	if o.Ring, err = route.RingNames.Parse(p.Ring); err == nil {
		o.Hash, err = route.HashNames.Parse(p.Hash)
	}
	return o, err
}

// Equal reports whether p and q give every key the same servers, in the same order.
func (p *Placement) Equal(q *Placement) bool {
	return p.Replicas == q.Replicas && p.Ring == q.Ring && p.Hash == q.Hash && p.HashTag == q.HashTag && slices.Equal(p.Servers, q.Servers) && p.Share.Equal(q.Share)
}

// has reports whether server is one of the placement's.
func (p *Placement) has(server string) bool {
	return slices.ContainsFunc(p.Servers, func(s route.Server) bool { return s.Name == server })
}

// Record is the record that a server holds.
type Record struct {
	// Version grows with every change of the placement.
	Version int64 `json:"version"`
	// Server is the name of the server on which it was put.
	Server    string    `json:"server"`
	Placement Placement `json:"placement"`
	// Previous are the placements before, the latest first, by which servers may still hold keys; More: there were earlier
	// ones.
	Previous []Placement `json:"previous,omitempty"`
	More     bool        `json:"more,omitempty"`
	// Addresses are those of the servers of all placements, by name.
	Addresses map[string]string `json:"addresses,omitempty"`
	// Gutter: writes that a server missed may have been answered all the same, because another pool stood in, or the server stands in for others.
	Gutter bool `json:"gutter,omitempty"`
	// Changing: servers may hold old values of keys that Placement has given back to them.
	Changing bool `json:"changing,omitempty"`
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
		return nil, fmt.Errorf("the record of the placement has %d servers and %d replicas", len(r.Placement.Servers), r.Placement.Replicas)
	}
	return r, nil
}

// Look is what a server holds, one that answered.
type Look struct {
	Record  *Record // nil: none
	Marks   *Marks  // nil: none
	Running string
}

// stale reports whether server is marked there.
func (l *Look) stale(server string) bool {
	return l.Marks != nil && slices.ContainsFunc(*l.Marks, func(k Mark) bool { return k.Server == server })
}

// Copies returns on how many of n servers a marker must be.
func Copies(n int) int { return (n + 1) / 2 }

// Witnesses returns how many of n servers must be looked at to find a marker.
func Witnesses(n int) int { return n/2 + 1 }

// Looks are what the servers that answered hold, by name.
type Looks map[string]Look

// Newest returns the newest record; nil if there is none: no middleware has written to these servers, or they have lost
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

// Running returns the name of a middleware that has not shut down cleanly, "" if there is none.
func (l Looks) Running() string {
	for _, look := range l {
		if look.Running != "" {
			return look.Running
		}
	}
	return ""
}

// Suspicion returns why server may hold old values, judging by the other servers, or "": it is marked, or too few servers
// that would hold the marker have been looked at. It also applies to servers that did not answer.
func (l Looks) Suspicion(server string) string {
	newest := l.Newest()
	if _, looked := l[server]; newest == nil && !looked {
		return "no server that answered has a record of the placement, and it may have one"
	}
	for name, look := range l {
		if look.stale(server) {
			return "it missed writes, by a marker on " + name
		}
	}
	if newest == nil || newest.Placement.Replicas == 1 && !newest.Gutter {
		return "" // no other server has taken over its writes
	}
	var witnesses []string
	for name, look := range l {
		if look.Record != nil && newest.Placement.has(name) {
			witnesses = append(witnesses, name)
		}
	}
	if n := len(newest.Placement.Servers); len(witnesses) < Witnesses(n) {
		slices.Sort(witnesses)
		return fmt.Sprintf("only %d of %d servers could say whether it missed writes (%s)", len(witnesses), n, strings.Join(witnesses, ", "))
	}
	return ""
}

// Doubt returns why server, which is one of l, may hold old values, judging by its own records and those of the others; ""
// if it may be trusted with the keys that it held by the newest record. heeded: a Fleet sees to what is marked.
func (l Looks) Doubt(server string, heeded bool) string {
	newest, own := l.Newest(), l[server].Record
	switch {
	case newest == nil:
		return ""
	case !newest.Placement.has(server):
		return "it was not among the servers when it was last heard of them"
	case own == nil:
		return "it has no record of the placement, and others have"
	case own.Server != server:
		return "it was called " + own.Server
	case own.Version < newest.Version:
		return "the placement of keys changed while it was away"
	case heeded:
		return ""
	}
	return l.Suspicion(server)
}
