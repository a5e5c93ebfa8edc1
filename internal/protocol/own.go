package protocol

import "math"

// This file has the commands that mcmw sends of its own.

// KeyText is a key as written in a meta command: unencoded, or in base64.
type KeyText struct {
	Text    []byte
	Encoded bool
}

// KeyText returns op's only key.
func (op *Op) KeyText() KeyText { return KeyText{op.Keys, op.Has(Encoded)} }

// Key appends the key as servers know it.
func (k KeyText) Key(dst []byte) []byte {
	if k.Encoded {
		return decodeKey(dst, k.Text)
	}
	return append(dst, k.Text...)
}

// Meta returns the meta command with that verb for k, and these flags, whose values the caller sets.
func (k KeyText) Meta(verb byte, flags string) Op {
	op := Op{Command: Meta, Verb: verb, Keys: k.Text, NumKeys: 1, Fields: FieldsOf(flags)}
	if k.Encoded {
		op.Traits, op.Fields = Encoded, op.Fields|fieldOf('b')
	}
	return op
}

// Flags of Ask. An item that is asked for by them does not count as used.
const (
	ForVersion = "uc"
	ForExpiry  = "utc"
	ForItem    = "uvftc"
)

// Ask returns an mg with these flags whose reply identifies the key; see Fits. For a key in base64 an opaque does this,
// because a server may show the key itself unencoded, whatever bytes it has.
func (k KeyText) Ask(flags string) Op {
	op := k.Meta('g', flags)
	if k.Encoded {
		op.Fields |= fieldOf('O')
	} else {
		op.Fields |= fieldOf('k')
	}
	return op
}

// LongestExpiry is the largest exptime, in seconds, that memcached takes for a time from now. It takes a larger one for
// a date.
const LongestExpiry = 30 * 24 * 3600

// Store returns the command that stores it under k with its flags and expiry, and with the given version. replaced is
// the version that the existing item must have; 0: any.
func (k KeyText) Store(it Item, replaced, version uint64) Op {
	op := k.Meta('s', "E")
	op.Flags, op.CAS, op.Version, op.Data = it.Flags, replaced, version, it.Data
	if it.Flags != 0 {
		op.Fields |= fieldOf('F')
	}
	if it.TTL >= 0 {
		op.Expiry = int32(min(max(it.TTL, 1), LongestExpiry)) // the copy may expire before the original
		op.Fields |= fieldOf('T')
	}
	if replaced != 0 {
		op.Fields |= fieldOf('C')
	}
	return op
}

// Add returns the command that stores it under k with its flags and version if no item is there, for at most the given
// number of seconds; 0: with its expiry.
func (k KeyText) Add(it Item, seconds int64) Op {
	if seconds != 0 && (it.TTL < 0 || it.TTL > seconds) {
		it.TTL = seconds
	}
	op := k.Store(it, 0, it.CAS)
	op.Mode, op.Fields = 'E', op.Fields|fieldOf('M')
	return op
}

// Cut returns the command that deletes k's item if it has the given version.
func (k KeyText) Cut(version uint64) Op {
	op := k.Meta('d', "C")
	op.CAS = version
	return op
}

// GiveBack returns the command that makes the next client that reads k's item, which is stale, responsible for renewing
// it. A look by mcmw had taken this role.
func (k KeyText) GiveBack(version uint64) Op {
	op := k.Meta('d', "ICE")
	op.CAS, op.Version = version, version
	return op
}

// With several writers, versions show whether replicas are equal: every stored item gets a unique cas (the flag E of
// memcached 1.6.27 and later).

// FirstVersion is the lowest version. A cas that a server assigns itself counts its stored items, and stays far below.
const FirstVersion = 1 << 62

// FirstProvisional is the lowest version of a provisional copy, which must not be read yet. Lower versions belong to
// items.
const FirstProvisional = 1 << 63

// IsProvisional reports whether an item with this cas is a provisional copy.
func IsProvisional(cas uint64) bool { return cas >= FirstProvisional }

// FirstOfGutter is the lowest token of an item in a gutter without versions: it is added to the server's own cas, so
// that it is no token elsewhere. NoToken is the token of no item.
const (
	FirstOfGutter = 1 << 61
	NoToken       = FirstVersion - 1
)

// InGutter makes op, a conditional write that is sent to a gutter's server, name the cas that this server knows in
// place of op's token. A token from elsewhere becomes NoToken.
func (op *Op) InGutter() {
	if op.CAS < FirstOfGutter || op.CAS >= NoToken {
		op.CAS = NoToken
	} else {
		op.CAS -= FirstOfGutter
	}
}

// A server's clock counts seconds: an item that has n seconds left, or is stored for n seconds, lives for more than n-1
// seconds.

// life returns the minimum time, in ns, that an item with the given number of seconds left lives.
func life(seconds uint64) (ns int64) { return int64(max(1, seconds)-1) * 1e9 }

// forever is the life of an item without an expiry, in ns.
const forever = math.MaxInt64

// Life returns the minimum time, in ns, that the item lives according to it, the reply to me. 0: less than a second, or
// there is no item. memcached before 1.6.24 sends the same reply for an item without an expiry and for one that expires
// within a second.
func (it *Item) Life() (ns int64) {
	switch {
	case it.Kind != ReplyMetaDebug:
		return 0
	case it.TTL < 0:
		return forever
	}
	return life(uint64(it.TTL))
}

// LifeStored returns the minimum time, in ns, that an item stored with exptime lives. 0: less than a second, or exptime
// is a date.
func LifeStored(exptime int32) (ns int64) {
	switch {
	case exptime < 0 || exptime > LongestExpiry:
		return 0
	case exptime == 0:
		return forever
	}
	return life(uint64(exptime))
}
