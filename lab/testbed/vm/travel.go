package vm

import "time"

const (
	// longest is the longest frame that a delay line reads, bytes: a packet of 64 KiB, and its headers.
	longest = 64<<10 + 128
	// chunkSize and maxChunks limit the memory for frames in flight, bytes: netemPackets frames of some 2.5 KiB each.
	chunkSize = 1 << 20
	maxChunks = 256
)

// travelling is a queue of frames in flight in the order of their arrival, which is also the order of their departure:
// all are delayed by the same time. Its memory is reused, so that frames cause no garbage collection. One goroutine
// uses it.
type travelling struct {
	chunks []*chunk // oldest first; only the last can be empty
	spare  []*chunk
}

// chunk has frames one after another.
type chunk struct {
	data   [chunkSize]byte
	used   int // bytes of data
	frames []traveller
	sent   int // how many of the frames have left
}

// traveller is a frame: data[start:end] of its chunk.
type traveller struct {
	start, end int
	due        time.Time
}

func (t *travelling) empty() bool {
	return len(t.chunks) == 0 || len(t.chunks) == 1 && t.chunks[0].sent == len(t.chunks[0].frames)
}

// room returns the space for the next frame; nil if the queue is full. Nothing changes unless add is called.
func (t *travelling) room() []byte {
	if n := len(t.chunks); n > 0 && chunkSize-t.chunks[n-1].used >= longest {
		last := t.chunks[n-1]
		return last.data[last.used : last.used+longest]
	}
	if len(t.chunks) == maxChunks {
		return nil
	}
	if len(t.spare) == 0 {
		t.spare = append(t.spare, new(chunk))
	}
	n := len(t.spare)
	next := t.spare[n-1]
	t.chunks, t.spare = append(t.chunks, next), t.spare[:n-1]
	return next.data[:longest]
}

// add queues the first n bytes of room until due, which must not be before that of the previous frame.
func (t *travelling) add(n int, due time.Time) {
	last := t.chunks[len(t.chunks)-1]
	last.frames = append(last.frames, traveller{last.used, last.used + n, due})
	last.used += n
}

// next removes and returns the first frame if it is due by now, else nil. The bytes are valid until the next call of
// room.
func (t *travelling) next(now time.Time) []byte {
	for len(t.chunks) > 0 {
		first := t.chunks[0]
		if first.sent < len(first.frames) {
			f := first.frames[first.sent]
			if f.due.After(now) {
				return nil
			}
			first.sent++
			return first.data[f.start:f.end]
		}
		first.used, first.sent, first.frames = 0, 0, first.frames[:0]
		if len(t.chunks) == 1 {
			return nil
		}
		t.chunks, t.spare = append(t.chunks[:0], t.chunks[1:]...), append(t.spare, first)
	}
	return nil
}
