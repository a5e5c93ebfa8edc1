package sweep

import (
	"bytes"
	"slices"

	"mcmw/internal/protocol"
)

// Transfer copies one key to servers of another pool, while clients may write it there as well. It is pure: the caller
// sends the requests of Ask to the servers, step by step, and gives the replies to Answer.
//
//	looking: ask all servers ---> the source lacks the key, another old server does not hold its version, or all targets hold it ---> done
//	   |
//	   |---> a target holds another version, for the first time ---> looking again
//	   |---> a target holds another version, as in the previous look ---> cutting: delete that version ---> looking again
//	   '---> a target lacks the key ---> fetching: read the source ---> adding: store a copy that lives for Hold
//	             ---> rechecking: ask the old servers ---> confirming
//	                      they are the same:   the copy gets the item's own expiry ---> verifying: ask the old servers
//	                                               they are the same:   done
//	                                               one has changed:     cutting
//	                      one has changed:     delete the copy by its version ---> looking again
//
// The copy has the version of the source, and is added only where the key is missing. Writes are sent to the targets
// after an old server has answered them, and any old server may be the one that answers. So if all old servers are the
// same in a recheck, a write of the key has yet to reach the targets: a store will replace the copy, a deletion will
// delete it. A new expiry does not replace the copy, and confirming would undo it: this is what is verified. If the
// caller stops before the transfer has ended, the copy expires, or has the expiry that was confirmed.
type Transfer struct {
	// Key is the key, Source the number of the server that it is copied from, Others are those of the other servers
	// that are to hold it, the old servers, and To those of the targets.
	Key    protocol.KeyText
	Source int
	Others []int
	To     []int
	// Hold is how long a copy lives that has not been confirmed, s.
	Hold int64
	// Provisional returns a version that no copy had before. It is set if middlewares read the targets. An added copy
	// has that version until it is confirmed, and readers treat it as a miss. Then a write that only changes the expiry
	// deletes the key on the targets, so nothing is verified. nil: no middleware reads the copy.
	Provisional func() uint64
	// Overwrites makes the confirmed copy replace whatever the target holds then: a fault for tests.
	Overwrites bool
	// Unchecked leaves out the recheck, Unverified what follows the confirmation: faults for tests.
	Unchecked, Unverified bool

	step  transferStep
	tries int
	it    protocol.Item // of the source; Data is the transfer's own memory
	at    []copyAt      // by To
	// added is the version of the added copy.
	added uint64
	// others are the versions that Others held in the last look; 0: none.
	others []uint64
	// before has the targets that held another version in the last look, with these versions; nil: there were none.
	before []uint64
	// same: the old servers have not changed since the source was read. won is the version of a stale item that
	// memcached told us to renew; 0: there was none.
	same    bool
	won     uint64
	outcome TransferOutcome
}

// copyAt is the state of a target.
type copyAt struct {
	holds   uint64 // the version that it holds; 0: it lacks the key
	took    bool   // it has stored the copy
	refused bool   // it has refused the copy
	cut     bool   // its copy is to be deleted
}

// TransferOutcome is how a transfer ended.
type TransferOutcome uint8

// The outcomes.
const (
	TransferOpen    TransferOutcome = iota // it has not ended
	TransferThere                          // all targets already held the key
	TransferCopied                         // the key was copied
	TransferGone                           // the source lacks the key, or its item is stale and can't be copied
	TransferApart                          // another old server does not hold the source's version
	TransferMoving                         // clients kept changing the key
	TransferRefused                        // a target refused the item: it is too large, or there is no memory for it
)

type transferStep uint8

const (
	looking transferStep = iota
	cutting
	fetching
	adding
	rechecking
	confirming
	verifying
	givingBack // of the right to renew a stale item, which memcached gave to a look
)

// mostTransferTries bounds how often a transfer starts again because clients change the key.
const mostTransferTries = 6

// Outcome returns how the transfer ended.
func (t *Transfer) Outcome() TransferOutcome { return t.outcome }

// Ask returns the command to a server in this step. ok is false if there is none.
func (t *Transfer) Ask(server int) (op protocol.Op, ok bool) {
	if t.outcome != TransferOpen {
		return op, false
	}
	if t.at == nil {
		t.at = make([]copyAt, len(t.To))
	}
	i := slices.Index(t.To, server)
	looks := t.step == looking || t.step == rechecking || t.step == verifying
	switch {
	case server == t.Source && t.step == fetching:
		return t.Key.Ask(protocol.ForItem), true
	case server == t.Source && t.step == givingBack:
		return t.Key.GiveBack(t.won), true
	case server == t.Source, i < 0:
		return t.Key.Ask(protocol.ForExpiry), looks && (server == t.Source || slices.Contains(t.Others, server))
	}
	c := &t.at[i]
	switch {
	case t.step == looking:
		return t.Key.Ask(protocol.ForVersion), true
	case t.step == cutting && c.cut:
		return t.Key.Cut(c.holds), true
	case t.step == adding && c.holds == 0:
		it := t.it
		it.CAS = t.added
		return t.Key.Add(it, t.Hold), true
	case t.step == confirming && c.took && !t.same:
		return t.Key.Cut(t.added), true
	case t.step == confirming && c.took && (t.Provisional != nil || t.it.TTL < 0 || t.it.TTL > t.Hold):
		replaced := t.added
		if t.Overwrites {
			replaced = 0
		}
		return t.Key.Store(t.it, replaced, t.it.CAS), true
	}
	return op, false
}

// Answer records the reply of a server to the request of this step.
func (t *Transfer) Answer(server int, reply []byte) {
	it, held := protocol.DecodeItem(reply)
	if server == t.Source && it.Stale && it.Won {
		t.won = it.CAS
	}
	i := slices.Index(t.To, server)
	switch {
	case i < 0 && (t.step == rechecking || t.step == verifying):
		t.same = t.same && held && it.CAS == t.it.CAS && !it.Stale && sameExpiry(t.it.TTL, it.TTL)
	case server == t.Source && t.step == givingBack:
	case server == t.Source:
		if !held {
			it.CAS = 0
		}
		it.Data = append(t.it.Data[:0], it.Data...)
		t.it = it
	case i < 0:
		t.others = append(t.others, it.CAS) // 0 if it is not held
	case t.step == looking:
		t.at[i].holds = it.CAS
	case t.step == adding:
		t.at[i].took, t.at[i].refused = bytes.HasPrefix(reply, []byte("HD")),
			bytes.HasPrefix(reply, []byte("SERVER_ERROR"))
	case t.step == confirming && t.same && !bytes.HasPrefix(reply, []byte("HD")):
		t.same = false // the copy was replaced, or it has expired
	}
}

// sameExpiry reports whether two servers may have the same expiry for an item, or one of them at two times shortly
// after each other, given what remains of its time, in seconds; below 0: no expiry. Servers store an item at different
// moments, so a difference that is small is none; a touch that changes the time by less is not noticed.
func sameExpiry(a, b int64) bool {
	const soon = 5
	if a < 0 || b < 0 {
		return a < 0 && b < 0
	}
	return max(a, b)-min(a, b) <= soon
}

// Next ends a step, and reports whether another follows.
func (t *Transfer) Next() (more bool) {
	// behind these looks the copies are deleted first
	if t.won != 0 && t.step != rechecking && t.step != verifying && t.step != givingBack {
		t.step = givingBack
		return true
	}
	switch t.step {
	case looking:
		t.judge()
	case cutting:
		t.before = nil
		t.again()
	case fetching:
		t.step, t.added = adding, t.it.CAS
		switch {
		case t.it.CAS == 0 || t.it.Stale:
			t.again()
		case t.Provisional != nil:
			t.added = t.Provisional()
		}
	case adding:
		t.step, t.same = rechecking, true
		if t.Unchecked {
			t.step = confirming
		}
	case rechecking:
		t.step = confirming
	case confirming, verifying:
		switch took := slices.ContainsFunc(t.at, func(c copyAt) bool { return c.took }); {
		case slices.ContainsFunc(t.at, func(c copyAt) bool { return c.refused }):
			t.outcome = TransferRefused
		case t.same && took && t.step == confirming && t.Provisional == nil && !t.Unverified:
			t.step = verifying
		case t.same && took:
			t.outcome = TransferCopied
		case t.step == verifying:
			t.step = cutting
			for i := range t.at {
				t.at[i].holds, t.at[i].cut = t.it.CAS, t.at[i].took
			}
		default:
			t.again()
		}
	case givingBack:
		t.outcome = TransferGone
	}
	return t.outcome == TransferOpen
}

// again starts the transfer again.
func (t *Transfer) again() {
	t.step, t.others = looking, nil
	for i := range t.at {
		t.at[i] = copyAt{}
	}
	if t.tries++; t.tries == mostTransferTries {
		t.outcome = TransferMoving
	}
}

// judge decides the next step after a look at all servers.
func (t *Transfer) judge() {
	var differ []uint64
	missing, provisional := false, false
	for i := range t.at {
		c := &t.at[i]
		missing = missing || c.holds == 0
		provisional = provisional || t.Provisional != nil && protocol.IsProvisional(c.holds)
		if c.holds != 0 && c.holds != t.it.CAS {
			differ = append(differ, uint64(i), c.holds)
			c.cut = true
		}
	}
	switch {
	case provisional: // another middleware is copying the key
		t.outcome = TransferThere
	case t.it.CAS == 0, t.it.Stale:
		t.outcome = TransferGone
	case slices.ContainsFunc(t.others, func(version uint64) bool { return version != t.it.CAS }):
		t.outcome = TransferApart
	case differ != nil && slices.Equal(differ, t.before):
		t.step = cutting
	case differ != nil:
		t.before = differ
		t.again()
	case missing:
		t.step = fetching
	default:
		t.outcome = TransferThere
	}
}
