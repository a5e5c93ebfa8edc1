package plan

import (
	"bytes"
	"iter"
	"slices"

	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/route"
)

// maxTouchLine bounds the keys of a gat that is sent, bytes: unlike the line of a get, memcached may refuse one beyond
// 2,048 bytes.
const maxTouchLine = 1900

// choice is the choice of servers for reads. It is the same for all reads of a part, so that they depend on as few
// servers as possible.
type choice struct {
	turn   int          // 0: not chosen
	server int          // for reads that every server of the pool in can answer
	in     *route.Group // nil: not chosen
	avoid  []bool       // by server: it has failed the read; nil: none has
}

// readKey says where a key of a retrieval is read, and where its value is in the call's reply.
type readKey struct {
	server, call int32
	key, keyEnd  int32 // offsets in the request's Keys
	strip        int32 // length of the prefix that the servers do not get, bytes
	start, end   int32 // offsets in the reply; 0: there is no value
	unread       bool  // it has to be asked for
	lacks        bool  // the pool that is warmed up has answered that it does not hold it
}

// of returns the key, which is one of keys.
func (k *readKey) of(keys []byte) []byte { return keys[k.key:k.keyEnd] }

// readsAny reports whether any of a key's servers in the pool in may answer the read r.
func (p *Planner) readsAny(r *Request, in *route.Group) bool {
	return in.Read() != route.ReadPrimary && p.movable(r, in)
}

// commonPool returns the pool of all keys of the read r; p.common if the keys are in several.
func (p *Planner) commonPool(r *Request) *route.Group {
	router := p.routerOf(r)
	in := router.In(r.key)
	for key := range each(r.Keys) {
		if router.In(key) != in {
			return p.common
		}
	}
	return in
}

// planReading plans a read, unless it can join another one.
func (p *Planner) planReading(r *Request) {
	if !p.joinable(r) || !p.join(r) {
		p.planRead(r, &p.part.choice)
	}
}

// planRead plans get, gets, gat, gats, and the meta commands that change nothing.
func (p *Planner) planRead(r *Request, c *choice) {
	// A read that shows a cas goes to the first server, unless it is a version. So does a gat, which is a write and
	// touches the other copies.
	in := r.in
	if r.NumKeys > 1 && len(p.pools) > 1 && !r.is(strips) {
		if in = p.commonPool(r); in.Everywhere() {
			in = p.divertKey(r, in, r.key)
		}
	}
	anywhere := in.Everywhere() && p.readsAny(r, in)
	switch {
	case r.Answer != "", r.spread():
		p.planByPlacement(r, c) // which writes its own lines
	case len(p.all) == 1 && r.whole() && (!r.touches() || len(r.Keys) <= maxTouchLine):
		p.forward(r, 0)
	case r.is(strips|tagged) && r.Command.IsRetrieval():
		p.planByPlacement(r, c)
	case anywhere && r.NumKeys > 1 && p.options.Sharded:
		p.planEvenly(r, in, c)
	case anywhere && r.whole():
		p.forward(r, p.choose(in, c).server)
	case !r.Command.IsRetrieval() && p.planMgOnNew(r, in, c):
	case !r.Command.IsRetrieval():
		p.forward(r, p.readServer(r, in, r.key, c))
	default:
		p.planByPlacement(r, c)
	}
}

// choose gives c a turn, and a server for the reads of the pool in. Both stay until c is for another pool.
func (p *Planner) choose(in *route.Group, c *choice) *choice {
	if c.in != in {
		if c.in == nil {
			p.turn++
			c.turn = p.turn
		}
		c.in = in
		c.server = p.best(in, p.pools[in.Number()], c)
	}
	return c
}

// best returns the one of servers, of the pool in, that a read goes to. It is Home, if that is one of them. Otherwise
// it is, of those that may be read, the next in turn, or the least busy, in turn among equals. If none may be read, it
// is the next in turn.
func (p *Planner) best(in *route.Group, servers []int, c *choice) int {
	if h := p.options.Home; h >= 0 && slices.Contains(servers, h) && p.mayRead(h, c.avoid) && !p.Servers[h].Suspect {
		return h
	}
	readable := p.mayReadOf(in, servers, c.avoid)
	if len(readable) == 0 {
		return servers[c.turn%len(servers)]
	}
	best := readable[c.turn%len(readable)]
	if in.Read() != route.ReadLeastBusy {
		return best
	}
	for k := range readable {
		if s := readable[(c.turn+k)%len(readable)]; p.Servers[s].Load < p.Servers[best].Load {
			best = s
		}
	}
	return best
}

// mayRead reports whether a read may go to server s.
func (p *Planner) mayRead(s int, avoid []bool) bool {
	return p.Servers[s].Readable && (avoid == nil || !avoid[s])
}

// mayReadOf returns those of servers, of the pool in, that a read may go to; the nearest, if the pool prefers these.
// Suspects are returned only if there is no other.
func (p *Planner) mayReadOf(in *route.Group, servers []int, avoid []bool) []int {
	for _, suspects := range []bool{false, true} {
		p.readable = p.readable[:0]
		for _, s := range servers {
			if p.mayRead(s, avoid) && (suspects || !p.Servers[s].Suspect) {
				p.readable = append(p.readable, s)
			}
		}
		if len(p.readable) > 0 {
			break
		}
	}
	return in.Nearest(p.readable)
}

// firstOf returns the first of a key's servers that may be read, or the first of all if none may. It answers gets, and
// compares what a conditional write expects.
func (p *Planner) firstOf(holders []int, avoid []bool) int {
	for _, s := range holders {
		if p.mayRead(s, avoid) {
			return s
		}
	}
	return holders[0]
}

// readServer returns the server from which to read key, of the pool in.
func (p *Planner) readServer(r *Request, in *route.Group, key []byte, c *choice) int {
	if in.N() == 1 && !in.Moving() {
		return in.Primary(key)
	}
	p.findPlace(in, key)
	return p.pick(r, in, p.readersOf(), c)
}

// pick returns the one of servers, of a key in the pool in, to which r goes.
func (p *Planner) pick(r *Request, in *route.Group, servers []int, c *choice) int {
	if !p.readsAny(r, in) {
		return p.firstOf(servers, c.avoid)
	}
	return p.best(in, servers, p.choose(in, c))
}

// planEvenly splits a get whose keys every server of the pool in holds into runs of consecutive keys. The lengths of
// the runs differ by at most one.
func (p *Planner) planEvenly(r *Request, in *route.Group, c *choice) {
	chosen := p.choose(in, c).server
	servers := p.mayReadOf(in, p.pools[in.Number()], c.avoid)
	if len(servers) == 0 {
		servers = p.pools[in.Number()]
	}
	runs := min(len(servers), int(r.NumKeys))
	first := max(slices.Index(servers, chosen), 0)
	rest := r.Keys
	for run := range runs {
		size := int(r.NumKeys) / runs
		if run < int(r.NumKeys)%runs {
			size++
		}
		next := keysEnd(rest, size)
		keys := bytes.TrimSuffix(rest[:next], blank)
		rest = rest[next:]
		op := protocol.Op{Command: r.Command, Keys: keys, NumKeys: int32(size)}
		p.send(r, servers[(first+run)%len(servers)], &op).state |= reads
	}
}

var blank = []byte(" ")

// nextKey returns the first of keys, and the keys that follow it.
func nextKey(keys []byte) (key, rest []byte) {
	if end := bytes.IndexByte(keys, ' '); end >= 0 {
		return keys[:end], keys[end+1:]
	}
	return keys, nil
}

// each returns the keys, one after the other.
func each(keys []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for more := len(keys) > 0; more; {
			key, rest := nextKey(keys)
			keys = rest
			more = yield(key) && len(rest) > 0
		}
	}
}

// keysEnd returns the offset in keys of what follows the first n.
func keysEnd(keys []byte, n int) int {
	rest := keys
	for range n {
		_, rest = nextKey(rest)
	}
	return len(keys) - len(rest)
}

// planByPlacement plans one call per server for the keys that are read there, in the order of the request; several
// calls for a long gat. Of a retrieval that was planned before, only the unread keys are asked for.
func (p *Planner) planByPlacement(r *Request, c *choice) {
	if r.NumKeys == 1 && r.Answer == "" && r.whole() && !r.touches() && !r.is(strips|tagged) && !r.in.WarmsUp() {
		p.forward(r, p.readServer(r, r.in, r.key, c))
		return
	}
	rd, router := p.readOf(r), p.routerOf(r)
	first, common, k, offset := len(rd.keys) == 0, -1, 0, 0
	for key := range each(r.Keys) {
		in, stored := router.At(key)
		end := offset + len(key)
		if first {
			rd.keys = append(rd.keys, readKey{
				key: int32(offset), keyEnd: int32(end), strip: int32(len(key) - len(stored)), unread: true,
			})
		}
		at, s := &rd.keys[k], -1
		if at.unread {
			if s = p.warmServer(r, key, c); s < 0 {
				s = p.readServer(r, p.divertKey(r, in, stored), stored, c)
			}
		}
		if k == 0 {
			common = s
		} else if common != s {
			common = -1
		}
		at.server = int32(s)
		k, offset = k+1, end+len(blank)
	}
	// Each key of a gat may become a miss on its own.
	if first && common >= 0 && !r.warms() && !r.is(strips|tagged) && r.Answer == "" && r.whole() &&
		(!r.touches() || len(r.Keys) <= maxTouchLine && !p.options.GetErrorMiss) {
		p.forward(r, common)
		rd.keys = rd.keys[:0]
	} else {
		for s := range p.all {
			p.planKeysOf(r, s, rd.keys)
		}
	}
	if r.touches() && p.options.Router.N() > 1 {
		p.planTouches(r, c)
	}
}

// planKeysOf plans the calls for the keys that are read from server s.
func (p *Planner) planKeysOf(r *Request, s int, keys []readKey) {
	start, ordinal := len(p.lines), int32(0) // where the keys of the line begin in lines, and how many there are
	versioned, command := r.warms() && r.step == reading && p.fills[s], r.Command
	if versioned {
		command = protocol.Gets
	}
	for k := range keys {
		at := &keys[k]
		if at.server != int32(s) {
			continue
		}
		key := at.of(r.Keys)[at.strip:]
		if ordinal > 0 && r.touches() && len(p.lines)-start+len(key) > maxTouchLine {
			p.sendKeys(r, s, command, start, ordinal)
			start, ordinal = len(p.lines), 0
		}
		if ordinal > 0 {
			p.lines = append(p.lines, ' ')
		}
		p.lines = append(p.lines, key...)
		at.call, at.start, at.end = int32(len(p.Calls)), 0, 0
		ordinal++
	}
	if ordinal == 0 {
		return
	}
	p.sendKeys(r, s, command, start, ordinal)
	if versioned {
		p.Calls[len(p.Calls)-1].form = formClientVersion
	}
}

// sendKeys sends a retrieval of n keys, which are lines[start:], to server s.
func (p *Planner) sendKeys(r *Request, s int, command protocol.Command, start int, n int32) {
	end := len(p.lines)
	op := protocol.Op{Command: command, Expiry: r.Expiry, Keys: p.lines[start:end:end], NumKeys: n}
	p.send(r, s, &op).state |= reads
}

// planTouches sets the expiry of a gat's keys on the servers that it does not read.
func (p *Planner) planTouches(r *Request, c *choice) {
	for key := range each(r.Keys) {
		in, key := p.options.Router.At(key)
		p.findPlace(in, key)
		reads := p.firstOf(p.readersOf(), c.avoid)
		for _, h := range p.place {
			if s := int(h.Server); s != reads && h.Roles.Has(route.Store) && !h.Roles.Has(route.After) {
				p.touch(r, s, key)
			}
		}
	}
}

// touch sets the expiry of a key of the gat r on server s.
func (p *Planner) touch(r *Request, s int, key []byte) {
	op := protocol.Op{Command: protocol.Touch, Expiry: r.Expiry, Keys: key, NumKeys: 1}
	p.send(r, s, &op).state |= hidden
}

// spares reports whether c is a touch of the gat r that may end without a reply although the client is told of a
// success: the values have been read, and as many servers of the key as Ack demands have the new expiry.
func (p *Planner) spares(r *Request, c *Call) bool {
	if !r.touches() || !c.isTouch() || c.arrived > 0 && !c.is(failed) {
		return false
	}
	of := p.options.Router.Of(int(c.Server))
	done, asked := 0, 0
	for n := r.first; n < r.last; n++ {
		switch t := &p.Calls[n]; {
		case t.command.IsRetrieval() && (t.arrived == 0 || t.kind.IsError()):
			return false
		case t.isTouch() && bytes.Equal(t.keys, c.keys) && p.options.Router.Of(int(t.Server)) == of:
			asked++
			if t.arrived > 0 && !t.is(failed) {
				done++
			}
		}
	}
	switch p.options.Pools[of.Number()].Ack {
	case replica.AckAll:
		return false
	case replica.AckQuorum:
		return done >= asked/2 // and the server that was read
	}
	return true
}

// isTouch reports whether c is a touch of a gat.
func (c *Call) isTouch() bool {
	return c.is(hidden) && c.command.IsKeyed() // deletions and parts are meta commands
}

// untouched reports whether too few servers have the new expiry of the gat r for key, because others have not
// answered; nil: for a key.
func (p *Planner) untouched(r *Request, key []byte) bool {
	if !r.touches() {
		return false
	}
	return slices.ContainsFunc(p.Calls[r.first:r.last], func(c Call) bool {
		return c.isTouch() && c.is(failed) && (key == nil || bytes.Equal(c.keys, key)) && !p.spares(r, &c)
	})
}

// afterRead reads again what a server has failed to answer, or asks for the chunks of what was read.
func (p *Planner) afterRead(r *Request, inTime bool) (next step) {
	switch next = p.askOthers(r, inTime); {
	case next != answered || r.is(fixed) || r.split == nil:
		return next
	}
	return p.afterSplit(r)
}

// askOthers returns the step in which other servers are asked for what r, a read, did not get, or the same server if
// that has closed the connection, as a restarted server does.
func (p *Planner) askOthers(r *Request, inTime bool) (next step) {
	asksAll := r.step == reading || r.step == retrying // otherwise the step has asked for heads or chunks alone
	switch {
	case r.Answer != "" || r.is(fixed) || !inTime:
	case r.read != nil && r.read.ownToken && !r.read.byFirst:
		r.read.byFirst = true
		return p.readAgain(r)
	case r.warms(), r.is(failed) && r.spread() && !r.touches() && asksAll:
		if !p.findUnread(r) {
			return answered
		}
		if rd := p.tried(r); !rd.warms || r.step == retrying {
			rd.tries++
		}
		return retrying
	case r.is(failed) && p.mayRetry(r):
		next = p.readAgain(r)
		r.read.tries++
	case asksAll && r.touches() && p.errorOf(r, p.Calls[r.first:r.last], false) == nil && !p.untouched(r, nil):
		return p.afterOldFirst(r)
	}
	return next
}

// findUnread finds the keys of r, a read whose step has ended, that a server has failed to answer and another one may
// answer, or that a server which is warmed up lacks. It reports whether there are any.
func (p *Planner) findUnread(r *Request) (some bool) {
	if !r.spread() { // an mg
		c := &p.Calls[r.first]
		if c.is(failed) {
			return p.mayTryAgain(r, r.first)
		}
		it, _ := protocol.DecodeItem(c.reply)
		lacks := c.asksNew() && (c.kind == protocol.ReplyMetaMiss || protocol.IsProvisional(it.CAS))
		r.read.lacks = r.read.lacks || lacks
		return lacks
	}
	for k := range r.read.keys {
		at := &r.read.keys[k]
		c := &p.Calls[at.call]
		lacks := c.asksNew() && c.kind == protocol.ReplyEnd && at.end == 0 && !(c.cutOff() && int32(k) >= c.cut)
		at.unread = lacks || at.call >= r.first && c.is(failed) && p.mayTryAgain(r, at.call)
		at.lacks = at.lacks || lacks
		some = some || at.unread
	}
	return some
}

// mayRetry reports whether a server has failed the read r and there is a server to ask instead.
func (p *Planner) mayRetry(r *Request) bool {
	for n := r.first; n < r.last; n++ {
		if c := &p.Calls[n]; c.is(failed) && (!c.is(hidden) || c.isPart()) && p.mayTryAgain(r, n) {
			return true
		}
	}
	return false
}

// mayTryAgain reports whether another server can be asked for what call n of the read r asks for, or the same one, if
// it has closed the connection. A gat that expires its items has done so on the other servers.
func (p *Planner) mayTryAgain(r *Request, n int32) bool {
	c, replicas := &p.Calls[n], p.replicas(n)
	switch {
	case c.asksNew():
		return true
	case replicas > 1:
		return r.tries() < replicas-1 && !r.Expires()
	}
	return c.is(lost) && r.tries() == 0
}

// planRetry plans a read again, without the servers that failed it.
func (p *Planner) planRetry(r *Request) {
	p.noteFailed(r)
	p.planRead(r, &choice{avoid: p.failed})
}

// readAgain returns the step in which all of r, a read, is asked for again.
func (p *Planner) readAgain(r *Request) step {
	rd := p.tried(r)
	rd.keys, r.split = rd.keys[:0], nil
	return retrying
}

// tried notes that other servers are asked for what r asked for.
func (p *Planner) tried(r *Request) *readExtra {
	rd := p.readOf(r)
	if rd.tried.last == 0 {
		rd.tried.first = r.first
	}
	rd.tried.last = r.last
	return rd
}

// noteFailed sets failed to the servers that failed r in earlier attempts.
func (p *Planner) noteFailed(r *Request) {
	clear(p.failed)
	if r.read == nil {
		return
	}
	for n := r.read.tried.first; n < r.read.tried.last; n++ {
		if c := &p.Calls[n]; c.Request == r.number && c.is(failed) {
			p.failed[c.Server] = true
		}
	}
}
