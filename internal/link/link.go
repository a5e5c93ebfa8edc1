// Package link is a client of one memcached, for everything that is not a client's request: records, marks, leases,
// probes, sweeps and copies.
package link

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"mcmw/internal/protocol"
	"mcmw/internal/wire"
)

// Link is a connection to a server on which one request follows another. Every exchange must end within the timeout.
// Owned by one goroutine.
type Link struct {
	sock    *wire.Socket
	r       *bufio.Reader
	timeout time.Duration
	detach  func() bool // from the context
	ahead   int         // see SendAhead
}

const (
	// maxLine bounds a line of a reply, in bytes. The longest lines that memcached sends are those of `stats`, which
	// are less than half as long.
	maxLine = 8 << 10
	// maxRecord bounds the value that Get reads, in bytes.
	maxRecord = 1 << 20
	// pipelineLength is the maximum number of requests sent before their replies are read, and pipelineBytes their
	// maximum length: one TLS record, because wire must not split a request over two records.
	pipelineLength = 500
	pipelineBytes  = 16 << 10
)

// tooLarge is the beginning of the reply with which a server refuses an item.
const tooLarge = "SERVER_ERROR object too large"

// Unexpected is a reply that does not match the request.
type Unexpected string

func (u Unexpected) Error() string { return fmt.Sprintf("unexpected reply %q", string(u)) }

// New returns a link over sock. The end of ctx interrupts reads and writes on it.
func New(ctx context.Context, sock *wire.Socket, timeout time.Duration) *Link {
	return &Link{
		sock: sock, r: bufio.NewReaderSize(sock, maxLine), timeout: timeout,
		detach: context.AfterFunc(ctx, func() { _ = sock.Abort() }),
	}
}

// Close closes the connection.
func (l *Link) Close() {
	l.detach()
	_ = l.sock.Close()
}

// SendAhead lets the link send up to n bytes of requests before it reads the first reply, for a server that is far
// away. The replies must be short.
func (l *Link) SendAhead(n int) { l.ahead = n }

// Timeout returns the time within which an exchange ends.
func (l *Link) Timeout() time.Duration { return l.timeout }

// extend restarts the timeout.
func (l *Link) extend() error { return l.sock.SetDeadline(time.Now().Add(l.timeout)) }

// send writes requests, and starts the timeout for their replies.
func (l *Link) send(requests ...[]byte) error {
	if err := l.extend(); err != nil {
		return err
	}
	return l.sock.WriteRest(bytes.Join(requests, nil))
}

// line reads a line of a reply. It is valid until the next read.
func (l *Link) line() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("a line of more than %d bytes in a reply", maxLine)
	}
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	return line, err
}

// want reads a line that begins with one of prefixes, and returns its rest.
func (l *Link) want(prefixes ...string) (rest string, err error) {
	line, err := l.line()
	if err != nil {
		return "", err
	}
	for _, prefix := range prefixes {
		if rest, ok := strings.CutPrefix(string(line), prefix); ok {
			return rest, nil
		}
	}
	return "", Unexpected(line)
}

// value copies a value of size bytes, and the line end after it, from the reply to w. Each piece that arrives restarts
// the timeout.
func (l *Link) value(w io.Writer, size int) error {
	for size > 0 {
		n, err := io.CopyN(w, l.r, int64(min(size, maxLine)))
		if err != nil {
			return err
		}
		if size -= int(n); l.r.Buffered() == 0 {
			if err := l.extend(); err != nil {
				return err
			}
		}
	}
	if rest, err := l.line(); err != nil || len(rest) > 0 {
		return errors.Join(err, errors.New("a value that is longer than announced"))
	}
	return nil
}

// Key returns key in the form that a meta command has. A key that would be too long in base64 was stored unencoded,
// with a classic command, so it has neither blanks nor line feeds.
func Key(key string) protocol.KeyText {
	special := key == "" || strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == 0x7f })
	if special && base64.StdEncoding.EncodedLen(len(key)) <= protocol.DefaultMaxKey {
		return protocol.KeyText{Text: base64.StdEncoding.AppendEncode(nil, []byte(key)), Encoded: true}
	}
	return protocol.KeyText{Text: []byte(key)}
}

// Reply is the reply to a meta command. An Item that is not held is the zero value. Its Data is not set: the value goes
// to where the caller wants it.
type Reply struct {
	Line string // without its end
	Code string // HD, VA, EN, NS, EX, NF, or SERVER_ERROR if the item is too large for the server
	Held bool   // the reply shows an item
	protocol.Item
}

// HasValue reports whether a value follows the line.
func (r *Reply) HasValue() bool { return r.Kind == protocol.ReplyMetaValue }

// decode decodes the line of the reply to op.
func decode(op *protocol.Op, line []byte) (Reply, error) {
	item, held := protocol.DecodeItem(append(slices.Clip(line), protocol.CRLF...))
	r := Reply{Line: string(line), Held: held}
	r.Code, _, _ = strings.Cut(r.Line, " ")
	refused := op.Verb == 's' && strings.HasPrefix(r.Line, tooLarge)
	switch {
	case !op.Fits(line), !item.Kind.IsMeta() && !refused, item.Kind == protocol.ReplyMetaValue && !held,
		held && op.HasFlag('c') && !item.HasCAS:
		return Reply{}, Unexpected(line)
	case held:
		r.Item, r.Data = item, nil
	}
	return r, nil
}

// Ask sends meta commands, many before their replies are read. The value of each reply is written to value, and then
// reply is called. A command that asks for a cas must get it.
//
// If a server sends one reply too many, the last requests seem to be answered before the server has carried them out.
// Therefore a fence follows the requests: a request whose reply fits no other.
func (l *Link) Ask(requests iter.Seq[protocol.Op], value io.Writer, reply func(r Reply) error) error {
	return l.pipeline(requests, func(op *protocol.Op) error {
		line, err := l.line()
		if err != nil {
			return err
		}
		r, err := decode(op, line)
		if err == nil && r.HasValue() {
			err = l.value(value, r.Size)
		}
		if err != nil {
			return err
		}
		return reply(r)
	})
}

// Tell sends requests, each of which is answered by one line, whatever it says.
func (l *Link) Tell(requests iter.Seq[protocol.Op]) error {
	return l.pipeline(requests, func(*protocol.Op) error {
		_, err := l.line()
		return err
	})
}

// fence is a request that every server answers, in a line that is no reply to any other.
const fence = "version\r\n"

// pipeline sends requests, many before their replies are read, with fences, and calls reply once for each.
func (l *Link) pipeline(requests iter.Seq[protocol.Op], reply func(op *protocol.Op) error) error {
	var pending []protocol.Op // those without a key are fences
	var text []byte
	sent, written := 0, 0 // requests that are sent, or written to text, since the last fence; bytes that are sent
	send := func() error {
		if sent == len(pending) {
			return nil
		}
		written += len(text)
		err := l.send(text, []byte(fence))
		pending, text = append(pending, protocol.Op{}), text[:0]
		sent = len(pending)
		return err
	}
	receive := func() error {
		for i := range pending {
			var err error
			if pending[i].NumKeys > 0 {
				err = reply(&pending[i])
			} else if _, err = l.want("VERSION "); err == nil && i < len(pending)-1 {
				err = l.extend()
			}
			if err != nil {
				return err
			}
		}
		pending, sent, written = pending[:0], 0, 0
		return nil
	}
	for op := range requests {
		request := op.Bytes()
		if len(pending)-sent == pipelineLength || len(text)+len(request)+len(fence) > pipelineBytes {
			if err := send(); err != nil {
				return err
			}
			if written >= l.ahead {
				if err := receive(); err != nil {
					return err
				}
			}
		}
		pending, text = append(pending, op), append(text, request...)
	}
	if err := send(); err != nil {
		return err
	}
	return receive()
}
