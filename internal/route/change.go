package route

import "slices"

// Phase is a phase of the change from one placement to another. Middlewares learn of a change at different times. Each goes through the phases in
// order and stays in each phase for longer than that time difference. So at any time all of them are in one phase or in two neighbouring phases:
//
//	phase       reads and writes   each write also deletes   commands that depend on the item (incr, cas, add ..)
//	Settled     old holders                                  decided by the first old holder
//	DeleteNew   old holders        on the new holders        decided by it if it is the first new holder, too; otherwise Undecided
//	ReadNew     new holders        on the old holders        decided by the first new holder
//	Settled     new holders                                  decided by the first new holder
//
// Old holders hold a key by the placement before the change, new holders by the placement after it. A server that is both is written. Whatever a
// middleware reads, a middleware in a neighbouring phase writes or deletes. What a new holder may still hold from an earlier placement must have
// been deleted there before ReadNew.
//
// Late is for a middleware that starts during a change of routes, in which a key has no server that is both an old and a new holder, and does not know
// which phase the others are in. It is compatible with every phase: it writes the old holders, deletes on the new ones, and reads those, once they are clean.
// So it does not read what it has written, and refuses commands that depend on the value. A middleware that starts during a change of placement joins it.
type Phase uint8

// The phases.
const (
	Settled Phase = iota
	DeleteNew
	ReadNew
	Late
	NumPhases
)

var phaseNames = [NumPhases]string{"settled", "delete-new", "read-new", "late"}

// String returns the phase's name, the same in metrics and logs.
func (p Phase) String() string { return phaseNames[p] }

// Announced names a change from one placement to another, as middlewares announce it on the servers.
type Announced struct{ From, To string }

// Join returns the change that a middleware joins when it starts, and the phase, given what others have announced: that they are in DeleteNew of a
// change, or in ReadNew, in which they remain until nobody is in DeleteNew any more. Settled: nobody has announced anything. The middleware announces
// DeleteNew before it joins in it, and looks again whether somebody is in ReadNew. Announcements may last longer than the phase.
func Join(deleting, reading []Announced) (a Announced, phase Phase) {
	for _, d := range deleting {
		if slices.ContainsFunc(reading, func(r Announced) bool { return r.To == d.From }) {
			return d, DeleteNew // the next change has begun
		}
	}
	switch {
	case len(reading) > 0:
		return reading[0], ReadNew
	case len(deleting) > 0:
		return deleting[0], DeleteNew
	}
	return a, Settled
}

// change is a change of placement, as its Router knows it.
type change struct {
	phase    Phase
	from, to *Router
	index    []int // by from's servers: their indexes among the servers of both
}

// Change returns the Router for a phase of the change between two placements. Its servers are those of to, then those of from that are not among
// them by name or, because a server that is renamed keeps its address, by address.
func Change(from, to *Router, phase Phase) *Router {
	if phase == Settled {
		return to
	}
	r := &Router{servers: slices.Clone(to.servers), n: max(from.n, to.n), read: to.read, zone: to.zone, measures: to.measures, wanted: to.wanted, previousGutter: to.previousGutter, closed: to.closed}
	c := &change{phase: phase, from: from, to: to}
	for _, s := range from.servers {
		at := slices.IndexFunc(to.servers, func(t Server) bool { return t.Name == s.Name })
		if at < 0 && s.Addr != "" {
			at = slices.IndexFunc(to.servers, func(t Server) bool {
				return t.Addr == s.Addr && !slices.ContainsFunc(from.servers, func(f Server) bool { return f.Name == t.Name })
			})
		}
		if at < 0 {
			at = len(r.servers)
			r.servers = append(r.servers, s)
		}
		c.index = append(c.index, at)
	}
	r.change = c
	return r
}

// Phase returns the phase of the change that the Router was made for; Settled if there is none.
func (r *Router) Phase() Phase {
	switch {
	case r.passing != nil:
		return r.passing.phase
	case r.Rerouting() != Settled:
		return r.rerouting.phase
	}
	for _, p := range r.pools {
		if p.change != nil {
			return p.change.phase
		}
	}
	if r.change == nil {
		return Settled
	}
	return r.change.phase
}

// Everywhere reports whether every server may be asked for every key. With several pools it is false.
func (r *Router) Everywhere() bool {
	return r.change == nil && r.pools == nil && r.migration == nil && r.passing == nil && r.n == len(r.servers)
}

// Readers appends to dst the servers that may be asked for a key, the primary first. It allocates nothing if dst has room.
func (r *Router) Readers(key []byte, dst []int) []int {
	r, key = r.At(key)
	if r.migration != nil {
		return r.migration.readers().Readers(key, dst)
	}
	if r.passing != nil {
		return r.passing.readers().Readers(key, dst)
	}
	if r.side != nil {
		return r.side.appendReaders(key, dst)
	}
	return r.Replicas(key, dst)
}

// Moves reports whether commands that depend on the key's value must be refused; see Late.
func (r *Router) Moves(key []byte) bool {
	r, _ = r.At(key)
	return r.passing != nil && r.passing.phase == Late
}

// Undecided reports whether another middleware may have another server than decider, which this one would ask, decide commands that depend on the item of
// key, whose Router r is. Such a command is answered like one of a missing key, and the key is deleted. That is so in DeleteNew, unless the key's first
// server stays the first, or decider is already the one that will be: it stands in for a first server that cannot be read.
func (r *Router) Undecided(key []byte, decider int) bool {
	switch {
	case r.migration != nil:
		return r.migration.undecided(key, decider)
	case r.passing != nil:
		return r.passing.phase == DeleteNew || r.passing.readers().Undecided(key, decider)
	case r.change == nil || r.change.phase != DeleteNew:
		return false
	}
	var old, now [16]int
	next := r.change.to.appendHolders(key, now[:0])[0]
	return r.change.appendOld(key, old[:0])[0] != next && decider != r.base+next
}

// Emptied appends to dst the servers on which a write deletes the key instead of storing it.
func (r *Router) Emptied(key []byte, dst []int) []int {
	r, key = r.At(key)
	if r.migration != nil {
		return r.migration.appendEmptied(key, dst)
	}
	if r.passing != nil {
		return r.passing.appendEmptied(key, dst)
	}
	if r.side != nil {
		return r.side.appendEmptied(key, dst)
	}
	c := r.change
	if c == nil {
		return dst
	}
	var written, room [16]int
	holders, start := c.appendReplicas(key, written[:0]), len(dst)
	for _, s := range c.appendOld(key, c.to.appendHolders(key, room[:0])) {
		if !slices.Contains(holders, s) && !slices.Contains(dst[start:], s) {
			dst = append(dst, s)
		}
	}
	return r.offset(dst, start)
}

// Gained reports whether the change makes server a holder of key.
func (r *Router) Gained(server int, key []byte) bool {
	if r, key = r.At(key); r.change == nil {
		return false
	}
	var old, now [16]int
	server -= r.base
	return slices.Contains(r.change.to.appendHolders(key, now[:0]), server) && !slices.Contains(r.change.appendOld(key, old[:0]), server)
}

// appendReplicas is Replicas.
func (c *change) appendReplicas(key []byte, dst []int) []int {
	if c.phase == ReadNew {
		return c.to.appendHolders(key, dst)
	}
	return c.appendOld(key, dst)
}

// appendOld appends the key's holders by from.
func (c *change) appendOld(key []byte, dst []int) []int {
	start := len(dst)
	dst = c.from.appendHolders(key, dst)
	for i := start; i < len(dst); i++ {
		dst[i] = c.index[dst[i]]
	}
	return dst
}

// covers is Covers.
func (c *change) covers(ok func(server int) bool) bool {
	if c.phase == DeleteNew {
		return c.from.Covers(func(server int) bool { return ok(c.index[server]) })
	}
	return c.to.Covers(ok)
}
