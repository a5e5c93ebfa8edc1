package protocol

import "math"

// maxWords is memcached's MCMC_PARSER_MAX_TOKENS less one: the number of words of a line that it separates. Later words
// count only as keys of a retrieval.
const maxWords = 23

// words are the first words of a command line, separated at blanks, as in memcached.
type words struct {
	word [maxWords][]byte // empty beyond n, after the first split
	n    int
	line []byte
	// plain: the line already has the words exactly as they must be sent, separated by one blank.
	plain bool
}

func (w *words) split(line []byte) {
	w.line, w.plain = line, true
	end := 0 // of the last word
	for w.n = 0; w.n < maxWords; w.n++ {
		at := end
		for at < len(line) && line[at] == ' ' {
			at++
		}
		if at == len(line) {
			return
		}
		w.plain = w.plain && at-end == min(w.n, 1)
		for end = at; end < len(line) && line[end] != ' '; {
			end++
		}
		w.word[w.n] = line[at:end]
	}
}

// last reports whether the last word is s.
func (w *words) last(s string) bool { return w.n > 0 && string(w.word[w.n-1]) == s }

// is reports whether there is a word i and it is s.
func (w *words) is(i int, s string) bool { return string(w.word[i]) == s }

// set replaces word i by text, which is word i or a shortened form of it.
func (w *words) set(i int, text []byte) {
	if len(text) != len(w.word[i]) {
		w.word[i], w.plain = text, false
	}
}

// uint32 returns the 32-bit number in word i, from which it removes leading zeros. ok is false if it is no such number.
func (w *words) uint32(i int) (v uint64, ok bool) { return w.number(i, longest32, math.MaxUint32) }

// uint64 is uint32 for a 64-bit number.
func (w *words) uint64(i int) (v uint64, ok bool) { return w.number(i, longest64, math.MaxUint64) }

func (w *words) number(i, longest int, most uint64) (v uint64, ok bool) {
	v, digits, ok := parseNumber(w.word[i], longest, most)
	if ok {
		w.set(i, digits)
	}
	return v, ok
}

// exptime is uint32 for an expiry, which may be negative. stored: for that of a classic storage command.
func (w *words) exptime(i int, stored bool) (v int32, ok bool) {
	v, digits, ok := parseExptime(w.word[i])
	if ok {
		w.set(i, digits)
	} else if stored {
		v, w.word[i], ok = parseStoredExptime(w.word[i])
		w.plain = false
	}
	return v, ok
}

// blockSize returns the size of the data block that word i specifies.
func (w *words) blockSize(i int) (size int, ok bool) {
	const most = 1<<31 - 3 // with the CRLF that follows, memcached counts in 31 bits
	v, ok := w.uint32(i)
	return int(v), ok && v <= most
}

// flag replaces the meta flag i by its letter and value.
func (w *words) flag(i int, value []byte) {
	if len(value)+1 != len(w.word[i]) {
		w.set(i, append([]byte{w.word[i][0]}, value...))
	}
}

// are reports whether the line consists of the first n words, exactly as they must be sent.
func (w *words) are(n int) bool {
	if !w.plain || w.n != n {
		return false
	}
	last := w.word[n-1]
	return cap(w.line)-cap(last)+len(last) == len(w.line)
}
