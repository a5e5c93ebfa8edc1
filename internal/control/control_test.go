package control

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"mcmw/internal/config"
	"mcmw/internal/discover"
	"mcmw/internal/mctest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// applied is an Applier that records the options it is given.
type applied struct {
	mu      sync.Mutex // guards the fields below
	options []middleware.Options
	err     error // what Apply returns

	elsewhere []route.Server
}

func (a *applied) Apply(_ context.Context, o middleware.Options) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.options = append(a.options, o)
	}
	return a.err
}

func (a *applied) Check(context.Context, middleware.Options) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

func (*applied) Ready() <-chan struct{} { return nil }

func (a *applied) Elsewhere(context.Context) []route.Server {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.elsewhere
}

// others sets the list to which another middleware is changing.
func (a *applied) others(servers ...route.Server) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.elsewhere = servers
}

func (a *applied) all() []middleware.Options {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.options)
}

func (a *applied) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

// addressBook is a resolver that gives every name the same addresses.
type addressBook struct {
	mu    sync.Mutex // guards the fields below
	addrs []string
	err   error
}

func (b *addressBook) set(err error, addrs ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addrs, b.err = addrs, err
}

func (b *addressBook) LookupNetIP(context.Context, string, string) (addrs []netip.Addr, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.addrs {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	return addrs, b.err
}

func (*addressBook) LookupSRV(context.Context, string, string, string) (string, []*net.SRV, error) {
	return "", nil, errors.ErrUnsupported
}

// rig is a Control with its surroundings, in a bubble of testing/synctest.
type rig struct {
	*Control
	file   string // the configuration file
	hangup chan os.Signal
	m      applied
	dns    addressBook
	out    mctest.Output
	// inForce is what the servers' records say; unread: no server answers.
	inForce []route.Server
	unread  atomic.Bool
}

// newRig returns a rig whose configuration file contains yaml.
func newRig(t *testing.T, yaml string, args ...string) *rig {
	t.Helper()
	r := &rig{file: filepath.Join(t.TempDir(), "mcmw.yaml"), hangup: make(chan os.Signal, 1)}
	r.write(t, yaml)
	load := func(text []byte) (*config.Config, error) {
		fs := pflag.NewFlagSet("mcmw", pflag.ContinueOnError)
		flags := config.AddFlags(fs)
		require.NoError(t, fs.Parse(append([]string{"--config", r.file}, args...)))
		return config.Load(config.Sources{Flags: flags, Text: text})
	}
	var err error
	inForce := func(context.Context, middleware.Options) ([]route.Server, bool) { return r.inForce, r.unread.Load() }
	r.Control, err = New(Options{
		Load: load, Hangup: r.hangup, InForce: inForce,
		NewLog: func(c *config.Config) (*slog.Logger, *slog.LevelVar) {
			level := new(slog.LevelVar)
			level.Set(c.LogLevel)
			return slog.New(slog.NewJSONHandler(&r.out, &slog.HandlerOptions{Level: level})), level
		},
	})
	require.NoError(t, err)
	r.finder = discover.NewFinder(discover.Options{
		NewResolver: func(string) discover.Resolver { return &r.dns }, Counts: r.Counts, Log: r.Log,
	})
	return r
}

// write replaces the file atomically, as editors and ConfigMaps do.
func (r *rig) write(t *testing.T, text string) {
	t.Helper()
	next := r.file + ".next"
	require.NoError(t, os.WriteFile(next, []byte(text), 0o600))
	require.NoError(t, os.Rename(next, r.file))
}

// run runs the Control until the test's bubble ends.
func (r *rig) run(t *testing.T) {
	t.Helper()
	require.True(t, r.AwaitServers(t.Context()))
	go r.Control.Run(t.Context(), &r.m, nil)
	synctest.Wait()
}

// sighup sends the signal and waits until it has been served.
func (r *rig) sighup() {
	r.hangup <- syscall.SIGHUP
	synctest.Wait()
}

// logged returns the lines of the log since the last call, without their times.
func (r *rig) logged(t *testing.T) (lines []string) {
	t.Helper()
	for line := range strings.Lines(r.out.Take()) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		delete(fields, "time")
		var text strings.Builder
		encoder := json.NewEncoder(&text)
		encoder.SetEscapeHTML(false) // as the log does
		require.NoError(t, encoder.Encode(fields))
		lines = append(lines, strings.TrimSpace(text.String()))
	}
	return lines
}

func (r *rig) reloads() [stats.NumReloadResults]uint64 { return r.Counts.Snapshot().Reloads }

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestSIGHUPAppliesTheChangedFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "servers: [a, b, c=c:1]\ndepth: 1\nwatch-interval: 0s\n", "--queue", "9")
		r.run(t)
		before := r.Counts.Snapshot().Identity
		r.write(t, "servers: [a*2, d, c=c:2]\ndepth: 2\nqueue: 8\nwatch-interval: 0s\n")
		pass(time.Hour)
		require.Empty(t, r.m.all(), "without a signal")

		r.sighup()
		all := r.m.all()
		require.Len(t, all, 1)
		require.Equal(t, 2, all[0].Depth)
		require.Equal(t, 9, all[0].Queue, "a flag overrides the file as at the start")
		require.Equal(t, []route.Server{
			{Name: "a", Addr: "a:11211", Weight: 2},
			{Name: "d", Addr: "d:11211", Weight: 1},
			{Name: "c", Addr: "c:2", Weight: 1},
		}, all[0].Pools[0].Servers)
		require.Same(t, r.Counts, all[0].Control)
		require.Same(t, r.Log, all[0].Log)
		require.Equal(t, []string{
			`{"changes":["servers: a,b,c=c:1 -> a*2,d,c=c:2","depth: 1 -> 2"],"level":"INFO","msg":"the new configuration is applied","why":"SIGHUP"}`,
			`{"added":["d"],"level":"INFO","moved":["c: c:1 -> c:2"],"msg":"the servers have changed","removed":["b"],"reweighted":["a: 1 -> 2"]}`,
		}, r.logged(t))
		require.EqualValues(t, [stats.NumReloadResults]uint64{stats.ReloadApplied: 1}, r.reloads())
		after := r.Counts.Snapshot().Identity
		require.NotEqual(t, before.Options, after.Options)
		require.NotEqual(t, before.Servers, after.Servers)
	})
}

func TestSIGHUPWithoutAChangeIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "servers: [a]\nwatch-interval: 0s\n")
		r.run(t)
		r.sighup()
		require.Empty(t, r.m.all())
		require.Equal(t,
			[]string{`{"level":"INFO","msg":"the configuration was read again and has not changed","why":"SIGHUP"}`},
			r.logged(t))
		require.EqualValues(t, [stats.NumReloadResults]uint64{stats.ReloadUnchanged: 1}, r.reloads())
	})
}

func TestAChangedFileIsReadWhenItIsNotWrittenAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "servers: [a]\n")
		r.run(t)
		pass(time.Minute)
		require.Empty(t, r.logged(t))
		require.Zero(t, r.reloads(), "the file did not change")

		text := "servers: [a]\ndepth: 1\n"
		for range 20 { // somebody is writing
			text += "# and on\n"
			r.write(t, text)
			pass(time.Second)
			require.Empty(t, r.m.all())
		}
		pass(2 * time.Second)
		require.Len(t, r.m.all(), 1)
		require.Equal(t, []string{
			`{"changes":["depth: 128 -> 1"],"level":"INFO","msg":"the new configuration is applied","why":"the file has changed"}`,
		}, r.logged(t))

		r.write(t, text+"# nothing new\n")
		pass(time.Minute)
		require.Len(t, r.m.all(), 1)
		require.Empty(t, r.logged(t))
		require.EqualValues(t, [stats.NumReloadResults]uint64{stats.ReloadApplied: 1}, r.reloads())
	})
}

// A volume of a ConfigMap has the files in a directory with a changing name. "..data" is a link to that directory, and
// each file's name a link to the file by way of "..data".
func TestAConfigMapsSwapIsAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		version := func(name, text string) {
			require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, name, "mcmw.yaml"), []byte(text), 0o600))
			require.NoError(t, os.Symlink(name, filepath.Join(dir, "..data_tmp")))
			require.NoError(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
		}
		version("..1", "servers: [a]\n")
		r := newRig(t, "servers: [x]\n")
		require.NoError(t, os.Remove(r.file))
		require.NoError(t, os.Symlink(filepath.Join(dir, "..data", "mcmw.yaml"), r.file))
		r.run(t)
		pass(time.Minute)
		require.Len(t, r.m.all(), 1)
		version("..2", "servers: [b]\n")
		pass(3 * time.Second)
		require.Len(t, r.m.all(), 2)
		require.Equal(t, "b", r.m.all()[1].Pools[0].Servers[0].Name)
	})
}

func TestAWrongFileIsRefusedWithTheSameTextsAsAtTheStartAndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "servers: [a]\nworkers: 3\n")
		r.run(t)
		before := r.Counts.Snapshot().Identity
		refused := func(problem string) string {
			text, err := json.Marshal(problem)
			require.NoError(t, err)
			return `{"level":"ERROR","msg":"the new configuration is refused; mcmw keeps the current one","problem":` +
				string(text) +
				`,"why":"the file has changed"}`
		}
		for text, problems := range map[string][]string{
			"servers: [a]\ndepth: 0\nwrokers: 2\n": {
				r.file + `:3: unknown key "wrokers"; did you mean "workers"?`,
				r.file + `:2: depth: "0" is too small; accepted: 1 to 4096 requests`,
			},
			"servers: [a, b]\nreplicas: 3\n": {r.file +
				`:2: replicas: "3" is more than there are servers (2); accepted: all, or 1 to 2`},
			"servers: [a]\nprocs: 1\ndepth: 1\n": {
				r.file + `:2: procs: "1" cannot replace "auto" while mcmw runs; accepted: a restart of mcmw`,
			},
		} {
			count := r.reloads()[stats.ReloadRefused]
			r.write(t, text)
			pass(3 * time.Second)
			var want []string
			for _, p := range problems {
				want = append(want, refused(p))
			}
			require.Equal(t, want, r.logged(t))
			require.Equal(t, count+1, r.reloads()[stats.ReloadRefused])
			pass(time.Minute)
			require.Empty(t, r.logged(t), "a problem is logged once")
		}
		require.NoError(t, os.Remove(r.file))
		pass(3 * time.Second)
		require.Equal(t, []string{refused("flag --config: cannot read the file: open " + r.file +
			": no such file or directory")}, r.logged(t))
		require.Empty(t, r.m.all())
		require.Equal(t, before, r.Counts.Snapshot().Identity)

		r.write(t, "servers: [a]\nworkers: 4\n")
		pass(3 * time.Second)
		require.Len(t, r.m.all(), 1)
		require.Equal(t, 4, r.m.all()[0].Workers)
	})
}

func TestOptionsThatTheMiddlewareRefusesAreRefusedAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "servers: [a]\nlog-level: info\n")
		r.run(t)
		r.m.fail(errors.New("not today"))
		r.write(t, "servers: [b]\nlog-level: debug\n")
		r.sighup()
		require.Equal(t, []string{
			`{"level":"ERROR","msg":"the new configuration is refused; mcmw keeps the current one","problem":"not today","why":"SIGHUP"}`,
		}, r.logged(t))
		require.Equal(t, slog.LevelInfo, r.level.Level())

		r.m.fail(nil)
		r.sighup()
		require.Len(t, r.m.all(), 1)
		require.Equal(t, slog.LevelDebug, r.level.Level())
		require.EqualValues(t, [stats.NumReloadResults]uint64{stats.ReloadApplied: 1, stats.ReloadRefused: 1},
			r.reloads())
	})
}

func TestARouteThatTheMiddlewareRefusesIsReportedWithItsLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pools = "pools:\n  a: {servers: [a]}\n  b: {servers: [b]}\nroutes:\n"
		r := newRig(t, pools+"  - {default: a}\n")
		r.run(t)
		r.m.fail(route.WrongRoute(0, "not today"))
		r.write(t, pools+"  - {default: a}\n  - {prefix: x, pool: b}\n")
		r.sighup()
		require.Equal(t, []string{
			`{"level":"ERROR","msg":"the new configuration is refused; mcmw keeps the current one","problem":"` +
				r.file + `:6: routes: not today","why":"SIGHUP"}`,
		}, r.logged(t))
	})
}

func TestOnlyAListThatHasChangedIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "servers: [fixed, \"dns+cache:1\"]\nremove-after: 3\n")
		r.dns.set(nil, "10.0.0.2", "10.0.0.1")
		r.run(t)
		for range 10 { // another order, a failed lookup and an empty answer are no changes
			r.dns.set(nil, "10.0.0.1", "10.0.0.2")
			pass(6 * time.Second)
			r.dns.set(&net.DNSError{Err: "server misbehaving"})
			pass(6 * time.Second)
			r.dns.set(nil)
			pass(6 * time.Second)
			r.dns.set(nil, "10.0.0.2") // a server is missing for a short time
			pass(6 * time.Second)
		}
		require.Empty(t, r.m.all())
		r.dns.set(nil, "10.0.0.1", "10.0.0.2")
		pass(6 * time.Second)
		r.logged(t)

		r.dns.set(nil, "10.0.0.2", "10.0.0.3")
		pass(6 * time.Second)
		pass(30 * time.Second)
		names := func(o middleware.Options) (list []string) {
			for _, s := range o.Pools[0].Servers {
				list = append(list, s.Name)
			}
			return list
		}
		all := r.m.all()
		require.Len(t, all, 2)
		require.Equal(t, []string{"fixed", "10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"}, names(all[0]))
		require.Equal(t, []string{"fixed", "10.0.0.2:1", "10.0.0.3:1"}, names(all[1]))
		require.Equal(t, []string{
			`{"added":["10.0.0.3:1"],"level":"INFO","msg":"the servers have changed"}`,
			`{"level":"INFO","msg":"the servers have changed","removed":["10.0.0.1:1"]}`,
		}, r.logged(t))
		require.EqualValues(t, [stats.NumReloadResults]uint64{stats.ReloadApplied: 2}, r.Counts.Snapshot().Updates)
		require.Zero(t, r.reloads())
	})
}

func TestAWrongListIsLoggedOnceAndTheCurrentOneStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "servers: [\"x=10.0.0.9:1\", \"dns+cache:1\"]\n")
		r.dns.set(nil, "10.0.0.1")
		r.run(t)
		refused := func(problem string) []string {
			text, err := json.Marshal(problem)
			require.NoError(t, err)
			return []string{`{"level":"ERROR","msg":"the servers that were found are refused; mcmw keeps the current ones","problem":` + string(text) + `}`}
		}
		r.dns.set(nil, "10.0.0.1", "10.0.0.9")
		pass(time.Minute)
		require.Equal(t,
			refused(r.file+`:1: servers: "x" and "10.0.0.9:1" both have the address 10.0.0.9:1; accepted: distinct addresses`), r.logged(t))
		require.Empty(t, r.m.all())

		r.m.fail(errors.New("not today"))
		r.dns.set(nil, "10.0.0.1", "10.0.0.2")
		pass(time.Minute)
		require.Equal(t, refused("not today"), r.logged(t))
		require.EqualValues(t, 2, r.Counts.Snapshot().Updates[stats.ReloadRefused])

		r.m.fail(nil)
		pass(6 * time.Second)
		require.Len(t, r.m.all(), 1, "it is tried again")
		r.logged(t)

		r.dns.set(nil, "10.0.0.1", "10.0.0.2", "10.0.0.9")
		pass(6 * time.Second)
		require.Len(t, r.logged(t), 1)
		r.dns.set(nil, "10.0.0.1", "10.0.0.2")
		pass(time.Minute)
		require.Equal(t, []string{`{"level":"INFO","msg":"the servers that are found are again the current ones"}`},
			r.logged(t))
	})
}

func TestAConfigurationThatHasToWaitForAnotherChangeIsAppliedAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "servers: [a, b]\nreplicas: 1\n")
		r.run(t)
		r.m.fail(middleware.NotYet{Why: errors.New("b is leaving")})
		r.write(t, "servers: [a, b]\nreplicas: 2\n")
		r.sighup()
		pass(time.Minute)
		require.Equal(t,
			[]string{`{"level":"WARN","msg":"the new configuration has to wait, and mcmw tries it again; until then it keeps the current one","problem":"b is leaving","why":"SIGHUP"}`}, r.logged(t))
		require.Zero(t, r.reloads()[stats.ReloadRefused])
		r.m.fail(nil)
		pass(2 * time.Second)
		require.Len(t, r.m.all(), 1)
		require.Equal(t,
			[]string{`{"changes":["replicas: 1 -> 2"],"level":"INFO","msg":"the new configuration is applied","why":"it had to wait"}`}, r.logged(t))
		pass(time.Minute)
		require.Len(t, r.m.all(), 1, "it is applied once")
	})
}

func TestSIGHUPLooksUpNamesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "servers: [\"dns+cache:1\"]\nresolve-interval: 1h\n")
		r.dns.set(nil, "10.0.0.1")
		r.run(t)
		r.dns.set(nil, "10.0.0.1", "10.0.0.2")
		pass(time.Minute)
		require.Empty(t, r.m.all())
		r.sighup()
		require.Len(t, r.m.all(), 1)
		require.Equal(t, []string{
			`{"level":"INFO","msg":"the new configuration is applied","why":"SIGHUP"}`,
			`{"added":["10.0.0.2:1"],"level":"INFO","msg":"the servers have changed"}`,
		}, r.logged(t))
	})
}

func TestANewNameThatIsNotFoundIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "servers: [a]\n")
		r.run(t)
		r.dns.set(&net.DNSError{Err: "server misbehaving", Name: "cache"})
		r.write(t, "servers: [a, dns+cache]\n")
		r.sighup()
		require.Equal(t, []string{
			`{"level":"ERROR","msg":"the new configuration is refused; mcmw keeps the current one",` +
				`"problem":"dns+cache:11211: lookup cache: server misbehaving","why":"SIGHUP"}`,
		}, r.logged(t))
		require.Empty(t, r.m.all())
	})
}

func TestTheStartLogsThatItWaitsForNamesAndAcceptsANewConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "servers: [dns+cache]\nreplicas: 2\n")
		found := make(chan bool)
		go func() { found <- r.AwaitServers(t.Context()) }()
		pass(5 * time.Second)
		waiting := r.logged(t)
		require.Len(t, waiting, 3, "every two seconds")
		require.Equal(t,
			`{"error":"dns+cache:11211: no records","level":"INFO","msg":"waiting for the names of servers","waited":0}`, waiting[0])

		r.dns.set(nil, "10.0.0.1")
		pass(2 * time.Second)
		require.Contains(t, r.logged(t)[0], `is more than there are servers (1); accepted: all, or 1 to 1`)

		r.write(t, "servers: [dns+cache]\nreplicas: 1\n")
		require.True(t, <-found)
		require.Equal(t, 1, r.config.Placement.Replicas)
		require.Equal(t, "10.0.0.1:11211", r.servers[0].Name)
		require.Contains(t, r.logged(t),
			`{"changes":["replicas: 2 -> 1"],"level":"INFO","msg":"the new configuration is applied","why":"the file has changed"}`)
	})
}

func TestTheWaitForNamesEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "servers: [dns+cache]\n")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.False(t, r.AwaitServers(ctx))
	})
}

func TestAServerThatAWatchReportsIsUsedWithoutALookup(t *testing.T) {
	t.Parallel()
	a := mctest.StartAPIServer(t)
	a.PutPods("s", "10.0.0.1")
	r := newRig(t, "servers: [k8s+_memcache._tcp.memcached.ns.svc]\nresolve-interval: 1h\nwatch-interval: 0s\n")
	r.finder = discover.NewFinder(discover.Options{
		Cluster: discover.Cluster{URL: a.URL(), Dir: a.Dir}, NewResolver: func(string) discover.Resolver {
			return &r.dns
		}, Counts: r.Counts, Log: r.Log,
	})
	began := make(chan bool, 1)
	go func() { began <- r.AwaitServers(t.Context()) }()
	require.Eventually(t, func() bool { return r.Counts.Snapshot().WatchesLive == 1 }, mctest.Patience, mctest.Tick)
	a.PutPods("s", "10.0.0.1", "10.0.0.2")
	require.True(t, <-began)
	require.Len(t, r.servers, 2, "servers that appear one after the other at the start are one list")
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Control.Run(ctx, &r.m, nil) })
	a.PutPods("s", "10.0.0.1", "10.0.0.2", "10.0.0.3")
	require.Eventually(t, func() bool { return len(r.m.all()) > 0 }, mctest.Patience, mctest.Tick)
	const entry = "k8s+_memcache._tcp.memcached.ns.svc"
	require.Equal(t, []route.Server{
		{Name: "memcached-0", Addr: "10.0.0.1:11211", Weight: 1, Entry: entry},
		{Name: "memcached-1", Addr: "10.0.0.2:11211", Weight: 1, Entry: entry},
		{Name: "memcached-2", Addr: "10.0.0.3:11211", Weight: 1, Entry: entry},
	}, r.m.all()[0].Pools[0].Servers)
	end()
	running.Wait()
	require.Zero(t, r.Counts.Snapshot().WatchesLive, "the watch ends with the control")
}
