package process

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// ReadyTimeout bounds how long a program may take to start, on a busy machine.
	ReadyTimeout = 20 * time.Second
	// stopTimeout is how long a program may take to end before it is killed: longer than mcmw's default drain timeout.
	stopTimeout = 15 * time.Second
	// maxLog is how much of the end of a program's output is kept for errors, bytes.
	maxLog = 2 << 10
	// Loopback is the default address on which programs listen.
	Loopback = "127.0.0.1"
)

// Process is a program that this process has started and will end.
type Process struct {
	Name string
	cmd  *exec.Cmd
	log  *Tail
	done chan struct{} // closed when it has ended
}

// Start starts a program. The end of its output is kept. Standard error also goes to cmd's writer
// for it, if any; standard output goes only to cmd's writer if there is one.
func Start(name string, cmd *exec.Cmd) (*Process, error) {
	p := &Process{Name: name, cmd: cmd, log: &Tail{}, done: make(chan struct{})}
	if cmd.Stdout == nil {
		cmd.Stdout = p.log
	}
	if cmd.Stderr == nil {
		cmd.Stderr = p.log
	} else {
		cmd.Stderr = io.MultiWriter(p.log, cmd.Stderr)
	}
	cmd.Env = append(cmd.Env, Environment()...)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// In a process group of its own, an interrupt at the terminal doesn't reach it, so that it can be stopped in order.
	// The kernel kills it if this process ends.
	cmd.SysProcAttr.Setpgid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	// A program's children can keep its output open; don't wait longer for them.
	cmd.WaitDelay = stopTimeout
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(p.done)
	}()
	return p, nil
}

// Environment returns this process's environment without the user's settings of mcmw, which must not change the
// measurement.
func Environment() []string {
	return slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "MCMW_") })
}

// Ended returns an error if the program has ended.
func (p *Process) Ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended on its own: %s; its last output:\n%s", p.Name, p.cmd.ProcessState, p.log)
	default:
		return nil
	}
}

// Log returns the end of the program's output.
func (p *Process) Log() string { return p.log.String() }

// Done returns a channel that is closed when the program has ended and its output has been read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Answers requests a key that doesn't exist. memcached, Redis and every proxy answer this once they work.
func Answers(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("get mcmwlab-is-it-ready\r\n")); err != nil {
		return err
	}
	reply := make([]byte, 64)
	n, err := conn.Read(reply)
	if err != nil {
		return err
	}
	if miss := string(reply[:n]); miss != "END\r\n" && miss != "$-1\r\n" { // memcached's, Redis's
		return fmt.Errorf("unexpected answer %q", reply[:n])
	}
	return nil
}

// Stop sends a signal and waits until the program has ended. If that takes too long it kills the program and all that
// it has started.
func (p *Process) Stop(signal syscall.Signal) { p.stopWithin(stopTimeout, signal) }

func (p *Process) stopWithin(limit time.Duration, signal syscall.Signal) {
	if signal == syscall.SIGKILL {
		p.kill()
	} else {
		_ = p.Signal(signal)
	}
	select {
	case <-p.done:
	case <-time.After(limit):
		p.kill()
		<-p.done
	}
}

// kill kills the program and all that it has started. Until done is closed, no other process group can have its id: the
// program runs, or another process of the group holds its output, or it ends at this moment.
func (p *Process) kill() {
	select {
	case <-p.done:
	default:
		_ = syscall.Kill(-p.Pid(), syscall.SIGKILL)
	}
}

// Signal sends a signal. It cannot reach another process with the same id: os.Process refuses after Wait.
func (p *Process) Signal(signal syscall.Signal) error { return p.cmd.Process.Signal(signal) }

// Pid returns the id of the process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// ExitCode returns the program's exit code; -1 while it runs, or when a signal ended it.
func (p *Process) ExitCode() int {
	if p.Ended() == nil {
		return -1
	}
	return p.cmd.ProcessState.ExitCode()
}

// firstPort is the lowest port that FreePort returns. Most services have lower ones.
const firstPort = 15000

// given has the addresses that FreePort has returned, on which perhaps nothing listens yet.
var given sync.Map

// FreePort returns a TCP port of host on which nothing listens, and that it has not returned before. Nothing holds it
// until a program listens on it. It is therefore below the ports that the kernel itself gives to outgoing connections
// and to listeners on any free port, if the kernel's range leaves room.
func FreePort(host string) (int, error) {
	var low int // the lowest port of the kernel's range; 0: unknown
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		_, _ = fmt.Sscan(string(text), &low)
	}
	for attempts := 100; ; attempts-- {
		port := 0
		if low > firstPort {
			port = firstPort + rand.IntN(low-firstPort)
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if errors.Is(err, syscall.EADDRINUSE) && attempts > 1 {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("looking for a free port: %w", err)
		}
		listener.Close()
		addr := listener.Addr().(*net.TCPAddr)
		if _, taken := given.LoadOrStore(addr.String(), true); taken && attempts > 1 {
			continue
		}
		return addr.Port, nil
	}
}

// Lines is a writer that passes every line, with its line end, to Take. It is not safe for concurrent use.
type Lines struct {
	Take    func(line []byte) error // must not keep the line
	partial []byte                  // the beginning of the next line
}

// Write passes the lines that p completes.
func (l *Lines) Write(p []byte) (int, error) {
	l.partial = append(l.partial, p...)
	for {
		end := bytes.IndexByte(l.partial, '\n') + 1
		if end == 0 {
			return len(p), nil
		}
		if err := l.Take(l.partial[:end]); err != nil {
			return 0, err
		}
		l.partial = append(l.partial[:0], l.partial[end:]...)
	}
}

// Tail keeps the end of a program's output. The zero value is empty.
type Tail struct {
	mu  sync.Mutex
	end []byte // guarded by mu
}

// Write appends p.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	if surplus := len(t.end) - maxLog; surplus > 0 {
		t.end = t.end[:copy(t.end, t.end[surplus:])]
	}
	return len(p), nil
}

// String returns the end of the output.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.end))
}
