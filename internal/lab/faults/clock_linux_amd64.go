package faults

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"mcmw/internal/lab/process"
)

// wallClock is the wall clock of one process, which can be set without touching anybody else's: the process asks the
// function that the kernel maps into it for the time, and this one is replaced by code that adds an offset. The
// monotonic clock is left alone, as it is when a machine's clock is set.
type wallClock struct {
	memory *os.File // of the process
	offset int64    // where the offset stands in it, seconds
}

// Code that asks the kernel for the time of a clock, and adds what stands behind it to that of the wall clock. In the C
// calling convention: rdi is the clock, 0 for the wall clock; rsi is where the seconds go.
var shiftedClock = []byte{
	0xb8, 0xe4, 0x00, 0x00, 0x00, // mov eax, 228 (clock_gettime)
	0x0f, 0x05, // syscall
	0x85, 0xff, // test edi, edi
	0x75, 0x0a, // jnz to ret
	0x48, 0x8b, 0x15, 0x06, 0x00, 0x00, 0x00, // mov rdx, [offset]
	0x48, 0x01, 0x16, // add [rsi], rdx
	0xc3,       // ret
	0x90, 0x90, // aligns what follows
	0, 0, 0, 0, 0, 0, 0, 0, // offset
}

const (
	offsetAt = 24
	// sysinfoHeader is the entry of the auxiliary vector that says where the kernel's code is mapped (AT_SYSINFO_EHDR).
	sysinfoHeader = 33
	// maxImage bounds the size of that code.
	maxImage = 64 << 10
)

// startWithClock starts a program whose wall clock can be set. It is changed while it stands before its first
// instruction, when none of its threads can be in the code that is replaced.
func startWithClock(name, addr string, cmd *exec.Cmd) (*process.Process, *wallClock, error) {
	// Only the thread that started a traced process may let it go.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	var clock *wallClock
	p, err := process.StartPrepared(name, addr, cmd, func(pid int) (err error) {
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil {
			return err
		}
		if !status.Stopped() {
			return fmt.Errorf("it did not stop before its first instruction, but has status %#x", status)
		}
		if clock, err = newWallClock(pid); err != nil {
			return err
		}
		return syscall.PtraceDetach(pid)
	})
	return p, clock, err
}

func newWallClock(pid int) (*wallClock, error) {
	base, err := codeOfKernel(pid)
	if err != nil {
		return nil, err
	}
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	at, size, err := clockFunction(memory, base)
	if err == nil && size < uint64(len(shiftedClock)) {
		err = fmt.Errorf("the kernel's clock_gettime has %d bytes, too few for another in its place", size)
	}
	if err == nil {
		_, err = memory.WriteAt(shiftedClock, at)
	}
	if err != nil {
		memory.Close()
		return nil, errNoClock{err}
	}
	return &wallClock{memory: memory, offset: at + offsetAt}, nil
}

// codeOfKernel returns where the kernel has mapped its code into a process.
func codeOfKernel(pid int) (int64, error) {
	vector, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return 0, err
	}
	for ; len(vector) >= 16; vector = vector[16:] {
		if binary.NativeEndian.Uint64(vector) == sysinfoHeader {
			return int64(binary.NativeEndian.Uint64(vector[8:])), nil
		}
	}
	return 0, errors.New("the kernel maps no code into processes")
}

// clockFunction returns where clock_gettime is in a process, and its size.
func clockFunction(memory io.ReaderAt, base int64) (at int64, size uint64, err error) {
	image := make([]byte, maxImage)
	n, err := memory.ReadAt(image, base)
	if n == 0 {
		return 0, 0, err
	}
	file, err := elf.NewFile(bytes.NewReader(image[:n]))
	if err != nil {
		return 0, 0, err
	}
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return 0, 0, err
	}
	for _, symbol := range symbols {
		if symbol.Name == "__vdso_clock_gettime" {
			return base + int64(symbol.Value), symbol.Size, nil
		}
	}
	return 0, 0, errors.New("the kernel's code has no clock_gettime")
}

// set lets the process's wall clock go wrong by d from now on.
func (c *wallClock) set(d time.Duration) error {
	_, err := c.memory.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(d/time.Second))), c.offset)
	return err
}

func (c *wallClock) close() { c.memory.Close() }
