package route

import (
	"crypto/md5"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// Several of these hashes were written in C with plain char, which is signed on the machines they run on: a byte of
// 0x80 or more is sign-extended. signed is that byte as 32 bits.
func signed(b byte) uint32 { return uint32(int32(int8(b))) }

// sum returns the hash of key as twemproxy and libmemcached compute it on a little-endian machine.
func (k HashKind) sum(key []byte) uint32 {
	switch k {
	case HashFNV1x64:
		return fnv1(key, fnvInit64, fnvPrime64)
	case HashFNV1a32:
		return fnv1a(key, fnvInit32, fnvPrime32)
	case HashFNV1x32:
		return fnv1(key, fnvInit32, fnvPrime32)
	case HashOneAtATime:
		return oneAtATime(key)
	case HashMD5:
		sum := md5.Sum(key)
		return binary.LittleEndian.Uint32(sum[:])
	case HashCRC16:
		return crc16(key)
	case HashCRC32:
		return crc32.ChecksumIEEE(key) >> 16 & 0x7fff
	case HashCRC32a:
		return crc32.ChecksumIEEE(key)
	case HashHsieh:
		return hsieh(key)
	case HashMurmur:
		return murmur(key)
	case HashJenkins:
		return jenkins(key)
	default:
		return fnv1a(key, fnvInit64, fnvPrime64)
	}
}

// The 64-bit FNV hashes are truncated to 32 bits in the end, so the lower halves of their constants suffice.
const (
	fnvInit64  = 0xcbf29ce484222325 & 0xffffffff
	fnvPrime64 = 0x100000001b3 & 0xffffffff
	fnvInit32  = 2166136261
	fnvPrime32 = 16777619
)

func fnv1(key []byte, h, prime uint32) uint32 {
	for _, b := range key {
		h *= prime
		h ^= signed(b)
	}
	return h
}

func fnv1a(key []byte, h, prime uint32) uint32 {
	for _, b := range key {
		h ^= signed(b)
		h *= prime
	}
	return h
}

func oneAtATime(key []byte) uint32 {
	var h uint32
	for _, b := range key {
		h += signed(b)
		h += h << 10
		h ^= h >> 6
	}
	h += h << 3
	h ^= h >> 11
	h += h << 15
	return h
}

// crc16Table holds the remainders of the CCITT polynomial, x^16 + x^12 + x^5 + 1, highest bit first.
var crc16Table = func() (table [256]uint32) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc >> 15
			crc = crc<<1 ^ carry*0x1021
		}
		table[i] = uint32(crc)
	}
	return table
}()

// crc16 is twemproxy's: its register has 32 bits, and the upper half keeps what a proper CRC-16 shifts out.
func crc16(key []byte) uint32 {
	var crc uint32
	for _, b := range key {
		crc = crc<<8 ^ crc16Table[byte(crc>>8)^b]
	}
	return crc
}

// hsieh is Paul Hsieh's SuperFastHash, started at 0.
func hsieh(key []byte) uint32 {
	var h uint32
	for ; len(key) >= 4; key = key[4:] {
		h += uint32(binary.LittleEndian.Uint16(key))
		h = h<<16 ^ uint32(binary.LittleEndian.Uint16(key[2:]))<<11 ^ h
		h += h >> 11
	}
	switch len(key) {
	case 3:
		h += uint32(binary.LittleEndian.Uint16(key))
		h ^= h << 16
		h ^= signed(key[2]) << 18
		h += h >> 11
	case 2:
		h += uint32(binary.LittleEndian.Uint16(key))
		h ^= h << 11
		h += h >> 17
	case 1:
		h += uint32(key[0])
		h ^= h << 10
		h += h >> 1
	}
	h ^= h << 3
	h += h >> 5
	h ^= h << 4
	h += h >> 17
	h ^= h << 25
	h += h >> 6
	return h
}

// murmur is MurmurHash2, seeded with a multiple of the key's length.
func murmur(key []byte) uint32 {
	const (
		m    = 0x5bd1e995
		seed = 0xdeadbeef
	)
	h := uint32(len(key))*seed ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := binary.LittleEndian.Uint32(key) * m
		k ^= k >> 24
		k *= m
		h *= m
		h ^= k
	}
	if len(key) > 0 {
		for i, b := range key {
			h ^= uint32(b) << (8 * i)
		}
		h *= m
	}
	h ^= h >> 13
	h *= m
	h ^= h >> 15
	return h
}

// jenkins is Bob Jenkins' lookup3 (hashlittle), started at 13.
func jenkins(key []byte) uint32 {
	const start = 13
	a := 0xdeadbeef + uint32(len(key)) + start
	b, c := a, a
	if len(key) == 0 {
		return c
	}
	for ; len(key) > 12; key = key[12:] {
		a += binary.LittleEndian.Uint32(key)
		b += binary.LittleEndian.Uint32(key[4:])
		c += binary.LittleEndian.Uint32(key[8:])
		a = (a - c) ^ bits.RotateLeft32(c, 4)
		c += b
		b = (b - a) ^ bits.RotateLeft32(a, 6)
		a += c
		c = (c - b) ^ bits.RotateLeft32(b, 8)
		b += a
		a = (a - c) ^ bits.RotateLeft32(c, 16)
		c += b
		b = (b - a) ^ bits.RotateLeft32(a, 19)
		a += c
		c = (c - b) ^ bits.RotateLeft32(b, 4)
		b += a
	}
	var tail [12]byte
	copy(tail[:], key)
	a += binary.LittleEndian.Uint32(tail[:])
	b += binary.LittleEndian.Uint32(tail[4:])
	c += binary.LittleEndian.Uint32(tail[8:])
	c = (c ^ b) - bits.RotateLeft32(b, 14)
	a = (a ^ c) - bits.RotateLeft32(c, 11)
	b = (b ^ a) - bits.RotateLeft32(a, 25)
	c = (c ^ b) - bits.RotateLeft32(b, 16)
	a = (a ^ c) - bits.RotateLeft32(c, 4)
	b = (b ^ a) - bits.RotateLeft32(a, 14)
	c = (c ^ b) - bits.RotateLeft32(b, 24)
	return c
}
