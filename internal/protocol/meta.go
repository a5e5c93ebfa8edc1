package protocol

import (
	"bytes"
	"math/bits"
)

// metaVerbs are the traits of the meta commands, by the second letter of their names.
var metaVerbs = ['z' + 1]Traits{
	'g': Reads, 'e': Reads | First, 's': Writes | Makes, 'd': Writes | Deletes,
	'a': Writes | Makes | Builds | Depends,
}

// metaFlag describes a flag of a meta command.
type metaFlag struct {
	// value says what may follow the letter. refusal is memcached's error if something else follows; "": its general
	// error.
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

// modes are the traits that the mode of an ms adds. The array has 256 elements, because a mode that is not checked may
// be any byte.
var modes = [256]Traits{'E': Depends, 'R': Depends, 'A': Depends | Builds, 'P': Depends | Builds}

// takeFlag notes a flag, and returns the part of value, the text after its letter, that memcached reads. ok is false if
// memcached refuses it.
func (op *Op) takeFlag(letter byte, value []byte) (read []byte, ok bool) {
	op.Fields |= fieldOf(letter)
	n, read, ok := metaFlags[letter].value.parse(value)
	switch letter {
	case 'T':
		op.Expiry = int32(n)
	case 'N':
		op.Vivify = int32(n)
	case 'F':
		op.Flags = uint32(n)
	case 'C':
		op.CAS = n
	case 'E':
		op.Version = n
	case 'D':
		op.Delta = n
	case 'M':
		if len(read) > 0 {
			op.Mode = read[0]
		}
	}
	return read, ok
}

// parse returns the number that word, the text after a flag's letter, says, and the part of word that memcached reads.
// ok is false if memcached refuses word.
func (v metaValue) parse(word []byte) (n uint64, read []byte, ok bool) {
	switch v {
	case exptime:
		seconds, read, ok := parseExptime(word)
		return uint64(seconds), read, ok
	case number32:
		return parseUint32(word)
	case number64:
		return parseUint64(word)
	case letter:
		return 0, word[:min(len(word), 1)], true
	case text:
		return 0, word, true
	}
	return 0, nil, true
}

// takeMeta completes a meta command whose words were checked.
func (r *Request) takeMeta(w *words) {
	r.take(Meta, w, w.n)
	r.Verb, r.Keys, r.NumKeys = w.word[0][1], w.word[1], 1
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

// Fits reports whether reply, of which only the line is needed, can be the reply to the meta command op: the verb
// allows its code, it has a value only if one was requested, and its opaque and its key are those of the request. An HD
// or a VA must return the opaque and the key if the request asked for them, an ME must return the key. An mg whose cas
// matches is answered without the value.
func (op *Op) Fits(reply []byte) bool {
	line, _, _ := bytes.Cut(reply, []byte(CRLF))
	code, flags := cutWord(line)
	done, asks := "HD", op.Verb == 'g' || op.Verb == 'e'
	switch {
	case op.Verb == 'e':
		done = "ME"
	case op.HasFlag('v') && (op.Verb == 'g' || op.Verb == 'a') &&
		!(op.Verb == 'g' && op.HasFlag('C') && string(code) == "HD"):
		done = "VA"
	}
	fits := true
	switch string(code) {
	case done:
	case "VA", "HD", "ME":
		fits = false
	case "EN":
		fits = asks
	case "NF", "EX", "NS":
		fits = !asks
	}
	if !fits {
		return false
	}
	if string(code) == "VA" {
		_, flags = cutWord(flags)
	}
	// The reply shows the key in the form in which the item was created, in base64 or not, whichever the request used.
	var room [DefaultMaxKey]byte
	if op.Has(Encoded) && (op.HasFlag('k') || op.Verb == 'e') {
		n, _ := keyEncoding.Decode(room[:], op.Keys)
		if bytes.IndexByte(room[:n], ' ') >= 0 {
			return true // a key that is shown unencoded consists of words that look like flags
		}
	}
	if string(code) == "ME" {
		shown, _ := cutWord(flags)
		return op.isKey(shown)
	}
	hasKey, hasOpaque := false, false
	for word, rest := cutWord(flags); len(word) > 0; word, rest = cutWord(rest) {
		switch word[0] {
		case 'O':
			hasOpaque = true
			if !op.isOpaque(word[1:]) {
				return false
			}
		case 'k':
			hasKey = true
			if !op.HasFlag('k') || !op.isKey(word[1:]) {
				return false
			}
		}
	}
	return string(code) != done || hasKey == op.HasFlag('k') && hasOpaque == op.HasFlag('O')
}

// isKey reports whether text is op's only key, in base64 or not.
func (op *Op) isKey(text []byte) bool {
	return bytes.Equal(text, op.Keys) || op.Has(Encoded) && isKeyIn(op.Keys, text) || !op.Has(Encoded) &&
		isKeyIn(text, op.Keys)
}

// isOpaque reports whether op's opaque is text.
func (op *Op) isOpaque(text []byte) bool {
	if !op.HasFlag('O') {
		return false
	}
	for word, rest := cutWord(op.text()); len(word) > 0; word, rest = cutWord(rest) {
		if word[0] == 'O' {
			return bytes.Equal(word[1:], text)
		}
	}
	n, _, ok := parseUint32(text)
	return ok && uint32(n) == op.ownOpaque()
}
