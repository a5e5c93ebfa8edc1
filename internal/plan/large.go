package plan

import (
	"slices"

	"mcmw/internal/large"
	"mcmw/internal/protocol"
	"mcmw/internal/route"
)

// This file and largeread.go handle values that are larger than the servers' items. Package large says how they are
// stored, and why a value is never torn.
//
//	write     store the chunks on all servers of the key --> as any write, with the head as the value
//	               '--> refused ------------------------------> answer: that refusal; a set deletes the key
//	read      as any read --> fetch the chunks of the heads that arrived --> answer
//	                                |--> a server fails --> read again, as any read
//	                                '--> chunks are missing --> read the heads again --> delete those that are unchanged --> answer
//	                                                                                '--> another value is there ---------> read again

// Large says how large the values of a pool may be, bytes. With the zero value, values are stored as clients send them,
// and the servers limit their size.
type Large struct {
	// Limit is the size of the largest value; 0: see above.
	Limit int
	// Item is the size of the servers' largest item (memcached -I).
	Item int
}

// Plain returns the size of the largest value that is stored as one item.
func (l Large) Plain() int { return l.Item - large.ItemOverhead }

// Answers to requests that are not available in a pool with large values, and errors about such values.
const (
	textNoJoin   = "CLIENT_ERROR append and prepend are not available through mcmw in a pool with large-values\r\n"
	textNoSize   = "CLIENT_ERROR mg with s and without v is not available through mcmw in a pool with large-values\r\n"
	textNoFetch  = "CLIENT_ERROR mg with v and N, R or T is not available through mcmw in a pool with large-values\r\n"
	textNoStored = "CLIENT_ERROR ms with s is not available through mcmw in a pool with large-values\r\n"
	textReplaced = "SERVER_ERROR the value was replaced repeatedly while it was read; try again\r\n"
	textNoChunks = "SERVER_ERROR a server did not store a part of the value; try again\r\n"
)

// split is what is known of a request whose value, or one of whose values, is not stored as the client sees it.
type split struct {
	// Of a write: head describes its value. stored has each server once for each chunk that it has stored. refusal is
	// the reply of a server that refused a chunk, lost the error in place of a reply that did not arrive; nil: there is
	// none.
	head          large.Head
	stored        []int32
	refusal, lost []byte
	// Of a read: values are those that arrived, in the order of the request. rest is the offset in Keys of what has to
	// be asked for again; -1: nothing.
	values []splitValue
	rest   int
	failed bool // a value's chunks could not be read
}

// splitValue is a value in the answer to a read.
type splitValue struct {
	call    int32
	offset  int // offset of its key in Keys
	element []byte
	key     []byte // its key as the client has it; nil: element has it
	size    int    // size of the value in element, bytes
	// isHead: element is a head, decoded as head and inline. missing: the value cannot be put together. Otherwise
	// Calls[first:last] fetch its chunks.
	isHead, missing bool
	head            large.Head
	inline          []byte
	first, last     int32
	// If missing, revisit is the call that reads the head again, and end the call that follows from that: usually it
	// deletes the head.
	revisit, end int32
	replaced     bool   // another value has replaced the head
	failure      []byte // the error that answers it
}

// largeOf returns the limits of the pool of r's key; nil: there are none.
func (p *Planner) largeOf(r *Request) *Large {
	if l := &p.options.Pools[r.in.Number()].Large; l.Limit > 0 {
		return l
	}
	return nil
}

// newSplit gives r a split.
func (p *Planner) newSplit(r *Request) *split {
	r.split = p.splits.take()
	*r.split = split{rest: -1}
	return r.split
}

// admitLarge checks a request of one key that was added, if pools have large values.
func (p *Planner) admitLarge(r *Request) {
	l := p.largeOf(r)
	if l == nil || r.Idle() || r.Answer != "" {
		return
	}
	switch {
	case r.BringsValue() && r.Joins():
		r.Fail(textNoJoin)
	case r.BringsValue():
		value := r.Data[:len(r.Data)-len(protocol.CRLF)]
		r.set(chunked, len(value) > l.Plain() || large.Begins(value) && len(value)+large.HeadSize > l.Plain())
		switch {
		case len(value) > l.Limit:
			r.state, r.Answer = r.state&^chunked, protocol.TextTooLarge
		case !r.is(chunked) && !large.Begins(value):
		case r.HasFlag('s'):
			r.Fail(textNoStored)
		}
	case r.Fetches():
		value, size := r.HasFlag('v'), r.HasFlag('s')
		switch {
		case r.Has(protocol.Writes) && (value || size):
			r.Fail(textNoFetch)
		case size && !value:
			r.Fail(textNoSize)
		}
	}
}

// Locking reports whether requests need key locks: because a key has several servers, or because a write takes several
// steps.
func (p *Planner) Locking() bool { return p.large || p.holds || p.options.Router.N() > 1 }

// encloseHead makes the value that r stores the inline value of a head, if it begins like a head.
func (p *Planner) encloseHead(r *Request) {
	if !p.large || r.is(chunked) || !r.BringsValue() || p.largeOf(r) == nil {
		return
	}
	if value := r.Data[:len(r.Data)-len(protocol.CRLF)]; large.Begins(value) {
		p.newSplit(r)
		head := large.NewInline(value)
		r.replace(append(head.Append(make([]byte, 0, large.HeadSize+len(r.Data))), r.Data...))
	}
}

// planChunks sends the chunks of the value that r stores to all servers of its key, and makes its head the value.
func (p *Planner) planChunks(r *Request) {
	value := r.Data[:len(r.Data)-len(protocol.CRLF)]
	s := p.newSplit(r)
	s.head = large.New(p.options.LargeVersion(), value, p.largeOf(r).Plain())
	p.Large.Stored++
	op := protocol.KeyText{}.Meta('s', "")
	if r.Expiry != 0 {
		op.Expiry, op.Fields = large.Exptime(r.Expiry, p.options.Today()), op.Fields|protocol.FieldsOf("T")
	}
	if r.is(versioned) {
		op.Stamp(p.options.Versions.next()) // equal on all servers, so that a sweep need not compare bytes
	}
	p.findHolders(r)
	for k := range s.head.Chunks() {
		start, end := s.head.Range(k)
		op.Keys, op.Data = s.head.AppendKey(nil, k), r.Data[start:end+len(crlf)] // of which only the size matters
		line := p.write(&op)
		for _, server := range p.holders {
			c := p.call(r, server, &op, line, value[start:end], crlf)
			c.form, c.state = formStored, hidden
		}
	}
	r.replace(append(s.head.Append(make([]byte, 0, large.HeadSize+len(crlf))), crlf...))
}

// replace makes value, which includes the line end, the value that r stores.
func (r *Request) replace(value []byte) { r.Data, r.served().Data, r.Exact = value, value, false }

// afterChunks notes which servers have stored the chunks of a write.
func (p *Planner) afterChunks(r *Request, _ bool) step {
	s := r.split
	for n := r.first; n < r.last; n++ {
		switch c := &p.Calls[n]; {
		case !c.is(failed) && c.kind == protocol.ReplyMetaDone:
			s.stored = append(s.stored, c.Server)
		case c.is(failed):
			s.lost = c.reply
		case c.kind.IsError():
			s.refusal = c.reply
		default:
			s.refusal = []byte(textNoChunks)
		}
	}
	return heading
}

// hasChunks reports whether server s has all chunks of r's value.
func (p *Planner) hasChunks(r *Request, s int) bool {
	split, n := r.split, 0
	for _, stored := range split.stored {
		if int(stored) == s {
			n++
		}
	}
	return n == split.head.Chunks()
}

// planHead plans the step of a write that follows its chunks.
func (p *Planner) planHead(r *Request) {
	s := r.split
	p.findHolders(r)
	if p.isAgreed(r) {
		p.elect(r)
	}
	one := len(p.holders)+len(p.emptied) == 1
	switch {
	case s.refusal != nil:
		r.Fail(string(s.refusal))
	case s.lost == nil:
	case (one || r.is(decided) || r.is(versioned)) && !p.hasChunks(r, p.deciderOf(r)),
		!slices.ContainsFunc(p.holders, func(s int) bool { return p.hasChunks(r, s) }):
		r.Fail(string(s.lost))
	}
	switch {
	case !r.is(fixed):
		p.planWrite(r)
	case !r.Has(protocol.Depends):
		p.planRemoving(r) // as memcached does: the old value must not outlive an attempt to replace it
	}
}

// withholdHead keeps the head that r stores from servers that lack chunks: the key is deleted there.
func (p *Planner) withholdHead(r *Request) {
	if !r.is(chunked) {
		return
	}
	for k := range p.place {
		if h := &p.place[k]; h.Roles.Has(route.Store) && !p.hasChunks(r, int(h.Server)) {
			h.Roles = route.Drop | h.Roles&route.Decide // who decides stays the same
		}
	}
	p.divide()
}
