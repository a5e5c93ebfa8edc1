package demo

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"mcmw/internal/route"
)

const (
	// Servers is the number of memcached servers of a demo.
	Servers = 3
	// Memory is the memory of each server, MiB.
	Memory = 64
	// startTimeout bounds the start of a server; it is long because the machine may be busy.
	startTimeout = 20 * time.Second
)

// server is a memcached process that this process has started.
type server struct {
	name string
	addr string
	cmd  *exec.Cmd

	output bytes.Buffer  // its standard error; valid once ended is closed
	ended  chan struct{} // closed when the process has ended
}

// fleet has the memcached servers of a demo.
type fleet struct {
	servers  []*server
	stopping atomic.Bool
	lost     chan *server // servers that ended on their own; capacity for all of them
}

// findMemcached returns the path of the memcached program.
func findMemcached() (string, error) {
	path, err := exec.LookPath("memcached")
	if err != nil {
		return "", fmt.Errorf("the demo starts %d memcached servers, but there is no memcached in PATH; "+
			"install it: apt-get install memcached", Servers)
	}
	return path, nil
}

// startFleet starts the servers on free loopback ports and returns when all of them listen. If it fails, none is left
// running.
func startFleet(ctx context.Context, binary string, log *slog.Logger) (*fleet, error) {
	dir, err := os.MkdirTemp("", "mcmw-demo")
	if err != nil {
		return nil, fmt.Errorf("create the directory for memcached's port files: %w", err)
	}
	defer os.RemoveAll(dir)
	f := &fleet{lost: make(chan *server, Servers)}
	for i := range Servers {
		s := &server{name: "memcached-" + strconv.Itoa(i+1), ended: make(chan struct{})}
		if err := s.start(ctx, binary, filepath.Join(dir, s.name)); err != nil {
			f.stop()
			return nil, err
		}
		f.servers = append(f.servers, s)
		go f.watch(s, log)
	}
	return f, nil
}

// start starts the process and waits until it has written the port it listens on to the file portFile.
func (s *server) start(ctx context.Context, binary, portFile string) error {
	args := []string{"-l", "127.0.0.1", "-p", "-1", "-U", "0", "-m", strconv.Itoa(Memory)}
	if os.Geteuid() == 0 {
		args = append(args, "-u", "root") // memcached refuses to run as root without this
	}
	s.cmd = exec.Command(binary, args...)
	s.cmd.Env = append(os.Environ(), "MEMCACHED_PORT_FILENAME="+portFile)
	s.cmd.Stderr = &s.output
	// The server gets its own process group, so that Ctrl-C reaches only this process, which shuts down in order. It
	// must not outlive this process.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	started := make(chan error, 1)
	go func() {
		// Pdeathsig refers to the parent thread, so this thread must live until the end.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait() // ProcessState has the exit status
			close(s.ended)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	timeout := time.After(startTimeout)
	for {
		text, err := os.ReadFile(portFile)
		if _, port, found := strings.Cut(strings.TrimSpace(string(text)), ": "); err == nil && found {
			s.addr = "127.0.0.1:" + port
			return nil
		}
		select {
		case <-s.ended:
			return fmt.Errorf("%s ended while starting: %s; it said: %s", s.name, s.cmd.ProcessState, &s.output)
		case <-ctx.Done():
			s.kill()
			return context.Cause(ctx)
		case <-timeout:
			s.kill()
			return fmt.Errorf("%s does not listen after %v; it said: %s", s.name, startTimeout, &s.output)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// kill kills the process and waits for its end. A cache has nothing to save, and reacts slowly to SIGTERM.
func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
}

// hasEnded reports whether the process has ended.
func (s *server) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// watch reports s if it ends on its own.
func (f *fleet) watch(s *server, log *slog.Logger) {
	<-s.ended
	if !f.stopping.Load() {
		log.Warn("a memcached server has ended unexpectedly", "server", s.name, "pid", s.cmd.Process.Pid,
			"exit", s.cmd.ProcessState)
		f.lost <- s
	}
}

// stop ends all servers.
func (f *fleet) stop() {
	f.stopping.Store(true)
	for _, s := range f.servers {
		s.kill()
	}
}

// route returns the servers for the middleware's options.
func (f *fleet) route() []route.Server {
	list := make([]route.Server, len(f.servers))
	for i, s := range f.servers {
		list[i] = route.Server{Name: s.name, Addr: s.addr}
	}
	return list
}
