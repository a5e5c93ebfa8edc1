package bench

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

// processCPU returns the user and system time that all threads of a process have used, ended ones included. The kernel
// keeps it in ns, so that it isn't rounded to the ticks of /proc/PID/stat.
func processCPU(pid int) (time.Duration, error) {
	// The clock of another process: its id's complement, and 2 for the scheduler's own account in the three low bits.
	clock := ^int32(pid)<<3 | 2
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// machineCPU returns the time that all cores together were not idle, that of a hypervisor's other guests included.
func machineCPU() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	// cpu user nice system idle iowait irq softirq steal ...; guests are in user already
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat: expected a first line of cpu and 8 times or more, got %q", line)
	}
	var busy int64
	for i, field := range fields[1:9] {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		if i != 3 && i != 4 {
			busy += ticks
		}
	}
	return time.Duration(busy) * tick, nil
}

// peakMemory returns the most memory that a process has had resident, bytes.
func peakMemory(pid int) (int64, error) {
	kib, err := procField(fmt.Sprintf("/proc/%d/status", pid), "VmHWM")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(kib, " kB"), 10, 64)
	return n << 10, err
}

// procField returns the value of the first line "name: value" of a file.
func procField(path, name string) (string, error) {
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

// Machine is where a benchmark ran.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Memory string `json:"memory"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"` // that built the load generator
}

// thisMachine describes it as far as the kernel tells.
func thisMachine() Machine {
	m := Machine{CPU: "unknown", Cores: runtime.NumCPU(), Memory: "unknown", Kernel: "unknown", Go: runtime.Version()}
	if cpu, err := procField("/proc/cpuinfo", "model name"); err == nil {
		m.CPU = cpu
	}
	if memory, err := procField("/proc/meminfo", "MemTotal"); err == nil {
		if kib, err := strconv.ParseFloat(strings.TrimSuffix(memory, " kB"), 64); err == nil {
			m.Memory = fmt.Sprintf("%.1f GiB", kib/(1<<20))
		}
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:]) + " " + unix.ByteSliceToString(name.Machine[:])
	}
	return m
}
