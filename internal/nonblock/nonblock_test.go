package nonblock

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// pair returns the two ends of a TCP connection, and the descriptor of the first.
func pair(tb testing.TB) (fd int, near, far *net.TCPConn) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	require.NoError(tb, err)
	b, err := l.Accept()
	require.NoError(tb, err)
	tb.Cleanup(func() { a.Close(); b.Close() })
	near, far = a.(*net.TCPConn), b.(*net.TCPConn)
	return descriptor(tb, near), near, far
}

func descriptor(tb testing.TB, c syscall.Conn) (fd int) {
	tb.Helper()
	raw, err := c.SyscallConn()
	require.NoError(tb, err)
	require.NoError(tb, raw.Control(func(n uintptr) { fd = int(n) }))
	return fd
}

// send writes to far and waits until the bytes are at fd.
func send(t *testing.T, far net.Conn, fd int, text string) {
	t.Helper()
	_, err := far.Write([]byte(text))
	require.NoError(t, err)
	await(t, fd, unix.POLLIN)
}

func await(t *testing.T, fd int, events int16) {
	t.Helper()
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: events}}, 10_000)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

func TestReadingReturnsAtOnce(t *testing.T) {
	fd, _, far := pair(t)
	p := make([]byte, 10)
	_, err := Read(fd, p)
	require.ErrorIs(t, err, unix.EAGAIN)
	_, err = Peek(fd)
	require.ErrorIs(t, err, unix.EAGAIN)
	send(t, far, fd, "abc")
	n, err := Peek(fd)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	n, err = Read(fd, p)
	require.NoError(t, err)
	require.Equal(t, "abc", string(p[:n]))
	require.NoError(t, far.CloseWrite())
	await(t, fd, unix.POLLRDHUP)
	n, err = Read(fd, p)
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestWritingStopsWhereThereIsNoMoreRoom(t *testing.T) {
	fd, _, far := pair(t)
	two, three := []byte("two"), []byte("three")
	pieces := []unix.Iovec{{Base: &two[0]}, {Base: &three[0]}}
	pieces[0].SetLen(len(two))
	pieces[1].SetLen(len(three))
	n, err := Writev(fd, pieces)
	require.NoError(t, err)
	require.Equal(t, 8, n)
	send(t, far, fd, "x") // the bytes sent before have arrived, too
	got := make([]byte, 8)
	_, err = far.Read(got)
	require.NoError(t, err)
	require.Equal(t, "twothree", string(got))
	large := make([]byte, 64<<20)
	n, err = Write(fd, large)
	require.NoError(t, err)
	require.Less(t, n, len(large))
	for err == nil {
		_, err = Write(fd, large)
	}
	require.ErrorIs(t, err, unix.EAGAIN)
}

func TestAReadTellsWhetherThereIsMore(t *testing.T) {
	fd, _, far := pair(t)
	require.True(t, TellMore(fd))
	p := make([]byte, 2)
	_, _, err := ReadTCP(fd, p)
	require.ErrorIs(t, err, unix.EAGAIN)
	send(t, far, fd, "abc")
	n, more, err := ReadTCP(fd, p)
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	assert.True(t, more, "a byte is left")
	n, more, err = ReadTCP(fd, p)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	assert.False(t, more)
	send(t, far, fd, "de")
	require.NoError(t, far.CloseWrite())
	await(t, fd, unix.POLLRDHUP)
	n, more, err = ReadTCP(fd, p)
	require.NoError(t, err)
	assert.Equal(t, 2, n)
	assert.True(t, more, "the end is left")
	n, _, err = ReadTCP(fd, p)
	require.NoError(t, err)
	assert.Zero(t, n)
}

func TestTellMoreReturnsFalseForAUnixSocket(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	require.False(t, TellMore(fds[0]))
}

// BenchmarkRead compares the cost of a request that one read brings whole: with a second read that finds nothing, and
// with a read that reports that there is no more.
func BenchmarkRead(b *testing.B) {
	request, p := []byte("get memtier-1234567\r\n"), make([]byte, 16<<10)
	b.Run("and look again", func(b *testing.B) {
		fd, _, far := pair(b)
		w := descriptor(b, far)
		for b.Loop() {
			_, _ = Write(w, request)
			_, _ = Read(fd, p)
			_, _ = Read(fd, p)
		}
	})
	b.Run("that tells", func(b *testing.B) {
		fd, _, far := pair(b)
		w := descriptor(b, far)
		TellMore(fd)
		for b.Loop() {
			_, _ = Write(w, request)
			_, _, _ = ReadTCP(fd, p)
		}
	})
}
