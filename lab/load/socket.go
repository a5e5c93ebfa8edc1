package load

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// connect connects to a target, and logs in if there is a password.
func connect(ctx context.Context, o *Options, target string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: o.ConnectTimeout}
	network, address := "tcp", target
	if path, ok := strings.CutPrefix(target, "unix:"); ok {
		network, address = "unix", path
	}
	nc, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if o.TLS != nil {
		if nc, err = handshake(ctx, o, nc, address); err != nil {
			return nil, err
		}
	}
	if o.Password == "" {
		return nc, nil
	}
	if err := login(ctx, o, nc); err != nil {
		nc.Close()
		return nil, err
	}
	return nc, nil
}

// handshake does the TLS handshake on nc, and closes nc if it fails.
func handshake(ctx context.Context, o *Options, nc net.Conn, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = "localhost" // of a unix socket
	}
	ctx, cancel := context.WithTimeout(ctx, o.ConnectTimeout)
	defer cancel()
	secured := tls.Client(nc, o.TLS(host))
	if err := secured.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, err
	}
	return secured, nil
}

// relay returns a socket whose other end two goroutines join to a TLS connection, because epoll can only wait for
// sockets. They end, and close both, when either end is closed.
func relay(nc net.Conn) (fd int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("socketpair: %w", err)
	}
	file := os.NewFile(uintptr(pair[1]), "relay")
	defer file.Close() // the connection below has its own descriptor
	inside, err := net.FileConn(file)
	if err != nil {
		unix.Close(pair[0])
		return -1, err
	}
	copyAll := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // an error shows as the end of the connection
		to.Close()
		from.Close()
	}
	go copyAll(nc, inside)
	go copyAll(inside, nc)
	return pair[0], nil
}

// login logs in and waits for the reply.
func login(ctx context.Context, o *Options, nc net.Conn) error {
	_ = nc.SetDeadline(time.Now().Add(o.ConnectTimeout))
	defer context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })()
	if _, err := nc.Write(appendLogin(nil, o.Protocol, o.User, o.Password)); err != nil {
		return fmt.Errorf("logging in: %w", err)
	}
	accepted := map[Protocol]string{Classic: "STORED\r\n", Meta: "STORED\r\n", RESP: "+OK\r\n"}[o.Protocol]
	var line []byte
	for one := make([]byte, 1); !bytes.HasSuffix(line, lineEnd) && len(line) < maxReplyLine; {
		// Byte by byte, so as not to read beyond the line.
		if _, err := nc.Read(one); err != nil {
			return fmt.Errorf("logging in: %w", err)
		}
		line = append(line, one[0])
	}
	if string(line) != accepted {
		return fmt.Errorf("logging in: the target answered %s", excerpt(line))
	}
	return nc.SetDeadline(time.Time{})
}

// dial connects to a target and returns a non-blocking socket that the caller owns. The poller of the Go runtime does
// not know it: its events wake only the epoll instance to which it is added.
func dial(ctx context.Context, o *Options, target string) (fd int, err error) {
	defer func() {
		if err != nil {
			fd, err = -1, fmt.Errorf("target %s: %w", target, err)
		}
	}()
	nc, err := connect(ctx, o, target)
	if err != nil {
		return -1, err
	}
	if o.TLS != nil {
		if fd, err = relay(nc); err != nil {
			nc.Close()
		}
		return fd, err
	}
	defer nc.Close()
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		return -1, err
	}
	var dupErr error
	err = raw.Control(func(s uintptr) { fd, dupErr = unix.FcntlInt(s, unix.F_DUPFD_CLOEXEC, 0) })
	if dupErr != nil {
		err = fmt.Errorf("duplicating its socket: %w", dupErr)
	}
	return fd, err
}

// epollWait waits as unix.EpollWait does, but bypasses the Go scheduler, as the reads and writes of package nonblock
// do, and so keeps its processor: no other goroutine runs on it meanwhile. To take the processor back, for a garbage
// collection say, the scheduler sends a signal, which ends the wait with EINTR.
func epollWait(epoll int, events []unix.EpollEvent, milliseconds int64) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))),
		uintptr(len(events)), uintptr(milliseconds), 0, 0)
	return result(n, errno)
}

// epollWaitNanos is epollWait for up to ns nanoseconds. It needs Linux 5.11.
func epollWaitNanos(epoll int, events []unix.EpollEvent, ns int64) (int, error) {
	timeout := unix.NsecToTimespec(ns)
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epoll),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))),
		uintptr(len(events)), uintptr(unsafe.Pointer(&timeout)), 0, 0)
	return result(n, errno)
}

// sharpenTimers makes the current OS thread sleep with microsecond precision. By default the kernel may wake it 50 us
// late to save power. If the kernel refuses, requests are sent late, which is measured.
func sharpenTimers() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) }

func result(n uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
