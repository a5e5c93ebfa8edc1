package behaviour_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
)

// optionsOfChild is the environment variable with options in JSON. The test binary started with it runs a middleware
// with these options.
const optionsOfChild = "MCMW_TEST_OPTIONS"

func TestMain(m *testing.M) {
	if options := os.Getenv(optionsOfChild); options != "" {
		if err := serveForParent(options); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// reload is a line of JSON on the stdin of a child: new options.
type reload struct {
	Options middleware.Options
	// OnlyCheck: they are not applied.
	OnlyCheck bool
}

// serveForParent runs a middleware, prints its addresses, applies the options on stdin, and ends when the parent closes
// stdin.
func serveForParent(options string) error {
	var o middleware.Options
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		return err
	}
	o.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	m, err := middleware.New(o)
	if err != nil {
		return err
	}
	if err := m.Listen(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-m.Ready()
		for _, addr := range m.Addrs() {
			fmt.Printf("%s ", addr)
		}
		fmt.Println()
		decoder := json.NewDecoder(os.Stdin)
		for r := new(reload); decoder.Decode(r) == nil; r = new(reload) {
			do := m.Apply
			if r.OnlyCheck {
				do = m.Check
			}
			fmt.Printf("%q\n", fmt.Sprint(do(ctx, r.Options)))
		}
		cancel()
	}()
	go middleware.GiveBackMemory(ctx)
	return m.Run(ctx)
}

// child is a middleware in a separate process, whose memory and files are separate from the test's.
type child struct {
	addrs []string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   *bufio.Reader
	log   *mctest.Output

	listen []string // as in its options
}

// workersOfChild is the default number of workers of a child, so that its use of memory is the same on all machines.
const workersOfChild = 2

// startChild starts a middleware; without o.Listen it listens on one address. JSON must be able to encode the options.
func startChild(t *testing.T, o middleware.Options) *child {
	t.Helper()
	return startChildBy(t, exec.Command(os.Args[0]), o)
}

// startChildBy is startChild with a command that executes this program in the end.
func startChildBy(t *testing.T, cmd *exec.Cmd, o middleware.Options) *child {
	t.Helper()
	if len(o.Listen) == 0 {
		o.Listen = []string{"127.0.0.1:0"}
	}
	options, err := json.Marshal(forChild(o))
	require.NoError(t, err)
	c := &child{cmd: cmd, log: new(mctest.Output), listen: o.Listen}
	// On a busy machine a concurrent garbage collection waits for a processor, and what the process allocates meanwhile
	// counts as memory in use. A collection that stops the program avoids this, so that the maximum is the memory that
	// the middleware holds.
	c.cmd.Env = append(os.Environ(), optionsOfChild+"="+string(options), "GODEBUG=gcstoptheworld=1")
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := c.cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	c.stdin, c.out = stdin, bufio.NewReader(stdout)
	c.cmd.Stderr = c.log
	require.NoError(t, c.cmd.Start())
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
		assert.False(t, strings.Contains(c.log.String(), "WARNING: DATA RACE"), "its log reports a race")
		if t.Failed() {
			t.Logf("the child's log:\n%s", c.log.String())
		}
	})
	// its log then has the stacks of its goroutines
	hangs := time.AfterFunc(mctest.Patience, func() { _ = c.cmd.Process.Signal(syscall.SIGQUIT) })
	line, err := c.out.ReadString('\n')
	hangs.Stop()
	require.NoError(t, err)
	c.addrs = strings.Fields(line)
	require.Len(t, c.addrs, len(o.Listen), "the child said %q", line)
	return c
}

// forChild returns o with the defaults of a child.
func forChild(o middleware.Options) middleware.Options {
	// A busy machine must not look like a failing server.
	o.Timeout, o.StallAfter = cmp.Or(o.Timeout, time.Minute), cmp.Or(o.StallAfter, -1)
	o.Workers = cmp.Or(o.Workers, workersOfChild)
	return o
}

// apply applies new options, or with onlyCheck only asks whether they can be applied now, and returns why not; "": they
// can.
func (c *child) apply(t *testing.T, o middleware.Options, onlyCheck bool) (why string) {
	t.Helper()
	o.Listen = c.listen
	assert.NoError(t, json.NewEncoder(c.stdin).Encode(reload{forChild(o), onlyCheck}))
	line, err := c.out.ReadString('\n')
	assert.NoError(t, err)
	why, err = strconv.Unquote(strings.TrimSpace(line))
	assert.NoError(t, err)
	if why == fmt.Sprint(error(nil)) {
		return ""
	}
	return why
}

// stop ends the middleware as a signal would, and waits for its process.
func (c *child) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, c.stdin.Close())
	rest, err := io.ReadAll(c.out)
	require.NoError(t, err)
	require.NoError(t, c.cmd.Wait(), "%s", rest)
}

// memory returns the current memory of the process, bytes.
func (c *child) memory(t *testing.T) int64 {
	t.Helper()
	return processMemory(t, c.cmd.Process.Pid, "VmRSS")
}

// mostMemory returns the maximum memory of the process so far, bytes.
func (c *child) mostMemory(t *testing.T) int64 {
	t.Helper()
	return processMemory(t, c.cmd.Process.Pid, "VmHWM")
}

// processMemory returns a figure of a process's memory, bytes.
func processMemory(t *testing.T, pid int, name string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			require.NoError(t, err)
			return kib << 10
		}
	}
	t.Fatalf("/proc/%d/status says nothing about %s", pid, name)
	return 0
}

// files returns the number of open files of the process.
func (c *child) files(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.cmd.Process.Pid))
	require.NoError(t, err)
	return len(entries)
}

// stat returns a statistic from the middleware's answer to stats.
func stat(t *testing.T, c *mctest.Client, name string) int {
	t.Helper()
	_, after, ok := strings.Cut(c.MustDo(t, "stats\r\n"), "STAT "+name+" ")
	require.True(t, ok, "no statistic %s", name)
	n, err := strconv.Atoi(after[:strings.Index(after, "\r\n")])
	require.NoError(t, err)
	return n
}

// awaitStat waits until a statistic has a value.
func awaitStat(t *testing.T, c *mctest.Client, name string, want int) {
	t.Helper()
	require.Eventually(t, func() bool { return stat(t, c, name) == want }, mctest.Patience, 10*time.Millisecond,
		"%s is never %d", name, want)
}

// allowedFiles raises the limit on open files of this process and its children to want, or as far as the machine
// allows, and returns it.
func allowedFiles(t *testing.T, want int) int {
	t.Helper()
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	if limit.Cur < uint64(want) {
		raised := unix.Rlimit{Cur: uint64(want), Max: max(uint64(want), limit.Max)}
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &raised) != nil { // only root can raise the hard limit
			raised = unix.Rlimit{Cur: limit.Max, Max: limit.Max}
			require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &raised))
		}
		limit = raised
	}
	return int(min(limit.Cur, uint64(want)))
}

// dialFrom connects to addr. Every few thousand connections it uses another loopback address as the source, because one
// has not enough ports.
func dialFrom(addr string, i int) (*mctest.Client, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i/5000))}, Timeout: mctest.Patience}
	c, err := d.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return mctest.NewClient(c), nil
}

// topology is a number of servers with a number of replicas.
type topology struct {
	name     string
	servers  int
	replicas int // 0: all
	sharded  bool
}

// topologies are the topologies with which clients must work.
var topologies = []topology{
	{"one server", 1, 0, false},
	{"three servers, replicas all", 3, 0, false},
	{"three servers, replicas all, sharded", 3, 0, true},
	{"three servers, replicas 1", 3, 1, false},
	{"three servers, replicas 1, sharded", 3, 1, true},
	{"three servers, replicas 2", 3, 2, true},
}

// options starts the topology's servers, and returns o with them.
func (p topology) options(t testing.TB, o middleware.Options) (middleware.Options, []*mctest.Server) {
	t.Helper()
	servers := mctest.StartMemcacheds(t, p.servers)
	o.Servers = mwtest.Servers(servers...)
	o.Placement.Replicas = p.replicas
	o.Sharded = p.sharded
	return o, servers
}

// start runs a middleware in front of new servers.
func (p topology) start(t testing.TB) (*mwtest.MW, []*mctest.Server) {
	t.Helper()
	o, servers := p.options(t, middleware.Options{Workers: 4})
	return mwtest.Start(t, o), servers
}
