package request

import "sync"

// Buffer is pooled memory that client bytes are read into. It has one owner at a time: the reader of a connection until the
// burst that points into it is put on the queue, then that burst, until Release.
type Buffer struct {
	B     []byte
	class int8 // index into bufferSizes; -1: too large to be kept
}

// ReadSize is what a connection reads into, bytes: a 4 KiB value with its command line arrives with one read.
const ReadSize = 16 << 10

// bufferSizes are the pooled sizes, bytes. The largest holds the largest value memcached takes by default.
var bufferSizes = [...]int{ReadSize, 64 << 10, 256 << 10, 1<<20 + 16<<10}

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

// Release gives b back; nobody may use it or anything that points into it afterwards.
func (b *Buffer) Release() {
	if b.class >= 0 {
		bufferPools[b.class].Put(b)
	}
}
