package sweep

import (
	"bytes"
	"encoding/base64"
	"hash/maphash"
	"io"
	"strconv"
	"strings"

	"mcmw/internal/backend"
	"mcmw/internal/protocol"
)

// AppendLook appends the request for a server's copy of key, which does not touch the LRU; values: with the value and the client
// flags.
func AppendLook(dst []byte, key string, values bool) []byte {
	return keyText(key).AppendLook(dst, values)
}

// AppendCut appends the request that deletes key if its cas is cas.
func AppendCut(dst []byte, key string, cas uint64) []byte { return keyText(key).AppendCut(dst, cas) }

// keyText returns key in the form that a meta command has.
func keyText(key string) protocol.KeyText {
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return protocol.KeyText{Text: []byte(base64.StdEncoding.EncodeToString([]byte(key))), Encoded: true}
	}
	return protocol.KeyText{Text: []byte(key)}
}

// found is the reply to a look, without the value.
type found struct {
	Copy
	size  int64 // of the value that follows; -1: none
	flags string
	won   bool // memcached has given the look the right to renew the item, which is stale
}

// readLook decodes the line of the reply to request, a look.
func readLook(request []byte, line string) (f found, err error) {
	f.size = -1
	words := wordsOf(line)
	switch {
	case !protocol.MetaFits(bytes.TrimSuffix(request, []byte(protocol.CRLF)), []byte(line)):
		return f, backend.Unexpected(line)
	case len(words) > 0 && words[0] == "EN":
		return f, nil
	case len(words) > 1 && words[0] == "VA":
		if f.size, err = strconv.ParseInt(words[1], 10, 63); err != nil || f.size < 0 {
			return f, backend.Unexpected(line)
		}
		words = words[2:]
	case len(words) > 0 && words[0] == "HD":
		words = words[1:]
	default:
		return f, backend.Unexpected(line)
	}
	for _, word := range words {
		switch word[0] {
		case 'c':
			if f.CAS, err = strconv.ParseUint(word[1:], 10, 64); err != nil {
				return f, backend.Unexpected(line)
			}
			f.Held = true
		case 'f':
			f.flags = word
		case 'W':
			f.won = true
		}
	}
	if !f.Held {
		return f, backend.Unexpected(line)
	}
	return f, nil
}

// wordsOf returns the words of a line, which only blanks separate, as protocol.MetaFits reads them.
func wordsOf(line string) []string {
	return strings.FieldsFunc(line, func(r rune) bool { return r == ' ' })
}

// sum returns the hash of the flags and the value; value writes the value to w.
func (f *found) sum(seed maphash.Seed, value func(w io.Writer) error) (uint64, error) {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.WriteString(f.flags)
	_ = h.WriteByte(' ')
	err := value(&h)
	return h.Sum64(), err
}
