package mctest

import (
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// AwaitRead waits until the other side of a unix socket connection has read everything written to it. A test that
// splits a request uses it to make sure that the receiver gets the parts in separate reads. On Linux the output queue
// of a unix socket has the bytes that the peer has not read; TCP has no equivalent.
func AwaitRead(conn net.Conn, timeout time.Duration) error {
	uc, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("%T: only a unix socket shows whether its peer has read", conn)
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(timeout)
	for pause := time.Microsecond; ; pause = min(2*pause, time.Millisecond) {
		var waiting int
		var ioctl error
		if err := raw.Control(func(fd uintptr) { waiting, ioctl = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ) }); err !=
			nil {
			return err
		}
		if ioctl != nil || waiting == 0 {
			return ioctl
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %v the peer has not yet read %d bytes of buffer", timeout, waiting)
		}
		time.Sleep(pause)
	}
}
