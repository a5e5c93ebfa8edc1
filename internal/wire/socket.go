package wire

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"os"
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

	// Owned by the reading goroutine: the callbacks of system calls, their arguments and their results. The callbacks
	// are created once, so that a read allocates no closure.
	readable func(fd uintptr) bool
	into     []byte
	readN    int
	readMore bool
	readErr  error
	arrived  func(fd uintptr)
	peek     func(fd uintptr)
	closed   bool
	tells    telling
	fd       int // the descriptor during an iteration of Readable, while it stays open; otherwise -1

	// Owned by the writing goroutine, likewise.
	writable func(fd uintptr) bool
	pieces   [][]byte // not written yet, apart from the first skip bytes
	skip     int
	iovs     []unix.Iovec
	wait     bool
	wroteN   int
	writeErr error
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
	s := &Socket{conn: c, raw: raw, fd: -1}
	s.readable = s.onReadable
	s.arrived = s.onArrived
	s.peek = s.onPeek
	s.writable = s.onWritable
	return s, nil
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
			s.fd = int(fd)
			if s.tells == unknown {
				s.tells = silent
				if s.secure == nil && nonblock.TellMore(s.fd) {
					s.tells = tells
				}
			}
			continues = turn(nil)
			s.fd = -1
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
	return s.write(g.Pieces(), false)
}

// WriteRest writes p, and waits as long as the write deadline allows. After a TryWrite that did not write everything, p
// must be everything that is left.
func (s *Socket) WriteRest(p []byte) error {
	if s.secure != nil {
		return s.secure.writeRest(p)
	}
	one := [1][]byte{p}
	_, err := s.write(one[:], true)
	return err
}

func (s *Socket) write(pieces [][]byte, wait bool) (int, error) {
	s.pieces, s.skip, s.wait, s.wroteN, s.writeErr = pieces, 0, wait, 0, nil
	err := s.raw.Write(s.writable)
	s.pieces = nil
	if err == nil {
		err = s.writeErr
	}
	return s.wroteN, err
}

// maxIovs bounds the entries of one writev: Linux's UIO_MAXIOV.
const maxIovs = 1024

// onWritable writes until everything is written or the socket is full; false makes the runtime wait for room.
func (s *Socket) onWritable(fd uintptr) bool {
	for len(s.pieces) > 0 {
		n, err := s.writeSome(int(fd))
		switch {
		case err == unix.EAGAIN:
			return !s.wait
		case err != nil:
			s.writeErr = err
			return true
		}
		s.wroteN += n
		s.skip += n
		for len(s.pieces) > 0 && s.skip >= len(s.pieces[0]) {
			s.skip -= len(s.pieces[0])
			s.pieces = s.pieces[1:]
		}
	}
	return true
}

// writeSome makes one system call for what is left of pieces.
func (s *Socket) writeSome(fd int) (int, error) {
	skip := s.skip
	if len(s.pieces) == 1 {
		return nonblock.Write(fd, s.pieces[0][skip:])
	}
	s.iovs = s.iovs[:0]
	for i, p := range s.pieces {
		if i == maxIovs {
			break
		}
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
	if s.fd >= 0 {
		return s.readOnce(s.fd, p)
	}
	s.into = p
	err = s.raw.Control(s.arrived)
	s.into = nil
	if err != nil {
		return 0, false, err
	}
	return s.readN, s.readMore, s.readErr
}

func (s *Socket) onArrived(fd uintptr) { s.readN, s.readMore, s.readErr = s.readOnce(int(fd), s.into) }

// readOnce makes one system call for ReadNow.
func (s *Socket) readOnce(fd int, p []byte) (n int, more bool, err error) {
	if s.tells == tells {
		n, more, err = nonblock.ReadTCP(fd, p)
	} else {
		n, err = nonblock.Read(fd, p)
		more = true
	}
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
	err := s.raw.Control(s.peek)
	return s.closed || err != nil
}

func (s *Socket) onPeek(fd uintptr) {
	_, err := nonblock.Peek(int(fd))
	s.closed = err != unix.EAGAIN
}

// SetReadDeadline bounds waiting in Read; the zero time removes the bound.
func (s *Socket) SetReadDeadline(t time.Time) error { return s.conn.SetReadDeadline(t) }

// SetWriteDeadline bounds waiting in WriteRest; the zero time removes the bound.
func (s *Socket) SetWriteDeadline(t time.Time) error { return s.conn.SetWriteDeadline(t) }

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
	return s.conn.Close()
}

// Abort closes the socket. On TCP it discards bytes that are not sent yet, and the peer gets a reset.
func (s *Socket) Abort() error {
	if l, ok := s.conn.(interface{ SetLinger(sec int) error }); ok {
		_ = l.SetLinger(0)
	}
	return s.conn.Close()
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
