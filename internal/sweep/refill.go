package sweep

import (
	"bytes"

	"mcmw/internal/protocol"
)

// Refill copies one key to a server that nobody reads, from another holder of the key, while clients may write the key
// on both in any order. Like Transfer it is pure.
//
//	looking: does the target hold the key? ---> fetching: read the source ---> adding: store a copy where none is
//	   ---> pending, until no write that was under way when the copy was added can reach a server any more
//	   ---> checking: ask the source ---> it holds the same item: done
//	                                 '--> otherwise: cutting, delete the copy by its version
//
// A write that reaches the target after the copy was added replaces or deletes it there, or changes its expiry. A write
// that reached it before has reached the source, too, by the time of the check, or has failed there; then the source
// must not be read any more. So a copy that passes the check is no older than any write that was answered.
type Refill struct {
	Key protocol.KeyText
	// Source and Target are the numbers of the servers.
	Source, Target int
	// Overwrites, Unversioned and Unchecked are faults for tests: the copy replaces what the target holds, is not
	// compared by its version, or is not checked.
	Overwrites, Unversioned, Unchecked bool

	step    refillStep
	it      protocol.Item // of the source; while the copy is pending only its version and expiry
	waited  int64
	same    bool
	won     uint64 // as in Transfer
	outcome TransferOutcome
}

type refillStep uint8

const (
	refillLooking refillStep = iota
	refillFetching
	refillAdding
	refillPending
	refillChecking
	refillCutting
	refillGivingBack
)

// Outcome returns how copying the key ended. It is TransferMoving if the key changed meanwhile.
func (r *Refill) Outcome() TransferOutcome { return r.outcome }

// Pending reports whether a copy is on the target that waits for Check.
func (r *Refill) Pending() bool { return r.outcome == TransferOpen && r.step == refillPending }

// Check begins the check of a pending copy, so many seconds after the item was read. It must not be called before every
// write that was under way when the copy was added has ended.
func (r *Refill) Check(waited int64) { r.step, r.waited = refillChecking, waited }

// Doubt says that the source must not be read any more. It is called after the reply to the check, and before Next.
func (r *Refill) Doubt() { r.same = false }

// Ask returns the command to a server in this step. ok is false if there is none.
func (r *Refill) Ask(server int) (op protocol.Op, ok bool) {
	if r.outcome != TransferOpen {
		return op, false
	}
	switch r.step {
	case refillLooking:
		return r.Key.Ask(protocol.ForVersion), server == r.Target
	case refillFetching:
		return r.Key.Ask(protocol.ForItem), server == r.Source
	case refillAdding:
		if r.Overwrites {
			return r.Key.Store(r.it, 0, r.it.CAS), server == r.Target
		}
		return r.Key.Add(r.it, 0), server == r.Target
	case refillChecking:
		return r.Key.Ask(protocol.ForExpiry), server == r.Source
	case refillCutting:
		return r.Key.Cut(r.it.CAS), server == r.Target
	case refillGivingBack:
		return r.Key.GiveBack(r.won), server == r.Source
	}
	return op, false
}

// Adds reports whether the next step stores a copy.
func (r *Refill) Adds() bool { return r.step == refillAdding }

// Answer records the reply of the server that was asked in this step.
func (r *Refill) Answer(_ int, reply []byte) {
	it, held := protocol.DecodeItem(reply)
	if it.Stale && it.Won && (r.step == refillFetching || r.step == refillChecking) {
		r.won = it.CAS
	}
	switch r.step {
	case refillLooking:
		if held {
			r.outcome = TransferThere
		}
	case refillFetching:
		if r.it = it; !held {
			r.it.CAS = 0
		}
	case refillAdding:
		switch {
		case bytes.HasPrefix(reply, []byte("HD")):
		case bytes.HasPrefix(reply, []byte("SERVER_ERROR")):
			r.outcome = TransferRefused
		default:
			r.outcome = TransferThere // somebody else has stored it
		}
	case refillChecking:
		left := r.it.TTL
		if left >= 0 {
			left = max(0, left-r.waited)
		}
		r.same = held && !it.Stale && (it.CAS == r.it.CAS || r.Unversioned) && sameExpiry(left, it.TTL)
	}
}

// Next ends a step, and reports whether another follows.
func (r *Refill) Next() (more bool) {
	if r.outcome != TransferOpen {
		return false
	}
	switch r.step {
	case refillLooking:
		r.step = refillFetching
	case refillFetching:
		switch {
		case r.won != 0:
			r.step = refillGivingBack
		case r.it.CAS == 0 || r.it.Stale:
			r.outcome = TransferGone
		default:
			r.step = refillAdding
		}
	case refillAdding:
		r.step, r.it = refillPending, protocol.Item{CAS: r.it.CAS, TTL: r.it.TTL}
		if r.Unchecked {
			r.outcome = TransferCopied
		}
	case refillChecking:
		if r.step = refillCutting; r.same {
			r.outcome = TransferCopied
		}
	case refillCutting:
		r.outcome = TransferMoving
		if r.won != 0 {
			r.outcome, r.step = TransferOpen, refillGivingBack
		}
	case refillGivingBack:
		r.outcome = TransferGone
	}
	return r.outcome == TransferOpen && r.step != refillPending
}
