package protocol

import "bytes"

// MetaRequest is what routing and replication need to know of a meta command.
type MetaRequest struct {
	// Verb is the second letter of mg, ms, md, ma, me.
	Verb byte
	// Key is the key as the server will see it: decoded if it was sent in base64.
	Key []byte
	// Base64: the key was sent encoded (flag b).
	Base64 bool
	// Quiet: the nominal reply is to be left out (flag q).
	Quiet bool
	// Compare: the command works only on the item with a given cas (flag C).
	Compare bool
	// Invalidate: the command has flag I.
	Invalidate bool
	// Token: the item's cas is returned (flag c).
	Token bool
	// Changes: an mg that changes the item: its expiry (T), making it (N), or winning its renewal (R).
	Changes bool
}

// Writes reports whether the command has to reach every replica.
func (m *MetaRequest) Writes() bool {
	return m.Verb == 's' || m.Verb == 'd' || m.Verb == 'a' || (m.Verb == 'g' && m.Changes)
}

// ParseMeta reads the flags of r, a Meta request with a key. A base64 key is decoded into decoded.
func ParseMeta(r *Request, decoded []byte) MetaRequest {
	m := MetaRequest{Verb: r.Arg[1], Key: r.Keys}
	for rest := metaFlags(r.Head); len(rest) > 0; {
		var word []byte
		word, rest = cutWord(rest)
		if len(word) == 0 {
			break
		}
		switch word[0] {
		case 'b':
			m.Base64 = true
			key := grow(decoded, keyEncoding.DecodedLen(len(r.Keys)))
			if n, err := keyEncoding.Decode(key, r.Keys); err == nil {
				m.Key = key[:n]
			}
		case 'q':
			m.Quiet = true
		case 'C':
			m.Compare = true
		case 'I':
			m.Invalidate = true
		case 'c':
			m.Token = true
		case 'T', 'N', 'R':
			m.Changes = true
		}
	}
	return m
}

// grow returns b with at least n bytes.
func grow(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// metaFlags returns what follows the key (and the size, for ms) in a meta command line.
func metaFlags(head []byte) []byte {
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

// AppendMeta appends the meta command line head, with its line end, leaving out the flags in drop.
func AppendMeta(dst, head []byte, drop string) []byte {
	flags := metaFlags(head)
	dst = append(dst, head[:len(head)-len(flags)]...)
	for len(flags) > 0 {
		var word []byte
		word, flags = cutWord(flags)
		if len(word) > 0 && bytes.IndexByte([]byte(drop), word[0]) < 0 {
			dst = append(append(dst, ' '), word...)
		}
	}
	return append(dst, CRLF...)
}

// MetaFits reports whether reply, or at least its line, can be the reply to the meta command line head: its code is one that
// the verb allows, it has a value only if one was requested, and the opaque and the key in it are the request's. An HD or a
// VA must return those of them that the request asked for. An mg with a cas that matches is answered without the value.
func MetaFits(head, reply []byte) bool {
	line, _, _ := bytes.Cut(reply, []byte(CRLF))
	verb, rest := cutWord(head)
	key, _ := cutWord(rest)
	var opaque []byte
	value, wantsKey, encoded, compares := false, false, false, false
	for flags := metaFlags(head); len(flags) > 0; {
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
		return verb[1] == 'e'
	case "NF", "EX", "NS":
		if verb[1] == 'g' || verb[1] == 'e' {
			return false
		}
	}
	if string(code) == "VA" {
		_, flags = cutWord(flags)
	}
	// The reply shows the key as the item was created: in base64 or not, whatever the request used.
	var room [DefaultMaxKey]byte
	if encoded {
		n, _ := keyEncoding.Decode(room[:], key)
		if bytes.IndexByte(room[:n], ' ') >= 0 {
			return true // a key shown as it is consists of words that look like flags
		}
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
			if !wantsKey || !(bytes.Equal(word[1:], key) || encoded && isKeyIn(key, word[1:]) || !encoded && isKeyIn(word[1:], key)) {
				return false
			}
		}
	}
	return string(code) != done || (hasKey == wantsKey && hasOpaque == (opaque != nil))
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

// MetaNominal reports whether code, the first two bytes of a reply to verb, is suppressed in quiet mode.
func MetaNominal(verb byte, code []byte) bool {
	switch verb {
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
// stale (X), won (W) or being renewed by another client (Z). What each server counts for itself (cas, times, hits) may
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
