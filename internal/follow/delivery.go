package follow

import (
	"time"

	"mcmw/internal/link"
	"mcmw/internal/protocol"
)

// Present is what the pool holds under a key.
type Present struct {
	protocol.Item
	Held   bool
	Failed bool // it is not known
}

// Ask returns the request that reads what the pool holds; without value, only its version.
func Ask(key string, value bool) protocol.Op {
	if value {
		return link.Key(key).Ask(protocol.ForItem)
	}
	return link.Key(key).Ask(protocol.ForVersion)
}

// GiveBack returns the request that makes the next client that reads key's item responsible for renewing it. ok is
// false unless Ask, which got p, has taken this role. The request has the flag P of a delivery: nothing has changed.
func (p *Present) GiveBack(key string) (op protocol.Op, ok bool) {
	if !p.Stale || !p.Won {
		return op, false
	}
	op = link.Key(key).Meta('d', "ICP")
	op.CAS = p.CAS
	return op, true
}

// PresentOf returns what a reply to Ask says. An item that a client is to renew is none.
func PresentOf(reply []byte) Present {
	it, held := protocol.DecodeItem(reply)
	if !held {
		return Present{Failed: it.Kind.IsError()}
	}
	return Present{Item: it, Held: !it.Stale && !it.Won && !it.Leased, Failed: !it.HasCAS}
}

// Confirm returns the outcome of a delivery of p that was carried out: again is what the pool holds after it. A write
// that was acknowledged before the delivery, by any middleware, is in p or in again. The delivery of a later one comes
// later, from the middleware that acknowledges it.
func (p *Present) Confirm(again *Present) Outcome {
	switch {
	case again.Failed:
		return Refused
	case p.Held != again.Held, p.Held && p.CAS != again.CAS:
		return Changed
	}
	return Paid
}

// Delivery returns the request that pays d, where the pool holds p. versions: the server takes versions.
//
// A delete has the flag P, which servers ignore: a middleware does not let other pools follow it.
func Delivery(d Debt, p *Present, versions bool) protocol.Op {
	if !d.Copy || !p.Held || p.TTL == 0 {
		return link.Key(d.Key).Meta('d', "P")
	}
	op := link.Key(d.Key).Store(p.Item, 0, p.CAS)
	if !versions || p.CAS < protocol.FirstVersion {
		op.Drop("E")
	}
	return op
}

// Bury returns the request that comes before the delete of d: it leaves a tombstone for hold at least. A server counts
// whole seconds, of which the first may be over at once.
func Bury(d Debt, hold time.Duration) protocol.Op {
	return protocol.Bury(d.Key, int32((hold+time.Second-1)/time.Second)+1)
}

// Delivered reports whether op is a request that Bury returned, or a delete that Delivery returned.
func Delivered(op *protocol.Op) bool {
	return op.HasFlag('P') && (op.Verb == 'd' || op.Buried() != nil)
}

// Answered returns the outcome of a delivery that was answered with this code.
func Answered(code string) Outcome {
	if code == "HD" || code == "NF" {
		return Paid
	}
	return Refused
}
