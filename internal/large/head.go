package large

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strconv"
)

const (
	// magic begins every head, and no client's value on a server: such values are stored inline after a head. Its first
	// byte is no digit, so memcached refuses to increment a head.
	magic = "\x93mcmwL\r\n"
	// format is the only format so far. A head with another format is not understood, and its value is a miss.
	format = 1

	// HeadSize is the size of a head, bytes. An inline value follows it.
	HeadSize = 48

	// MaxChunks is the maximum number of chunks of a value.
	MaxChunks = 4096

	// ItemOverhead is the most that an item of memcached 1.6 takes in addition to its value, bytes, rounded up: header
	// 48, cas 8, key 250 and its end, flags 4, line end 2.
	ItemOverhead = 512
)

// Version tells a large value from all others. Its chunks are stored under keys that contain it. It is random, so only
// those who have read the head know it.
type Version [16]byte

// NewVersion returns a new random version.
func NewVersion() (v Version) {
	_, _ = rand.Read(v[:]) // never fails
	return v
}

// Head describes a value. The key's item holds it in place of the value.
type Head struct {
	Version Version
	// Total is the size of the value, bytes.
	Total int
	// Chunk is the size of each chunk except the last, bytes; 0: the value is inline, after the head.
	Chunk int
	// Sum is the checksum of the value; see the function Sum.
	Sum uint32
}

// Begins reports whether value begins like a head: a client's value could be taken for one, a server's value has one.
func Begins(value []byte) bool {
	return len(value) >= len(magic) && string(value[:len(magic)]) == magic
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Sum returns the checksum of the bytes with the checksum sum followed by more. The checksum of no bytes is 0.
func Sum(sum uint32, more []byte) uint32 { return crc32.Update(sum, castagnoli, more) }

// Append appends h. An inline value has to follow it.
//
//	0 magic  8 format  9 inline (0 or 1)  10 0  12 chunk  16 total  24 version  40 checksum of the value  44 checksum of bytes 0 to 43
func (h *Head) Append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, magic...)
	inline := byte(0)
	if h.Inline() {
		inline = 1
	}
	dst = append(dst, format, inline, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.Chunk))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.Total))
	dst = append(dst, h.Version[:]...)
	dst = binary.BigEndian.AppendUint32(dst, h.Sum)
	return binary.BigEndian.AppendUint32(dst, Sum(0, dst[start:]))
}

// Decode reads the head in an item's value. inline is the value after it. ok is false if Append has not written this
// head, or if part of it is missing.
func Decode(value []byte) (h Head, inline []byte, ok bool) {
	if len(value) < HeadSize || !Begins(value) || value[8] != format {
		return Head{}, nil, false
	}
	total, chunk := binary.BigEndian.Uint64(value[16:]), binary.BigEndian.Uint32(value[12:])
	if total > 1<<40 || chunk > 1<<30 {
		return Head{}, nil, false
	}
	h = Head{Total: int(total), Chunk: int(chunk), Sum: binary.BigEndian.Uint32(value[40:])}
	copy(h.Version[:], value[24:])
	inline = value[HeadSize:]
	switch {
	case !bytes.Equal(h.Append(nil), value[:HeadSize]):
		return Head{}, nil, false
	case h.Inline():
		return h, inline, h.Total == len(inline) && Sum(0, inline) == h.Sum
	}
	return h, nil, len(inline) == 0 && h.Total > 0 && h.Chunks() <= MaxChunks
}

// Inline reports whether the value is stored after the head.
func (h *Head) Inline() bool { return h.Chunk == 0 }

// Chunks returns how many chunks the value has.
func (h *Head) Chunks() int {
	if h.Inline() {
		return 0
	}
	return (h.Total + h.Chunk - 1) / h.Chunk
}

// Range returns where in the value chunk k begins and ends.
func (h *Head) Range(k int) (start, end int) { return k * h.Chunk, min(h.Total, (k+1)*h.Chunk) }

// AppendKey appends the key of chunk k.
func (h *Head) AppendKey(dst []byte, k int) []byte {
	dst = append(dst, "mcmw:large:"...)
	dst = base64.RawURLEncoding.AppendEncode(dst, h.Version[:])
	return strconv.AppendInt(append(dst, ':'), int64(k), 10)
}

// New returns the head of value in chunks of the given size.
func New(version Version, value []byte, chunk int) Head {
	return Head{Version: version, Total: len(value), Chunk: chunk, Sum: Sum(0, value)}
}

// NewInline returns the head of a value that follows it.
func NewInline(value []byte) Head { return Head{Total: len(value), Sum: Sum(0, value)} }

const (
	// margin is how much longer than its head a chunk lives, s.
	margin = 60
	// longestDelay is the greatest exptime that is a number of seconds and not a date.
	longestDelay = 30 * 24 * 3600
	// lastDate is the greatest exptime.
	lastDate = 1<<31 - 1
)

// Exptime returns the exptime of the chunks of a value with exptime: they live longer by margin. now is the time of
// day, seconds since 1970.
func Exptime(exptime int32, now int64) int32 {
	v := int64(exptime)
	switch {
	case v <= 0: // never expires, or is expired
	case v > longestDelay:
		v = min(v+margin, lastDate)
	case v+margin > longestDelay: // would be a date
		v += now + margin
	default:
		v += margin
	}
	return int32(v)
}
