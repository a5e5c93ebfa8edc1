package shadow

import (
	"bytes"

	"github.com/cespare/xxhash/v2"

	"mcmw/internal/protocol"
)

// answer is what a reply to a read says of a key.
type answer struct {
	held  bool
	sum   uint64 // of the value, if hasValue
	flags uint32 // if hasFlags
	// The reply shows the value, the flags.
	hasValue, hasFlags bool
	// unclear: it shows an item that one client is to renew, so others are told something else.
	unclear bool
}

// ofValue returns what a VALUE says, whose key and data have these sizes, bytes.
func ofValue(element []byte, key, data int) answer {
	a := answer{held: true, hasValue: true, hasFlags: true}
	for _, c := range element[len("VALUE ")+key+len(" "):] {
		if c < '0' || c > '9' {
			break
		}
		a.flags = 10*a.flags + uint32(c-'0')
	}
	end := len(element) - len(protocol.CRLF)
	a.sum = xxhash.Sum64(element[end-data : end])
	return a
}

// ofMeta returns what a reply to an mg says; flags: they were asked for.
func ofMeta(element []byte, flags bool) answer {
	it, held := protocol.DecodeItem(element)
	a := answer{held: held, flags: it.Flags, hasFlags: held && flags, hasValue: it.Data != nil, unclear: it.Stale || it.Won}
	if a.hasValue {
		a.sum = xxhash.Sum64(bytes.TrimSuffix(it.Data, []byte(protocol.CRLF)))
	}
	return a
}

// equal reports whether both say the same, as far as both say it.
func (a answer) equal(b answer) bool {
	return a.held == b.held && (!a.hasValue || !b.hasValue || a.sum == b.sum) && (!a.hasFlags || !b.hasFlags || a.flags == b.flags)
}

// digest is equal for equal answers.
func (a answer) digest() uint64 { return a.sum ^ uint64(a.flags)*0x9e3779b97f4a7c15 }
