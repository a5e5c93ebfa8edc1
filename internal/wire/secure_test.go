package wire

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"mcmw/internal/mctest"
	"mcmw/internal/nonblock"
)

func TestARecordHoldsWholeUnitsOrAPartOfOne(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		var units []int
		size := 0
		for range 1 + rnd.IntN(20) {
			size += 1 + rnd.IntN([]int{50, 5000, 60000}[rnd.IntN(3)])
			units = append(units, size)
		}
		begins := append([]int{0}, units...)
		rest := units[:len(units)-1]
		inside := false
		for pos := 0; pos < size; {
			for len(rest) > 0 && rest[0] <= pos {
				rest = rest[1:]
			}
			var end int
			before := inside
			end, inside = recordEnd(pos, size, rest, inside)
			require.Greater(t, end, pos)
			require.LessOrEqual(t, end-pos, maxRecord)
			require.Equal(t, !slices.Contains(units, end), inside)
			require.Equal(t, !slices.Contains(begins, pos), before)
			if inside || before {
				for _, u := range units {
					require.False(t, pos < u && u < end,
						"a part of a unit stands with another: %d..%d, units end at %v", pos, end, units)
				}
			}
			pos = end
		}
	}
}

// spy is a connection that records the sizes of the TLS records that were read from it.
type spy struct {
	net.Conn
	seen []byte
}

func (s *spy) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	s.seen = append(s.seen, p[:n]...)
	return n, err
}

// records returns the plaintext sizes of the application records seen since the last call (of TLS 1.3 with AES-GCM).
func (s *spy) records() (sizes []int) {
	for len(s.seen) >= 5 {
		n := int(binary.BigEndian.Uint16(s.seen[3:]))
		sizes = append(sizes, n-17)
		s.seen = s.seen[5+n:]
	}
	return sizes
}

func TestUnitsShareARecordOnlyWhenItHoldsThemWhole(t *testing.T) {
	s, there := rawPair(t, "tcp")
	server, client := certificate(t)
	s.UseTLS(server, false)
	look := &spy{Conn: there}
	peer := tls.Client(look, client)
	shakeHands(t, s, peer)
	_, _, err := s.ReadNow(make([]byte, 1))
	require.NoError(t, err)
	look.seen = nil

	var g Gather
	g.KeepUnits = true
	var want []byte
	for i, size := range []int{100, 200, 20000, 300, 16000, 400} {
		if i > 0 {
			g.NextUnit()
		}
		unit := bytes.Repeat([]byte{byte('a' + i)}, size)
		g.Add(unit[:size/2])
		g.Add(unit[size/2:])
		want = append(want, unit...)
	}
	n, err := s.TryWrite(&g)
	require.NoError(t, err)
	require.Equal(t, len(want), n)
	got := make([]byte, len(want))
	_, err = io.ReadFull(peer, got)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got))
	assert.Equal(t, []int{300, 16384, 20000 - 16384, 16300, 400}, look.records())
}

// Wherever the socket stops, encrypted bytes that it has not taken are neither lost nor written twice.
func TestARestThatIsPartlyEncryptedIsWrittenOnce(t *testing.T) {
	for _, size := range []int{1, maxRecord, batch, batch + 1, 5*batch + 12345} {
		s, peer := pair(t, "tls")
		rnd := rand.New(rand.NewPCG(5, uint64(size)))
		var want []byte
		read := make(chan []byte)
		go func() {
			all, err := io.ReadAll(peer)
			assert.NoError(t, err)
			read <- all
		}()
		for range 40 {
			var g Gather
			p := make([]byte, size)
			for i := range p {
				p[i] = byte(rnd.Uint32())
			}
			g.Add(p[:size/3])
			g.NextUnit()
			g.Add(p[size/3:])
			want = append(want, p...)
			n, err := s.TryWrite(&g)
			require.NoError(t, err)
			if n < g.Len() {
				require.NoError(t, s.WriteRest(g.AppendFrom(nil, n)))
			}
		}
		require.NoError(t, s.Close())
		require.True(t, bytes.Equal(want, <-read))
	}
}

func TestSessionTicketsAfterTheHandshakeDoNotCountAsUnrequestedBytes(t *testing.T) {
	here, there := rawPair(t, "tcp")
	server, client := certificate(t)
	client.ClientSessionCache = tls.NewLRUClientSessionCache(1) // otherwise the server sends no ticket
	here.UseTLS(client, true)
	server.ClientAuth = tls.RequestClientCert // otherwise the ticket comes with the server's first bytes
	peer := tls.Server(there, server)
	shakeHands(t, here, peer)
	require.Eventually(t, func() bool { return !socketEmpty(here) }, mctest.Patience, mctest.Tick, "no ticket has come")
	assert.False(t, here.Closed())
	assert.True(t, socketEmpty(here), "the ticket was read")
	_, err := peer.Write([]byte("x"))
	require.NoError(t, err)
	require.Eventually(t, here.Closed, mctest.Patience, mctest.Tick)
}

// socketEmpty reports whether no bytes wait in the raw socket.
func socketEmpty(s *Socket) bool {
	_, err := nonblock.Peek(s.fd)
	return err == unix.EAGAIN
}

func TestAReadContinuesWhereAnInterruptedReadStopped(t *testing.T) {
	s, there := rawPair(t, "tcp")
	server, client := certificate(t)
	s.UseTLS(server, false)
	record := &chopper{Conn: there}
	peer := tls.Client(record, client)
	shakeHands(t, s, peer)
	record.hold = true
	_, err := peer.Write([]byte("abc"))
	require.NoError(t, err)
	buf := make([]byte, 10)
	for _, b := range record.held {
		require.NoError(t, s.SetReadDeadline(time.Unix(1, 0)))
		n, _, err := s.ReadNow(buf)
		require.NoError(t, err)
		require.Zero(t, n)
		_, err = s.Read(buf)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		_, err = there.Write([]byte{b})
		require.NoError(t, err)
		require.Eventually(t, func() bool { return !socketEmpty(s) }, mctest.Patience, mctest.Tick)
	}
	n, _, err := s.ReadNow(buf)
	require.NoError(t, err)
	assert.Equal(t, "abc", string(buf[:n]))
}

// chopper holds what is written to it.
type chopper struct {
	net.Conn
	hold bool
	held []byte
}

func (c *chopper) Write(p []byte) (int, error) {
	if !c.hold {
		return c.Conn.Write(p)
	}
	c.held = append(c.held, p...)
	return len(p), nil
}

func TestEverythingCanBeWrittenToAPeerThatHasHalfClosedTheSession(t *testing.T) {
	s, peer := pair(t, "tls")
	_, err := peer.Write([]byte("last"))
	require.NoError(t, err)
	require.NoError(t, peer.(*tls.Conn).CloseWrite())
	buf := make([]byte, 10)
	n, err := s.Read(buf)
	require.NoError(t, err)
	assert.Equal(t, "last", string(buf[:n]))
	for range 2 {
		_, err = s.Read(buf)
		require.ErrorIs(t, err, io.EOF)
	}
	var g Gather
	g.AddString("answer")
	n, err = s.TryWrite(&g)
	require.NoError(t, err)
	assert.Equal(t, 6, n)
	require.NoError(t, s.Close())
	all, err := io.ReadAll(peer)
	require.NoError(t, err, "the end of the session is told")
	assert.Equal(t, "answer", string(all))
}

func TestAHandshakeEndsAtItsDeadline(t *testing.T) {
	s, _ := rawPair(t, "tcp")
	server, _ := certificate(t)
	s.UseTLS(server, false)
	require.NoError(t, s.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	require.ErrorIs(t, s.Handshake(), os.ErrDeadlineExceeded)
}

// A connection that was refused, or whose handshake failed, may be read to its end without a session.
func TestWithoutASessionAReadReturnsTheRawBytes(t *testing.T) {
	s, peer := rawPair(t, "tcp")
	server, client := certificate(t)
	s.UseTLS(server, false)
	require.NoError(t, s.CloseWrite())
	shaken := make(chan error)
	go func() { shaken <- tls.Client(peer, client).Handshake() }()
	require.NoError(t, serve(s, make([]byte, 1<<16), func(got []byte) (enough, answered bool) {
		assert.Equal(t, []byte{22, 3, 1}, got[:min(len(got), 3)], "a record of a handshake")
		return true, true
	}))
	require.ErrorIs(t, <-shaken, io.EOF)
}

func TestAHandshakeWithAPeerWithoutTLSFails(t *testing.T) {
	s, peer := rawPair(t, "tcp")
	server, _ := certificate(t)
	s.UseTLS(server, false)
	_, err := peer.Write([]byte("get key\r\n"))
	require.NoError(t, err)
	require.ErrorContains(t, s.Handshake(), "first record does not look like a TLS handshake")
	require.NoError(t, s.Close())
}

// A session may be closed while another goroutine waits to write.
func TestClosingInterruptsASessionThatWrites(t *testing.T) {
	s, _ := pair(t, "tls")
	written := make(chan error)
	go func() { written <- s.WriteRest(make([]byte, 64<<20)) }()
	require.Eventually(t, func() bool {
		if s.secure.writing.TryLock() {
			s.secure.writing.Unlock()
			return false
		}
		return true
	}, mctest.Patience, mctest.Tick)
	require.NoError(t, s.Close())
	require.Error(t, <-written)
}

// crypto/tls writes records on its own, as answers to a peer that requests new keys.
func TestRecordsThatThePeerDoesNotReadAreBounded(t *testing.T) {
	s, _ := pair(t, "tls")
	answer := make([]byte, 27)
	var err error
	for n := 0; err == nil; n += len(answer) {
		require.LessOrEqual(t, n, maxSealed)
		_, err = transport{s.secure}.Write(answer)
	}
	require.ErrorIs(t, err, errSealed)
}

func BenchmarkExchange(b *testing.B) {
	for _, network := range []string{"tcp", "tls"} {
		for name, size := range map[string]int{"100B": 100, "4KiB": 4 << 10, "64KiB": 64 << 10} {
			b.Run(network+"/"+name, func(b *testing.B) {
				s, peer := pair(b, network)
				go func() {
					buf := make([]byte, 128<<10)
					_, _ = io.CopyBuffer(struct{ io.Writer }{peer}, struct{ io.Reader }{peer}, buf)
				}()
				value, buf := make([]byte, size), make([]byte, 128<<10)
				var g Gather
				b.SetBytes(int64(2 * size))
				b.ReportAllocs()
				for b.Loop() {
					g.Add(value)
					n, err := s.TryWrite(&g)
					if err == nil && n < size {
						err = s.WriteRest(g.AppendFrom(nil, n))
					}
					require.NoError(b, err)
					g.Reset()
					for got := 0; got < size; {
						n, err := s.Read(buf)
						if err != nil {
							b.Fatal(err)
						}
						got += n
					}
				}
			})
		}
	}
}
