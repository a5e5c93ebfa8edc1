package behaviour_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
)

// batch is one pipeline: the bytes of its requests, and the expected replies.
type batch struct {
	requests int
	out      []byte   // the requests
	want     []byte   // the bytes of the replies that are known in advance
	expects  []expect // the replies, in order
	marks    []mark   // where each request begins, for the message about a wrong reply
	// known is the number of observations of its client when the batch was made.
	known int
}

// mark is the beginning of a request of a batch.
type mark struct{ out, want, expects int }

type expectKind uint8

const (
	expectBytes       expectKind = iota // want, up to offset to
	expectToken                         // a number: the cas of an own key at a version
	expectShared                        // a VALUE of a shared key, or nothing if it is missing
	expectSharedCas                     // the same with a cas
	expectCounter                       // the VALUE of a shared counter
	expectIncremented                   // the result of incrementing a shared counter
	expectLine                          // one of a few lines
)

// expect is one piece of a batch's replies.
type expect struct {
	kind     expectKind
	to       int     // of expectBytes
	own      *ownKey // of expectToken
	version  int
	shared   int      // number of the shared key
	from, up int      // a value of this connection must have a count of from to up
	lines    []string // of expectLine
}

func (b *batch) reset() {
	b.requests = 0
	b.out, b.want, b.expects, b.marks = b.out[:0], b.want[:0], b.expects[:0], b.marks[:0]
}

// begin starts a request.
func (b *batch) begin() {
	b.close()
	b.requests++
	b.marks = append(b.marks, mark{len(b.out), len(b.want), len(b.expects)})
}

// close makes an expectation of the bytes added to want since the last one.
func (b *batch) close() {
	if n := len(b.expects); n > 0 && b.expects[n-1].kind == expectBytes {
		b.expects[n-1].to = len(b.want)
		return
	}
	b.expects = append(b.expects, expect{kind: expectBytes, to: len(b.want)})
}

// expect adds an expectation after the bytes in want.
func (b *batch) expect(e expect) {
	b.close()
	b.expects = append(b.expects, e)
	b.expects = append(b.expects, expect{kind: expectBytes, to: len(b.want)})
}

func (b *batch) send(words ...string) {
	for _, w := range words {
		b.out = append(b.out, w...)
	}
}

func (b *batch) sendNumber(n uint64) { b.out = strconv.AppendUint(b.out, n, 10) }

// reply adds s to the known replies, unless the request asks for no reply.
func (b *batch) reply(quiet bool, s string) {
	if !quiet {
		b.want = append(b.want, s...)
	}
}

// request returns the request whose reply has the known byte want or the expectation expects, and those before it.
func (b *batch) request(want, expects int) string {
	n := 0
	for i, m := range b.marks {
		if m.want <= want && m.expects <= expects {
			n = i
		}
	}
	from := max(0, n-3)
	text := ""
	for i := from; i <= n; i++ {
		end := len(b.out)
		if i+1 < len(b.marks) {
			end = b.marks[i+1].out
		}
		text += fmt.Sprintf("\n  request %d of %d: %q", i+1, b.requests, clip(b.out[b.marks[i].out:end]))
	}
	return text
}

// replyReader reads replies piece by piece.
type replyReader struct {
	conn     net.Conn
	buf      []byte
	pos, end int
}

// fill makes at least n unread bytes available.
func (r *replyReader) fill(n int) error {
	if r.end-r.pos >= n {
		return nil
	}
	if r.pos+n > len(r.buf) || r.pos > len(r.buf)/2 {
		if n > len(r.buf) {
			larger := make([]byte, 2*n)
			r.end = copy(larger, r.buf[r.pos:r.end])
			r.buf = larger
		} else {
			r.end = copy(r.buf, r.buf[r.pos:r.end])
		}
		r.pos = 0
	}
	for r.end-r.pos < n {
		m, err := r.conn.Read(r.buf[r.end:])
		r.end += m
		if m == 0 && err != nil {
			if err == io.EOF {
				return fmt.Errorf("the connection was closed; unread: %q", clip(r.buf[r.pos:r.end]))
			}
			return fmt.Errorf("%w; unread: %q", err, clip(r.buf[r.pos:r.end]))
		}
	}
	return nil
}

// exact reads want. It returns the offset of the first byte that differs.
func (r *replyReader) exact(want []byte) (same int, err error) {
	for same < len(want) {
		if err := r.fill(1); err != nil {
			return same, err
		}
		n := min(len(want)-same, r.end-r.pos)
		got := r.buf[r.pos : r.pos+n]
		if !bytes.Equal(got, want[same:same+n]) {
			d := firstDifference(got, want[same:])
			return same + d, fmt.Errorf("received %q where %q was expected", clip(r.buf[r.pos+d:r.end]),
				clip(want[same+d:]))
		}
		r.pos += n
		same += n
	}
	return same, nil
}

// line reads a line and returns it without its CR LF; it is valid until the next read.
func (r *replyReader) line() ([]byte, error) {
	for n := 1; ; n = r.end - r.pos + 1 {
		if err := r.fill(n); err != nil {
			return nil, err
		}
		if i := bytes.IndexByte(r.buf[r.pos:r.end], '\n'); i >= 0 {
			line := r.buf[r.pos : r.pos+i]
			r.pos += i + 1
			if i == 0 || line[i-1] != '\r' {
				return nil, fmt.Errorf("line %q does not end with CR LF", clip(line))
			}
			return line[:i-1], nil
		}
	}
}

// number reads digits up to the byte after them, which it does not read.
func (r *replyReader) number() ([]byte, error) {
	for n := 0; ; n++ {
		if err := r.fill(n + 1); err != nil {
			return nil, err
		}
		if c := r.buf[r.pos+n]; c >= '0' && c <= '9' && n < 20 {
			continue
		}
		if n == 0 {
			return nil, fmt.Errorf("received %q where a number was expected", clip(r.buf[r.pos:r.end]))
		}
		digits := r.buf[r.pos : r.pos+n]
		r.pos += n
		return digits, nil
	}
}

// value is one VALUE as it was received; data is valid until the next read.
type value struct {
	flags, cas uint64
	data       []byte
}

// item reads the VALUE of key and the numbers after it: flags and size, and the cas if there are three. found is false
// if something else comes next.
func (r *replyReader) item(key string, numbers int) (v value, found bool, err error) {
	const word = "VALUE "
	if err := r.fill(1); err != nil {
		return v, false, err
	}
	if r.buf[r.pos] != word[0] {
		return v, false, nil
	}
	// The VALUE of any key is longer than this.
	head := len(word) + len(key) + 1
	if err := r.fill(head); err != nil {
		return v, false, err
	}
	if h := r.buf[r.pos : r.pos+head]; string(h[len(word):head-1]) != key || h[head-1] != ' ' {
		return v, false, nil
	}
	line, err := r.line()
	if err != nil {
		return v, false, err
	}
	var fields [3]uint64
	n := 0
	for rest, more := line[head:], true; more; n++ {
		var field []byte
		field, rest, more = bytes.Cut(rest, []byte(" "))
		if n == numbers {
			return v, false, fmt.Errorf("received %q, with more than %d fields after the key", clip(line), numbers)
		}
		if fields[n], err = strconv.ParseUint(string(field), 10, 64); err != nil {
			return v, false, fmt.Errorf("received %q: %w", clip(line), err)
		}
	}
	if n < numbers {
		return v, false, fmt.Errorf("received %q, with %d fields after the key, expected %d", clip(line), n, numbers)
	}
	size := int(fields[1])
	if err := r.fill(size + 2); err != nil {
		return v, false, err
	}
	v = value{flags: fields[0], cas: fields[2], data: r.buf[r.pos : r.pos+size]}
	if end := r.buf[r.pos+size : r.pos+size+2]; string(end) != "\r\n" {
		return v, false, fmt.Errorf("the value of %q is followed by %q, not CR LF", key, end)
	}
	r.pos += size + 2
	return v, true, nil
}
