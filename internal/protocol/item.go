package protocol

import (
	"bytes"
	"strconv"
)

// Item is a VALUE, or the reply to a meta command, in its parts: DecodeItem takes it apart, the planner changes fields,
// Append writes it. Its slices point into the reply.
type Item struct {
	Kind ReplyKind
	// HasCAS: the reply shows CAS.
	HasCAS bool
	// Stale: the item was marked as stale. Won: the client that gets this reply is responsible for renewing the item.
	// Leased: another client is.
	Stale, Won, Leased bool
	// Flags are the client flags.
	Flags uint32
	CAS   uint64
	TTL   int64 // seconds; negative: the item does not expire, or the reply, not one to me, does not say
	// Size is the size of the value in bytes, without its line end.
	Size int
	Key  []byte // as the reply shows it: unencoded or in base64; nil: it does not
	Data []byte // what follows the line: the value including its line end

	// line is that of the reply, without its end. casAt, keyAt and sizeAt say where it shows them; 0: it does not. If
	// it does not end with the cas, further flags follow.
	line                 []byte
	casAt, keyAt, sizeAt int32
}

// DecodeItem decodes a VALUE or the reply to a meta command. shown is false if it shows no item, or is no such reply.
func DecodeItem(reply []byte) (it Item, shown bool) {
	end := bytes.IndexByte(reply, '\n')
	if end < 1 {
		return Item{}, false
	}
	it.line, it.TTL = reply[:end-1], -1
	code := firstWord(it.line)
	rest := it.line[len(code):]
	switch {
	case string(code) == "VALUE":
		it.Kind, it.Data = ReplyValue, reply[end+1:]
		return it, it.takeValue(rest)
	case string(code) == "VA":
		it.Kind, it.Data = ReplyMetaValue, reply[end+1:]
		var size []byte
		size, rest = cutWord(rest)
		var ok bool
		if it.Size, ok = dataSize(size); !ok {
			return it, false
		}
	default:
		it.Kind, _ = lineKind(code)
	}
	switch {
	case it.Kind == ReplyMetaDebug:
		it.takeDebug(rest)
	case it.Kind.IsMeta():
		it.takeFlags(rest)
	}
	return it, it.Kind.Shows()
}

// takeValue takes the words of a VALUE.
func (it *Item) takeValue(words []byte) (ok bool) {
	it.Key, words = cutWord(words)
	word, words := cutWord(words)
	flags, _, ok := parseUint32(word)
	it.Flags = uint32(flags)
	if word, words = cutWord(words); ok {
		it.Size, ok = dataSize(word)
	}
	if word, _ = cutWord(words); len(word) > 0 && ok {
		it.CAS, _, ok = parseUint64(word)
		it.HasCAS = ok
	}
	return ok
}

// takeDebug takes the words of an ME.
func (it *Item) takeDebug(words []byte) {
	it.TTL, it.keyAt = 0, it.offset(words)+1
	it.Key, words = cutWord(words)
	for word, rest := cutWord(words); len(word) > 0; word, rest = cutWord(rest) {
		exp, ok := bytes.CutPrefix(word, []byte("exp="))
		if seconds, _, valid := parseExptime(exp); ok && valid && seconds >= -1 {
			it.TTL = int64(seconds)
			return
		}
	}
}

// takeFlags takes the flags in the reply to another meta command. If the key is shown unencoded and has blanks, its
// words look like flags: the first k is the flag, and the last c with a number, because mcmw adds that.
func (it *Item) takeFlags(flags []byte) {
	for word, rest := cutWord(flags); len(word) > 0; word, rest = cutWord(rest) {
		at := it.offset(word)
		switch word[0] {
		case 'c':
			if v, _, valid := parseUint64(word[1:]); valid {
				it.CAS, it.HasCAS, it.casAt = v, true, at
			}
		case 'f':
			v, _, _ := parseUint32(word[1:])
			it.Flags = uint32(v)
		case 'k':
			if it.keyAt == 0 {
				it.Key, it.keyAt = word[1:], at
			}
		case 's':
			if v, ok := dataSize(word[1:]); ok && (it.Kind != ReplyMetaValue || v == it.Size) {
				it.Size, it.sizeAt = v, at
			}
		case 't':
			if v, _, valid := parseUint32(word[1:]); valid {
				it.TTL = int64(v)
			}
		case 'X':
			it.Stale = true
		case 'W':
			it.Won = true
		case 'Z':
			it.Leased = true
		}
	}
}

// offset returns where rest, which ends it.line, or a word of it, begins in it.line.
func (it *Item) offset(rest []byte) int32 { return int32(cap(it.line) - cap(rest)) }

// Append appends the line with its end; it.Data follows it. What the fields don't have is written as it came.
func (it *Item) Append(dst []byte) []byte {
	if it.Kind == ReplyValue {
		dst = append(append(append(dst, "VALUE "...), it.Key...), ' ')
		dst = append(strconv.AppendUint(dst, uint64(it.Flags), 10), ' ')
		dst = strconv.AppendInt(dst, int64(it.Size), 10)
		if it.HasCAS {
			dst = strconv.AppendUint(append(dst, ' '), it.CAS, 10)
		}
		return append(dst, CRLF...)
	}
	code, rest := cutWord(it.line)
	dst = append(dst, code...)
	if it.Kind == ReplyMetaValue {
		_, rest = cutWord(rest)
		dst = strconv.AppendInt(append(dst, ' '), int64(it.Size), 10)
	}
	for word, rest := cutWord(rest); len(word) > 0; word, rest = cutWord(rest) {
		switch at := it.offset(word); {
		case at == it.casAt && !it.HasCAS:
		case at == it.casAt:
			dst = strconv.AppendUint(append(dst, " c"...), it.CAS, 10)
		case at == it.keyAt && it.Kind == ReplyMetaDebug:
			dst = append(append(dst, ' '), it.Key...)
		case at == it.keyAt:
			dst = append(append(dst, " k"...), it.Key...)
		case at == it.sizeAt:
			dst = strconv.AppendInt(append(dst, " s"...), int64(it.Size), 10)
		default:
			dst = append(append(dst, ' '), word...)
		}
	}
	return append(dst, CRLF...)
}

// Rename makes the reply show key instead of the key stored, in the form in which it shows that. key is appended to dst
// if it has to be in base64.
func (it *Item) Rename(dst, stored, key []byte) []byte {
	switch {
	case it.Key == nil:
	case it.Kind == ReplyValue, bytes.Equal(it.Key, stored):
		it.Key = key
	case isKeyIn(it.Key, stored):
		start := len(dst)
		dst = keyEncoding.AppendEncode(dst, key)
		it.Key = dst[start:]
	}
	return dst
}

// isKeyIn reports whether text is key in base64.
func isKeyIn(text, key []byte) bool {
	var room [DefaultMaxKey]byte
	if len(text) > len(room) {
		return false
	}
	n, err := keyEncoding.Decode(room[:], text)
	return err == nil && bytes.Equal(room[:n], key)
}

// Alike reports whether two replies to one meta command say the same about the item. What each server maintains on its
// own (cas, times, hits) may differ.
func (it *Item) Alike(b *Item) bool {
	return it.Kind == b.Kind && bytes.Equal(it.Data, b.Data) && it.Stale == b.Stale && it.Won == b.Won &&
		it.Leased == b.Leased
}

// LeavesOut reports whether a reply of kind k to the meta command op is left out in quiet mode.
func (op *Op) LeavesOut(k ReplyKind) bool {
	switch op.Verb {
	case 'g':
		return k == ReplyMetaMiss
	case 's', 'd':
		return k == ReplyMetaDone
	case 'a':
		return k.Shows()
	}
	return false
}

// Classic returns the reply to op in the form of op's command. reply, of kind k, is the reply to what Stamp makes of
// op, which is always a meta command.
func (op *Op) Classic(k ReplyKind, reply []byte) []byte {
	if op.Command == Meta {
		return reply
	}
	switch k {
	case ReplyMetaDone:
		return textStored
	case ReplyMetaNotStored:
		return textNotStored
	case ReplyMetaExists:
		return textExists
	case ReplyMetaNotFound:
		return textNotFound
	case ReplyMetaValue:
		return reply[bytes.IndexByte(reply, '\n')+1:]
	}
	return reply
}

var (
	textStored    = []byte(TextStored)
	textNotStored = []byte("NOT_STORED\r\n")
	textExists    = []byte("EXISTS\r\n")
	textNotFound  = []byte("NOT_FOUND\r\n")
)

// Forgotten returns the kind of the reply to op, which depends on an item, if there is no such item, and appends the
// reply. For an add it is the reply if there is one.
func (op *Op) Forgotten(dst []byte) (ReplyKind, []byte) {
	if op.Command != Meta {
		switch op.Command {
		case Cas, Incr, Decr:
			return ReplyNotFound, append(dst, textNotFound...)
		}
		return ReplyNotStored, append(dst, textNotStored...)
	}
	kind, code := ReplyMetaNotFound, "NF"
	switch {
	case op.Verb == 'g':
		kind, code = ReplyMetaMiss, "EN"
	case op.Verb == 's' && !op.HasFlag('C'):
		kind, code = ReplyMetaNotStored, "NS"
	}
	dst = append(dst, code...)
	for word, rest := cutWord(op.text()); len(word) > 0; word, rest = cutWord(rest) {
		switch word[0] {
		case 'O':
			dst = append(append(dst, ' '), word...)
		case 'k':
			if dst = append(append(dst, " k"...), op.Keys...); op.Has(Encoded) {
				dst = append(dst, " b"...)
			}
		}
	}
	return kind, append(dst, CRLF...)
}

// Value returns the value in element, a complete VALUE or VA whose value has size bytes.
func Value(element []byte, size int) []byte {
	end := len(element) - len(CRLF)
	return element[end-size : end]
}
