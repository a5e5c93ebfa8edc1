package protocol

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
// number of seconds.
func (k KeyText) Add(it Item, seconds int64) Op {
	if it.TTL < 0 || it.TTL > seconds {
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
