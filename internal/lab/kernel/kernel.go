// Package kernel reads what the Linux kernel knows about this machine and its processes: processor time, network counters,
// memory, and what kind of machine it is.
package kernel

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of the times in /proc/stat.
const tick = 10 * time.Millisecond

// ProcessCPU returns the user and system time that all threads of a process have used, ended ones included. The kernel
// keeps it in ns, so that it isn't rounded to the ticks of /proc/PID/stat.
func ProcessCPU(pid int) (time.Duration, error) {
	// The clock of another process: its id's complement, and 2 for the scheduler's own account in the three low bits.
	clock := ^int32(pid)<<3 | 2
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// CPU is the time of all cores together, by use. User includes nice processes and guests.
type CPU struct {
	User, System, SoftIRQ, IRQ, IOWait, Idle, Steal time.Duration
}

// HostCPU returns the time since the machine was started.
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

// HostNetwork returns the counters of the network namespace of this process. Bytes over the loopback count as received and sent.
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
		// name: received bytes, 7 more counters, sent bytes, 7 more; two lines of headings have no colon
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
	kib, err := field("/proc/meminfo", "MemTotal")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSuffix(kib, " kB"), 10, 64)
	return n << 10, err
}

// PeakMemory returns a process's peak resident memory, bytes.
func PeakMemory(pid int) (int64, error) {
	kib, err := field(fmt.Sprintf("/proc/%d/status", pid), "VmHWM")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(kib, " kB"), 10, 64)
	return n << 10, err
}

// Calls returns how many reads and writes a process has made: read, write and the like, of files and sockets, but not send and receive.
func Calls(pid int) (calls uint64, err error) {
	for _, name := range []string{"syscr", "syscw"} {
		text, err := field(fmt.Sprintf("/proc/%d/io", pid), name)
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return 0, err
		}
		calls += n
	}
	return calls, nil
}

// field returns the value of the first line "name: value" of a file.
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

// Machine describes the machine of a measurement.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory string `json:"memory"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"` // that built this program
}

// ThisMachine describes this machine, as far as the kernel tells.
func ThisMachine() Machine {
	m := Machine{CPU: "unknown", Cores: runtime.NumCPU(), Memory: "unknown", Kernel: "unknown", Go: runtime.Version()}
	if cpu, err := field("/proc/cpuinfo", "model name"); err == nil {
		m.CPU = cpu
	}
	if memory, err := Memory(); err == nil {
		m.Memory = fmt.Sprintf("%.1f GiB", float64(memory)/(1<<30))
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:]) + " " + unix.ByteSliceToString(name.Machine[:])
	}
	return m
}
