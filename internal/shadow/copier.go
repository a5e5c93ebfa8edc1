package shadow

import (
	"bytes"
	"math"

	"github.com/cespare/xxhash/v2"

	"mcmw/internal/protocol"
	"mcmw/internal/request"
	"mcmw/internal/stats"
	"mcmw/internal/wire"
)

// Copier tells the recipients of pools what requests have done that a worker answers; those that are shadows also get
// the reads. It belongs to the worker.
type Copier struct {
	// Out gets the answer to a read, for the client.
	Out *wire.Gather

	pool  func(r *protocol.Request, key []byte) int
	told  [][]request.Recipient // by pool
	boxes []*outbox             // by pool, of those in told; nil: the pool has no shadow

	// Of the read that is being answered.
	request *protocol.Request
	wanted  []wanted
	next    int  // index in wanted of the first key that the rest of the answer may show
	compare bool // the answer of some shadow is compared
	failed  bool // the answer contains an error
}

// wanted is a key that is copied.
type wanted struct {
	box  *outbox
	hash uint64
	key  []byte // as the client sent it
	at   int    // its offset in the request's keys
	told answer
	seen bool
}

// NewCopier returns a copier for pools with these recipients; nil if there are none. pool returns the number of the
// pool to which a request goes for a key.
func NewCopier(pool func(r *protocol.Request, key []byte) int, recipients [][]request.Recipient) *Copier {
	c := &Copier{pool: pool, told: recipients, boxes: make([]*outbox, len(recipients))}
	used := false
	for i, all := range recipients {
		for _, r := range all {
			used = true
			if b, ok := r.(*outbox); ok {
				c.boxes[i] = b
			}
		}
	}
	if !used {
		return nil
	}
	return c
}

// box returns the outbox to which r is copied for key, and key's hash; nil if it is not copied.
func (c *Copier) box(r *protocol.Request, key []byte) (b *outbox, h uint64) {
	b = c.boxes[c.pool(r, key)]
	if b == nil {
		return nil, 0
	}
	if h = hash(key); h>>1 >= b.options.Load().limit {
		return nil, 0
	}
	return b, h
}

// Begin looks at r before it is answered. key is its first key as servers know it. If it returns true, r is a read to
// copy: the answer must be written to c, and Read called after it.
func (c *Copier) Begin(r *protocol.Request, key []byte) bool {
	if r.Answer != "" || !r.Has(protocol.Reads) || !r.Command.IsRetrieval() && !r.Fetches() {
		return false
	}
	c.wanted, c.next, c.failed, c.compare, c.request = c.wanted[:0], 0, false, false, r
	for at, end := 0, 0; at < len(r.Keys); at = end + 1 {
		sent, _, _ := bytes.Cut(r.Keys[at:], []byte(" "))
		end = at + len(sent)
		if !r.Has(protocol.Encoded) {
			key = sent
		}
		b, h := c.box(r, key)
		if b == nil {
			continue
		}
		o := b.options.Load()
		if r.Has(protocol.Writes) && !o.All {
			continue
		}
		c.compare = c.compare || o.Compare
		c.wanted = append(c.wanted, wanted{box: b, hash: h, key: sent, at: at})
	}
	return len(c.wanted) > 0
}

// Add takes a piece of the answer: whole elements of a reply.
func (c *Copier) Add(piece []byte) {
	c.Out.Add(piece)
	if c.compare {
		c.look(piece)
	}
}

// AddString is Add for text that contains no value.
func (c *Copier) AddString(piece string) { c.Out.AddString(piece) }

// look notes what a piece says about the wanted keys.
func (c *Copier) look(piece []byte) {
	for len(piece) > 0 {
		var rep protocol.Reply
		n, _, err := protocol.DecodeReply(piece, &rep)
		switch {
		case err != nil || n == 0:
			c.failed = true
			return
		case rep.Kind == protocol.ReplyValue:
			if w := c.find(rep.Key); w != nil {
				w.told, w.seen = answerOf(piece[:n], true), true
			}
		case rep.Kind.IsMeta():
			w := &c.wanted[0]
			w.told, w.seen = answerOf(piece[:n], c.request.HasFlag('f')), true
		}
		piece = piece[n:]
	}
}

// find returns the wanted element for key, whose value comes next in the answer; nil if it is not wanted. Values come
// in the order of the keys.
func (c *Copier) find(key []byte) *wanted {
	if len(c.wanted) == 1 && bytes.Equal(c.wanted[0].key, key) {
		return &c.wanted[0]
	}
	if b, _ := c.box(c.request, key); b == nil {
		return nil
	}
	for i := c.next; i < len(c.wanted); i++ {
		if bytes.Equal(c.wanted[i].key, key) {
			c.next = i + 1
			return &c.wanted[i]
		}
	}
	return nil
}

// Read copies the read that was answered last. Of its keys it copies those before the offset rest, or all if rest is
// negative. If result is a failure, a key without a value is not compared, because the client got no answer for it.
func (c *Copier) Read(result stats.Result, rest int, o request.Order) {
	failed := c.failed || result == stats.ResultServerError || result == stats.ResultClientError
	for i := range c.wanted {
		w := &c.wanted[i]
		if rest >= 0 && w.at >= rest {
			break // the rest is answered later
		}
		compare := w.box.options.Load().Compare
		if compare && failed && !w.seen {
			continue
		}
		read := copied{key: w.hash, compare: compare && !w.told.unclear, told: w.told, order: o}
		p := w.box.reserve(len("mg  v f O4294967295 b\r\n")+len(w.key), &read)
		if p == nil {
			continue
		}
		op := readOf(c.request, w.key)
		p.text = op.Append(p.text)
		p.add(read)
	}
	clear(c.wanted)
	c.request = nil
}

// readOf returns the command that asks the shadow for a key of r.
func readOf(r *protocol.Request, key []byte) protocol.Op {
	switch {
	case r.Has(protocol.Encoded):
		return protocol.KeyText{Text: key, Encoded: true}.Ask("vf")
	case r.Has(protocol.Writes):
		return protocol.Op{Command: protocol.Gat, Expiry: r.Expiry, Keys: key, NumKeys: 1}
	}
	return protocol.Op{Command: protocol.Get, Keys: key, NumKeys: 1}
}

// Write tells the recipients of r, if it is a write, after it was answered with result. key is its key as servers know
// it.
func (c *Copier) Write(r *protocol.Request, key []byte, result stats.Result, o request.Order) {
	switch {
	case !r.Has(protocol.Writes):
	case r.NumKeys == 0:
		for _, all := range c.told {
			for _, b := range all {
				b.Wrote(r, nil, result, o)
			}
		}
	case r.NumKeys == 1:
		c.wrote(r, key, result, o)
	default:
		for sent := range bytes.SplitSeq(r.Keys, []byte(" ")) {
			c.wrote(r, sent, result, o)
		}
	}
}

func (c *Copier) wrote(r *protocol.Request, key []byte, result stats.Result, o request.Order) {
	for _, b := range c.told[c.pool(r, key)] {
		b.Wrote(r, key, result, o)
	}
}

// Wrote implements request.Recipient. The copy of a write that also reads is that of the read.
func (b *outbox) Wrote(r *protocol.Request, key []byte, result stats.Result, o request.Order) {
	options := b.options.Load()
	if !options.All || r.Has(protocol.Reads) {
		return
	}
	if r.NumKeys == 0 {
		b.write(r, 0, result, o)
	} else if h := hash(key); h>>1 < options.limit {
		b.write(r, h, result, o)
	}
}

// write copies the write r with the hash key.
func (b *outbox) write(r *protocol.Request, key uint64, result stats.Result, o request.Order) {
	c := copied{key: key, write: true, flush: r.NumKeys == 0, order: o}
	switch {
	case r.Answer != "" && !r.HasEffect(), result == stats.ResultClientError:
		return
	case r.Answer != "":
		// The value was too large, and the old value was deleted.
	case result == stats.ResultServerError && c.flush:
		b.doubts.flush.Store(o.Received)
		return
	case result == stats.ResultServerError:
		b.doubts.add(key, o.Received)
		return
	case result != stats.ResultOK && !r.Has(protocol.Deletes):
		return
	}
	p := b.reserve(len(r.Raw)+len(" 0"), &c)
	if p == nil {
		return
	}
	var done protocol.Op
	done, c.plain = r.Done()
	p.text = append(done.Append(p.text), done.Data...)
	if r.Unclear() {
		b.doubts.add(key, o.Received)
	}
	p.add(c)
}

// HandOver hands the copies over to the feeds.
func (c *Copier) HandOver() {
	for _, b := range c.boxes {
		if b != nil {
			b.handOver()
		}
	}
}

// answer is what a reply to a read says about a key.
type answer struct {
	held  bool
	sum   uint64 // of the value, if hasValue
	flags uint32 // if hasFlags
	// hasValue, hasFlags: the reply shows the value, the flags.
	hasValue, hasFlags bool
	// unclear: it shows an item that one client has to renew, so other clients get another answer.
	unclear bool
}

// answerOf returns what a VALUE, or a reply to an mg, says. flags: the request asked for the flags.
func answerOf(element []byte, flags bool) answer {
	it, held := protocol.DecodeItem(element)
	a := answer{held: held, flags: it.Flags, hasFlags: held && flags, hasValue: it.Data != nil, unclear: it.Stale ||
		it.Won}
	if a.hasValue {
		a.sum = xxhash.Sum64(bytes.TrimSuffix(it.Data, []byte(protocol.CRLF)))
	}
	return a
}

// equal reports whether a and b say the same about everything that both show.
func (a answer) equal(b answer) bool {
	return a.held == b.held && (!a.hasValue || !b.hasValue || a.sum == b.sum) &&
		(!a.hasFlags || !b.hasFlags || a.flags == b.flags)
}

// digest returns a hash that is the same for equal answers that show the same fields.
func (a answer) digest() uint64 { return a.sum ^ uint64(a.flags)*0x9e3779b97f4a7c15 }

// hash returns the hash that decides whether a key is in a share. It is independent of the hashes that place keys on
// servers, so that all servers' keys are copied equally often.
func hash(key []byte) uint64 {
	h := xxhash.Sum64(key) ^ 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// limit returns the limit of a share, 0 to 1: a key is in the share if the upper 63 bits of its hash are below the
// limit.
func limit(share float64) uint64 { return uint64(math.Ldexp(share, 63)) }

// In reports whether requests for key, as servers know it, are copied if this share of the keys is copied.
func In(key []byte, share float64) bool { return hash(key)>>1 < limit(share) }
