// Package nonblock makes system calls on sockets that never block, without telling the Go scheduler.
//
// An ordinary system call is announced to the scheduler, so that it can give the processor to another thread meanwhile.
// The calls of this package return at once, and the announcement would cost more than the call: it wakes the
// scheduler's monitor thread whenever the program was idle, and on a busy machine it takes the processor away in the
// middle of a write, only to wake another thread. The price is that nothing else runs on the processor until the call
// returns; for the largest write this is the time to copy it.
//
// The race detector does not see the memory that these calls read and write.
package nonblock

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Read reads up to len(p) bytes that have arrived at fd. EAGAIN: none have arrived. 0 without an error: the stream has
// ended.
func Read(fd int, p []byte) (int, error) {
	return call(unix.SYS_READ, fd, unsafe.Pointer(unsafe.SliceData(p)), len(p))
}

// ReadTCP is Read for a TCP socket prepared by TellMore. more reports whether there is more to read: bytes, or the end
// of the stream, but not a reset. If there is not, the next arrival makes the socket readable again.
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

// TellMore prepares a socket for ReadTCP. It returns false if that is not possible: ReadTCP needs a TCP socket and
// Linux 4.18 or later.
func TellMore(fd int) bool { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_INQ, 1) == nil }

// Write writes as much of p as fd has room for. EAGAIN: there is no room.
func Write(fd int, p []byte) (int, error) {
	return call(unix.SYS_WRITE, fd, unsafe.Pointer(unsafe.SliceData(p)), len(p))
}

// Writev is Write for several pieces, in order.
func Writev(fd int, pieces []unix.Iovec) (int, error) {
	return call(unix.SYS_WRITEV, fd, unsafe.Pointer(unsafe.SliceData(pieces)), len(pieces))
}

// Peek reads the next byte without removing it; the results are those of Read.
func Peek(fd int) (int, error) {
	var one [1]byte
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(&one)), 1,
			unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0)
		if errno != unix.EINTR {
			return result(n, errno)
		}
	}
}

// call makes a system call that takes n elements at p.
func call(number uintptr, fd int, p unsafe.Pointer, n int) (int, error) {
	for {
		done, _, errno := unix.RawSyscall(number, uintptr(fd), uintptr(p), uintptr(n))
		if errno != unix.EINTR {
			return result(done, errno)
		}
	}
}

func result(n uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
