package testbed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"mcmw/internal/mctest"
	"mcmw/lab/experiment"
)

func TestALogKeepsWholeLinesAndTheEndOfTheLastWindow(t *testing.T) {
	s := NewLog()
	line := func(until int) string { return fmt.Sprintf(`{"type":"window","until":%d}`+"\n", until) }
	write := func(text string) {
		n, err := s.Write([]byte(text))
		require.NoError(t, err)
		require.Equal(t, len(text), n)
	}
	write(line(1000)[:10])
	assert.Empty(t, s.text())
	write(line(1000)[10:] + line(2000)[:3])
	assert.Equal(t, line(1000), string(s.text()))
	reached := make(chan struct{}) // closed when the log has a window that ends at 2000
	go func() {
		defer close(reached)
		s.await(context.Background(), time.UnixMilli(2000))
	}()
	write(line(2000)[3:])
	<-reached
	write(line(3000))
	s.restart()
	assert.Equal(t, line(1000), string(s.text()), "the first line has the middleware's settings")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.await(ctx, time.UnixMilli(1<<50))
}

func TestLoadContinuesAfterItsRecordingSoThatTheLastWindowIsFull(t *testing.T) {
	for name, tc := range map[string]struct {
		setting, value string
		want           []string
	}{
		"a process alone":        {experiment.LoadProcesses, "1", []string{"--cool-down", "500ms"}},
		"several":                {experiment.LoadProcesses, "3", []string{"--cool-down", "500ms"}},
		"an open loop":           {experiment.Rate, "100", nil},
		"another load generator": {experiment.LoadFlags, "--driver memtier", nil},
		"another in one word":    {experiment.LoadFlags, "--driver=memtier", nil},
	} {
		t.Run(name, func(t *testing.T) {
			v := experiment.Values{experiment.Rate: experiment.Find(experiment.Rate).Default}
			v[tc.setting] = tc.value
			assert.Equal(t, tc.want, overlapArgs(v))
		})
	}
}

func TestAProgramMayUseTheProcessorsOfItsRole(t *testing.T) {
	var before, after unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &before))
	var out bytes.Buffer
	p, err := Here().Start(context.Background(),
		Program{Name: "nproc", Path: "nproc", CPUs: []int{0}, Stdout: &out})
	require.NoError(t, err)
	require.NoError(t, awaitEnd(context.Background(), p))
	assert.Equal(t, "1\n", out.String())
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(t, unix.SchedGetaffinity(0, &after))
	assert.Equal(t, before, after)

	_, err = Here().Start(context.Background(), Program{Name: "nproc", Path: "nproc", CPUs: []int{1000}})
	assert.ErrorContains(t, err, "processors [1000]: invalid argument; there are ")
}

func TestTheProgramsOfARoleTakeTurnsOnItsHosts(t *testing.T) {
	a, b := new(struct{ Host }), new(struct{ Host })
	hosts := Hosts{Of: map[Role][]Host{Server: {a, b}, Load: {b}}}
	assert.Same(t, a, hosts.host(Server, 0))
	assert.Same(t, b, hosts.host(Server, 7))
	assert.Same(t, b, hosts.host(Load, 7))
}

func TestTheErrorSaysHowAProgramEnded(t *testing.T) {
	start := func(script string) Process {
		p, err := local{}.Start(context.Background(), Program{Name: "script", Path: "sh", Args: []string{"-c", script}})
		require.NoError(t, err)
		return p
	}
	require.NoError(t, awaitEnd(context.Background(), start("exit 0")))
	require.EqualError(t, awaitEnd(context.Background(), start("echo reason >&2; exit 3")),
		"script ended on its own: exit status 3; its last output:\nreason")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	p := start("exec sleep 1000") // replaces the shell, which would leave it behind
	require.EqualError(t, awaitEnd(ctx, p), "enough")
	<-p.Done()
}

func TestProgramsGetTheArgumentsOfThePoint(t *testing.T) {
	v := defaults()
	v[experiment.ServerFlags], v[experiment.Workers], v[experiment.Sharded] = "-o modern", "9", "true"
	v[experiment.ThinkTime], v[experiment.Rate], v[experiment.Pipeline], v[experiment.KeyPattern] = "5ms", "3000",
		"4", "Z:Z"
	assert.Contains(t, strings.Join(memcachedArgs(v, "10.0.0.1", 7), " "),
		"-l 10.0.0.1 -p 7 -U 0 -c 4122 -u root -t 1 -m 256 -o modern")
	v[experiment.GroupSize] = "320"
	assert.Contains(t, strings.Join(memcachedArgs(v, "10.0.0.1", 7), " "), "-R 320 -o modern")
	v[experiment.ServerFlags] = "--hz 100"
	redis := strings.Join(redisArgs(v, "10.0.0.1", 7, nowhere), " ")
	assert.Contains(t, redis, "--bind 10.0.0.1 --port 7 ")
	assert.Contains(t, redis, "--dir /proc ")
	assert.Contains(t, redis,
		"--io-threads 1 --maxclients 4122 --maxmemory 256mb --maxmemory-policy allkeys-lru --save  --appendonly no "+
			"--hz 100")
	assert.Equal(t, []string{"load", "--quiet", "--json-out-file", "-", "--target", "a:1"},
		loadArgs(v, []string{"a:1"})[:6])
	for persistence, want := range map[string]string{
		"snapshot": "--save 1 1 --appendonly no", "append": "--appendonly yes --appendfsync everysec",
		"append-always": "--appendonly yes --appendfsync always",
	} {
		v[experiment.ServerPersistence] = persistence
		assert.Contains(t, strings.Join(redisArgs(v, "10.0.0.1", 7, "/tmp/x"), " "), want)
	}
	v[experiment.Server] = experiment.Redis
	assert.Contains(t, strings.Join(loadArgs(v, []string{"a:1"}), " "), "--protocol redis --target a:1")
	d := &deployment{servers: []Member{{Address: "a:1"}, {Address: "b:2"}}}
	mcmw := strings.Join(d.mcmwArgs(v, "c", 3, "off"), " ")
	assert.Contains(t, mcmw, "--listen c:3 --servers s1=a:1,s2=b:2 --admin off")
	assert.Contains(t, mcmw,
		"--workers 9 --depth 1 --replicas all --sharded=true --pool shared --stats-file /dev/stdout --stats-window "+
			"200ms")
	assert.NotContains(t, mcmw, "--hot-keys")
	v[experiment.Workers], v[experiment.Statistics], v[experiment.HotKeys] = experiment.AsDefault, "false", "serve"
	mcmw = strings.Join(d.mcmwArgs(v, "c", 3, "off"), " ")
	assert.NotContains(t, mcmw, "--workers")
	assert.Contains(t, mcmw, "--hot-keys serve")
	assert.NotContains(t, mcmw, "--stats-file")
	assert.Contains(t, d.twemproxyConfig("c", 3), "listen: c:3\n")
	assert.Contains(t, d.twemproxyConfig("c", 3), "    - a:1:1\n    - b:2:1\n")
	assert.Equal(t, []string{"a:1", "b:2"}, d.targets(), "without middlewares the load goes to the servers")
	assert.Equal(t, "--pipeline 4 --ratio 1:9 --multi-key-get 1 --key-pattern Z:Z --think-time 5ms --rate 1500",
		strings.Join(measuredArgs(v, 2), " "))
	v[experiment.LoadFlags] = "--arrivals=poisson"
	assert.Contains(t, strings.Join(populateArgs(v, []string{"a:1"}), " "),
		"--arrivals=poisson --clients 1 --populate --ratio 0:1 --requests 1 --rate 3000", "which a closed loop refuses")
}

// defaults returns the settings at their defaults.
func defaults() experiment.Values {
	v := experiment.Values{}
	for _, s := range experiment.Settings {
		v[s.Name] = s.Default
	}
	return v
}

func TestDelayedServersAreReachedThroughTheirRelays(t *testing.T) {
	v := defaults()
	d := &deployment{servers: []Member{{Address: "a:1"}}}
	require.NoError(t, d.startRelays(context.Background(), v.Duration(experiment.ServerDelay)))
	assert.Empty(t, d.relays, "without a delay there is none")
	d.t = OnHosts(Local(), Programs{Mcmwlab: "echo"}, nil).(*onHosts)
	v[experiment.ServerDelay] = "5ms"
	require.NoError(t, d.startRelays(context.Background(), v.Duration(experiment.ServerDelay)))
	defer d.Stop()
	require.Len(t, d.relays, 1)
	assert.Equal(t, d.relays[0].Address, d.servers[0].Address)
	assert.Equal(t, "relay:s1", d.relays[0].Name)
	d.servers = nil // it has no process
}

func TestAProgramThatCannotBeStartedIsNamed(t *testing.T) {
	bed := OnHosts(Local(), Programs{Memcached: "/nowhere/memcached", Mcmw: "true", Mcmwlab: "true"}, nil)
	_, err := bed.Describe(context.Background())
	require.ErrorContains(t, err, "reading the version of memcached: ")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, bed.Close())
}

func TestMemcachedsProxyHoldsOneCopyOrAll(t *testing.T) {
	for replicated, copies := range map[bool]int{false: 1, true: 3} {
		servers := mctest.StartNewMemcacheds(t, 3)
		d := new(deployment)
		for _, s := range servers {
			d.servers = append(d.servers, Member{Address: s.Addr()})
		}
		config := filepath.Join(t.TempDir(), "proxy.lua")
		require.NoError(t, os.WriteFile(config, []byte(d.proxyConfig(replicated)), 0o600))
		proxy := mctest.StartNewMemcached(t, "-o", "proxy_config="+config)
		c := mctest.MustDial(t, proxy.Addr())
		require.Equal(t, "STORED\r\n", c.MustDo(t, "set key 0 0 5\r\nvalue\r\n"))
		holding, asked := 0, 0
		for _, s := range servers {
			if _, found := s.Get("key"); found {
				holding++
			}
		}
		for range 3 {
			require.Equal(t, "VALUE key 0 5\r\nvalue\r\nEND\r\n", c.MustDo(t, "get key\r\n"))
		}
		for _, s := range servers {
			if s.Stat("get_hits") > 1 {
				asked++
			}
		}
		assert.Equal(t, copies, holding)
		assert.Equal(t, copies, asked)
		c.Close()
	}
}
