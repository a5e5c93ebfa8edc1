package plan

import (
	"bytes"
	"encoding/binary"
)

// Equal gets share one call: a get of one key joins the call of a get of the same key that is already planned in the
// round, unless a request that may change the key is planned between the two.
//
//	get a   leader ----> call ----> reply ---.--> answer
//	get a   joined: no call of its own       |--> answer
//	get a   joined                           '--> answer
//
// The call is sent after all of them have arrived, so its reply is one that each could have got. If the leader is
// planned again, this is for all; when it ends, all do. A get and a gets do not join each other. An mg is not
// joined: its flags can show how often the item was read before, and only one reader of a stale item is told to renew
// it.

// joinSlots is the number of keys whose gets can be joined at a time. Of several keys with the same slot the last one
// has it.
const joinSlots = 1 << 8

// joins finds the gets of the round that others can join.
type joins struct {
	round uint32 // a slot of another round is empty
	any   bool   // a slot was filled in this round
	slots [joinSlots]joinSlot
}

type joinSlot struct {
	round  uint32
	hash   uint32
	leader int32
	part   int32 // the last part that has a get that leads or has joined
}

// join is what a get knows of gets that it has joined, or that have joined it.
type join struct {
	leader  int32 // the request whose calls it waits for; -1: none
	next    int32 // the list of those that wait for one leader: the leader has the first; -1 ends it
	waiting int32 // of a leader: how many of them still need the reply
}

// start empties all slots.
func (j *joins) start() {
	j.round++
	j.any = false
	if j.round == 0 { // slots of 2^32 rounds ago would look like new ones
		clear(j.slots[:])
		j.round = 1
	}
}

// hashEnd hashes the end of a key, in which most keys differ. Clients that make keys collide only keep their own gets
// from joining.
func hashEnd(key []byte) uint64 {
	var end uint64
	switch n := len(key); {
	case n >= 8:
		end = binary.LittleEndian.Uint64(key[n-8:])
	case n >= 4:
		end = uint64(binary.LittleEndian.Uint32(key))<<32 | uint64(binary.LittleEndian.Uint32(key[n-4:]))
	default:
		for _, c := range key {
			end = end<<8 | uint64(c)
		}
	}
	return end * 0x9e3779b97f4a7c15 // 2^64 divided by the golden ratio: the upper bits depend on all
}

// joinable reports whether r is a get, or a gets, that other ones can join.
func (p *Planner) joinable(r *Request) bool {
	return p.options.Join && r.NumKeys == 1 && r.Command.IsRetrieval() && r.readsOnly() && r.Answer == "" &&
		r.whole() && !r.is(strips|tagged) && !r.in.WarmsUp()
}

// slot returns the slot for a get of the key, or for a gets, which shows the cas. found: it has one that others can
// join.
func (p *Planner) slot(key []byte, withCAS bool) (slot *joinSlot, hash uint32, found bool) {
	h := hashEnd(key)
	if withCAS {
		h = ^h
	}
	slot, hash = &p.joins.slots[h>>56], uint32(h>>24)
	if slot.round == p.joins.round && slot.hash == hash {
		leader := &p.Requests[slot.leader]
		found = leader.ShowsToken() == withCAS && bytes.Equal(leader.key, key)
	}
	return slot, hash, found
}

// join makes r, a get, wait for the call of an equal get, and reports whether there is one. If not, later
// gets can join r.
func (p *Planner) join(r *Request) bool {
	slot, hash, found := p.slot(r.key, r.ShowsToken())
	if !found {
		*slot = joinSlot{round: p.joins.round, hash: hash, leader: r.number, part: p.part.number}
		p.joins.any = true
		return false
	}
	leader := &p.Requests[slot.leader]
	r.leader, r.next = slot.leader, leader.next
	leader.next = r.number
	leader.waiting++
	slot.part = p.part.number
	p.Joined++
	return true
}

// joinsOwn reports whether r can join a get of its own part, or one that a get of its part has joined. In
// that case the part has no other request for a key of its stripe.
func (p *Planner) joinsOwn(r *Request) bool {
	if !p.joinable(r) {
		return false
	}
	slot, _, found := p.slot(r.key, r.ShowsToken())
	return found && slot.part == p.part.number
}

// separate keeps later gets from joining a get before r, if r may change their key.
func (p *Planner) separate(r *Request) {
	switch {
	case !p.joins.any || r.readsOnly():
	case r.NumKeys == 1:
		for _, withCAS := range [...]bool{false, true} {
			if slot, _, found := p.slot(r.key, withCAS); found {
				*slot = joinSlot{}
			}
		}
	default:
		p.joins.start()
	}
}

// NextJoined walks the list of the requests that wait for the calls of requests[i]: of i it returns the first, of each
// of them the next; -1 ends the list.
func (p *Planner) NextJoined(i int32) int32 { return p.Requests[i].next }

// answering returns the request whose calls answer r.
func (p *Planner) answering(r *Request) *Request {
	if r.HasJoined() {
		return &p.Requests[r.leader]
	}
	return r
}

// LeaveOut says that requests[i], which has joined another request, does not get the value that has arrived. It is
// asked for again, unless Fail has set the answer.
func (p *Planner) LeaveOut(i int32) {
	r := &p.Requests[i]
	p.Requests[r.leader].waiting--
	r.leader = -1
	r.state |= cut
}

// leftOut reports whether LeaveOut was called for r.
func (r *Request) leftOut() bool { return r.is(cut) && r.first == r.last }

// HasJoined reports whether another request's call answers r.
func (r *Request) HasJoined() bool { return r.leader >= 0 }
