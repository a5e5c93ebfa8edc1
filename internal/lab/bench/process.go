package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// readyTimeout bounds how long a program may take to start, on a busy machine.
	readyTimeout = 20 * time.Second
	// stopTimeout is how long a program may take to end by itself before it is killed.
	stopTimeout = 5 * time.Second
	// startAttempts is how often a program is started on another port when it ends at once: between finding a free port
	// and listening on it, another process can take it.
	startAttempts = 3
	// maxLog is how much of the end of a program's output is kept for error texts, bytes.
	maxLog = 2 << 10
)

// process is a program that this one started and ends.
type process struct {
	name string
	addr string // where it serves
	cmd  *exec.Cmd
	log  *tail
	done chan struct{} // closed when it has ended
}

// launch starts a program on a free port of loopback and waits until it answers there.
func launch(ctx context.Context, name string, command func(port int) (*exec.Cmd, error)) (*process, error) {
	for attempt := 1; ; attempt++ {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		cmd, err := command(port)
		if err != nil {
			return nil, err
		}
		p, err := start(name, port, cmd)
		if err != nil {
			return nil, err
		}
		err = p.awaitReady(ctx)
		if err == nil {
			return p, nil
		}
		p.stop(syscall.SIGKILL)
		if attempt == startAttempts || !errors.As(err, new(endedError)) {
			return nil, err
		}
	}
}

func start(name string, port int, cmd *exec.Cmd) (*process, error) {
	p := &process{
		name: name,
		addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		cmd:  cmd,
		log:  &tail{},
		done: make(chan struct{}),
	}
	cmd.Stdout, cmd.Stderr = p.log, p.log
	// Settings of the person who measures are not to change what is measured.
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "MCMW_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	// A group of its own, so that an interrupt at the terminal doesn't reach it: it is ended in order. And whatever happens
	// to this process, it doesn't stay behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(p.done)
	}()
	return p, nil
}

// endedError is a program that ended by itself.
type endedError struct{ error }

// ended returns an error if the program has ended.
func (p *process) ended() error {
	select {
	case <-p.done:
		return endedError{fmt.Errorf("%s ended by itself: %s; its last output:\n%s", p.name, p.cmd.ProcessState, p.log)}
	default:
		return nil
	}
}

// awaitReady waits until the program answers a request.
func (p *process) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout,
		fmt.Errorf("%s doesn't answer on %s after %v; its last output:\n%s", p.name, p.addr, readyTimeout, p.log))
	defer cancel()
	for {
		if err := answers(p.addr); err == nil {
			return nil
		}
		select {
		case <-p.done:
			return p.ended()
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// answers asks for a key that isn't there, which any server and proxy can answer once it works.
func answers(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("get mcmwlab-is-it-ready\r\n")); err != nil {
		return err
	}
	reply := make([]byte, 64)
	n, err := conn.Read(reply)
	if err != nil {
		return err
	}
	if string(reply[:n]) != "END\r\n" {
		return fmt.Errorf("unexpected answer %q", reply[:n])
	}
	return nil
}

// stop sends a signal, waits until the program has ended and kills it if that takes too long.
func (p *process) stop(signal syscall.Signal) {
	// The process can't have been replaced by another of its id: it is waited for by the goroutine that closes done, and
	// os.Process refuses to signal one that was.
	_ = p.cmd.Process.Signal(signal)
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// pid returns the id of the process.
func (p *process) pid() int { return p.cmd.Process.Pid }

func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// memcachedCommand returns how a server is started: one thread, and memory for every key of every workload.
func memcachedCommand(path string, port int) (*exec.Cmd, error) {
	args := []string{"-t", "1", "-l", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "0", "-m", "512", "-c", "4096"}
	if os.Geteuid() == 0 {
		args = append(args, "-u", "root") // it refuses to be root unless told to
	}
	return exec.Command(path, args...), nil
}

// twemproxyCommand writes a configuration into dir and returns how nutcracker is started with it.
func twemproxyCommand(path, dir string, servers []string, port int) (*exec.Cmd, error) {
	var config bytes.Buffer
	fmt.Fprintf(&config, `bench:
  listen: 127.0.0.1:%d
  hash: fnv1a_64
  distribution: ketama
  auto_eject_hosts: false
  preconnect: true
  server_connections: 1
  servers:
`, port)
	for _, server := range servers {
		fmt.Fprintf(&config, "    - %s:1\n", server)
	}
	file := filepath.Join(dir, fmt.Sprintf("nutcracker-%d.yml", port))
	if err := os.WriteFile(file, config.Bytes(), 0o600); err != nil {
		return nil, fmt.Errorf("twemproxy's configuration: %w", err)
	}
	statsPort, err := freePort()
	if err != nil {
		return nil, err
	}
	return exec.Command(path, "-c", file, "-m", "16384", "-o", "/dev/stderr", "-a", "127.0.0.1", "-s", strconv.Itoa(statsPort)), nil
}

// mcmwCommand returns how mcmw is started.
func mcmwCommand(s system, replicas string, servers []string, port int) (*exec.Cmd, error) {
	args := []string{
		"serve", "--listen", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), "--servers", strings.Join(servers, ","),
		"--replicas", replicas, "--sharded", "--admin", "",
	}
	return exec.Command(s.path, append(args, s.args...)...), nil
}

// tail keeps the end of what a program writes.
type tail struct {
	mu  sync.Mutex
	end []byte // guarded by mu
}

// Write takes everything.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, p...)
	if surplus := len(t.end) - maxLog; surplus > 0 {
		t.end = t.end[:copy(t.end, t.end[surplus:])]
	}
	return len(p), nil
}

// String returns what was written last.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.end))
}
