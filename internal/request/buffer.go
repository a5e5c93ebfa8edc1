package request

import (
	"sync"

	"mcmw/internal/budget"
)

// Buffer is pooled memory that client bytes are read into. It has one owner at a time: the reader of a connection until the
// batch that points into it is put on the queue, then that batch, until Release.
type Buffer struct {
	B     []byte
	class int8           // index into bufferSizes; -1: too large to be kept
	from  *budget.Budget // the budget its size was taken from; nil: none
}

// ReadSize is what a connection reads into, bytes: a 4 KiB value with its command line arrives with one read.
const ReadSize = 16 << 10

// StubSize is the size of the buffer that holds the beginning of an incomplete request, if it fits, bytes: a whole command
// line other than a long multi-get, or a small value.
const StubSize = 1 << 10

// bufferSizes are the pooled sizes, bytes. The largest holds the largest value memcached takes by default.
var bufferSizes = [...]int{StubSize, ReadSize, 64 << 10, 256 << 10, 1<<20 + 16<<10}

var bufferPools [len(bufferSizes)]sync.Pool

// GetBuffer returns a buffer of at least size bytes.
func GetBuffer(size int) *Buffer {
	for class, n := range bufferSizes {
		if size > n {
			continue
		}
		if b, ok := bufferPools[class].Get().(*Buffer); ok {
			return b
		}
		return &Buffer{B: make([]byte, n), class: int8(class)}
	}
	return &Buffer{B: make([]byte, size), class: -1}
}

// BufferSize returns the size of the buffer that GetBuffer returns.
func BufferSize(size int) int {
	for _, n := range bufferSizes {
		if size <= n {
			return n
		}
	}
	return size
}

// Counted records that b's size was taken from the budget, to which Release returns it.
func (b *Buffer) Counted(from *budget.Budget) { b.from = from }

// Taken returns how much of a budget b has: its size, or nothing.
func (b *Buffer) Taken() int64 {
	if b.from == nil {
		return 0
	}
	return int64(len(b.B))
}

// Release returns b to its pool; nobody may use it, or anything that points into it, afterwards.
func (b *Buffer) Release() {
	if b.from != nil {
		b.from.Give(b.Taken())
		b.from = nil
	}
	if b.class >= 0 {
		bufferPools[b.class].Put(b)
	}
}
