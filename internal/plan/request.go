package plan

import (
	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/route"
)

// Request is a request of the round. What only some requests need is in extras, which are nil until then.
type Request struct {
	*request.Request
	number int32  // its index
	key    []byte // the first key; if it is the only one and stripped, as its servers know it
	// in is the pool where its only key is served. Without a key, or with several, it is Planner.common.
	in *route.Group
	state
	step step
	// Calls[first:last] are those of the step. left of them have not ended.
	span
	left int32
	hits int32  // of a retrieval: number of values in the answer
	text string // the answer, if it is fixed; see Fail
	// stripped is its only key as the servers know it, without a prefix.
	stripped *stripped
	write    *writeExtra
	read     *readExtra
	split    *split
	join
	inGutter
}

// inGutter is what a request knows of the gutters that some of its keys are in.
type inGutter struct {
	ttl int32        // how long what it stores in a gutter may live at most, seconds; 0: none of its keys is in one
	own *route.Group // the pool that the gutter stands in for, if it has only one key; otherwise nil
}

// span are Calls[first:last].
type span struct{ first, last int32 }

// state has a bit for each thing that a request, or a call, is or not.
type state uint32

const (
	failed state = 1 << iota // of a call: it got no reply; of a request: one of the step's calls did not
	// Of a request.
	decided   // the key's first server decides the write, and the others get the result
	versioned // what it stores has a version
	chunked   // it stores a value in chunks
	strips    // servers know one of its keys without a prefix
	cut       // a value that arrived was not kept
	fixed     // text is the answer, whatever the servers reply
	guarded   // a tombstone of its key undoes it; see hold.go
	tagged    // the cas of an item in a gutter is shown to it with a tag; see countsAlike
	// Of a call.
	fence   // see Fence
	reads   // see Reads
	dropped // see Dropped
	hidden  // the client does not get its reply, unless it is an error
	stores  // it stores an item under the request's version
	empties // it deletes the key on a server that must not hold it; see route.Row
	lost    // it failed because the server closed the connection
	skipped // the line end after the data of a value that is too large comes next
	final   // that line end ends the reply
)

// is reports whether s has one of the bits.
func (s state) is(bits state) bool { return s&bits != 0 }

// set gives s the bits, or takes them away.
func (s *state) set(bits state, on bool) {
	if *s &^= bits; on {
		*s |= bits
	}
}

// Failed reports whether a call, or one of a request's step, got no reply.
func (s state) Failed() bool { return s.is(failed) }

// Fixed reports whether a request's answer is known, whatever the servers reply.
func (s state) Fixed() bool { return s.is(fixed) }

// writeExtra is what a write needs once the servers of its key are known.
type writeExtra struct {
	place   []route.Holder // the servers of the key
	decides route.Decider  // who decides
	version uint64         // of what it stores; 0: none
	chosen  int32          // the call whose reply the client gets; -1 while that is undecided
	fetch   int32          // the call that fetches the result; 0: none
	dropped bool           // the other servers must not hold the key
	repairs []int32        // the servers on which the key is being deleted
	// elect is the server that decides it for all instances, by roles whose turns add up to turns; -1: there is none.
	// undone: see Undone.
	elect, undone int32
	turns         uint32
}

// readExtra is what a read needs that does not end with the reply of one server, or asking.
type readExtra struct {
	keys []readKey // which call asks for each key; none: the calls ask for consecutive keys
	// tries counts how often it was planned again. The calls of earlier attempts are in tried; other requests' calls
	// may be among them.
	tries   int
	tried   span
	rereads uint8 // how often it was read again because others replaced what it read
	// warms: some of its keys were looked up on servers that are warmed up. lacks: it is an mg, and such a server has
	// answered that it does not hold the key.
	warms, lacks bool
	// before are the calls that have read its values, while those of the present step do what follows.
	before span
	// ownToken: a server that is not the first of its key has shown a cas of its own. byFirst: only first servers may
	// answer it. See versions.go.
	ownToken, byFirst bool
	// all has the allKeys keys of which Keys is the first portion; nil if Keys is all of them.
	all     []byte
	allKeys int32
}

// stock has values that belong to requests until the end of the round. Once warm it allocates nothing.
type stock[T any] struct {
	values []*T
	used   int
}

// take returns a value, as its last user has left it.
func (p *stock[T]) take() *T {
	if p.used == len(p.values) {
		p.values = append(p.values, new(T))
	}
	p.used++
	return p.values[p.used-1]
}

// reset takes all extras back, and lets go of what they were given.
func (e *extras) reset() {
	for _, x := range e.readings.values[:e.readings.used] {
		x.all = nil
	}
	for _, x := range e.splits.values[:e.splits.used] {
		*x = split{}
	}
	for _, x := range e.renames.values[:e.renames.used] {
		*x = stripped{}
	}
	e.writes.used, e.readings.used, e.splits.used, e.renames.used = 0, 0, 0, 0
}

// writeOf returns r.write, which it makes if there is none.
func (p *Planner) writeOf(r *Request) *writeExtra {
	if r.write == nil {
		r.write = p.writes.take()
		*r.write = writeExtra{place: r.write.place[:0], repairs: r.write.repairs[:0], chosen: -1, elect: -1, undone: -1}
	}
	return r.write
}

// readOf returns r.read, which it makes if there is none.
func (p *Planner) readOf(r *Request) *readExtra {
	if r.read == nil {
		r.read = p.readings.take()
		*r.read = readExtra{keys: r.read.keys[:0]}
	}
	return r.read
}

// warms reports whether some of r's keys were looked up on servers that are warmed up.
func (r *Request) warms() bool { return r.read != nil && r.read.warms }

// spread reports whether the calls of r ask for keys that are not consecutive.
func (r *Request) spread() bool { return r.read != nil && len(r.read.keys) > 0 }

// tries counts how often r was planned again.
func (r *Request) tries() int {
	if r.read == nil {
		return 0
	}
	return r.read.tries
}

// elected reports whether a server decides r for all instances.
func (r *Request) elected() bool { return r.write != nil && r.write.elect >= 0 }

// chosen returns the call whose reply the client gets; -1 while that is undecided.
func (r *Request) chosen() int32 {
	if r.write == nil {
		return -1
	}
	return r.write.chosen
}

// Asks reports whether r's present step has calls, or r waits for another request's.
func (r *Request) Asks() bool { return r.first < r.last || r.HasJoined() }

// Idle reports whether the servers have nothing to do for r, because its answer is known.
func (r *Request) Idle() bool {
	return r.state&fixed != 0 || (r.Answer != "" && !r.HasEffect()) || r.Has(protocol.Local)
}

// Changes reports whether r may change the value of its key.
func (r *Request) Changes() bool {
	return r.NumKeys > 0 && r.Has(protocol.Writes) && !r.Has(protocol.Reads) && !r.Idle()
}

// Key returns the first key; an only key as the servers know it.
func (r *Request) Key() []byte { return r.key }

// Fail makes text the answer of r, whatever the servers reply.
func (r *Request) Fail(text string) { r.state, r.text = r.state|fixed, text }

// readsOnly reports whether r changes nothing.
func (r *Request) readsOnly() bool { return r.Has(protocol.Reads) && !r.Has(protocol.Writes) }

// touches reports whether r is a retrieval that is a write as well.
func (r *Request) touches() bool { return r.Has(protocol.Reads | protocol.Writes) }

// portion reports whether Keys is a portion of r's keys.
func (r *Request) portion() bool { return r.read != nil && r.read.all != nil }

// whole reports whether r can be sent as the client sent it.
func (r *Request) whole() bool { return r.Resumed == 0 && !r.portion() }

// KeysAsked returns how many keys r has asked for, including earlier portions.
func (r *Request) KeysAsked() int { return int(r.NumKeys + r.SentKeys) }

// IsFlush reports whether r is a flush_all that goes to the servers.
func (r *Request) IsFlush() bool { return r.Has(protocol.Writes|protocol.Everywhere) && !r.Idle() }

// MustRead reports whether r depends on what a server holds: it is a read, or the first server decides it.
func (r *Request) MustRead() bool { return r.Has(protocol.Reads) || r.depends() }

// depends reports whether the first server of r's key decides r by what it holds.
func (r *Request) depends() bool {
	return r.is(decided) && r.Has(protocol.Conditional|protocol.Depends)
}

// Grows reports whether r extends the present value by the data it brings, so that the resulting item is fetched.
func (r *Request) Grows() bool { return r.Version() != 0 && r.Has(protocol.Builds) && len(r.Data) > 0 }

// Version returns the version of what r stores; 0: none.
func (r *Request) Version() uint64 {
	if r.write == nil {
		return 0
	}
	return r.write.version
}
