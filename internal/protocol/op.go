package protocol

import (
	"hash/crc32"
	"strconv"
)

// Op is a command, classic or meta, in its parts: Decode takes it apart, the planner changes fields, Append writes it.
// Its slices point into the buffer that it was decoded from.
type Op struct {
	Command Command
	// Verb is the last letter of a meta command's name; otherwise 0.
	Verb byte
	// Mode is the letter after the flag M; 0: none. Of a stats: nonzero, if its reply is to name each server.
	Mode byte
	Traits
	// Expiry is the exptime or the flag T, Vivify the flag N.
	Expiry, Vivify int32
	// Flags are the client flags of a storage command, or the flag F.
	Flags uint32
	// textAt and textEnd say where in Raw a meta command's flags are, which gives their order and the text of those
	// without a field here; or the arguments of a stats or an administration command.
	textAt, textEnd uint32
	// NumKeys is the number of keys in Keys.
	NumKeys int32
	// Fields are the flags of a meta command that Append writes. Of a flush_all, T says that it has a delay, which is
	// Expiry.
	Fields Fields
	// CAS is the condition of a cas, or the flag C. Version is the flag E. Delta is the number of an incr, a decr or a
	// verbosity, or the flag D.
	CAS, Version, Delta uint64
	// Raw is the whole request as it was sent: line, line end, data block.
	Raw []byte
	// Keys are the keys as they were sent, separated by one blank.
	Keys []byte
	// Data is the data block including its CRLF.
	Data []byte
}

// Fields is a set of the flags of meta commands.
type Fields uint64

// FieldsOf returns the set of the flags with these letters.
func FieldsOf(letters string) (f Fields) {
	for _, letter := range []byte(letters) {
		f |= fieldOf(letter)
	}
	return f
}

func fieldOf(letter byte) Fields { return 1 << (letter - 'A') }

// HasFlag reports whether op is a meta command with the flag.
func (op *Op) HasFlag(letter byte) bool { return op.Command == Meta && op.Fields&fieldOf(letter) != 0 }

// text returns the flags or arguments as they were sent.
func (op *Op) text() []byte { return op.Raw[op.textAt:op.textEnd] }

// Arg returns the first argument of a stats, or the name of an administration command.
func (op *Op) Arg() []byte {
	word, _ := cutWord(op.text())
	return word
}

// Words returns the number of words of a meta command's line.
func (op *Op) Words() int {
	n := 2
	if op.Verb == 's' {
		n++
	}
	for f := op.Fields; f != 0; f &= f - 1 {
		n++
	}
	return n
}

// fieldOrder is the order in which Append writes flags that were not in the client's line.
const fieldOrder = "IuvftckDJNRFTMCEOPLqxshlb"

// Append appends op's line with its end. op.Data follows it. Numbers are written without leading zeros, flags without
// text that memcached ignores, and nothing asks for no reply, except the flag q. Decode makes the same Op of it.
func (op *Op) Append(dst []byte) []byte {
	if op.Command == Meta {
		return op.appendMeta(dst)
	}
	row := &commands[op.Command]
	if op.Command != Admin { // whose name is the first of its words
		dst = append(dst, row.name...)
	}
	for _, part := range []byte(row.words) {
		switch part {
		case 'k':
			dst = append(append(dst, ' '), op.Keys...)
		case 'F':
			dst = strconv.AppendUint(append(dst, ' '), uint64(op.Flags), 10)
		case 'S':
			dst = strconv.AppendInt(append(dst, ' '), int64(len(op.Data)-len(CRLF)), 10)
		case 'C':
			dst = strconv.AppendUint(append(dst, ' '), op.CAS, 10)
		case 'D':
			dst = strconv.AppendUint(append(dst, ' '), op.Delta, 10)
		case 'T':
			if op.Command != FlushAll || op.Fields != 0 {
				dst = strconv.AppendInt(append(dst, ' '), int64(op.Expiry), 10)
			}
		case 'a':
			for word, rest := cutWord(op.text()); len(word) > 0; word, rest = cutWord(rest) {
				if op.Command != Admin || &word[0] != &op.Raw[op.textAt] {
					dst = append(dst, ' ')
				}
				dst = append(dst, word...)
			}
		}
	}
	if op.Command == Delete && string(op.Keys) == wordNoReply {
		// memcached 1.6.40 and later take the key "noreply" for the keyword, unless another word follows it. A 0 is
		// always allowed there.
		dst = append(dst, " 0"...)
	}
	return append(dst, CRLF...)
}

// Bytes returns op's line and Data in new memory.
func (op *Op) Bytes() []byte { return append(op.Append(nil), op.Data...) }

func (op *Op) appendMeta(dst []byte) []byte {
	dst = append(dst, 'm', op.Verb)
	if op.Verb != 'n' {
		dst = append(append(dst, ' '), op.Keys...)
	}
	switch op.Verb {
	case 's':
		dst = strconv.AppendInt(append(dst, ' '), int64(len(op.Data)-len(CRLF)), 10)
	case 'e':
		if op.Has(Encoded) {
			dst = append(dst, " b b"...) // memcached from 1.6.40 on sees the flag only if another word follows it
		}
		return append(dst, CRLF...)
	}
	left := op.Fields
	for word, rest := cutWord(op.text()); len(word) > 0; word, rest = cutWord(rest) {
		if f := fieldOf(word[0]); left&f != 0 {
			left &^= f
			dst = op.appendFlag(dst, word)
		}
	}
	for i := 0; left != 0; i++ {
		if f := fieldOf(fieldOrder[i]); left&f != 0 {
			left &^= f
			dst = op.appendFlag(dst, []byte{fieldOrder[i]})
		}
	}
	return append(dst, CRLF...)
}

// appendFlag appends a flag. word is the flag as it was sent, or its letter.
func (op *Op) appendFlag(dst, word []byte) []byte {
	letter := word[0]
	dst = append(dst, ' ', letter)
	switch letter {
	case 'T':
		return strconv.AppendInt(dst, int64(op.Expiry), 10)
	case 'N':
		return strconv.AppendInt(dst, int64(op.Vivify), 10)
	case 'F':
		return strconv.AppendUint(dst, uint64(op.Flags), 10)
	case 'C':
		return strconv.AppendUint(dst, op.CAS, 10)
	case 'E':
		return strconv.AppendUint(dst, op.Version, 10)
	case 'D':
		return strconv.AppendUint(dst, op.Delta, 10)
	case 'M':
		if op.Mode != 0 {
			dst = append(dst, op.Mode)
		}
		return dst
	case 'O':
		if len(op.text()) == 0 {
			return strconv.AppendUint(dst, uint64(op.ownOpaque()), 10)
		}
	}
	_, sent, _ := metaFlags[letter].value.parse(word[1:]) // it was checked before
	return append(dst, sent...)
}

// ownOpaque is the opaque by which mcmw recognizes the reply to a command of its own.
func (op *Op) ownOpaque() uint32 { return crc32.ChecksumIEEE(op.Keys) }

// Drop removes flags.
func (op *Op) Drop(letters string) { op.Fields &^= FieldsOf(letters) }

// ToMeta makes a storage command, an incr or a decr the meta command that does the same. The reply to that of an incr
// shows the number.
func (op *Op) ToMeta() {
	if op.Command == Meta {
		return
	}
	row := &commands[op.Command]
	op.Verb, op.Fields = row.meta[0], 0
	if len(row.meta) > 1 {
		op.Mode = row.meta[1]
		op.Fields |= fieldOf('M')
	}
	for _, part := range []byte(row.words) {
		switch {
		case part == 'F' && op.Flags != 0, part == 'T' && op.Expiry != 0, part == 'C':
			op.Fields |= fieldOf(part)
		case part == 'D':
			op.Fields |= FieldsOf("vkD")
		}
	}
	op.Command, op.textEnd = Meta, op.textAt
}

// Stored returns the VALUE that shows what the storage command op stores.
func (op *Op) Stored() Item {
	return Item{Kind: ReplyValue, Flags: op.Flags, Size: len(op.Data) - len(CRLF), Key: op.Keys, Data: op.Data}
}

// Stamp makes op, which stores an item, a meta command that gives the item version as its cas, and whose reply is never
// left out.
func (op *Op) Stamp(version uint64) {
	op.ToMeta()
	op.Drop("q")
	op.Version, op.Fields = version, op.Fields|fieldOf('E')
}

// DropCondition makes op, a conditional write, store its item without a condition.
func (op *Op) DropCondition() {
	if op.Command == Meta {
		op.Drop("Cq")
	} else {
		op.Command = Set
	}
}

// Deletion returns the command that deletes op's only key.
func (op *Op) Deletion() Op {
	if op.Has(Encoded) {
		return op.KeyText().Meta('d', "")
	}
	return Op{Command: Delete, Keys: op.Keys, NumKeys: 1}
}

// Rename replaces op's only key by key, which is appended to dst in the form that op has.
func (op *Op) Rename(dst, key []byte) []byte {
	start := len(dst)
	if op.Has(Encoded) {
		dst = keyEncoding.AppendEncode(dst, key)
	} else {
		dst = append(dst, key...)
	}
	op.Keys = dst[start:len(dst):len(dst)]
	return dst
}

// Cap reduces op's expiry, so that no item which it stores or touches lives for more than ttl seconds, from 1 to
// LongestExpiry. Shorter ones stay, as do those in the past. now is the time in seconds since 1970, for exptimes that
// are dates.
func (op *Op) Cap(ttl, now int64) {
	if op.Verb == 's' && op.Fields&fieldOf('T') == 0 {
		op.Expiry, op.Fields = 0, op.Fields|fieldOf('T')
	}
	op.Expiry, op.Vivify = capped(op.Expiry, ttl, now), capped(op.Vivify, ttl, now)
}

// capped returns the exptime at which an item expires when it does with exptime, or after ttl seconds if that is
// earlier.
func capped(exptime int32, ttl, now int64) int32 {
	v := int64(exptime)
	if v > LongestExpiry {
		if v -= now; v == 0 {
			v = -1 // 0 would mean no expiry
		}
	}
	switch {
	case v < 0:
		v = -1
	case v == 0, v > ttl:
		v = ttl
	}
	return int32(v)
}
