// Package nonblock has the system calls of sockets that never wait, past the Go scheduler.
//
// The scheduler is told of an ordinary system call, so that it can give the processor to another thread meanwhile. These calls
// return at once, and being announced is what costs: the scheduler's monitor thread is woken for them whenever the program was
// idle, and on a busy machine takes the processor away in the middle of a write, only for another thread to be woken. The
// price: nothing else runs on the processor until the call returns, which for the largest write is as long as copying it takes.
//
// The race detector does not see what these calls read and write.
package nonblock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Read reads what has arrived at fd, at most len(p) bytes. EAGAIN: nothing has; 0 and no error: the stream has ended.
func Read(fd int, p []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		if errno != unix.EINTR {
			return result(n, errno)
		}
	}
}

// ReadTCP is Read of a TCP socket that was prepared by TellMore, and tells whether there is more to read: more bytes, or the end of
// the stream, but not a reset. If not, what comes next will make the socket readable anew.
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

// TellMore prepares a socket for ReadTCP, and reports whether that can be: it is a TCP socket and the kernel is Linux 4.18 or later.
func TellMore(fd int) bool { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_INQ, 1) == nil }

// Write writes to fd as much of p as there is room for. EAGAIN: there is none.
func Write(fd int, p []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		if errno != unix.EINTR {
			return result(n, errno)
		}
	}
}

// Writev writes the pieces in order, as Write does one.
func Writev(fd int, pieces []unix.Iovec) (int, error) {
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_WRITEV, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(pieces))), uintptr(len(pieces)))
		if errno != unix.EINTR {
			return result(n, errno)
		}
	}
}

// Peek reads the next byte without taking it; the outcomes are those of Read.
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
