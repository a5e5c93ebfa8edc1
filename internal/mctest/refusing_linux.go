package mctest

import (
	"net/netip"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Refusing returns the address of a port that refuses connections. No other process can use it until the test ends.
func Refusing(t testing.TB) string {
	t.Helper()
	return reserve(t, "127.0.0.1:0")
}

// reserve reserves a TCP port, 0 for a free one, until the test ends, and returns the address with the port. The kernel
// gives it neither to a listener on any free port nor to an outgoing connection. A server that asks for it, with
// SO_REUSEADDR, gets it; when none listens, it refuses connections.
func reserve(t testing.TB, addr string) string {
	t.Helper()
	at, err := netip.ParseAddrPort(addr)
	require.NoError(t, err)
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	require.NoError(t, syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}))
	bound, err := syscall.Getsockname(fd)
	require.NoError(t, err)
	return netip.AddrPortFrom(at.Addr(), uint16(bound.(*syscall.SockaddrInet4).Port)).String()
}
