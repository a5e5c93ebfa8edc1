package instructions

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/version"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// most is the greatest accepted ratio to the stored value.
const most = 1.02

// keys is the number of keys, all of which are stored before a load begins.
const keys = 1000

// load is SET:GET 1:9 of 64 bytes. Each connection sends its next request when it has the last reply.
type load struct {
	Name        string
	Connections int
	Few, Many   int  // requests of a connection in the two runs that are compared
	OwnOnly     bool // all is not judged
	Flags       []string
}

var loads = []load{
	{Name: "mixed-64", Connections: 64, Few: 80, Many: 640, Flags: []string{"--replicas=1"}},
	{Name: "mixed-1", Connections: 1, Few: 4000, Many: 24_000, OwnOnly: true, Flags: []string{"--replicas=1"}},
	// Nothing but requests makes the servers' copies equal here.
	{
		Name: "replicated", Connections: 64, Few: 80, Many: 640,
		Flags: []string{"--replicas=all", "--writers=several", "--sweep-every=0s", "--refill-rate=0"},
	},
}

// cost is in instructions: in all, and in the functions of mcmw.
type cost struct{ All, Own float64 }

func TestARequestTakesNoMoreInstructionsThanStored(t *testing.T) {
	mode := os.Getenv("MCMW_INSTRUCTIONS")
	if mode == "" {
		t.Skip("it needs valgrind and minutes: .ci/test instructions runs it, and sets MCMW_INSTRUCTIONS")
	}
	require.Contains(t, []string{"check", "store"}, mode, "MCMW_INSTRUCTIONS: expected check or store")
	name := fmt.Sprintf("testdata/%s-%s.txt", version.Lang(runtime.Version()), runtime.GOARCH)
	stored := read(t, name)
	binary := mctest.Build(t, "mcmw/cmd/mcmw")
	var table, values bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "load\tall\tstored\tof mcmw\tstored\t")
	for _, l := range loads {
		is, was := l.measure(t, binary), stored[l.Name]
		fmt.Fprintf(w, "%s\t%.0f\t%.0f\t%.0f\t%.0f\t\n", l.Name, is.All, was.All, is.Own, was.Own)
		fmt.Fprintf(&values, "%s %.0f %.0f\n", l.Name, is.All, is.Own)
		if mode == "check" {
			assert.LessOrEqual(t, is.Own, most*was.Own, "%s: mcmw executes more instructions than stored", l.Name)
			assert.True(t, l.OwnOnly || is.All <= most*was.All, "%s: more instructions than stored", l.Name)
		}
	}
	require.NoError(t, w.Flush())
	fmt.Printf("instructions per request\n%s", &table)
	switch {
	case mode == "store":
		require.NoError(t, os.WriteFile(name, values.Bytes(), 0o644))
	case len(stored) < len(loads):
		t.Errorf("%s lacks values: store them with MCMW_INSTRUCTIONS=store .ci/test instructions", name)
	case t.Failed():
		t.Log("find the functions with cg_annotate, or accept them: MCMW_INSTRUCTIONS=store .ci/test instructions")
	}
}

// read returns the stored cost of each load, nothing if there is no file.
func read(t *testing.T, name string) map[string]cost {
	stored := map[string]cost{}
	text, err := os.ReadFile(name)
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	for line := range strings.Lines(string(text)) {
		var load string
		var c cost
		_, err := fmt.Sscan(line, &load, &c.All, &c.Own)
		require.NoError(t, err, "%s: %q", name, line)
		stored[load] = c
	}
	return stored
}

// measure returns the cost of a request.
func (l load) measure(t *testing.T, binary string) cost {
	var all, own []float64
	for range 3 {
		many, age := l.run(t, binary, l.Many, 0)
		few, _ := l.run(t, binary, l.Few, age)
		requests := float64(l.Connections * (l.Many - l.Few))
		all, own = append(all, (many.All-few.All)/requests), append(own, (many.Own-few.Own)/requests)
	}
	slices.Sort(all)
	slices.Sort(own)
	return cost{all[1], own[1]}
}

// run returns the cost of a process that serves n requests of each connection and idles until the first of them is age
// old. It also returns the time that the requests took.
func (l load) run(t *testing.T, binary string, n int, age time.Duration) (cost, time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), mctest.Patience)
	defer cancel()
	listen, counts := mctest.Refusing(t), filepath.Join(t.TempDir(), "counts")
	addrs := make([]string, 3)
	for i, s := range mctest.StartNewMemcacheds(t, len(addrs), "-t", "1") {
		addrs[i] = s.Addr()
		defer s.Stop()
	}
	args := []string{
		"--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=" + counts, binary, "serve", "--procs=1",
		"--admin=off", "--listen=" + listen, "--servers=" + strings.Join(addrs, ","),
		"--timeout=1m", "--stall-after=15s", // on a busy machine no server counts as failed
	}
	cmd := exec.CommandContext(ctx, "valgrind", append(args, l.Flags...)...)
	cmd.Env = append(os.Environ(), "GOGC=100")
	log := &mctest.Output{Limit: 64 << 10}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start(), "install valgrind with .ci/deps instructions")

	var clients []*mctest.Client
	require.Eventually(t, func() bool {
		c, err := mctest.Dial(listen)
		if err == nil {
			clients = append(clients, c)
		}
		return len(clients) == l.Connections
	}, mctest.Patience, mctest.Tick, "%s", log)
	for key := range keys {
		require.Equal(t, "STORED\r\n", clients[0].MustDo(t, set(key)))
	}
	start := time.Now()
	failed := make(chan error, l.Connections) // a value of each connection
	for i, c := range clients {
		go func() { failed <- requests(c, i, n) }()
	}
	for range clients {
		require.NoError(t, <-failed, "%s", log)
	}
	took := time.Since(start)
	<-time.After(age - took)
	for _, c := range clients {
		c.Close()
	}
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait(), "%s", log)
	return sum(t, counts), took
}

// requests sends n requests on a connection, of which every tenth is a set. The seed chooses keys.
func requests(c *mctest.Client, seed, n int) error {
	random := rand.New(rand.NewPCG(1, uint64(seed)))
	for i := range n {
		command, want := fmt.Sprintf("get key-%d\r\n", random.IntN(keys)), "VALUE "
		if (seed+i)%10 == 0 {
			command, want = set(random.IntN(keys)), "STORED\r\n"
		}
		reply, err := c.Do(command)
		if err == nil && !strings.HasPrefix(reply, want) {
			err = fmt.Errorf("%q is the reply to %q", reply, command)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func set(key int) string { return fmt.Sprintf("set key-%d 0 0 64\r\n%064d\r\n", key, key) }

// sum adds up the counts in a file of cachegrind: after the line of a function, a line for each of its lines.
func sum(t *testing.T, name string) (c cost) {
	file, err := os.Open(name)
	require.NoError(t, err)
	defer file.Close()
	own := false
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if function, ok := strings.CutPrefix(lines.Text(), "fn="); ok {
			own = strings.HasPrefix(function, "mcmw/")
			continue
		}
		var line, count float64
		if n, _ := fmt.Sscan(lines.Text(), &line, &count); n != 2 {
			continue
		}
		c.All += count
		if own {
			c.Own += count
		}
	}
	require.NoError(t, lines.Err())
	require.Positive(t, c.Own, "%s has no function of mcmw", name)
	return c
}
