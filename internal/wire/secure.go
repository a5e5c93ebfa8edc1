package wire

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

const (
	// maxRecord is the most plaintext that a TLS record holds, bytes.
	maxRecord = 16 << 10
	// batch is the plaintext, bytes, that is encrypted before the socket is asked to take it: one system call for several
	// records, and a bound on what is encrypted for a peer that does not read.
	batch = 4 * maxRecord
)

// secure is the TLS session of a Socket. crypto/tls can't write without blocking: a tls.Conn is unusable after
// an interrupted write. So it writes to memory, which never blocks, and the socket takes the records from there.
type secure struct {
	// Static after construction.
	sock *Socket
	conn *tls.Conn

	// Owned by the reading goroutine.
	made     bool // the handshake succeeded; until then, and if it failed, a read brings the bytes as they come
	patience patience
	first    [1]byte

	// writing guards the fields below. It is held by the writing goroutine, which may wait for the socket meanwhile; Close
	// only tries it.
	writing   sync.Mutex
	greeting  bool      // the handshake is under way
	out       *sealed   // records on their way to the socket; nil when there are none
	sent      int       // bytes of out that the socket took
	one       [1][]byte // the argument of a write
	assembled *sealed   // plaintext of a record that several pieces make up; nil between writes
	inside    bool      // the last record ended inside a unit
	owed      int       // bytes at the front of the next WriteRest that are encrypted already
	units     []int     // where the units of the next WriteRest end

	// mu guards next: records that crypto/tls wrote and that are not in out yet. The reading goroutine writes some, too:
	// alerts, and answers to key updates. Nothing is waited for while it is held.
	mu   sync.Mutex
	next *sealed
}

// patience is what the reader of the raw socket does when nothing has arrived.
type patience uint8

const (
	wait     patience = iota // until the read deadline
	look                     // look at the socket once
	buffered                 // not even that: only what crypto/tls has read already counts
)

// sealed is pooled memory for records.
type sealed struct{ b []byte }

var sealedPool = sync.Pool{New: func() any { return &sealed{b: make([]byte, 0, batch+4<<10)} }}

func (b *sealed) release() {
	b.b = b.b[:0]
	sealedPool.Put(b)
}

// maxSealed bounds the records that wait for the socket, bytes: a batch, and what crypto/tls writes by itself to a peer that
// asks for new keys and reads nothing.
const maxSealed = 2 * batch

var errSealed = errors.New("too many TLS records that the peer does not read")

// nothing is the error of a read that may not wait. That it is temporary makes crypto/tls forget it.
type nothing struct{}

func (nothing) Error() string   { return "nothing has arrived" }
func (nothing) Timeout() bool   { return false }
func (nothing) Temporary() bool { return true }

// UseTLS makes s speak TLS from its first byte on, as the client or the server of the connection. It is called before any
// other goroutine knows s; Handshake has to come before anything is written.
func (s *Socket) UseTLS(config *tls.Config, client bool) {
	t := &secure{sock: s}
	if client {
		t.conn = tls.Client(transport{t}, config)
	} else {
		t.conn = tls.Server(transport{t}, config)
	}
	s.secure = t
}

// Handshake makes the TLS session, within the deadlines. Until it returns nobody reads or writes. After an error s must be
// closed.
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

// session returns the TLS session of s, nil while there is none.
func (s *Socket) session() *secure {
	if s.secure == nil || !s.secure.made {
		return nil
	}
	return s.secure
}

// Secure reports whether s speaks TLS.
func (s *Socket) Secure() bool { return s.secure != nil }

// read is Socket.Read.
func (t *secure) read(p []byte) (int, error) {
	n, err := t.conn.Read(p)
	return t.more(p, n, err)
}

// readLent is Socket.ReadLent: the first byte is waited for in memory of its own.
func (t *secure) readLent(l Lender) error {
	for {
		n, err := t.conn.Read(t.first[:])
		if n == 0 {
			return err
		}
		p := l.Lend()
		p[0] = t.first[0]
		if n, _ = t.more(p, n, err); l.Filled(n) == Enough {
			return nil
		}
	}
}

// more adds to the n bytes in p what has been read of the socket already. An error of the session comes again with the next
// read.
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

// closed is Socket.Closed. What is waiting in the raw socket may be for TLS itself, such as the tickets that a server sends
// behind a handshake.
func (t *secure) closed() bool {
	t.patience = look
	_, err := t.conn.Read(t.first[:])
	t.patience = wait
	return err != (nothing{})
}

// tryWrite is Socket.TryWrite. Of a batch that the socket did not take whole nothing counts as written: its records wait for
// WriteRest, which finds their bytes at the front of the rest.
func (t *secure) tryWrite(g *Gather) (int, error) {
	t.writing.Lock()
	defer t.writing.Unlock()
	t.inside = false
	n, err := t.encrypt(cursor{pieces: g.pieces}, g.size, g.units, false)
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

// encrypt writes what c has before size, and returns how far the socket took it, in whole batches. units says where units
// end, size excepted.
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

// recordEnd returns where the record that begins at pos ends, and whether that is inside a unit. units are the ends of units
// behind pos, but for the last, size; fromInside says that pos is no unit's beginning.
//
// A record holds whole units, as many as fit, or a part of one that is larger. memcached needs that: where a record goes on
// behind the end of a value that began in another, or is larger than what is left of a buffer of 16 KiB, memcached (before
// 1.6.39) goes to sleep over requests that it has received.
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

// disassemble gives the memory of record back.
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

// flush writes what is encrypted to the socket; done means that nothing is left.
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
		n, err := t.sock.write(t.one[:], wait)
		t.one[0] = nil
		t.sent += n
		if err != nil || t.sent < len(t.out.b) {
			return false, err
		}
		t.out.release()
		t.out = nil
	}
}

// finish tells the peer that nothing follows, if that takes no waiting.
func (t *secure) finish() {
	if !t.writing.TryLock() {
		return
	}
	defer t.writing.Unlock()
	_ = t.conn.CloseWrite()
	_, _ = t.flush(false) // an alert may be waiting, too
}

// cursor is a place in a sequence of pieces.
type cursor struct {
	pieces [][]byte
	offset int // in pieces[0]
	pos    int // in all of them
}

// piece returns what is left of the current piece; not empty while anything is left.
func (c *cursor) piece() []byte { return c.pieces[0][c.offset:] }

func (c *cursor) skip(n int) {
	c.pos += n
	c.offset += n
	for len(c.pieces) > 0 && c.offset >= len(c.pieces[0]) {
		c.offset -= len(c.pieces[0])
		c.pieces = c.pieces[1:]
	}
}

// transport is what crypto/tls takes for the network.
type transport struct{ *secure }

// Read implements net.Conn for the reading goroutine.
func (t transport) Read(p []byte) (int, error) {
	switch t.patience {
	case buffered:
		return 0, nothing{}
	case look:
		n, err := t.sock.readRaw(p)
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

// Write implements net.Conn: it collects, and never waits.
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

// The rest of net.Conn. Deadlines and the end are the Socket's.

func (t transport) Close() error                     { return nil }
func (t transport) LocalAddr() net.Addr              { return t.sock.conn.LocalAddr() }
func (t transport) RemoteAddr() net.Addr             { return t.sock.conn.RemoteAddr() }
func (t transport) SetDeadline(time.Time) error      { return nil }
func (t transport) SetReadDeadline(time.Time) error  { return nil }
func (t transport) SetWriteDeadline(time.Time) error { return nil }
