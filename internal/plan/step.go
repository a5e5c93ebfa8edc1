package plan

import (
	"mcmw/internal/protocol"
	"mcmw/internal/replica"
)

// step is a step of a request: calls, and what follows when each of them has a reply, or will have none.
type step uint8

const (
	answered   step = iota // the servers have nothing to do for the request
	direct                 // one server gets it, or all do
	flushing               // of a flush_all: servers that get writes last get it again
	asking                 // any server may answer
	reading                // a server for each key is asked
	retrying               // other servers are asked for what a server failed to answer or, being warmed up, lacks
	gathering              // the chunks of values are asked for
	revisiting             // heads whose chunks are incomplete are read again
	discarding             // such heads are deleted
	// of a gat, and of removing: servers that get writes last get the new expiry, or lose the key
	emptying
	removing // the key is deleted everywhere
	chunking // the servers get the chunks of a value
	heading  // they get its head, by one of the steps that follow here

	// The steps of a write to several servers.
	writing  // all get it
	deciding // the key's first server gets it
	stamping // the item that this has stored gets a version
	copying  // the others get what it has stored
	deleting // the key is deleted where it does not have the answered state
)

// steps has the functions of each step. plan adds calls; plan of writing and of heading may choose another step. after
// returns the step that follows; answered: none does. An after that is nil lets none follow. inTime: there is time to
// read again; it matters only if a call has failed. follows is what can follow where a key has several servers.
var steps = [...]struct {
	plan    func(p *Planner, r *Request)
	after   func(p *Planner, r *Request, inTime bool) step
	follows Follows
}{
	direct:     {(*Planner).planDirect, (*Planner).afterDirect, FollowsRepair},
	flushing:   {(*Planner).planDirect, nil, FollowsRepair},
	asking:     {(*Planner).planAny, (*Planner).afterAny, FollowsRead},
	reading:    {(*Planner).planReading, (*Planner).afterRead, FollowsRead},
	retrying:   {(*Planner).planRetry, (*Planner).afterRead, FollowsRead},
	gathering:  {(*Planner).planGather, (*Planner).afterGather, FollowsRead},
	revisiting: {(*Planner).planRevisit, (*Planner).afterRevisit, FollowsRead},
	discarding: {(*Planner).planDiscard, (*Planner).afterDiscard, FollowsRead},
	emptying:   {(*Planner).planEmptying, (*Planner).afterEmptying, FollowsRepair},
	removing:   {(*Planner).planRemoving, (*Planner).afterRemoving, FollowsRepair},
	chunking:   {(*Planner).planChunks, (*Planner).afterChunks, FollowsRepair},
	heading:    {(*Planner).planHead, nil, FollowsRepair},
	writing:    {(*Planner).planWrite, (*Planner).afterWrite, FollowsRepair},
	deciding:   {nil, (*Planner).afterDeciding, FollowsCopies},
	stamping:   {(*Planner).planStamp, (*Planner).afterStamp, FollowsCopies},
	copying:    {(*Planner).planCopies, (*Planner).afterWrite, FollowsRepair},
	deleting:   {(*Planner).planRepairs, nil, FollowsNothing},
}

// firstStep returns the first step of r.
func (p *Planner) firstStep(r *Request) step {
	switch {
	case r.Idle():
		return answered
	case r.Has(protocol.Reads):
		return reading
	case r.Answer != "":
		return removing
	case r.is(chunked):
		return chunking
	case r.NumKeys > 0:
		return writing
	case r.Command.IsForAnyServer():
		return asking
	}
	return direct
}

// Plan plans the first step of the request that was added last. barrier: the request takes several steps, so what
// follows it in the part must not be planned before it is answered.
func (p *Planner) Plan(i int32) (barrier bool) {
	r := &p.Requests[i]
	r.first = int32(len(p.Calls))
	r.last = r.first
	if r.step = p.firstStep(r); r.step == answered {
		return false
	}
	if r.in.Gutter() != nil {
		p.divert(r)
	}
	p.separate(r)
	steps[r.step].plan(p, r)
	if r.is(guarded) {
		p.planGuards(r)
	}
	return r.step == chunking || r.step == deciding || r.is(guarded)
}

// End ends a step, each call of which has ended, and reports whether another step follows, which Next plans. inTime:
// there is time to read again; it matters only if a call has failed.
func (p *Planner) End(i int32, inTime bool) (again bool) {
	r := &p.Requests[i]
	next, after := answered, steps[r.step].after
	switch {
	case r.is(guarded) && p.undoes(r):
		next = removing
	case r.elected() && !r.is(fixed) && (r.step > deciding || outcomeOf(r, &p.Calls[r.first]) == replica.Success) &&
		p.deposed(r):
		next = p.depose(r)
	case after != nil:
		next = after(p, r, inTime)
	}
	if next == answered {
		return false
	}
	r.step = next
	return true
}

// Next plans the step that follows. Of several requests for which End has returned true, those with Repairs must be
// planned last: what they delete must stay deleted.
func (p *Planner) Next(i int32) {
	r := &p.Requests[i]
	r.first = int32(len(p.Calls))
	r.last, r.state = r.first, r.state&^failed
	steps[r.step].plan(p, r)
	if r.is(guarded) {
		p.planGuards(r)
	}
}

// Follows says what can follow the end of a call, so that time must be left for it.
type Follows uint8

// The values of Follows.
const (
	FollowsNothing Follows = iota
	FollowsRead            // if the call fails, another server is asked
	FollowsRepair          // if the call fails, the other servers may be repaired
	FollowsCopies          // if the call succeeds, the other servers get copies
)

// Follows returns what can follow the end of call n.
func (p *Planner) Follows(n int32) Follows {
	if p.Calls[n].IsCheck() {
		return FollowsNothing
	}
	r, may := &p.Requests[p.Calls[n].Request], p.replicas(n) > 1
	switch {
	case r.step == asking:
		may = p.asksAnother(n)
	case r.Has(protocol.Reads):
		may = p.mayTryAgain(r, n)
	}
	if !may {
		return FollowsNothing
	}
	return steps[r.step].follows
}
