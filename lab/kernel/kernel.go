// Package kernel reads what the Linux kernel knows about this machine and its processes: processor time, network
// counters, memory, and the kind of machine.
package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"sort"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// Used is what a process has used since its start.
type Used struct {
	CPU    time.Duration // user and system time of all threads, including ended ones
	Memory int64         // peak resident memory, bytes
	Calls  uint64        // read and write system calls, of files and sockets, without those of send and receive
}

// UsedBy returns what a process of this machine has used. Only the owner of a process may read its memory and calls;
// for others both are 0.
func UsedBy(pid int) (u Used, err error) {
	// The kernel counts processor time in ns, not in the ticks of /proc/PID/stat. The id of another process's clock is
	// the complement of its pid, and 2 for the scheduler's account in the three low bits.
	clock := ^int32(pid)<<3 | 2
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return u, fmt.Errorf("CPU time of process %d: %w", pid, err)
	}
	u.CPU = time.Duration(t.Nano())
	if p, err := procfs.NewProc(pid); err == nil {
		if io, err := p.IO(); err == nil {
			status, _ := p.NewStatus() // the process may just have ended
			u.Memory, u.Calls = int64(status.VmHWM), io.SyscR+io.SyscW
		}
	}
	return u, nil
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

// proc is where the kernel's files are.
const proc = procfs.DefaultMountPoint

// HostCPU returns the time since the machine's start.
func HostCPU() (CPU, error) { return hostCPU(proc) }

func hostCPU(proc string) (CPU, error) {
	files, err := procfs.NewFS(proc)
	if err != nil {
		return CPU{}, err
	}
	stat, err := files.Stat()
	t := stat.CPUTotal // guests are in user already
	return CPU{
		User: t.User + t.Nice, System: t.System, Idle: t.Idle, IOWait: t.Iowait, IRQ: t.IRQ, SoftIRQ: t.SoftIRQ,
		Steal: t.Steal,
	}, err
}

// HostNetwork returns the bytes that all interfaces of this process's network namespace have received and sent. Bytes
// over the loopback count as both.
func HostNetwork() (received, sent uint64, err error) {
	self, err := procfs.Self()
	if err != nil {
		return 0, 0, err
	}
	interfaces, err := self.NetDev()
	total := interfaces.Total()
	return total.RxBytes, total.TxBytes, err
}

// Memory returns how much memory the machine has, bytes.
func Memory() (uint64, error) {
	files, err := procfs.NewFS(proc)
	if err != nil {
		return 0, err
	}
	memory, err := files.Meminfo()
	if err != nil || memory.MemTotalBytes == nil {
		return 0, cmp.Or(err, errors.New("the kernel does not say how much memory the machine has"))
	}
	return *memory.MemTotalBytes, nil
}

// StartTime returns when a process was started, in ticks since the machine's start. So a later process with the same id
// can be told from an earlier one. A process that has ended is fs.ErrNotExist, also if its parent has not waited for it
// yet.
func StartTime(pid int) (uint64, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	stat, err := p.Stat()
	if errors.Is(err, unix.ESRCH) || stat.State == "Z" || stat.State == "X" {
		err = fmt.Errorf("process %d has ended: %w", pid, fs.ErrNotExist)
	}
	return stat.Starttime, err
}

// Thread is a thread of a process.
type Thread struct {
	ID   int
	Name string // "" if the thread has just ended
}

// Threads returns the threads of a process in the order of their ids.
func Threads(pid int) (threads []Thread, err error) {
	all, err := procfs.AllThreads(pid)
	if err != nil {
		return nil, fmt.Errorf("looking for the threads of process %d: %w", pid, err)
	}
	sort.Sort(all)
	for _, t := range all {
		name, err := t.Comm()
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) {
			return nil, err
		}
		threads = append(threads, Thread{t.PID, name})
	}
	return threads, nil
}

// ProcessorModel returns the model of the machine's processors; "unknown" if the kernel does not say.
func ProcessorModel() string {
	files, err := procfs.NewFS(proc)
	if err != nil {
		return unknown
	}
	processors, _ := files.CPUInfo()
	if len(processors) == 0 {
		return unknown
	}
	return cmp.Or(processors[0].ModelName, unknown)
}

const unknown = "unknown"

// Release returns the kernel's name, release and architecture; "unknown" if that fails.
func Release() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return unknown
	}
	return unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:]) + " " +
		unix.ByteSliceToString(name.Machine[:])
}
