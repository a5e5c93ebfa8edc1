package protocol

import (
	"bytes"
	"math/bits"
)

// metaVerbs are the traits of the meta commands, by the second letter of their names.
var metaVerbs = ['z' + 1]Traits{'g': Reads, 'e': Reads | First, 's': Writes | Makes, 'd': Writes | Deletes, 'a': Writes | Makes | Builds | Depends}

// metaFlag describes a flag of a meta command.
type metaFlag struct {
	// value says what may follow the letter. refusal is memcached's error if something else follows; "": its general error.
	value   metaValue
	refusal string
	// adds and ends are the traits that the flag adds to a command, and removes from it.
	adds, ends Traits
}

// metaValue says what may follow the letter of a flag.
type metaValue uint8

const (
	unknownFlag metaValue = iota
	nothing               // any text after the letter is dropped
	keyInBase64           // as nothing; the key is in base64
	exptime
	number32
	number64
	letter // one letter; any text after it is dropped
	text
)

// metaFlags describes the flags, by their letters.
var metaFlags = ['z' + 1]metaFlag{
	'b': {keyInBase64, TextMetaKey, Encoded, 0},
	'N': {exptime, TextMetaToken, Writes | Makes | Depends, Reads}, // makes the item
	'T': {exptime, TextMetaToken, Writes, Reads},                   // changes its expiry
	'R': {exptime, TextMetaToken, Writes | Depends, Reads},         // wins its renewal
	'C': {number64, TextMetaToken, Conditional | Depends, 0},
	'E': {number64, TextMetaToken, Stamped, 0},
	'F': {number32, "", 0, 0},
	'J': {number64, TextMetaInitial, 0, 0},
	'D': {number64, TextMetaDelta, 0, 0},
	'M': {letter, "", 0, 0}, // see modes
	'O': {value: text}, 'P': {value: text}, 'L': {value: text},
	'c': {nothing, "", First, 0},
	'q': {nothing, "", Quiet | Fenced, 0},
	'I': {nothing, "", Marks | Makes | Depends, Deletes},
	'k': {value: nothing}, 's': {value: nothing}, 't': {value: nothing}, 'f': {value: nothing}, 'v': {value: nothing},
	'l': {value: nothing}, 'h': {value: nothing}, 'u': {value: nothing}, 'x': {nothing, "", Makes | Depends, 0},
}

// modes are the traits that the mode of an ms adds. The array has 256 elements, because a mode that is not checked may be any byte.
var modes = [256]Traits{'E': Depends, 'R': Depends, 'A': Depends | Builds, 'P': Depends | Builds}

// takeFlag notes a flag, and returns the part of value, the text after its letter, that memcached reads. ok is false if memcached refuses it.
func (op *Op) takeFlag(letter byte, value []byte) (read []byte, ok bool) {
	op.Fields |= fieldOf(letter)
	var n uint64
	switch letter {
	case 'T':
		op.Expiry, read, ok = parseExptime(value)
	case 'N':
		op.Vivify, read, ok = parseExptime(value)
	case 'F':
		n, read, ok = parseUint32(value)
		op.Flags = uint32(n)
	case 'C':
		op.CAS, read, ok = parseUint64(value)
	case 'E':
		op.Version, read, ok = parseUint64(value)
	case 'D':
		op.Delta, read, ok = parseUint64(value)
	default:
		if read, ok = metaFlags[letter].value.parse(value); letter == 'M' && len(read) > 0 {
			op.Mode = read[0]
		}
	}
	return read, ok
}

// parse returns the part of word, the text after a flag's letter, that memcached reads. ok is false if memcached refuses word.
func (v metaValue) parse(word []byte) (read []byte, ok bool) {
	switch v {
	case exptime:
		_, read, ok = parseExptime(word)
		return read, ok
	case number32:
		_, read, ok = parseUint32(word)
		return read, ok
	case number64:
		_, read, ok = parseUint64(word)
		return read, ok
	case letter:
		return word[:min(len(word), 1)], true
	case text:
		return word, true
	}
	return nil, true
}

// takeMeta completes a meta command whose words were checked.
func (r *Request) takeMeta(w *words) {
	r.takeKeyed(w, Meta, w.n)
	r.Arg, r.Verb = w.word[0], w.word[0][1]
	r.Traits = metaVerbs[r.Verb]
	for left := r.Fields; left != 0; left &= left - 1 {
		f := &metaFlags['A'+bits.TrailingZeros64(uint64(left))]
		r.Traits = r.Traits&^f.ends | f.adds
	}
	r.Traits |= modes[r.Mode]
	if !r.Has(Writes) {
		r.Traits &^= Conditional | Makes | Depends // memcached ignores the cas of a command that writes nothing
	}
}

// decodeKey appends the key that text holds in base64 to room. text was checked before.
func decodeKey(room, text []byte) []byte {
	key, _ := keyEncoding.AppendDecode(room, text)
	return key
}

// flagsOf returns the flags in a meta command's line: the rest after the key, and after the size of an ms.
func flagsOf(head []byte) []byte {
	verb, rest := cutWord(head)
	_, rest = cutWord(rest)
	if string(verb) == "ms" {
		_, rest = cutWord(rest)
	}
	return rest
}

// cutWord returns the first word of s and the rest.
func cutWord(s []byte) (word, rest []byte) {
	for len(s) > 0 && s[0] == ' ' {
		s = s[1:]
	}
	end := bytes.IndexByte(s, ' ')
	if end < 0 {
		end = len(s)
	}
	return s[:end], s[end:]
}

// AppendMeta appends the meta command line head and a line end, without the flags in drop.
func AppendMeta(dst, head []byte, drop string) []byte {
	return append(appendMeta(dst, head, drop), CRLF...)
}

// appendMeta is AppendMeta without the line end.
func appendMeta(dst, head []byte, drop string) []byte {
	flags := flagsOf(head)
	dst = append(dst, head[:len(head)-len(flags)]...)
	for len(flags) > 0 {
		var word []byte
		word, flags = cutWord(flags)
		if len(word) > 0 && bytes.IndexByte([]byte(drop), word[0]) < 0 {
			dst = append(append(dst, ' '), word...)
		}
	}
	return dst
}

// MetaFits reports whether reply, of which only the line is needed, can be the reply to the meta command line head: the verb allows
// its code, it has a value only if one was requested, and its opaque and its key are those of the request. An HD or a VA must
// return the opaque and the key if the request asked for them, an ME must return the key. An mg whose cas matches is answered
// without the value.
func MetaFits(head, reply []byte) bool {
	line, _, _ := bytes.Cut(reply, []byte(CRLF))
	verb, rest := cutWord(head)
	key, _ := cutWord(rest)
	var opaque []byte
	value, wantsKey, encoded, compares := false, false, false, false
	for flags := flagsOf(head); len(flags) > 0; {
		var word []byte
		word, flags = cutWord(flags)
		switch {
		case len(word) == 0:
		case word[0] == 'O':
			opaque = word
		case word[0] == 'k':
			wantsKey = true
		case word[0] == 'v':
			value = true
		case word[0] == 'b':
			encoded = true
		case word[0] == 'C':
			compares = true
		}
	}
	code, flags := cutWord(line)
	done := "HD"
	if value && (verb[1] == 'g' || verb[1] == 'a') {
		done = "VA"
	}
	if value && verb[1] == 'g' && compares && string(code) == "HD" {
		done = "HD"
	}
	switch string(code) {
	case done:
	case "VA", "HD":
		return false
	case "EN":
		if verb[1] != 'g' && verb[1] != 'e' {
			return false
		}
	case "ME":
		if verb[1] != 'e' {
			return false
		}
	case "NF", "EX", "NS":
		if verb[1] == 'g' || verb[1] == 'e' {
			return false
		}
	}
	if string(code) == "VA" {
		_, flags = cutWord(flags)
	}
	// The reply shows the key in the form in which the item was created, in base64 or not, whichever the request used.
	var room [DefaultMaxKey]byte
	if encoded && (wantsKey || verb[1] == 'e') {
		n, _ := keyEncoding.Decode(room[:], key)
		if bytes.IndexByte(room[:n], ' ') >= 0 {
			return true // a key that is shown unencoded consists of words that look like flags
		}
	}
	shows := func(text []byte) bool {
		return bytes.Equal(text, key) || encoded && isKeyIn(key, text) || !encoded && isKeyIn(text, key)
	}
	if string(code) == "ME" {
		shown, _ := cutWord(flags)
		return shows(shown)
	}
	hasKey, hasOpaque := false, false
	for len(flags) > 0 {
		var word []byte
		word, flags = cutWord(flags)
		switch {
		case len(word) == 0:
		case word[0] == 'O':
			hasOpaque = true
			if !bytes.Equal(word, opaque) {
				return false
			}
		case word[0] == 'k':
			hasKey = true
			if !wantsKey || !shows(word[1:]) {
				return false
			}
		}
	}
	return string(code) != done || (hasKey == wantsKey && hasOpaque == (opaque != nil))
}

// AppendRenamed appends reply, the reply to a meta command, with key in place of the key stored wherever reply shows it, in base64 or not.
func AppendRenamed(dst, reply, stored, key []byte) []byte {
	line, data, _ := bytes.Cut(reply, []byte(CRLF))
	code, words := cutWord(line)
	dst = append(dst, code...)
	for first := true; len(words) > 0; first = false {
		var word []byte
		if word, words = cutWord(words); len(word) == 0 {
			break
		}
		dst = append(dst, ' ')
		shown := word
		if string(code) != "ME" && word[0] == 'k' {
			dst, shown = append(dst, 'k'), word[1:]
		} else if string(code) != "ME" || !first {
			shown = nil
		}
		switch {
		case shown != nil && bytes.Equal(shown, stored):
			dst = append(dst, key...)
		case shown != nil && isKeyIn(shown, stored):
			dst = keyEncoding.AppendEncode(dst, key)
		case shown != nil:
			dst = append(dst, shown...)
		default:
			dst = append(dst, word...)
		}
	}
	return append(append(dst, CRLF...), data...)
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

// LeavesOut reports whether reply, the reply to the meta command r, is left out in quiet mode.
func (r *Request) LeavesOut(reply []byte) bool {
	code := reply[:2]
	switch r.Arg[1] {
	case 'g':
		return string(code) == "EN"
	case 's', 'd':
		return string(code) == "HD"
	case 'a':
		return string(code) == "HD" || string(code) == "VA"
	}
	return false
}

// MetaAlike reports whether two replies to one meta command say the same about the item: code, value, and whether it is
// stale (X), won (W) or being renewed by another client (Z). Values that each server maintains on its own (cas, times, hits) may
// differ.
func MetaAlike(a, b []byte) bool {
	lineA, dataA, _ := bytes.Cut(a, []byte(CRLF))
	lineB, dataB, _ := bytes.Cut(b, []byte(CRLF))
	codeA, flagsA := cutWord(lineA)
	codeB, flagsB := cutWord(lineB)
	return bytes.Equal(codeA, codeB) && bytes.Equal(dataA, dataB) && itemState(flagsA) == itemState(flagsB)
}

// itemState returns which of the flags W, X and Z are in a reply.
func itemState(flags []byte) (state uint8) {
	for len(flags) > 0 {
		var word []byte
		word, flags = cutWord(flags)
		switch string(word) {
		case "W":
			state |= 1
		case "X":
			state |= 2
		case "Z":
			state |= 4
		}
	}
	return state
}
