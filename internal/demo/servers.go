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
	// Servers is how many memcached servers a demo has.
	Servers = 3
	// Memory is the memory of each of them, MiB.
	Memory = 64
	// startTimeout bounds the start of one of them; it is long because the machine may be busy.
	startTimeout = 20 * time.Second
)

// server is one memcached process that this one has started.
type server struct {
	name string
	addr string
	cmd  *exec.Cmd

	output bytes.Buffer  // its standard error; valid once ended is closed
	ended  chan struct{} // closed when the process has ended
}

// fleet is the memcached servers of a demo.
type fleet struct {
	servers  []*server
	stopping atomic.Bool
	lost     chan *server // those that ended by themselves; capacity for all of them
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

// startFleet starts the servers on free ports of loopback and returns when all of them listen. When it fails none is left.
func startFleet(ctx context.Context, binary string, log *slog.Logger) (*fleet, error) {
	dir, err := os.MkdirTemp("", "mcmw-demo")
	if err != nil {
		return nil, fmt.Errorf("a directory in which memcached says which port it got: %w", err)
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
		args = append(args, "-u", "root") // it refuses to run as root without this
	}
	s.cmd = exec.Command(binary, args...)
	s.cmd.Env = append(os.Environ(), "MEMCACHED_PORT_FILENAME="+portFile)
	s.cmd.Stderr = &s.output
	// A process group of its own: Ctrl-C reaches only this process, which shuts down in order. And it must not outlive this one.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}

	started := make(chan error, 1)
	go func() {
		// Pdeathsig refers to the parent thread, which therefore must stay until the end.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := s.cmd.Start()
		started <- err
		if err == nil {
			_ = s.cmd.Wait() // ProcessState says how it ended
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
			return fmt.Errorf("%s has ended at its start: %s; it said: %s", s.name, s.cmd.ProcessState, &s.output)
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

// watch reports s if it ends by itself.
func (f *fleet) watch(s *server, log *slog.Logger) {
	<-s.ended
	if !f.stopping.Load() {
		log.Warn("a memcached server has ended by itself", "server", s.name, "pid", s.cmd.Process.Pid,
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
