package wire

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// pair returns the two ends of a connection, the first as a Socket. The network "tls" is TCP with TLS.
func pair(t testing.TB, network string) (*Socket, net.Conn) {
	t.Helper()
	if network != "tls" {
		return rawPair(t, network)
	}
	s, there := rawPair(t, "tcp")
	server, client := certificate(t)
	s.UseTLS(server, false)
	peer := tls.Client(there, client)
	shakeHands(t, s, peer)
	return s, peer
}

func shakeHands(t testing.TB, s *Socket, peer *tls.Conn) {
	t.Helper()
	shaken := make(chan error)
	go func() { shaken <- peer.Handshake() }()
	require.NoError(t, s.Handshake())
	require.NoError(t, <-shaken)
}

func rawPair(t testing.TB, network string) (*Socket, net.Conn) {
	t.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, addr)
	require.NoError(t, err)
	defer l.Close()
	there, err := net.Dial(network, l.Addr().String())
	require.NoError(t, err)
	here, err := l.Accept()
	require.NoError(t, err)
	s, err := NewSocket(here)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = s.Close()
		_ = there.Close()
	})
	return s, there
}

// certificate returns configurations of a server, and of a client that trusts it.
func certificate(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	ca := mctest.NewCA(t)
	server = ca.Server()
	server.DynamicRecordSizingDisabled = true
	return server, ca.Client("", "")
}

func networks(t *testing.T, test func(t *testing.T, s *Socket, peer net.Conn)) {
	over(t, []string{"tcp", "unix", "tls"}, test)
}

func over(t *testing.T, networks []string, test func(t *testing.T, s *Socket, peer net.Conn)) {
	for _, network := range networks {
		t.Run(network, func(t *testing.T) {
			s, peer := pair(t, network)
			test(t, s, peer)
		})
	}
}

// lender counts what is lent.
type lender struct {
	buf            []byte
	lent, returned int
	n              int              // bytes in buf
	filled         func(n int) Next // nil: once is enough
}

func (l *lender) Lend() []byte { l.lent++; return l.buf }
func (l *lender) TakeBack()    { l.returned++ }

func (l *lender) Filled(n int) Next {
	l.n = n
	if l.filled == nil {
		return Enough
	}
	return l.filled(n)
}

func TestWhatTheSocketDoesNotTakeIsWrittenWhenThereIsRoom(t *testing.T) {
	networks(t, func(t *testing.T, s *Socket, peer net.Conn) {
		var g Gather
		want := make([]byte, 0, 16<<20)
		for i := range 4096 {
			piece := bytes.Repeat([]byte{byte(i)}, 4096)
			g.Add(piece)
			want = append(want, piece...)
		}
		n, err := s.TryWrite(&g)
		require.NoError(t, err)
		require.Greater(t, n, 0)
		require.Less(t, n, len(want), "nobody reads: it can't all have been taken")
		written := make(chan error)
		go func() { written <- s.WriteRest(g.AppendFrom(nil, n)) }()
		got := make([]byte, len(want))
		_, err = io.ReadFull(peer, got)
		require.NoError(t, err)
		require.NoError(t, <-written)
		require.True(t, bytes.Equal(want, got))
	})
}

func TestAReaderHoldsNoMemoryWhileItWaits(t *testing.T) {
	networks(t, func(t *testing.T, s *Socket, peer net.Conn) {
		l := &lender{buf: make([]byte, 100)}
		require.NoError(t, s.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		require.ErrorIs(t, s.ReadLent(l), os.ErrDeadlineExceeded)
		assert.Equal(t, l.lent, l.returned)
		require.NoError(t, s.SetReadDeadline(time.Time{}))
		_, err := peer.Write([]byte("abc"))
		require.NoError(t, err)
		require.NoError(t, s.ReadLent(l))
		assert.Equal(t, "abc", string(l.buf[:l.n]))
		assert.Equal(t, l.lent-1, l.returned)
		require.NoError(t, peer.Close())
		assert.ErrorIs(t, s.ReadLent(l), io.EOF)
		assert.Equal(t, l.lent-1, l.returned)
	})
}

func TestAReaderGoesOnUntilItHasEnough(t *testing.T) {
	networks(t, func(t *testing.T, s *Socket, peer net.Conn) {
		// Each answer makes the peer send the next; some come in two parts, the second while the first is being handled.
		var got []byte
		l := &lender{buf: make([]byte, 2)}
		l.filled = func(n int) Next {
			got = append(got, l.buf[:n]...)
			if len(got) >= 600 {
				return Enough
			}
			_, err := peer.Write([]byte("abc"))
			require.NoError(t, err)
			return MoreLater
		}
		_, err := peer.Write([]byte("abc"))
		require.NoError(t, err)
		require.NoError(t, s.ReadLent(l))
		assert.GreaterOrEqual(t, len(got), 600)
	})
}

// Behind a read that told there is no more, nothing is looked for: an end that came with the last bytes, or while they are being
// handled, must not be missed.
func TestAnEndThatComesWithTheLastBytesIsSeen(t *testing.T) {
	for _, with := range []string{"before", "during"} {
		t.Run(with, func(t *testing.T) {
			over(t, []string{"tcp", "unix"}, func(t *testing.T, s *Socket, peer net.Conn) {
				end := func() { require.NoError(t, peer.(interface{ CloseWrite() error }).CloseWrite()) }
				_, err := peer.Write([]byte("abc"))
				require.NoError(t, err)
				if with == "before" {
					end()
				}
				l := &lender{buf: make([]byte, 100)}
				l.filled = func(int) Next {
					if with == "during" {
						end()
					}
					return MoreLater
				}
				require.ErrorIs(t, s.ReadLent(l), io.EOF)
				assert.Equal(t, 3, l.n)
			})
		})
	}
}

func TestAResetThatComesWithTheLastBytesIsSeenByWhoLooks(t *testing.T) {
	over(t, []string{"tcp"}, func(t *testing.T, s *Socket, peer net.Conn) {
		_, err := peer.Write([]byte("abc"))
		require.NoError(t, err)
		require.NoError(t, peer.(*net.TCPConn).SetLinger(0))
		require.NoError(t, peer.Close())
		l := &lender{buf: make([]byte, 100), filled: func(int) Next { return More }}
		require.Error(t, s.ReadLent(l))
	})
}

func TestReadingNowDoesNotWait(t *testing.T) {
	networks(t, func(t *testing.T, s *Socket, peer net.Conn) {
		buf := make([]byte, 10)
		n, err := s.ReadNow(buf)
		require.NoError(t, err)
		assert.Zero(t, n)
		_, err = peer.Write([]byte("x"))
		require.NoError(t, err)
		require.Eventually(t, func() bool { n, err = s.ReadNow(buf); return n == 1 }, mctest.Patience, time.Millisecond)
		require.NoError(t, peer.Close())
		require.Eventually(t, func() bool { _, err = s.ReadNow(buf); return err == io.EOF }, mctest.Patience, time.Millisecond)
	})
}

func TestAConnectionThatThePeerClosedOrSpokeOnUnaskedIsOfNoUse(t *testing.T) {
	for name, spoil := range map[string]func(net.Conn){
		"closed": func(c net.Conn) { _ = c.Close() },
		"spoke":  func(c net.Conn) { _, _ = c.Write([]byte("x")) },
	} {
		t.Run(name, func(t *testing.T) {
			networks(t, func(t *testing.T, s *Socket, peer net.Conn) {
				assert.False(t, s.Closed())
				spoil(peer)
				require.Eventually(t, s.Closed, mctest.Patience, time.Millisecond)
			})
		})
	}
}

// crypto/tls allocates a few bytes per record that it reads.
func TestReadingAndWritingAllocateNothing(t *testing.T) {
	over(t, []string{"tcp", "unix"}, func(t *testing.T, s *Socket, peer net.Conn) {
		go func() { _, _ = io.Copy(peer, peer) }()
		var g Gather
		buf, large := make([]byte, 8192), make([]byte, 1000)
		allocs := testing.AllocsPerRun(200, func() {
			g.AddString("head")
			g.Add(large)
			g.AddString("tail")
			n, err := s.TryWrite(&g)
			if err != nil || n != g.Len() {
				t.Errorf("wrote %d of %d: %v", n, g.Len(), err)
			}
			for got := 0; got < n; {
				m, err := s.Read(buf)
				if err != nil {
					t.Error(err)
					return
				}
				got += m
			}
			g.Reset()
			s.Closed()
		})
		assert.Zero(t, allocs)
	})
}

func TestASocketIsSettledWhenThePeerHasDoneItsPart(t *testing.T) {
	networks(t, func(t *testing.T, s *Socket, peer net.Conn) {
		require.NoError(t, s.WriteRest([]byte("last words")))
		require.NoError(t, s.CloseWrite())
		read := make(chan string, 1)
		go func() {
			all, err := io.ReadAll(peer)
			assert.NoError(t, err)
			read <- string(all)
			_, _ = peer.Write([]byte("heard"))
			_ = peer.Close()
		}()
		later := time.Now().Add(time.Minute)
		s.Settle(later, later)
		select {
		case all := <-read:
			assert.Equal(t, "last words", all)
		default:
			assert.Fail(t, "settled before the peer had read")
		}
	})
}

func TestWhatHasNotArrivedWhenASocketIsSettledIsWithdrawn(t *testing.T) {
	s, peer := pair(t, "tcp")
	var g Gather
	g.Add(make([]byte, 64<<20))
	sent, err := s.TryWrite(&g)
	require.NoError(t, err)
	require.NoError(t, s.CloseWrite())
	s.Settle(time.Now(), time.Now().Add(time.Minute)) // the peer reads nothing
	got, err := io.Copy(io.Discard, peer)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	assert.Less(t, got, int64(sent))
}
