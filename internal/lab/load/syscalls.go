package load

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// The system calls of the loop go past the Go scheduler: the sockets never block, and being announced as possibly blocking
// is what costs. For a thread that sleeps and wakes ten thousand times a second, the scheduler's own monitor thread would
// wake nearly as often.

// read reads what there is; EAGAIN if that is nothing.
func read(fd int, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return result(n, errno)
}

// write writes what the socket takes; EAGAIN if that is nothing.
func write(fd int, b []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
	return result(n, errno)
}

// epollWaitHolding waits as unix.EpollWait does, but keeps the processor of the Go scheduler: no other goroutine runs on
// it meanwhile. The scheduler takes it back, for a collection say, by a signal, which ends the wait with EINTR.
func epollWaitHolding(epoll int, events []unix.EpollEvent, milliseconds int) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(unsafe.SliceData(events))),
		uintptr(len(events)), uintptr(milliseconds), 0, 0)
	return result(n, errno)
}

func result(n uintptr, errno unix.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
