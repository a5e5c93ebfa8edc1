// Package nonblock makes system calls on sockets that never block, without telling the Go scheduler.
//
// An ordinary system call is announced to the scheduler, so that it can give the processor to another thread meanwhile.
// These calls return at once, and the announcement costs more than the call: it wakes the scheduler's monitor thread
// whenever the program was idle, and on a busy machine takes the processor away in the middle of a write, only for another
// thread to be woken. The price: nothing else runs on the processor until the call returns, which for the largest write is
// the time to copy it.
//
// The race detector does not see what these calls read and write.
package nonblock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Read reads what has arrived at fd, at most len(p) bytes. EAGAIN: nothing has arrived; 0 without an error: the stream has
// ended.
func Read(fd int, p []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		if errno != unix.EINTR {
			return result(n, errno)
		}
	}
}

// ReadTCP is Read for a TCP socket prepared by TellMore, and reports whether there is more to read: more bytes, or the end
// of the stream, but not a reset. If not, whatever comes next makes the socket readable again.
func ReadTCP(fd int, p []byte) (n int, more bool, err error) {
	var told struct {
		header unix.Cmsghdr
		inq    int32
		_      int32
	}
	iov := unix.Iovec{Base: unsafe.SliceData(p)}
	iov.SetLen(len(p))
	for {
		message := unix.Msghdr{Iov: &iov, Control: (*byte)(unsafe.Pointer(&told))}
		message.SetIovlen(1)
		message.SetControllen(int(unsafe.Sizeof(told)))
		got, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&message)), 0)
		if errno != unix.EINTR {
			n, err = result(got, errno)
			return n, told.header.Type != unix.TCP_CM_INQ || told.inq != 0, err
		}
	}
}

// TellMore prepares a socket for ReadTCP, and reports whether it could: it is a TCP socket and the kernel is Linux 4.18 or
// later.
func TellMore(fd int) bool { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_INQ, 1) == nil }

// Write writes as much of p as fd has room for. EAGAIN: it has none.
func Write(fd int, p []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		if errno != unix.EINTR {
			return result(n, errno)
		}
	}
}

// Writev is Write for several pieces, in order.
func Writev(fd int, pieces []unix.Iovec) (int, error) {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(pieces))), uintptr(len(pieces)))
		if errno != unix.EINTR {
			return result(n, errno)
		}
	}
}

// Peek reads the next byte without removing it; the results are those of Read.
func Peek(fd int) (int, error) {
	var one [1]byte
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&one)), 1, unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
		if errno != unix.EINTR {
			return result(n, errno)
		}
	}
}

func result(n uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
