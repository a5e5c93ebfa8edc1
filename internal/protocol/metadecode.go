package protocol

import (
	"bytes"
	"cmp"
	"encoding/base64"
)

const (
	// MaxMetaWords is the maximum number of words of a meta command: memcached's MFLAG_MAX_OPT_LENGTH less one.
	// Versions before 1.6.40 allow one word more, and run the value after a line with too many words as commands.
	MaxMetaWords = 19
	// maxOpaque is memcached's MFLAG_MAX_OPAQUE_LENGTH: the maximum length of an O flag, including its letter.
	maxOpaque = 32
)

// decodeMeta decodes a meta command. Only ms has a data block.
func (l *Limits) decodeMeta(r *Request, w *words) (int, error) {
	verb, first := w.word[0][1], 2 // first: the index of the first flag
	if verb == 's' {
		first = 3
	}
	switch {
	case verb == 'n':
		r.take(Meta, w, 1)
		r.Verb, r.Answer = verb, TextMetaNoop
		return -1, nil
	case w.n < first || !areFlags(w, first):
		return r.refuse(TextBadFormat)
	}
	size := -1
	if verb == 's' {
		var ok bool
		if size, ok = w.blockSize(2); !ok {
			return r.refuse(TextBadFormat)
		}
	}
	r.takeText(w, first, w.n)
	if refusal := l.checkMeta(r, w, verb, first); refusal != "" {
		return r.refuseBlock(refusal, size)
	}
	r.takeMeta(w)
	return size, nil
}

// areFlags reports whether the words from first on begin like flags.
func areFlags(w *words, first int) bool {
	for _, word := range w.word[min(first, w.n):w.n] {
		if c := word[0]; (c <= '@' || c >= '{') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// checkMeta returns the error with which a meta command is refused, or "". It keeps only the words that memcached
// reads.
func (l *Limits) checkMeta(r *Request, w *words, verb byte, first int) (refusal string) {
	switch {
	case len(w.word[1]) > l.MaxKey:
		refusal = TextBadFormat
	case verb == 'e':
		return checkDebug(r, w)
	case w.n > MaxMetaWords:
		refusal = TextMetaTooLong
	default:
		refusal = checkFlags(r, w, first)
	}
	if refusal == "" && verb == 'g' && r.Fields&FieldsOf("bk") == FieldsOf("bk") {
		// memcached shows the key of an item that an mg or ma created unencoded.
		if holdsLineFeed, _ := checkKey(w.word[1]); holdsLineFeed {
			refusal = TextNoBinaryKeyEcho
		}
	}
	if refusal != "" && verb == 'a' {
		return TextMetaArithmetic
	}
	if refusal != "" {
		return refusal
	}
	return checkMode(w, verb, first)
}

// checkDebug is checkMeta for me, whose only flag is b. memcached from 1.6.40 on sees it only if another word follows
// it.
func checkDebug(r *Request, w *words) (refusal string) {
	r.textEnd = r.textAt
	if !w.is(2, "b") {
		w.n = 2
		return ""
	}
	if !w.is(3, "b") || w.n != 4 {
		w.word[3], w.n, w.plain = w.word[2], 4, false
	}
	r.Fields = fieldOf('b')
	switch holdsLineFeed, ok := checkKey(w.word[1]); {
	case !ok:
		return TextBadFormat
	case holdsLineFeed:
		return TextNoBinaryKeyEcho
	}
	return ""
}

// keyEncoding accepts exactly one encoding of a key. memcached skips characters outside the alphabet, so two encodings
// could mean one key.
var keyEncoding = base64.StdEncoding.Strict()

// checkKey reports whether text is a key in base64, and whether the key contains a line feed.
func checkKey(text []byte) (holdsLineFeed, ok bool) {
	if bytes.IndexByte(text, '\r') >= 0 { // the decoder would skip it
		return false, false
	}
	var key [DefaultMaxKey]byte
	n, err := keyEncoding.Decode(key[:], text)
	return bytes.IndexByte(key[:n], '\n') >= 0, err == nil && n > 0
}

// checkFlags checks flag by flag, as memcached does. A repeated or unknown flag is an error at once; otherwise the
// error is that of the last flag with a wrong value.
func checkFlags(r *Request, w *words, first int) (refusal string) {
	bad, text := false, TextBadFormat
	for i := first; i < w.n; i++ {
		letter, value := w.word[i][0], w.word[i][1:]
		f := &metaFlags[letter]
		switch {
		case f.value == unknownFlag:
			return TextMetaUnknown
		case r.Fields&fieldOf(letter) != 0:
			return TextMetaDuplicate
		}
		value, ok := r.takeFlag(letter, value)
		if f.value == keyInBase64 {
			_, ok = checkKey(w.word[1])
		}
		if !ok {
			bad, text = true, cmp.Or(f.refusal, text)
			continue
		}
		w.flag(i, value)
	}
	if bad {
		return text
	}
	return ""
}

// checkMode makes the checks that memcached makes after all flags have been accepted: the mode, and the length of the
// opaque.
func checkMode(w *words, verb byte, first int) (refusal string) {
	opaque := ""
	for _, word := range w.word[first:w.n] {
		switch {
		case word[0] == 'O' && len(word) > maxOpaque:
			opaque = TextMetaOpaque
		case word[0] == 'M' && verb == 's' && (len(word) < 2 || bytes.IndexByte([]byte("EAPRS"), word[1]) < 0):
			return TextMetaSetMode
		case word[0] == 'M' && verb == 'a' && (len(word) < 2 || bytes.IndexByte([]byte("ID+-"), word[1]) < 0):
			return TextMetaCountMode
		}
	}
	return opaque
}
