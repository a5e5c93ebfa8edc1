package behaviour_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
	"mcmw/internal/stats"
)

// toolTimeout bounds the run of a client program.
const toolTimeout = 5 * time.Minute

// runTool runs a client program until it ends and returns its output.
func runTool(t *testing.T, name string, args ...string) (stdout, all string, err error) {
	t.Helper()
	path, err := exec.LookPath(name)
	require.NoError(t, err, "this test needs %s; install it, on Debian: apt-get install libmemcached-tools", name)
	ctx, cancel := context.WithTimeout(context.Background(), toolTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = t.TempDir()
	var out, errors bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errors
	err = cmd.Run()
	return out.String(), out.String() + errors.String(), err
}

// mustRunTool is runTool for a program that must succeed.
func mustRunTool(t *testing.T, name string, args ...string) (stdout string) {
	t.Helper()
	stdout, all, err := runTool(t, name, args...)
	require.NoError(t, err, "%s %s\n%s", name, strings.Join(args, " "), all)
	return stdout
}

// memccapable is older than memcached 1.6.40, which answers a malformed delete with another text and reads "delete
// noreply" as a key without a reply. memcached 1.6.45 fails the same two tests.
func TestMemccapablePassesAllTextProtocolTestsThatTheNewestMemcachedPasses(t *testing.T) {
	failing := regexp.MustCompile(`ascii delete +ascii delete noreply +ascii incr +\[pass\]`)
	for _, p := range topologies[:3] {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			m, _ := p.start(t)
			host, port, err := net.SplitHostPort(m.Addr())
			require.NoError(t, err)
			out, all, _ := runTool(t, "memccapable", "-h", host, "-p", port, "-a", "-t", "30")
			require.Regexp(t, failing, out)
			require.Equal(t, 2, strings.Count(all, "FAIL"), "%s", all)
			// memccapable succeeds even if it could test nothing.
			require.GreaterOrEqual(t, strings.Count(out, "[pass]"), 25, "%s", all)
		})
	}
}

func TestGomemcacheWorks(t *testing.T) {
	for _, p := range topologies {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			m, _ := p.start(t)
			c := memcache.New(m.Addr())
			c.Timeout = mctest.Patience
			defer c.Close()
			require.NoError(t, c.Ping())
			checkGomemcache(t, c)
		})
	}
}

func checkGomemcache(t *testing.T, c *memcache.Client) {
	t.Helper()
	require.NoError(t, c.Set(&memcache.Item{Key: "k", Value: []byte("v"), Flags: 42}))
	it, err := c.Get("k")
	require.NoError(t, err)
	require.Equal(t, "v", string(it.Value))
	require.EqualValues(t, 42, it.Flags)
	_, err = c.Get("absent")
	require.ErrorIs(t, err, memcache.ErrCacheMiss)
	require.ErrorIs(t, c.Add(&memcache.Item{Key: "k", Value: []byte("w")}), memcache.ErrNotStored)
	require.NoError(t, c.Add(&memcache.Item{Key: "added", Value: []byte("w")}))
	require.NoError(t, c.Replace(&memcache.Item{Key: "k", Value: []byte("b")}))
	require.ErrorIs(t, c.Replace(&memcache.Item{Key: "absent", Value: []byte("b")}), memcache.ErrNotStored)
	require.NoError(t, c.Append(&memcache.Item{Key: "k", Value: []byte("c")}))
	require.NoError(t, c.Prepend(&memcache.Item{Key: "k", Value: []byte("a")}))

	it, err = c.Get("k")
	require.NoError(t, err)
	require.Equal(t, "abc", string(it.Value))
	it.Value = []byte("swapped")
	require.NoError(t, c.CompareAndSwap(it))
	require.ErrorIs(t, c.CompareAndSwap(it), memcache.ErrCASConflict)
	stale := &memcache.Item{Key: "absent", Value: []byte("x")}
	require.Error(t, c.CompareAndSwap(stale))

	require.NoError(t, c.Set(&memcache.Item{Key: "n", Value: []byte("41")}))
	n, err := c.Increment("n", 1)
	require.NoError(t, err)
	require.EqualValues(t, 42, n)
	n, err = c.Decrement("n", 100)
	require.NoError(t, err)
	require.EqualValues(t, 0, n)
	_, err = c.Increment("k", 1)
	require.ErrorContains(t, err, "non-numeric")

	require.NoError(t, c.Touch("k", 1000))
	require.ErrorIs(t, c.Touch("absent", 1000), memcache.ErrCacheMiss)
	it, err = c.GetAndTouch("k", 1000)
	require.NoError(t, err)
	require.Equal(t, "swapped", string(it.Value))

	large := bytes.Repeat([]byte("L\r\n\x00"), 250_000)
	require.NoError(t, c.Set(&memcache.Item{Key: "large", Value: large}))
	it, err = c.Get("large")
	require.NoError(t, err)
	require.True(t, bytes.Equal(large, it.Value))

	checkMultiGet(t, c)

	require.NoError(t, c.Delete("k"))
	require.ErrorIs(t, c.Delete("k"), memcache.ErrCacheMiss)
	require.NoError(t, c.FlushAll())
	_, err = c.Get("large")
	require.ErrorIs(t, err, memcache.ErrCacheMiss)
}

// checkMultiGet reads 1,000 keys at once, a third of them missing.
func checkMultiGet(t *testing.T, c *memcache.Client) {
	t.Helper()
	want := map[string]string{}
	var keys []string
	for i := range 1000 {
		key := fmt.Sprintf("multi-%d", i)
		keys = append(keys, key)
		if i%3 == 2 {
			continue
		}
		want[key] = strings.Repeat(key+";", i%50+1)
		require.NoError(t, c.Set(&memcache.Item{Key: key, Value: []byte(want[key])}))
	}
	items, err := c.GetMulti(keys)
	require.NoError(t, err)
	require.Len(t, items, len(want))
	for key, value := range want {
		require.Contains(t, items, key)
		require.Equal(t, value, string(items[key].Value))
	}
}

// pythonWithPymemcache returns an interpreter that has pymemcache: MCMW_PYTHON, or python3.
func pythonWithPymemcache(t *testing.T) string {
	t.Helper()
	python := os.Getenv("MCMW_PYTHON")
	if python == "" {
		python = "python3"
	}
	out, err := exec.Command(python, "-c", "import pymemcache").CombinedOutput()
	if err == nil {
		return python
	}
	advice := fmt.Sprintf("%s cannot import pymemcache (%v: %s); make a virtual environment with it (python3 -m venv "+
		"DIR && DIR/bin/pip install pymemcache) "+
		"and name its interpreter in MCMW_PYTHON", python, err, bytes.TrimSpace(out))
	if !mctest.Long() {
		t.Skip(advice)
	}
	t.Fatal(advice)
	return ""
}

func TestPymemcacheWorks(t *testing.T) {
	python := pythonWithPymemcache(t)
	script, err := filepath.Abs("testdata/pymemcache_client.py")
	require.NoError(t, err)
	for _, p := range topologies {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			m, _ := p.start(t)
			host, port, err := net.SplitHostPort(m.Addr())
			require.NoError(t, err)
			require.Equal(t, "ok\n", mustRunTool(t, python, script, host, port))
		})
	}
}

func TestLibmemcachedToolsWork(t *testing.T) {
	for _, p := range topologies {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			m, servers := p.start(t)
			dir := t.TempDir()
			var files []string
			contents := map[string][]byte{}
			rng := rand.New(rand.NewPCG(1, 1))
			for i, size := range []int{1, 100, 5000, 200_000, 1_000_000} {
				name := fmt.Sprintf("file-%d", i)
				data := make([]byte, size)
				for j := range data {
					data[j] = byte(rng.Uint32())
				}
				contents[name] = data
				path := filepath.Join(dir, name)
				require.NoError(t, os.WriteFile(path, data, 0o600))
				files = append(files, path)
			}
			server := "--servers=" + m.Addr()
			mustRunTool(t, "memccp", append([]string{server, "--set"}, files...)...)
			for name, data := range contents {
				// memccat adds a line end to its output.
				require.Equal(t, string(data)+"\n", mustRunTool(t, "memccat", server, name), name)
				mustRunTool(t, "memcexist", server, name)
			}
			_, _, err := runTool(t, "memccat", server, "absent")
			require.Error(t, err)
			mustRunTool(t, "memctouch", server, "--expire=1000", "file-1")
			mustRunTool(t, "memcrm", server, "file-1")
			_, _, err = runTool(t, "memcexist", server, "file-1")
			require.Error(t, err)

			const loads = 250
			before := 0
			for _, s := range servers {
				before += int(s.Stat("cmd_set"))
			}
			for _, test := range []string{"set", "get", "mget"} {
				_, out, err := runTool(t, "memcslap", server, "--concurrency=4", "--initial-load=500",
					fmt.Sprintf("--execute-number=%d", loads), "--test="+test)
				require.NoError(t, err, "%s", out)
				require.NotRegexp(t, `(?i)fail|error`, out)
			}
			after := 0
			for _, s := range servers {
				after += int(s.Stat("cmd_set"))
			}
			require.GreaterOrEqual(t, after-before, loads, "memcslap's sets arrived at the servers")
			mustRunTool(t, "memcflush", server)
			_, _, err = runTool(t, "memccat", server, "file-0")
			require.Error(t, err)
		})
	}
}

// reconnects is the number of times that a connection is closed while a client counts.
const reconnects = 40

func TestGomemcacheReconnectsAndLosesNoCountWhileConnectionsAreClosedForTheirAge(t *testing.T) {
	m := mwtest.Start(t, middleware.Options{
		Servers:       mwtest.Servers(mctest.StartMemcacheds(t, 2)...),
		ClientOptions: netstage.ClientOptions{MaxAge: 100 * time.Millisecond},
	})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			c := memcache.New(m.Addr())
			c.Timeout = mctest.Patience
			defer c.Close()
			key := fmt.Sprintf("n%d", i)
			// The client repeats it until it is answered: if a connection ends between two replies, the next request
			// was not executed.
			again := func(do func() error) error {
				for {
					if err := do(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.EPIPE) {
						return err
					}
				}
			}
			err := again(func() error { return c.Set(&memcache.Item{Key: key, Value: []byte("0")}) })
			for want := uint64(1); err == nil && m.Stats().Snapshot().Closed[stats.CloseAge] < reconnects; want++ {
				var got uint64
				err = again(func() (err error) { got, err = c.Increment(key, 1); return err })
				if err == nil && got != want {
					err = fmt.Errorf("received %d, expected %d", got, want)
				}
			}
			assert.NoError(t, err, key)
		})
	}
	wg.Wait()
}

func TestPymemcacheReconnectsAndLosesNoCountWhileConnectionsAreClosedForTheirAge(t *testing.T) {
	python := pythonWithPymemcache(t)
	script, err := filepath.Abs("testdata/pymemcache_again.py")
	require.NoError(t, err)
	m := mwtest.Start(t, middleware.Options{
		Servers:       mwtest.Servers(mctest.StartMemcacheds(t, 2)...),
		ClientOptions: netstage.ClientOptions{MaxAge: 100 * time.Millisecond},
	})
	host, port, err := net.SplitHostPort(m.Addr())
	require.NoError(t, err)
	require.Equal(t, "ok\n", mustRunTool(t, python, script, host, port))
	require.GreaterOrEqual(t, m.Stats().Snapshot().Closed[stats.CloseAge], uint64(5))
}
