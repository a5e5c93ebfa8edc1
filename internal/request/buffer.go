package request

import (
	"sync"

	"mcmw/internal/budget"
)

// Buffer is pooled memory into which client bytes are read, and the requests in these bytes. It has one owner at a
// time: the reader of a connection until the batch that points into the buffer is put on the queue, then that batch,
// until Release.
type Buffer struct {
	B     []byte
	class int8           // index into bufferSizes; -1: too large for a pool
	from  *budget.Budget // the budget its size was taken from; nil: none
	batch Batch
}

// Batch makes b the buffer of an empty batch of client, which is part of b.
func (b *Buffer) Batch(client Client) *Batch {
	b.batch.Buffer, b.batch.Client = b, client
	return &b.batch
}

// ReadSize is the size in bytes of the largest buffer into which requests are read that have no larger value, and
// FirstSize that of a client's first read: it holds a 4 KiB value with its command line.
const ReadSize, FirstSize = 16 << 10, 5 << 10

// StubSize is the size in bytes of the buffer for the beginning of an incomplete request, if it fits: a command line
// other than a long multi-get, or a small value.
const StubSize = 1 << 10

// bufferSizes are the pooled sizes in bytes. The largest holds the largest value that memcached accepts by default.
var bufferSizes = [...]int{StubSize, FirstSize, ReadSize, 64 << 10, 256 << 10, 1<<20 + 16<<10}

var bufferPools [len(bufferSizes)]sync.Pool

// GetBuffer returns a buffer of at least size bytes.
func GetBuffer(size int) *Buffer {
	for class, n := range &bufferSizes {
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

// BufferSize returns the size of the buffer that GetBuffer returns for size.
func BufferSize(size int) int {
	for _, n := range &bufferSizes {
		if size <= n {
			return n
		}
	}
	return size
}

// Counted records that b's size was taken from the budget, to which Release returns it.
func (b *Buffer) Counted(from *budget.Budget) { b.from = from }

// Taken returns the number of bytes that b holds of a budget: its size if Counted was called, else 0.
func (b *Buffer) Taken() int64 {
	if b.from == nil {
		return 0
	}
	return int64(len(b.B))
}

// Release returns b to its pool. After it neither b nor a slice of its bytes may be used.
func (b *Buffer) Release() {
	if b.from != nil {
		b.from.Give(b.Taken())
		b.from = nil
	}
	if b.class >= 0 {
		bufferPools[b.class].Put(b)
	}
}
