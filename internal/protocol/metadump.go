package protocol

import (
	"bytes"
	"encoding/hex"
)

// Dumped is an item as `lru_crawler metadump` lists it.
type Dumped struct {
	// Key points into the line that was decoded.
	Key []byte
	// Accessed is when the item was last stored or read, in seconds of the server's clock; 0 if the line does not say.
	Accessed int64
	// CAS is the item's cas; 0 if the line does not say, or the server keeps none (memcached -C).
	CAS uint64
	// Size is the size of the item with its key and value in bytes; 0 if the line does not say.
	Size int64
}

// DecodeDumped decodes a line of the reply to `lru_crawler metadump`, without its line end. ok is false if the line is
// no item. The URL-encoded key is decoded in place, so line must not be read again.
func DecodeDumped(line []byte) (d Dumped, ok bool) {
	for n := 0; len(line) > 0; n++ {
		word, rest, _ := bytes.Cut(line, []byte{' '})
		line = rest
		name, value, _ := bytes.Cut(word, []byte{'='})
		switch string(name) {
		case "key":
			if n > 0 { // a key with an unencoded blank could contain another "key="
				return d, false
			}
			if d.Key, ok = unescape(value); !ok {
				return d, false
			}
		case "la":
			if seconds, _, ok := parseUint64(value); ok && int64(seconds) >= 0 {
				d.Accessed = int64(seconds)
			}
		case "size":
			if size, _, ok := parseUint64(value); ok && int64(size) >= 0 {
				d.Size = int64(size)
			}
		case "cas":
			if cas, _, ok := parseUint64(value); ok {
				d.CAS = cas
			}
		}
	}
	return d, len(d.Key) > 0 && len(d.Key) <= DefaultMaxKey
}

// unescape decodes URL-encoded text in place.
func unescape(text []byte) ([]byte, bool) {
	out := text[:0]
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '%' {
			if i+2 >= len(text) {
				return nil, false
			}
			var decoded [1]byte
			if _, err := hex.Decode(decoded[:], text[i+1:i+3]); err != nil {
				return nil, false
			}
			c = decoded[0]
			i += 2
		}
		out = append(out, c)
	}
	return out, true
}
