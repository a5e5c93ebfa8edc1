package backend

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"mcmw/internal/wire"
)

// Link is a connection to a server apart from those of the workers, for its prober and for other goroutines that send one request
// after another. Every exchange must end within Options.ConnectTimeout. Owned by one goroutine.
type Link struct {
	sock    *wire.Socket
	r       *bufio.Reader
	timeout time.Duration
	detach  func() bool // from the context
}

const (
	// maxLinkLine bounds a line of a reply, in bytes. The longest lines that memcached sends are those of `stats`, which are less
	// than half as long.
	maxLinkLine = 8 << 10
	// pipelineLength is the maximum number of requests sent before their replies are read, and pipelineBytes their maximum
	// length: one TLS record, because wire must not split a request over two records.
	pipelineLength = 500
	pipelineBytes  = 16 << 10
)

// Unexpected is a reply that does not match the request.
type Unexpected string

func (u Unexpected) Error() string { return fmt.Sprintf("unexpected reply %q", string(u)) }

// Link connects to the server. The end of ctx interrupts reads and writes on the connection.
func (s *Server) Link(ctx context.Context) (*Link, error) {
	sock, err := s.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return &Link{
		sock: sock, r: bufio.NewReaderSize(sock, maxLinkLine), timeout: s.options.Load().ConnectTimeout,
		detach: context.AfterFunc(ctx, func() { _ = sock.Abort() }),
	}, nil
}

// Close closes the connection.
func (l *Link) Close() {
	l.detach()
	_ = l.sock.Close()
}

// extend restarts the timeout.
func (l *Link) extend() error { return setDeadlines(l.sock, time.Now().Add(l.timeout)) }

// Send writes a request, and starts the timeout for its reply.
func (l *Link) Send(request string) error {
	if err := l.extend(); err != nil {
		return err
	}
	return l.sock.WriteRest([]byte(request))
}

// Line reads a line of a reply.
func (l *Link) Line() (string, error) {
	line, err := l.rawLine()
	return string(line), err
}

// rawLine is Line; the line is valid until the next read.
func (l *Link) rawLine() ([]byte, error) {
	line, err := l.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, fmt.Errorf("a line of more than %d bytes in a reply", maxLinkLine)
	}
	for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
		line = line[:len(line)-1]
	}
	return line, err
}

// Value copies a value of size bytes from the reply to w, and reads the line end after it. Each piece that arrives restarts the
// timeout.
func (l *Link) Value(w io.Writer, size int64) error {
	for size > 0 {
		n, err := io.CopyN(w, l.r, min(size, maxLinkLine))
		if err != nil {
			return err
		}
		if size -= n; l.r.Buffered() == 0 {
			if err := l.extend(); err != nil {
				return err
			}
		}
	}
	if rest, err := l.rawLine(); err != nil || len(rest) > 0 {
		return errors.Join(err, errors.New("a value that is longer than announced"))
	}
	return nil
}

// Expect sends request and expects one line that begins with one of prefixes.
func (l *Link) Expect(request string, prefixes ...string) error {
	if err := l.Send(request); err != nil {
		return err
	}
	return l.want(prefixes...)
}

func (l *Link) want(prefixes ...string) error {
	line, err := l.Line()
	if err != nil {
		return err
	}
	for _, prefix := range prefixes {
		if strings.HasPrefix(line, prefix) {
			return nil
		}
	}
	return Unexpected(line)
}

// fence is a request that every server answers, in a line that is no reply to any other.
const fence = "version\r\n"

// Pipeline sends requests, many before their replies are read, and calls reply once for each.
//
// If a server sends one reply too many, the last requests seem to be answered before the server has carried them out. Therefore a fence
// follows the requests: a request whose reply fits no other.
func (l *Link) Pipeline(requests iter.Seq[string], reply func() error) error {
	var b strings.Builder
	pending := 0
	exchange := func() error {
		if pending == 0 {
			return nil
		}
		b.WriteString(fence)
		if err := l.Send(b.String()); err != nil {
			return err
		}
		for ; pending > 0; pending-- {
			if err := reply(); err != nil {
				return err
			}
		}
		b.Reset()
		return l.want("VERSION ")
	}
	for request := range requests {
		if pending == pipelineLength || b.Len()+len(request)+len(fence) > pipelineBytes {
			if err := exchange(); err != nil {
				return err
			}
		}
		b.WriteString(request)
		pending++
	}
	return exchange()
}
