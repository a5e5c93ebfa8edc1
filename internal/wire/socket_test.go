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
	"golang.org/x/sys/unix"

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

// serve reads into p whenever bytes may have arrived, until body reports enough or the stream ends. body gets the bytes
// read. answered: the iteration ends when a read reports that there is no more.
func serve(s *Socket, p []byte, body func(got []byte) (enough, answered bool)) error {
	for err := range s.Readable() {
		for more := true; more && err == nil; {
			var n int
			if n, more, err = s.ReadNow(p); n > 0 {
				enough, answered := body(p[:n])
				if enough {
					return nil
				}
				more = more || !answered
			}
		}
		if err != nil {
			return err
		}
	}
	panic("a loop over Readable ends with an error")
}

func TestBytesThatTheSocketDoesNotTakeAreWrittenWhenThereIsRoom(t *testing.T) {
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
		require.Less(t, n, len(want), "the peer reads nothing, so the socket cannot take everything")
		written := make(chan error)
		go func() { written <- s.WriteRest(g.AppendFrom(nil, n)) }()
		got := make([]byte, len(want))
		_, err = io.ReadFull(peer, got)
		require.NoError(t, err)
		require.NoError(t, <-written)
		require.True(t, bytes.Equal(want, got))
	})
}

func TestReadableYieldsForBytesThatArriveAndForTheEnd(t *testing.T) {
	networks(t, func(t *testing.T, s *Socket, peer net.Conn) {
		p := make([]byte, 100)
		require.NoError(t, s.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		require.ErrorIs(t, serve(s, p, nil), os.ErrDeadlineExceeded)
		require.ErrorIs(t, serve(s, p, nil), os.ErrDeadlineExceeded, "the loop ends at the deadline")
		require.NoError(t, s.SetReadDeadline(time.Time{}))
		_, err := peer.Write([]byte("abc"))
		require.NoError(t, err)
		require.NoError(t, serve(s, p, func(got []byte) (enough, answered bool) {
			assert.Equal(t, "abc", string(got))
			return true, true
		}))
		require.NoError(t, peer.Close())
		require.ErrorIs(t, serve(s, p, nil), io.EOF)
		require.NoError(t, s.Close())
		require.ErrorIs(t, serve(s, p, nil), net.ErrClosed)
	})
}

func TestADeadlineMovedIntoThePastEndsALoopThatWaits(t *testing.T) {
	networks(t, func(t *testing.T, s *Socket, peer net.Conn) {
		turns := 0
		for err := range s.Readable() {
			if turns++; turns > 1 {
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				break
			}
			require.NoError(t, s.SetReadDeadline(time.Unix(1, 0)))
		}
		require.Equal(t, 2, turns)
	})
}

func TestReadableMissesNoArrival(t *testing.T) {
	networks(t, func(t *testing.T, s *Socket, peer net.Conn) {
		// Each answer makes the peer send the next; some come in two parts, the second while the first is being
		// handled.
		got := 0
		_, err := peer.Write([]byte("abc"))
		require.NoError(t, err)
		require.NoError(t, serve(s, make([]byte, 2), func(part []byte) (enough, answered bool) {
			if got += len(part); got >= 600 {
				return true, true
			}
			_, err := peer.Write([]byte("abc"))
			require.NoError(t, err)
			return false, true
		}))
	})
}

// After a read that reports no more bytes, the socket is not read again. Still an end that came with the last bytes, or
// while they are being handled, must not be missed.
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
				require.ErrorIs(t, serve(s, make([]byte, 100), func(got []byte) (enough, answered bool) {
					assert.Equal(t, "abc", string(got))
					if with == "during" {
						end()
					}
					return false, true
				}), io.EOF)
			})
		})
	}
}

func TestAResetThatComesWithTheLastBytesIsSeenByTheNextRead(t *testing.T) {
	over(t, []string{"tcp"}, func(t *testing.T, s *Socket, peer net.Conn) {
		_, err := peer.Write([]byte("abc"))
		require.NoError(t, err)
		require.NoError(t, peer.(*net.TCPConn).SetLinger(0))
		require.NoError(t, peer.Close())
		require.Error(t, serve(s, make([]byte, 100), func([]byte) (enough, answered bool) { return false, false }))
	})
}

func TestReadingNowDoesNotWait(t *testing.T) {
	networks(t, func(t *testing.T, s *Socket, peer net.Conn) {
		buf := make([]byte, 10)
		n, _, err := s.ReadNow(buf)
		require.NoError(t, err)
		assert.Zero(t, n)
		_, err = peer.Write([]byte("x"))
		require.NoError(t, err)
		require.Eventually(t, func() bool { n, _, err = s.ReadNow(buf); return n == 1 }, mctest.Patience, mctest.Tick)
		require.NoError(t, peer.Close())
		require.Eventually(t, func() bool { _, _, err = s.ReadNow(buf); return err == io.EOF }, mctest.Patience,
			mctest.Tick)
	})
}

func TestAConnectionWithAnEndOrUnrequestedBytesCountsAsClosed(t *testing.T) {
	for name, spoil := range map[string]func(net.Conn){
		"closed": func(c net.Conn) { _ = c.Close() },
		"spoke":  func(c net.Conn) { _, _ = c.Write([]byte("x")) },
	} {
		t.Run(name, func(t *testing.T) {
			networks(t, func(t *testing.T, s *Socket, peer net.Conn) {
				assert.False(t, s.Closed())
				spoil(peer)
				require.Eventually(t, s.Closed, mctest.Patience, mctest.Tick)
			})
		})
	}
}

// crypto/tls allocates a few bytes per record that it reads.
// The kernel gives the number of a closed descriptor to the next file.
func TestNothingIsWrittenToTheFileThatGetsTheNumberOfAClosedSocket(t *testing.T) {
	for range 300 {
		s, peer := pair(t, "unix")
		go func() { _, _ = io.Copy(io.Discard, peer) }()
		writing, ended := make(chan struct{}), make(chan error)
		go func() {
			var g Gather
			g.AddString("for the peer")
			_, err := s.TryWrite(&g)
			close(writing)
			for err == nil {
				_, err = s.TryWrite(&g)
			}
			ended <- err
		}()
		<-writing
		require.NoError(t, s.Close())
		var pipe [2]int
		require.NoError(t, unix.Pipe2(pipe[:], unix.O_NONBLOCK))
		require.ErrorIs(t, <-ended, unix.EBADF)
		_, err := unix.Read(pipe[0], make([]byte, 1))
		assert.ErrorIs(t, err, unix.EAGAIN)
		_ = unix.Close(pipe[0])
		_ = unix.Close(pipe[1])
		_, _, err = s.ReadNow(make([]byte, 1))
		require.ErrorIs(t, err, unix.EBADF)
		require.True(t, s.Closed())
	}
}

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

func TestASocketIsSettledWhenThePeerHasClosedIt(t *testing.T) {
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
		assert.True(t, s.Settle(later, later))
		select {
		case all := <-read:
			assert.Equal(t, "last words", all)
		default:
			assert.Fail(t, "settled before the peer had read")
		}
	})
}

func TestASocketThatThePeerDoesNotCloseIsNotSettled(t *testing.T) {
	networks(t, func(t *testing.T, s *Socket, _ net.Conn) {
		require.NoError(t, s.WriteRest([]byte("last words")))
		require.NoError(t, s.CloseWrite())
		assert.False(t, s.Settle(time.Now().Add(time.Minute), time.Now()))
	})
}

func TestBytesThatHaveNotArrivedInTimeAreDiscarded(t *testing.T) {
	s, peer := pair(t, "tcp")
	var g Gather
	g.Add(make([]byte, 64<<20))
	sent, err := s.TryWrite(&g)
	require.NoError(t, err)
	require.NoError(t, s.CloseWrite())
	assert.False(t, s.Settle(time.Now(), time.Now().Add(time.Minute))) // the peer reads nothing
	got, err := io.Copy(io.Discard, peer)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	assert.Less(t, got, int64(sent))
}
