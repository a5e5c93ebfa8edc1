package mctest

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server is a real memcached process on loopback or on a unix socket. It ends with the test that started it. Only the
// test's goroutine calls its methods.
type Server struct {
	t    testing.TB
	name string      // of the program
	args []string    // as given to StartMemcached
	unix string      // path of its unix socket, "" for TCP
	tls  *tls.Config // of its clients; nil without TLS
	auth string      // its file of passwords, "" if there is none
	addr string      // its port stays reserved until the test ends
	cmd  *exec.Cmd
	done chan error // carries the result of Wait, once
	log  *Output    // its stderr
}

// StartMemcached starts a memcached from PATH with args added to its command line, waits until it accepts connections,
// and stops it when the test ends. It listens on a free port of 127.0.0.1 or of the address after "-l" in args, or on a
// unix socket if args contain "-s path". If args contain "-Y file", the methods of Server use the first password in
// that file. The test fails if there is no memcached.
func StartMemcached(t testing.TB, args ...string) *Server {
	t.Helper()
	return startMemcached(t, "memcached", nil, args)
}

// NewMemcached is the environment variable with the path of a newer memcached than the one in PATH, which accepts an
// explicit cas (1.6.27 or later). The default is the one that `.ci/deps` builds in the cache.
const NewMemcached = "MCMW_MEMCACHED_NEW"

// StartNewMemcached is StartMemcached for the newer memcached. The test is skipped if there is none.
func StartNewMemcached(t testing.TB, args ...string) *Server {
	t.Helper()
	return startMemcached(t, NewMemcachedPath(t), nil, args)
}

// NewMemcachedPath returns the path of the newer memcached. The test is skipped if there is none.
func NewMemcachedPath(t testing.TB) string {
	t.Helper()
	name := os.Getenv(NewMemcached)
	if cache, err := os.UserCacheDir(); name == "" && err == nil {
		name = filepath.Join(cache, "mcmw", "memcached-trixie", "memcached")
		if _, err := os.Stat(name); err != nil {
			name = ""
		}
	}
	if name == "" {
		t.Skipf("%s is not set, and there is no newer memcached in the cache: bash .ci/deps builds one", NewMemcached)
	}
	return name
}

// StartNewMemcacheds starts n servers with StartNewMemcached.
func StartNewMemcacheds(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	return several(n, func() *Server { return StartNewMemcached(t, args...) })
}

func startMemcached(t testing.TB, name string, config *tls.Config, args []string) *Server {
	t.Helper()
	s := &Server{t: t, name: name, args: args, tls: config}
	host, port := "127.0.0.1", "0"
	for i, a := range args[:max(len(args)-1, 0)] {
		switch a {
		case "-s":
			s.unix = args[i+1]
		case "-l":
			host = args[i+1]
		case "-p":
			port = args[i+1]
		case "-Y":
			s.auth = args[i+1]
		}
	}
	if s.unix != "" {
		s.addr = "unix:" + s.unix
	} else {
		s.addr = reserve(t, net.JoinHostPort(host, port))
	}
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// StartMemcacheds starts n servers with StartMemcached.
func StartMemcacheds(t testing.TB, n int, args ...string) []*Server {
	t.Helper()
	return several(n, func() *Server { return StartMemcached(t, args...) })
}

func several(n int, start func() *Server) []*Server {
	servers := make([]*Server, n)
	for i := range servers {
		servers[i] = start()
	}
	return servers
}

// Addr returns the address of the server: "host:port" or "unix:/path".
func (s *Server) Addr() string { return s.addr }

// Pid returns the process id of the running server.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Stop kills the process and waits for its end. A cache has nothing to save, and memcached reacts to SIGTERM only at
// its next tick, up to a second later. Stopping a stopped server does nothing.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.done
	s.cmd = nil
}

// Restart stops the server and starts it again, empty, at the same address.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.Start()
}

// Freeze suspends the process: the kernel still accepts connections for it, but nothing is answered until Thaw.
func (s *Server) Freeze() {
	s.t.Helper()
	s.signal(syscall.SIGSTOP)
	deadline := time.Now().Add(Patience)
	for !s.stopped() {
		if time.Now().After(deadline) {
			s.t.Fatalf("memcached %d still runs %v after SIGSTOP", s.Pid(), Patience)
		}
		time.Sleep(time.Millisecond)
	}
}

// Thaw lets a frozen process continue.
func (s *Server) Thaw() {
	s.t.Helper()
	s.signal(syscall.SIGCONT)
}

// Stats returns the server's answer to "stats args...", by name. It uses a new connection.
func (s *Server) Stats(args ...string) map[string]string {
	s.t.Helper()
	c := s.mustConnect()
	defer c.Close()
	reply := c.MustDo(s.t, strings.Join(append([]string{"stats"}, args...), " ")+"\r\n")
	stats := make(map[string]string)
	for line := range strings.Lines(reply) {
		if fields := strings.SplitN(strings.TrimRight(line, "\r\n"), " ", 3); len(fields) == 3 && fields[0] == "STAT" {
			stats[fields[1]] = fields[2]
		}
	}
	return stats
}

// Stat returns one number of the server's general statistics.
func (s *Server) Stat(name string) int64 {
	s.t.Helper()
	text, ok := s.Stats()[name]
	if !ok {
		s.t.Fatalf("memcached at %s has no statistic %q", s.addr, name)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		s.t.Fatalf("memcached at %s: statistic %q is %q, not a number", s.addr, name, text)
	}
	return n
}

// Get returns the value that the server holds for key. It uses a new connection.
func (s *Server) Get(key string) (value string, ok bool) {
	s.t.Helper()
	c := s.mustConnect()
	defer c.Close()
	items, err := ParseValues(c.MustDo(s.t, "get "+key+"\r\n"))
	if err != nil {
		s.t.Fatalf("memcached at %s, get %s: %v", s.addr, key, err)
	}
	if len(items) == 0 {
		return "", false
	}
	return items[0].Value, true
}

// connect returns a new connection to the server, authenticated if necessary.
func (s *Server) connect() (*Client, error) {
	c, err := Dial(s.addr)
	if err != nil {
		return nil, err
	}
	if s.tls != nil {
		c = NewClient(tls.Client(c.Conn, s.tls))
	}
	if s.auth == "" {
		return c, nil
	}
	file, err := os.ReadFile(s.auth)
	if err == nil {
		user, password, _ := strings.Cut(strings.SplitN(string(file), "\n", 2)[0], ":")
		err = c.Authenticate(user, password)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (s *Server) mustConnect() *Client {
	s.t.Helper()
	c, err := s.connect()
	if err != nil {
		s.t.Fatalf("connecting to memcached at %s: %v", s.addr, err)
	}
	return c
}

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatalf("memcached %d: %v: %v", s.Pid(), sig, err)
	}
}

// stopped reports whether every thread of the process is suspended: the signal reaches them one by one.
func (s *Server) stopped() bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.Pid()))
	if err != nil || len(threads) == 0 {
		return false
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil {
			return false
		}
		// The state follows the name, which is in parentheses and may contain anything.
		if _, state, ok := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')'):]), " "); !ok || state[0] != 'T' {
			return false
		}
	}
	return true
}

// Start starts a stopped server again, empty, at the same address, and waits until it answers.
func (s *Server) Start() {
	s.t.Helper()
	if s.cmd != nil {
		s.t.Fatalf("memcached at %s is already running", s.addr)
	}
	binary, err := exec.LookPath(s.name)
	if err != nil {
		s.t.Fatalf("this test needs memcached (%v); on Debian install it with: apt-get install memcached", err)
	}
	args := []string{"-U", "0"}
	if os.Geteuid() == 0 {
		args = append(args, "-u", "root")
	}
	if host, port, err := net.SplitHostPort(s.addr); s.unix == "" && err == nil {
		args = append(args, "-p", port)
		if !slices.Contains(s.args, "-l") {
			args = append(args, "-l", host)
		}
	}
	s.log = &Output{Limit: maxLog}
	s.cmd = exec.Command(binary, append(args, s.args...)...)
	s.cmd.Stderr = s.log
	// A test binary that is killed does not clean up, and its servers must not outlive it.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatalf("memcached: %v", err)
	}
	done := make(chan error, 1)
	s.done = done
	go func(cmd *exec.Cmd) { done <- cmd.Wait() }(s.cmd)

	deadline := time.Now().Add(Patience)
	for {
		err := s.answers()
		if err == nil {
			return
		}
		select {
		case exit := <-s.done:
			s.cmd = nil
			s.t.Fatalf("memcached %s ended at start: %v\n%s", strings.Join(s.args, " "), exit, s.log)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("memcached %s did not answer within %v: %v\n%s", strings.Join(s.args, " "), Patience, err, s.log)
		}
	}
}

// answers requests the version of a starting server.
func (s *Server) answers() error {
	c, err := s.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	reply, err := c.Do("version\r\n")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(reply, "VERSION ") {
		return errors.New("its reply to version is " + strconv.Quote(reply))
	}
	return nil
}

// maxLog is the size of the beginning of a process's stderr that is kept, bytes: with "verbosity 2" memcached writes
// endlessly.
const maxLog = 64 << 10
