package load

import (
	"context"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// network splits a target into what net.Dial takes.
func network(target string) (network, address string) {
	if path, ok := strings.CutPrefix(target, "unix:"); ok {
		return "unix", path
	}
	return "tcp", target
}

// dial connects to a target and returns a non-blocking socket that belongs to the caller. The Go runtime's poller doesn't
// know it: events on it wake nobody but the epoll instance it is put into.
func dial(ctx context.Context, target string, timeout time.Duration) (fd int, err error) {
	dialer := net.Dialer{Timeout: timeout}
	nw, address := network(target)
	nc, err := dialer.DialContext(ctx, nw, address)
	if err != nil {
		return -1, fmt.Errorf("target %s: %w", target, err)
	}
	defer nc.Close()
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("target %s: %w", target, err)
	}
	var dupErr error
	if err := raw.Control(func(s uintptr) {
		fd, dupErr = unix.FcntlInt(s, unix.F_DUPFD_CLOEXEC, 0)
	}); err != nil {
		return -1, fmt.Errorf("target %s: %w", target, err)
	}
	if dupErr != nil {
		return -1, fmt.Errorf("target %s: duplicating its socket: %w", target, dupErr)
	}
	return fd, nil
}
