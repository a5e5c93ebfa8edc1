package shadow

import (
	"bytes"

	"github.com/cespare/xxhash/v2"

	"mcmw/internal/protocol"
)

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
