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
