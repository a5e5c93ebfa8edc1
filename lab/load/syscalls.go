package load

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// epollWaitHolding waits as unix.EpollWait does, but bypasses the Go scheduler, as the reads and writes of package
// nonblock do, and so keeps its processor: no other goroutine runs on it meanwhile. To take the processor back, for a
// garbage collection say, the scheduler sends a signal, which ends the wait with EINTR.
func epollWaitHolding(epoll int, events []unix.EpollEvent, milliseconds int64) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))),
		uintptr(len(events)), uintptr(milliseconds), 0, 0)
	return result(n, errno)
}

// epollWait is unix.EpollWait with the same type as the other functions.
func epollWait(epoll int, events []unix.EpollEvent, milliseconds int64) (int, error) {
	return unix.EpollWait(epoll, events, int(milliseconds))
}

// epollWaitNanos waits up to ns nanoseconds. It needs Linux 5.11.
func epollWaitNanos(epoll int, events []unix.EpollEvent, ns int64) (int, error) {
	timeout := unix.NsecToTimespec(ns)
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epoll),
		uintptr(unsafe.Pointer(unsafe.SliceData(events))),
		uintptr(len(events)), uintptr(unsafe.Pointer(&timeout)), 0, 0)
	return result(n, errno)
}

// epollWaitNanosHolding waits as epollWaitNanos does, but keeps its processor as epollWaitHolding does.
func epollWaitNanosHolding(epoll int, events []unix.EpollEvent, ns int64) (int, error) {
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
