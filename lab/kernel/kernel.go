// Package kernel reads what the Linux kernel knows about this machine and its processes: processor time, network
// counters, memory, and the kind of machine.
package kernel

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ticksPerSecond is the number of /proc/stat's units of time in a second.
const ticksPerSecond = 100

// ProcessCPU returns the user and system time of all threads of a process, including ended ones. The kernel counts it
// in ns, not in the ticks of /proc/PID/stat.
func ProcessCPU(pid int) (time.Duration, error) {
	// The id of another process's clock: the complement of its pid, and 2 for the scheduler's account in the three low
	// bits.
	clock := ^int32(pid)<<3 | 2
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// CPU is the time of all cores together, seconds, by the categories of mpstat.
type CPU struct {
	User    float64 `json:"user"` // nice processes and guests included
	System  float64 `json:"system"`
	SoftIRQ float64 `json:"softirq"`
	IRQ     float64 `json:"irq"`
	IOWait  float64 `json:"iowait"`
	Idle    float64 `json:"idle"`
	Steal   float64 `json:"steal"`
}

// Total returns the time of all categories.
func (c CPU) Total() float64 {
	return c.User + c.System + c.SoftIRQ + c.IRQ + c.IOWait + c.Idle + c.Steal
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
	var t [8]float64
	for i := range t {
		ticks, err := strconv.ParseInt(fields[1+i], 10, 64)
		if err != nil {
			return CPU{}, fmt.Errorf("/proc/stat: %w", err)
		}
		t[i] = float64(ticks) / ticksPerSecond
	}
	return CPU{User: t[0] + t[1], System: t[2], Idle: t[3], IOWait: t[4], IRQ: t[5], SoftIRQ: t[6], Steal: t[7]}, nil
}

// HostNetwork returns the bytes that all interfaces of this process's network namespace have received and sent. Bytes
// over the loopback count as both.
func HostNetwork() (received, sent uint64, err error) {
	text, err := os.ReadFile("/proc/self/net/dev")
	if err != nil {
		return 0, 0, err
	}
	return parseNetwork(string(text))
}

// parseNetwork reads the text of /proc/net/dev.
func parseNetwork(text string) (received, sent uint64, err error) {
	for line := range strings.Lines(text) {
		// name: received bytes, 7 more counters, sent bytes, 7 more; the two heading lines have no colon
		_, counters, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		fields := strings.Fields(counters)
		if len(fields) < 9 {
			return 0, 0, fmt.Errorf("/proc/net/dev: expected 16 counters, got %.100q", line)
		}
		in, inErr := strconv.ParseUint(fields[0], 10, 64)
		out, outErr := strconv.ParseUint(fields[8], 10, 64)
		if err := errors.Join(inErr, outErr); err != nil {
			return 0, 0, fmt.Errorf("/proc/net/dev: %w", err)
		}
		received, sent = received+in, sent+out
	}
	return received, sent, nil
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

// Calls returns how many read and write system calls a process has made, of files and sockets. Calls of send and
// receive don't count.
func Calls(pid int) (uint64, error) {
	file := fmt.Sprintf("/proc/%d/io", pid)
	reads, err := number(file, "syscr")
	if err != nil {
		return 0, err
	}
	writes, err := number(file, "syscw")
	return reads + writes, err
}

// StartTime returns when a process was started, in ticks since the machine's start. So a later process with the same id
// can be told from an earlier one. A process that has ended is fs.ErrNotExist, also if its parent has not waited for it
// yet.
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
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if field, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(field) == name {
			return strings.TrimSpace(value), nil
		}
	}
	return "", fmt.Errorf("%s: no line %q", path, name)
}

// ProcessorModel returns the model of the machine's processors; "unknown" if the kernel does not say.
func ProcessorModel() string {
	model, _ := field("/proc/cpuinfo", "model name")
	return cmp.Or(model, "unknown")
}

// Release returns the kernel's name, release and architecture; "unknown" if that fails.
func Release() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:]) + " " +
		unix.ByteSliceToString(name.Machine[:])
}
