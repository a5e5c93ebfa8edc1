package wire

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mcmw/internal/nonblock"
)

// Socket is a connected stream socket (TCP or unix), with or without TLS. One goroutine may read while another writes;
// neither direction may be used by two goroutines at once. Reading and writing allocate nothing, except what crypto/tls
// allocates.
type Socket struct {
	conn   net.Conn
	raw    syscall.RawConn
	secure *secure // nil for a connection without TLS

	// closing guards fd, which is -1 once the socket is closed: then system calls fail with EBADF. A system call that
	// does not wait uses fd itself, because raw costs more than the call. It holds closing for reading, so that fd does
	// not become another file meanwhile. Whoever closes the socket holds closing while it sets fd, but not while it
	// closes: that waits for callbacks of raw, and these make such calls.
	closing sync.RWMutex
	fd      int

	// Owned by the reading goroutine: the callback of a read that waits, its argument and its results. The callback is
	// created once, so that a read allocates no closure.
	readable func(fd uintptr) bool
	into     []byte
	readN    int
	readErr  error
	tells    telling

	// Owned by the writing goroutine, likewise.
	writable func(fd uintptr) bool
	rest     cursor
	writeErr error
	iovs     []unix.Iovec
}

// telling says whether a read also reports whether more bytes are waiting.
type telling uint8

const (
	unknown telling = iota // not tried yet
	tells
	silent
)

// NewSocket takes over c, which must be a *net.TCPConn or *net.UnixConn.
func NewSocket(c net.Conn) (*Socket, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("%T is not a stream socket", c)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &Socket{conn: c, raw: raw}
	s.readable = s.onReadable
	s.writable = s.onWritable
	return s, raw.Control(func(fd uintptr) { s.fd = int(fd) })
}

// Read waits for bytes and reads as many as fit into p. At the end of the stream it returns io.EOF.
func (s *Socket) Read(p []byte) (int, error) {
	if t := s.session(); t != nil {
		return t.read(p)
	}
	s.into = p
	return s.read()
}

func (s *Socket) read() (int, error) {
	err := s.raw.Read(s.readable)
	s.into = nil
	if err == nil {
		err = s.readErr
	}
	if err != nil {
		return 0, err
	}
	return s.readN, nil
}

// onReadable reads; false makes the runtime wait for the socket to become readable.
func (s *Socket) onReadable(fd uintptr) bool {
	n, err := nonblock.Read(int(fd), s.into)
	if err == unix.EAGAIN {
		return false
	}
	s.readN, s.readErr = n, endOf(n, err)
	return true
}

// endOf returns the error of a read that returned n and err: no bytes and no error mean the end of the stream.
func endOf(n int, err error) error {
	if n == 0 && err == nil {
		return io.EOF
	}
	return err
}

// Readable yields whenever bytes may have arrived, to be read with ReadNow: first at once, then each time when more has
// arrived since the loop's body last read. The body must read until ReadNow returns no bytes, or reports that there are
// no more. Between two iterations the loop waits, and needs no buffer. An error is yielded last: the read deadline has
// passed, or the socket is closed.
//
// All iterations take place within one wait of the runtime for the descriptor. With a new wait for each iteration the
// body would have to read once more, to notice bytes that arrived before the wait began: one more system call per
// request.
func (s *Socket) Readable() iter.Seq[error] {
	return func(turn func(error) bool) {
		continues := true
		err := s.raw.Read(func(fd uintptr) bool {
			if s.tells == unknown {
				s.tells = silent
				if s.secure == nil && nonblock.TellMore(int(fd)) {
					s.tells = tells
				}
			}
			continues = turn(nil)
			return !continues
		})
		if continues {
			turn(err)
		}
	}
}

// TryWrite writes as much of g as the socket takes without waiting.
func (s *Socket) TryWrite(g *Gather) (int, error) {
	if s.secure != nil {
		return s.secure.tryWrite(g)
	}
	return s.writeNow(g.Pieces())
}

// writeNow writes as much as the socket takes without waiting.
func (s *Socket) writeNow(pieces [][]byte) (int, error) {
	c := cursor{pieces: pieces}
	s.closing.RLock()
	err := s.writeAll(s.fd, &c)
	s.closing.RUnlock()
	if err == unix.EAGAIN {
		err = nil
	}
	return c.pos, err
}

// WriteRest writes p, and waits as long as the write deadline allows. After a TryWrite that did not write everything, p
// must be everything that is left.
func (s *Socket) WriteRest(p []byte) error {
	if s.secure != nil {
		return s.secure.writeRest(p)
	}
	_, err := s.writeWaiting([][]byte{p})
	return err
}

// writeWaiting writes everything, and waits as long as the write deadline allows.
func (s *Socket) writeWaiting(pieces [][]byte) (int, error) {
	s.rest, s.writeErr = cursor{pieces: pieces}, nil
	err := s.raw.Write(s.writable)
	s.rest.pieces = nil
	if err == nil {
		err = s.writeErr
	}
	return s.rest.pos, err
}

// onWritable writes what is left; false makes the runtime wait for room.
func (s *Socket) onWritable(fd uintptr) bool {
	s.writeErr = s.writeAll(int(fd), &s.rest)
	return s.writeErr != unix.EAGAIN
}

// writeAll writes what follows c until the socket is full, which is the error EAGAIN.
func (s *Socket) writeAll(fd int, c *cursor) error {
	for len(c.pieces) > 0 {
		n, err := s.writeSome(fd, c)
		if err != nil {
			return err
		}
		c.skip(n)
	}
	return nil
}

// maxIovs bounds the entries of one writev: Linux's UIO_MAXIOV.
const maxIovs = 1024

// writeSome makes one system call for what follows c.
func (s *Socket) writeSome(fd int, c *cursor) (int, error) {
	if len(c.pieces) == 1 {
		return nonblock.Write(fd, c.piece())
	}
	s.iovs = s.iovs[:0]
	skip := c.offset
	for _, p := range c.pieces[:min(len(c.pieces), maxIovs)] {
		p = p[skip:]
		skip = 0
		iov := unix.Iovec{Base: &p[0]}
		iov.SetLen(len(p))
		s.iovs = append(s.iovs, iov)
	}
	n, err := nonblock.Writev(fd, s.iovs)
	clear(s.iovs)
	return n, err
}

// ReadNow reads the bytes that have arrived into p, without waiting; n is 0, without an error, if there are none. more
// reports whether there may be more now: the end of the stream counts as more, a reset does not.
func (s *Socket) ReadNow(p []byte) (n int, more bool, err error) {
	if t := s.session(); t != nil {
		n, err = t.readNow(p)
		return n, n > 0, err
	}
	return s.readRaw(p)
}

// readRaw is ReadNow on the socket itself.
func (s *Socket) readRaw(p []byte) (n int, more bool, err error) {
	s.closing.RLock()
	if s.tells == tells {
		n, more, err = nonblock.ReadTCP(s.fd, p)
	} else {
		n, err = nonblock.Read(s.fd, p)
		more = true
	}
	s.closing.RUnlock()
	switch {
	case err == unix.EAGAIN:
		return 0, false, nil
	case n <= 0:
		return 0, false, endOf(n, err)
	}
	return n, more, nil
}

// Closed reports, without waiting, whether the peer has closed the connection or sent bytes. It is for a caller without
// an outstanding request, for which the connection is unusable in both cases.
func (s *Socket) Closed() bool {
	if t := s.session(); t != nil {
		return t.closed()
	}
	s.closing.RLock()
	defer s.closing.RUnlock()
	_, err := nonblock.Peek(s.fd)
	return err != unix.EAGAIN
}

// SetReadDeadline bounds waiting in Read; the zero time removes the bound.
func (s *Socket) SetReadDeadline(t time.Time) error { return s.conn.SetReadDeadline(t) }

// SetWriteDeadline bounds waiting in WriteRest; the zero time removes the bound.
func (s *Socket) SetWriteDeadline(t time.Time) error { return s.conn.SetWriteDeadline(t) }

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (s *Socket) SetDeadline(t time.Time) error { return s.conn.SetDeadline(t) }

// CloseWrite ends the stream to the peer after the bytes written so far. Reading stays possible.
func (s *Socket) CloseWrite() error {
	if s.secure != nil {
		s.secure.finish()
	}
	return s.conn.(interface{ CloseWrite() error }).CloseWrite()
}

// Unsent returns how many of the bytes written, the end of the stream included, the peer has not acknowledged yet (unix
// socket: has not read yet); 0 for a broken connection.
func (s *Socket) Unsent() int {
	var n int
	var err error
	if cerr := s.raw.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); cerr != nil ||
		err != nil {
		return 0
	}
	return n
}

// Room returns about how many bytes the socket takes without waiting. It counts half of the send buffer, because the
// kernel's own data is in it, too.
func (s *Socket) Room() int {
	size, unsent := 0, 0
	err := s.raw.Control(func(fd uintptr) {
		size, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
		unsent, _ = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	})
	if err != nil {
		return 0
	}
	return max(0, size/2-unsent)
}

// Close closes the socket; blocked reads and writes return an error.
func (s *Socket) Close() error {
	if s.secure != nil {
		s.secure.finish()
	}
	return s.close()
}

func (s *Socket) close() error {
	s.closing.Lock()
	s.fd = -1
	s.closing.Unlock()
	return s.conn.Close()
}

// Abort closes the socket. On TCP it discards bytes that are not sent yet, and the peer gets a reset.
func (s *Socket) Abort() error {
	if l, ok := s.conn.(interface{ SetLinger(sec int) error }); ok {
		_ = l.SetLinger(0)
	}
	return s.close()
}

// Settle closes a socket after CloseWrite. If it returns true, no bytes sent on the socket take effect any more. It
// waits until arrived for the peer's kernel to acknowledge all bytes, and then until done for the peer to close the
// connection: then all bytes have taken effect. In time it returns true; otherwise the peer gets a reset and Settle
// returns false: bytes that the peer has received may take effect until it notices. No goroutine may be reading.
func (s *Socket) Settle(arrived, done time.Time) bool {
	defer func() { _ = s.Abort() }()
	for s.undelivered() {
		if !time.Now().Before(arrived) {
			return false
		}
		time.Sleep(settlePause)
	}
	err := s.conn.SetReadDeadline(done)
	if err == nil {
		_, err = io.Copy(io.Discard, s.conn)
	}
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// settlePause is the time between two checks of whether all bytes are acknowledged; the kernel has no event for that.
const settlePause = 2 * time.Millisecond

// undelivered reports whether the peer's kernel has not acknowledged all bytes yet. Bytes written to a unix socket are
// delivered at once.
func (s *Socket) undelivered() bool {
	_, tcp := s.conn.(*net.TCPConn)
	return tcp && s.Unsent() > 1 // the end of the stream counts as one
}

// RemoteAddr returns the peer's address.
func (s *Socket) RemoteAddr() net.Addr { return s.conn.RemoteAddr() }
