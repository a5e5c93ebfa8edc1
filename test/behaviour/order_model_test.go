package behaviour_test

import (
	"math/rand/v2"
	"strconv"
)

// Sizes of the order test's data.
const (
	ownKeys        = 8 // per connection; the last two hold numbers
	ownNumbers     = 2
	sharedValues   = 6 // keys to which every connection writes tagged values
	sharedCounters = 2 // keys that every connection increments
	// largestOwn bounds the values that result from appending, bytes.
	largestOwn = 4 << 10
	// largestBatch bounds the bytes of a pipeline, and of its replies as far as their size is known, so that two
	// pipelines fit in the buffers of the sockets.
	largestBatch = 48 << 10
)

// counterStart is the first value of a shared counter: the number of its digits never changes.
const counterStart = 1_000_000_000

// ownKey is a key that only one connection uses, with the item that the servers must hold.
type ownKey struct {
	name    string
	numeric bool

	exists bool
	value  []byte
	flags  uint32
	// version changes with every write that changes the item's cas, and with its deletion.
	version int
	// token is the last cas seen, that of tokenVersion; tokenVersion is -1 if none was seen.
	token        []byte
	tokenVersion int
}

// number returns the value of a numeric key.
func (k *ownKey) number() uint64 {
	n, err := strconv.ParseUint(string(k.value), 10, 64)
	if err != nil {
		panic("the model of a numeric key holds " + strconv.Quote(string(k.value)))
	}
	return n
}

// holdsNumber says that the value is a number, for incr and decr. The values of other keys begin with a letter.
func (k *ownKey) holdsNumber() bool { return k.exists && k.numeric }

// set sets the item's value.
func (k *ownKey) set(value []byte, flags uint32) {
	k.exists, k.flags = true, flags
	k.value = append(k.value[:0], value...)
	k.version++
}

func (k *ownKey) remove() {
	k.exists = false
	k.version++
}

// add changes a number by delta and returns it.
func (k *ownKey) add(delta uint64, down bool) uint64 {
	n := k.number()
	switch {
	case !down:
		n += delta
	case delta > n:
		n = 0
	default:
		n -= delta
	}
	k.value = strconv.AppendUint(k.value[:0], n, 10)
	k.version++
	return n
}

// delta returns an amount that does not make the number shorter. It depends on unsent replies with the old number
// whether memcached writes a shorter number in place, padded with spaces.
func (k *ownKey) delta(rng *rand.Rand, down bool) uint64 {
	if !k.holdsNumber() || !down {
		return rng.Uint64N(1_000_000)
	}
	smallest := uint64(1)
	for range len(k.value) - 1 {
		smallest *= 10
	}
	if smallest == 1 {
		return rng.Uint64N(20)
	}
	return rng.Uint64N(k.number() - smallest + 1)
}

// appendOwn appends a new value for k.
func (k *ownKey) appendOwn(dst []byte, rng *rand.Rand, seq int) []byte {
	if k.numeric {
		return strconv.AppendUint(dst, 1+rng.Uint64N(1_000_000_000), 10)
	}
	dst = append(strconv.AppendInt(append(dst, 'v'), int64(seq), 10), '.')
	size := rng.IntN(60)
	switch rng.IntN(64) {
	case 0:
		size = rng.IntN(largestOwn)
	case 1, 2, 3, 4:
		size = rng.IntN(512)
	}
	start := rng.IntN(len(fillerBlock) - size)
	return append(dst, fillerBlock[start:start+size]...)
}

// appendPiece appends a piece to be put before or after k's value, so that the value stays a number or stays other
// text.
func (k *ownKey) appendPiece(dst []byte, rng *rand.Rand, seq int) []byte {
	if k.numeric {
		return append(dst, '1'+byte(rng.IntN(9)))
	}
	dst = strconv.AppendInt(append(dst, 'p'), int64(seq), 10)
	start := rng.IntN(len(fillerBlock) - 32)
	return append(dst, fillerBlock[start:start+rng.IntN(32)]...)
}

// grows says whether something may be put before or after the value. Nothing is put after a 0, because memcached would
// drop the 0 when it counts on.
func (k *ownKey) grows() bool {
	if !k.exists {
		return true // the command is refused
	}
	if k.numeric {
		return len(k.value) < 12 && k.value[0] != '0'
	}
	return len(k.value) < largestOwn
}

// put adds piece after the value or before it.
func (k *ownKey) put(piece []byte, front bool) {
	n := len(k.value)
	k.value = append(k.value, piece...)
	if front {
		copy(k.value[len(piece):], k.value[:n])
		copy(k.value, piece)
	}
	k.version++
}
