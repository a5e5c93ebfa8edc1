// Package kernel reads what the Linux kernel knows about this machine and its processes: processor time, network counters,
// memory, and the kind of machine.
package kernel

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of the times in /proc/stat.
const tick = 10 * time.Millisecond

// ProcessCPU returns the user and system time of all threads of a process, including ended ones. The kernel counts it in ns, not
// in the ticks of /proc/PID/stat.
func ProcessCPU(pid int) (time.Duration, error) {
	// The id of another process's clock: the complement of its pid, and 2 for the scheduler's account in the three low bits.
	clock := ^int32(pid)<<3 | 2
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// CPU is the time of all cores together, by category. User includes nice processes and guests.
type CPU struct {
	User, System, SoftIRQ, IRQ, IOWait, Idle, Steal time.Duration
}

// HostCPU returns the time since the machine's start.
func HostCPU() (CPU, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return CPU{}, err
	}
	return parseCPU(string(text))
}

// parseCPU reads the text of /proc/stat.
func parseCPU(text string) (CPU, error) {
	line, _, _ := strings.Cut(text, "\n")
	// cpu user nice system idle iowait irq softirq steal ...; guests are in user already
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return CPU{}, fmt.Errorf("/proc/stat: expected a first line of cpu and 8 times or more, got %.100q", line)
	}
	var t [8]time.Duration
	for i := range t {
		ticks, err := strconv.ParseInt(fields[1+i], 10, 64)
		if err != nil {
			return CPU{}, fmt.Errorf("/proc/stat: %w", err)
		}
		t[i] = time.Duration(ticks) * tick
	}
	return CPU{User: t[0] + t[1], System: t[2], Idle: t[3], IOWait: t[4], IRQ: t[5], SoftIRQ: t[6], Steal: t[7]}, nil
}

// Network is the traffic of all interfaces together, bytes.
type Network struct {
	Received, Sent uint64
}

// HostNetwork returns the counters of this process's network namespace. Bytes over the loopback count as received and as sent.
func HostNetwork() (Network, error) {
	text, err := os.ReadFile("/proc/self/net/dev")
	if err != nil {
		return Network{}, err
	}
	return parseNetwork(string(text))
}

// parseNetwork reads the text of /proc/net/dev.
func parseNetwork(text string) (n Network, err error) {
	for line := range strings.Lines(text) {
		// name: received bytes, 7 more counters, sent bytes, 7 more; the two heading lines have no colon
		_, counters, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		fields := strings.Fields(counters)
		if len(fields) < 9 {
			return Network{}, fmt.Errorf("/proc/net/dev: expected 16 counters, got %.100q", line)
		}
		received, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil {
			return Network{}, fmt.Errorf("/proc/net/dev: %w", err)
		}
		sent, err := strconv.ParseUint(fields[8], 10, 64)
		if err != nil {
			return Network{}, fmt.Errorf("/proc/net/dev: %w", err)
		}
		n.Received += received
		n.Sent += sent
	}
	return n, nil
}

// Memory returns how much memory the machine has, bytes.
func Memory() (uint64, error) {
	kib, err := number("/proc/meminfo", "MemTotal")
	return kib << 10, err
}

// PeakMemory returns a process's peak resident memory, bytes.
func PeakMemory(pid int) (int64, error) {
	kib, err := number(fmt.Sprintf("/proc/%d/status", pid), "VmHWM")
	return int64(kib << 10), err
}

// Calls returns how many read and write system calls a process has made, of files and sockets. Calls of send and receive don't count.
func Calls(pid int) (uint64, error) {
	file := fmt.Sprintf("/proc/%d/io", pid)
	reads, err := number(file, "syscr")
	if err != nil {
		return 0, err
	}
	writes, err := number(file, "syscw")
	return reads + writes, err
}

// StartTime returns when a process was started, in ticks since the machine's start. So a later process with the same id can be told from an
// earlier one. A process that has ended is fs.ErrNotExist, also if its parent has not waited for it yet.
func StartTime(pid int) (uint64, error) {
	file := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(file)
	if errors.Is(err, unix.ESRCH) {
		err = fs.ErrNotExist // it ended while the file was read
	}
	if err != nil {
		return 0, err
	}
	// The second field, the name in parentheses, can contain anything. The third is the state, the 22nd the start.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return 0, fmt.Errorf("%s: expected 22 fields or more", file)
	}
	if state := fields[0]; state == "Z" || state == "X" {
		return 0, fmt.Errorf("process %d has ended: %w", pid, fs.ErrNotExist)
	}
	return strconv.ParseUint(fields[19], 10, 64)
}

// number returns the number in the first line "name: number" of a file; a unit after it is ignored.
func number(path, name string) (uint64, error) {
	text, err := field(path, name)
	if err != nil {
		return 0, err
	}
	digits, _, _ := strings.Cut(text, " ")
	return strconv.ParseUint(digits, 10, 64)
}

// field returns the value in the first line "name: value" of a file.
func field(path, name string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		field, value, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(field) == name {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("%s: no line %q", path, name)
}

// ProcessorModel returns the model of the machine's processors; "unknown" if the kernel does not say.
func ProcessorModel() string {
	model, err := field("/proc/cpuinfo", "model name")
	if err != nil {
		return "unknown"
	}
	return model
}

// Release returns the kernel's name, release and architecture; "unknown" if that fails.
func Release() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:]) + " " + unix.ByteSliceToString(name.Machine[:])
}
