package sweep

import (
	"bytes"
	"slices"

	"mcmw/internal/protocol"
)

// Transfer copies one key to servers of another pool that nobody reads, while others write it there, too. It is pure: the caller sends what it asks,
// step by step, and hands it the replies.
//
//	look at all --> the source has none, or all hold its version -----------------------------------------------------> done
//	   ^   ^ '--> one holds another, as in the look before --> delete that by its version --> ..
//	   |   '----> one holds another --'
//	   |   '----> read the source --> add where it is missing, for a short time --> look at the source --> it is as it was: for its own time --> done
//	   '----------------------------------------------------------------------------------------------'--> delete by version
//
// What is stored is a copy of the source under the same version, where nothing is. A deletion or a new expiry that crosses it is found by the look behind
// it; a store that crosses it takes its place. If the caller ends in between, the copy ends by itself.
type Transfer struct {
	// Key, and the numbers of the server that it is read from and of those that are to have it.
	Key    protocol.KeyText
	Source int
	To     []int
	// Ahead are servers that are read before Source: where one of them has the key, it is copied from there.
	Ahead []int
	// Hold is how long a copy lasts that was not looked at since, s.
	Hold int64
	// Provisional returns a version that no copy had before: what is added has it until it was looked at, for others read those servers, and pass over such a
	// copy. All the source's copies are looked at then, because a write may have been answered by any of them; so Ahead are all of them that are not Source.
	// nil: nobody reads the copy.
	Provisional func() uint64
	// Overwrites has the copy take the place of whatever is there then: a fault for tests.
	Overwrites bool
	// Unchecked leaves out the look behind it: a fault for tests.
	Unchecked bool

	step  transferStep
	tries int
	it    protocol.Item // of the source; Data is the transfer's own memory
	at    []copyAt      // by To
	// added is the version of what was added.
	added uint64
	// before are the versions that the last look saw where they differ; nil: it saw no difference.
	before []uint64
	// elsewhere: one of those ahead has it.
	elsewhere bool
	// same: the source is as it was read. won is the version of an item, marked as stale, that a look was told to renew; 0: there was none.
	same    bool
	won     uint64
	outcome TransferOutcome
}

// copyAt is what a transfer knows of a server that is to have the key.
type copyAt struct {
	holds   uint64 // 0: nothing
	took    bool   // it has stored the copy
	refused bool   // it takes no such item
	cut     bool   // what it holds is to be deleted
}

// TransferOutcome is how a transfer ended.
type TransferOutcome uint8

// The outcomes.
const (
	TransferOpen    TransferOutcome = iota // it has not ended
	TransferThere                          // all held what the source holds
	TransferCopied                         // it was copied
	TransferGone                           // the source has none, or one that can't be copied because it is marked as stale
	TransferMoving                         // others went on changing it
	TransferRefused                        // a server does not take it: it is too large there
)

type transferStep uint8

const (
	looking transferStep = iota
	cutting
	fetching
	adding
	asking
	confirming
	givingBack
)

// mostTransferTries bounds how often a key is begun with that others change.
const mostTransferTries = 6

// Outcome returns how it ended.
func (t *Transfer) Outcome() TransferOutcome { return t.outcome }

// Ask appends what is to be asked of a server in this step: one request, or nothing.
func (t *Transfer) Ask(server int, dst []byte) []byte {
	if t.outcome != TransferOpen {
		return dst
	}
	if t.at == nil {
		t.at = make([]copyAt, len(t.To))
	}
	if server == t.Source {
		switch t.step {
		case looking, asking:
			return t.Key.AppendGlance(dst)
		case fetching:
			return t.Key.AppendLook(dst, true)
		case givingBack:
			return t.Key.AppendGiveBack(dst, t.won)
		}
		return dst
	}
	i := slices.Index(t.To, server)
	if i < 0 {
		switch ahead := slices.Contains(t.Ahead, server); {
		case ahead && t.step == looking && t.Provisional == nil:
			return t.Key.AppendLook(dst, false)
		case ahead && t.step == asking && t.Provisional != nil:
			return t.Key.AppendGlance(dst)
		}
		return dst
	}
	c := &t.at[i]
	switch {
	case t.step == looking:
		return t.Key.AppendLook(dst, false)
	case t.step == cutting && c.cut:
		return t.Key.AppendCut(dst, c.holds)
	case t.step == adding && c.holds == 0:
		it := t.it
		it.CAS = t.added
		return append(t.Key.AppendAdd(dst, it, t.Hold), t.it.Data...)
	case t.step == confirming && c.took && !t.same:
		return t.Key.AppendCut(dst, t.added)
	case t.step == confirming && c.took && (t.Provisional != nil || t.it.TTL < 0 || t.it.TTL > t.Hold):
		replaced := t.added
		if t.Overwrites {
			replaced = 0
		}
		return append(t.Key.AppendStore(dst, t.it, replaced, t.it.CAS), t.it.Data...)
	}
	return dst
}

// Answer takes the reply of a server that was asked in this step.
func (t *Transfer) Answer(server int, reply []byte) {
	it, held := protocol.DecodeItem(reply)
	if server == t.Source && it.Stale && it.Won {
		t.won = it.CAS
	}
	i := slices.Index(t.To, server)
	switch {
	case server == t.Source && t.step == asking:
		t.same = t.same && held && it.CAS == t.it.CAS && !it.Stale && sameExpiry(t.it.TTL, it.TTL)
	case server == t.Source && t.step == givingBack:
	case server == t.Source:
		if !held {
			it.CAS = 0
		}
		it.Data = append(t.it.Data[:0], it.Data...)
		t.it = it
	case i < 0 && t.step == asking:
		t.same = t.same && held && it.CAS == t.it.CAS && !it.Stale
	case i < 0:
		t.elsewhere = t.elsewhere || held
	case t.step == looking:
		t.at[i].holds = it.CAS
	case t.step == adding:
		t.at[i].took, t.at[i].refused = bytes.HasPrefix(reply, []byte("HD")), bytes.HasPrefix(reply, []byte("SERVER_ERROR"))
	case t.step == confirming && t.same && !bytes.HasPrefix(reply, []byte("HD")):
		t.same = false // others have changed it, or its short time was over
	}
}

// sameExpiry reports whether an item with the first remaining time may have the second one shortly afterwards. Who touched it meanwhile, by less than
// that, has changed the time by as little.
func sameExpiry(before, now int64) bool {
	const soon = 5
	if before < 0 || now < 0 {
		return before < 0 && now < 0
	}
	return now <= before && now >= before-soon
}

// Next ends a step, and reports whether another follows.
func (t *Transfer) Next() (more bool) {
	if t.won != 0 && t.step != asking && t.step != givingBack { // behind asking the copies are taken back first
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
		t.step, t.same = asking, true
		if t.Unchecked {
			t.step = confirming
		}
	case asking:
		t.step = confirming
	case confirming:
		switch {
		case slices.ContainsFunc(t.at, func(c copyAt) bool { return c.refused }):
			t.outcome = TransferRefused
		case t.same && slices.ContainsFunc(t.at, func(c copyAt) bool { return c.took }):
			t.outcome = TransferCopied
		default:
			t.again()
		}
	case givingBack:
		t.outcome = TransferGone
	}
	return t.outcome == TransferOpen
}

// again begins anew.
func (t *Transfer) again() {
	t.step = looking
	for i := range t.at {
		t.at[i] = copyAt{}
	}
	if t.tries++; t.tries == mostTransferTries {
		t.outcome = TransferMoving
	}
}

// judge says what follows from a look at all.
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
	case t.elsewhere, provisional: // that is another's copy, which has not been looked at yet
		t.outcome = TransferThere
	case t.it.CAS == 0, t.it.Stale:
		t.outcome = TransferGone
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
