package plan

import (
	"crypto/rand"
	"encoding/binary"
	"slices"

	"mcmw/internal/protocol"
	"mcmw/internal/route"
)

// Versions gives out the versions of the items that a planner stores. Equal versions mean equal items, so versions must
// be unique. One Versions repeats itself only after 2^62 of them. Two of them, which begin at random and take random
// steps, give the same version to two concurrent writes of a key with a probability of 2^-62. The order of versions
// means nothing.
type Versions struct{ last, step uint64 }

// NewVersions returns one whose versions follow start, in odd steps.
func NewVersions(start, step uint64) *Versions { return &Versions{start, step | 1} }

// RandomVersions returns one that begins at random.
func RandomVersions() *Versions {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return NewVersions(binary.NativeEndian.Uint64(random[:]), binary.NativeEndian.Uint64(random[8:]))
}

func (v *Versions) next() uint64 {
	v.last += v.step
	return protocol.FirstVersion | v.last&(protocol.FirstVersion-1)
}

// textStamped refuses a cas that the client chooses: mcmw stores its versions there.
const textStamped = "CLIENT_ERROR the flag E is not available through mcmw with several writers: mcmw stores its " +
	"versions there\r\n"

// addVersioned checks and prepares a request that was added, of a pool whose items have versions.
func (p *Planner) addVersioned(r *Request) {
	refusal := ""
	if r.Command.IsMeta() && r.Has(protocol.Writes) {
		switch {
		case r.Has(protocol.Stamped):
			refusal = textStamped
		case !r.Has(protocol.Quiet) && r.Words() >= protocol.MaxMetaWords: // E is one more word
			refusal = protocol.TextMetaTooLong
		}
	}
	// Where nobody else writes, replicas do not differ without a version. So a command that deletes an item, or leaves
	// one that is stale or empty, reaches all replicas in the same form, and each of them shows what one server would.
	if !p.options.Pools[r.in.Number()].Several &&
		(refusal != "" || r.Has(protocol.Deletes) || r.Has(protocol.Marks) || r.Fetches() && r.Has(protocol.Writes)) {
		r.state &^= versioned
		return
	}
	r.set(decided, r.Has(protocol.Depends) || r.Has(protocol.Writes) && !r.Has(protocol.Reads) &&
		p.oldFirst(r.in, r.key))
	if refusal != "" {
		r.Fail(refusal)
	}
	if r.Has(protocol.Makes) {
		p.writeOf(r).version = p.options.Versions.next()
	}
}

// forwardVersioned sends r to servers, under its version.
func (p *Planner) forwardVersioned(r *Request, servers ...int) {
	op := *r.served()
	op.Stamp(r.write.version)
	line := p.write(&op)
	for _, s := range servers {
		c := p.call(r, s, &op, line, op.Data)
		c.state = stores
		c.set(reads, r.depends())
		switch {
		case r.Command.IsMeta():
		case r.Command.IsStorage():
			c.form = formStored
		default:
			c.form = formCounter
		}
	}
}

// moveToFront moves first, one of holders, to the front.
func (p *Planner) moveToFront(holders []int, first int) {
	k := slices.Index(holders, first)
	copy(holders[1:k+1], holders[:k])
	holders[0] = first
}

// A token is the cas that a read shows, to be named by a later write. Where items have versions, equal tokens mean
// equal items. So any server may show a token; the key's first server decides the write:
//
//	token shown                                        the write that names it
//	a version, of the item on the first server         succeeds
//	a version, of any other item                       EXISTS or NOT_FOUND; a check follows
//	no version: the server has given this cas itself   the read is repeated on the first server: elsewhere such a cas may be that of another item
//
// A cas that a server has given itself belongs to an item that was not stored through mcmw, or that is about to get a
// version.

// versioned reports whether the items of the pool in have versions.
func (p *Planner) versioned(in *route.Group) bool { return p.options.Pools[in.Number()].Versions }

// movable reports whether servers other than a key's first server may answer the read r in the pool in.
func (p *Planner) movable(r *Request, in *route.Group) bool {
	return !r.Has(protocol.First) || r.ShowsToken() && !(r.read != nil && r.read.byFirst) && p.versioned(in)
}

// noteToken notes that c has shown r the token cas for key, the last that has arrived.
func (p *Planner) noteToken(r *Request, c *Call, key []byte, cas uint64) {
	if cas >= protocol.FirstVersion || c.is(failed) || r.read != nil && r.read.byFirst {
		return
	}
	in := r.in
	if r.NumKeys > 1 {
		if r.spread() { // the server may know it without its prefix
			key = r.read.keys[c.next-1].of(r.Keys)
		}
		in, key = p.options.Router.At(key)
	}
	if in.N() == 1 || !p.versioned(in) {
		return
	}
	p.findPlace(in, key)
	if int(c.Server) != p.firstOf(p.readersOf(), nil) {
		p.readOf(r).ownToken = true
	}
}
