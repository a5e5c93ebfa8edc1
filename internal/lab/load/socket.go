package load

import (
	"bytes"
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

// connect connects to a target and says who we are, if that is asked for.
func connect(ctx context.Context, o *Options, target string) (net.Conn, error) {
	dialer := net.Dialer{Timeout: o.ConnectTimeout}
	nw, address := network(target)
	nc, err := dialer.DialContext(ctx, nw, address)
	if err != nil || o.Password == "" {
		return nc, err
	}
	if err := login(ctx, o, nc); err != nil {
		nc.Close()
		return nil, err
	}
	return nc, nil
}

// login says who we are and waits until the target agrees.
func login(ctx context.Context, o *Options, nc net.Conn) error {
	if err := nc.SetDeadline(time.Now().Add(o.ConnectTimeout)); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })()
	if _, err := nc.Write(appendLogin(nil, o.Protocol, o.User, o.Password)); err != nil {
		return fmt.Errorf("logging in: %w", err)
	}
	accepted := map[Protocol]string{Classic: "STORED\r\n", Meta: "STORED\r\n", RESP: "+OK\r\n"}[o.Protocol]
	var line []byte
	for one := make([]byte, 1); !bytes.HasSuffix(line, lineEnd) && len(line) < maxReplyLine; {
		// Byte by byte: what follows isn't ours to take.
		if _, err := nc.Read(one); err != nil {
			return fmt.Errorf("logging in: %w", err)
		}
		line = append(line, one[0])
	}
	if string(line) != accepted {
		return fmt.Errorf("logging in: the target answers %s", excerpt(line))
	}
	return nc.SetDeadline(time.Time{})
}

// dial connects to a target and returns a non-blocking socket that belongs to the caller. The Go runtime's poller doesn't
// know it: events on it wake nobody but the epoll instance it is put into.
func dial(ctx context.Context, o *Options, target string) (fd int, err error) {
	nc, err := connect(ctx, o, target)
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
