package wire

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

const (
	// maxRecord is the maximum plaintext of a TLS record in bytes.
	maxRecord = 16 << 10
	// batch is the number of bytes of plaintext that are encrypted before they are written to the socket: one system
	// call for several records, and a bound on the memory for a peer that does not read.
	batch = 4 * maxRecord
)

// secure is the TLS session of a Socket. crypto/tls can't write without blocking, and a tls.Conn is unusable after an
// interrupted write. Therefore it writes to memory, which never blocks, and the records are written to the socket from
// there.
type secure struct {
	// Static after construction.
	sock *Socket
	conn *tls.Conn

	// Owned by the reading goroutine.
	made     bool // the handshake succeeded; before that, reads return the raw bytes
	patience patience
	first    [1]byte

	// writing guards the fields below. The writing goroutine holds it, and may wait for the socket meanwhile; Close
	// only tries to lock it.
	writing   sync.Mutex
	greeting  bool      // the handshake is under way
	out       *sealed   // records on their way to the socket; nil when there are none
	sent      int       // bytes of out that the socket took
	one       [1][]byte // the argument of a write
	assembled *sealed   // plaintext of a record that consists of several pieces; nil between writes
	inside    bool      // the last record ended inside a unit
	owed      int       // bytes at the front of the next WriteRest that are already encrypted
	units     []int     // where the units of the next WriteRest end

	// mu guards next: records that crypto/tls has written and that are not in out yet. The reading goroutine writes
	// some, too: alerts, and answers to key updates. The holder of mu does not wait for anything.
	mu   sync.Mutex
	next *sealed
}

// patience says what the reader of the raw socket does if no bytes are there.
type patience uint8

const (
	wait     patience = iota // wait until the read deadline
	look                     // read the socket once, without waiting
	buffered                 // do not read the socket: only bytes that crypto/tls has buffered are wanted
)

// sealed is pooled memory for records.
type sealed struct{ b []byte }

var sealedPool = sync.Pool{New: func() any { return &sealed{b: make([]byte, 0, batch+4<<10)} }}

func (b *sealed) release() {
	b.b = b.b[:0]
	sealedPool.Put(b)
}

// maxSealed bounds the records that wait for the socket, in bytes: one batch, and the records that crypto/tls writes on
// its own to a peer that requests new keys and reads nothing.
const maxSealed = 2 * batch

var errSealed = errors.New("too many TLS records that the peer does not read")

// nothing is the error of a read that must not wait when no bytes are there. It is temporary, so that crypto/tls does
// not keep it.
type nothing struct{}

func (nothing) Error() string   { return "nothing has arrived" }
func (nothing) Timeout() bool   { return false }
func (nothing) Temporary() bool { return true }

// UseTLS makes s use TLS from its first byte on, as the client or the server of the connection. It must be called
// before any other goroutine uses s. Handshake must be called before the first write.
func (s *Socket) UseTLS(config *tls.Config, client bool) {
	t := &secure{sock: s}
	if client {
		t.conn = tls.Client(transport{t}, config)
	} else {
		t.conn = tls.Server(transport{t}, config)
	}
	s.secure = t
}

// Handshake performs the TLS handshake, within the deadlines. No goroutine may read or write until it returns. After an
// error s must be closed.
func (s *Socket) Handshake() error {
	t := s.secure
	t.writing.Lock()
	defer t.writing.Unlock()
	t.greeting = true
	err := t.conn.Handshake()
	t.greeting = false
	if _, flushErr := t.flush(err == nil); err == nil {
		err = flushErr
	}
	t.made = err == nil
	return err
}

// session returns the TLS session of s; nil before the handshake and without TLS.
func (s *Socket) session() *secure {
	if s.secure == nil || !s.secure.made {
		return nil
	}
	return s.secure
}

// LocalAddr returns this side's address of the connection.
func (s *Socket) LocalAddr() net.Addr { return s.conn.LocalAddr() }

// Secure reports whether s uses TLS.
func (s *Socket) Secure() bool { return s.secure != nil }

// read is Socket.Read.
func (t *secure) read(p []byte) (int, error) {
	n, err := t.conn.Read(p)
	return t.more(p, n, err)
}

// more appends to the n bytes in p the bytes that crypto/tls has already read from the socket. If the session has an
// error, the next read returns it again.
func (t *secure) more(p []byte, n int, err error) (int, error) {
	if n == 0 {
		return 0, err
	}
	t.patience = buffered
	for err == nil && n < len(p) {
		var m int
		m, err = t.conn.Read(p[n:])
		n += m
	}
	t.patience = wait
	return n, nil
}

// readNow is Socket.ReadNow.
func (t *secure) readNow(p []byte) (int, error) {
	t.patience = look
	n, err := t.conn.Read(p)
	t.patience = wait
	if err == (nothing{}) {
		return 0, nil
	}
	return t.more(p, n, err)
}

// closed is Socket.Closed. Bytes waiting in the raw socket may belong to TLS itself, such as the tickets that a server
// sends after a handshake.
func (t *secure) closed() bool {
	t.patience = look
	_, err := t.conn.Read(t.first[:])
	t.patience = wait
	return err != (nothing{})
}

// tryWrite is Socket.TryWrite. If the socket does not take all records of a batch, no byte of the batch counts as
// written: the records are kept for WriteRest, which skips their plaintext at the front of the rest.
func (t *secure) tryWrite(g *Gather) (int, error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.inside = false
	n, err := t.encrypt(cursor{pieces: g.Pieces()}, g.size, g.units, false)
	if err == nil && n < g.size {
		t.units = nil
		for _, end := range g.units {
			if end > n {
				t.units = append(t.units, end-n)
			}
		}
	}
	return n, err
}

// writeRest is Socket.WriteRest.
func (t *secure) writeRest(p []byte) error {
	t.writing.Lock()
	defer t.writing.Unlock()
	c := cursor{pieces: [][]byte{p}}
	c.skip(t.owed)
	_, err := t.encrypt(c, len(p), t.units, true)
	t.inside, t.owed, t.units = false, 0, nil
	return err
}

// encrypt writes size bytes of c, and returns how many of them the socket took, in whole batches. units are the ends of
// units before size.
func (t *secure) encrypt(c cursor, size int, units []int, wait bool) (int, error) {
	defer t.disassemble()
	t.owed = 0
	if done, err := t.flush(wait); !done {
		return c.pos, err
	}
	for c.pos < size {
		start := c.pos
		for c.pos < size && c.pos-start < batch {
			for len(units) > 0 && units[0] <= c.pos {
				units = units[1:]
			}
			var end int
			end, t.inside = recordEnd(c.pos, size, units, t.inside)
			if _, err := t.conn.Write(t.record(&c, end-c.pos)); err != nil {
				return start, err
			}
		}
		if done, err := t.flush(wait); !done {
			t.owed = c.pos - start
			return start, err
		}
	}
	return size, nil
}

// recordEnd returns where the record that begins at pos ends, and whether that is inside a unit. units are the ends of
// units after pos, except the last one, size. fromInside: pos is not the beginning of a unit.
//
// A record holds as many whole units as fit, or a part of one larger unit. memcached before 1.6.39 requires this. It
// leaves received requests unprocessed if a record continues after the end of a value that began in another record, or
// if a record is larger than the rest of memcached's 16 KiB buffer.
func recordEnd(pos, size int, units []int, fromInside bool) (end int, inside bool) {
	most := min(pos+maxRecord, size)
	if fromInside && len(units) > 0 && units[0] <= most {
		return units[0], false
	}
	if most == size {
		return size, false
	}
	for _, unit := range units {
		if unit > most {
			break
		}
		end = unit
	}
	if end == 0 {
		return most, true
	}
	return end, false
}

// disassemble frees the memory of record.
func (t *secure) disassemble() {
	if t.assembled != nil {
		t.assembled.release()
		t.assembled = nil
	}
}

// record returns the next n bytes of c in one piece, valid until the next call.
func (t *secure) record(c *cursor, n int) []byte {
	if p := c.piece(); len(p) >= n {
		c.skip(n)
		return p[:n]
	}
	if t.assembled == nil {
		t.assembled = sealedPool.Get().(*sealed)
	}
	b := t.assembled.b[:0]
	for len(b) < n {
		p := c.piece()
		p = p[:min(len(p), n-len(b))]
		b = append(b, p...)
		c.skip(len(p))
	}
	t.assembled.b = b
	return b
}

// flush writes encrypted records to the socket. done reports that none are left.
func (t *secure) flush(wait bool) (done bool, err error) {
	for {
		if t.out == nil {
			t.mu.Lock()
			t.out, t.next = t.next, nil
			t.mu.Unlock()
			t.sent = 0
		}
		if t.out == nil {
			return true, nil
		}
		t.one[0] = t.out.b[t.sent:]
		write := t.sock.writeNow
		if wait {
			write = t.sock.writeWaiting
		}
		n, err := write(t.one[:])
		t.one[0] = nil
		t.sent += n
		if err != nil || t.sent < len(t.out.b) {
			return false, err
		}
		t.out.release()
		t.out = nil
	}
}

// finish sends the close alert if that does not block.
func (t *secure) finish() {
	if !t.writing.TryLock() {
		return
	}
	defer t.writing.Unlock()
	_ = t.conn.CloseWrite()
	_, _ = t.flush(false) // another alert may be waiting, too
}

// cursor is a position in a sequence of pieces.
type cursor struct {
	pieces [][]byte
	offset int // in pieces[0]
	pos    int // in all of them
}

// piece returns the rest of the current piece, which is not empty. It must not be called at the end.
func (c *cursor) piece() []byte { return c.pieces[0][c.offset:] }

func (c *cursor) skip(n int) {
	c.pos += n
	c.offset += n
	for len(c.pieces) > 0 && c.offset >= len(c.pieces[0]) {
		c.offset -= len(c.pieces[0])
		c.pieces = c.pieces[1:]
	}
}

// transport is the net.Conn that crypto/tls uses.
type transport struct{ *secure }

// Read implements net.Conn for the reading goroutine.
func (t transport) Read(p []byte) (int, error) {
	switch t.patience {
	case buffered:
		return 0, nothing{}
	case look:
		n, _, err := t.sock.readRaw(p)
		if n == 0 && err == nil {
			err = nothing{}
		}
		return n, err
	}
	if t.greeting {
		if _, err := t.flush(true); err != nil {
			return 0, err
		}
	}
	t.sock.into = p
	return t.sock.read()
}

// Write implements net.Conn: it appends to memory and never blocks.
func (t transport) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next == nil {
		t.next = sealedPool.Get().(*sealed)
	}
	if len(t.next.b)+len(p) > maxSealed {
		return 0, errSealed
	}
	t.next.b = append(t.next.b, p...)
	return len(p), nil
}

// The other methods of net.Conn. The Socket handles deadlines and closing.

func (t transport) Close() error                     { return nil }
func (t transport) LocalAddr() net.Addr              { return t.sock.conn.LocalAddr() }
func (t transport) RemoteAddr() net.Addr             { return t.sock.conn.RemoteAddr() }
func (t transport) SetDeadline(time.Time) error      { return nil }
func (t transport) SetReadDeadline(time.Time) error  { return nil }
func (t transport) SetWriteDeadline(time.Time) error { return nil }
