package config_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/config"
	"mcmw/internal/hotkeys"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
	"mcmw/internal/plan"
	"mcmw/internal/protocol"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/sweep"
	"mcmw/internal/worker"
)

// sources are the texts of the three sources. The file is written as mcmw.yaml to a new working directory.
type sources struct {
	args []string
	env  []string
	yaml string
}

// parsed returns the sources as the command passes them to Load.
func (s sources) parsed(t *testing.T) config.Sources {
	t.Helper()
	fs := pflag.NewFlagSet("mcmw", pflag.ContinueOnError)
	flags := config.AddFlags(fs)
	args := s.args
	if s.yaml != "" {
		t.Chdir(t.TempDir())
		require.NoError(t, os.WriteFile("mcmw.yaml", []byte(s.yaml), 0o600))
		args = append([]string{"--config", "mcmw.yaml"}, args...)
	}
	require.NoError(t, fs.Parse(config.JoinToggles(args)))
	flags.SetArguments(fs.Args())
	return config.Sources{Flags: flags, Env: s.env}
}

func TestTheHelpOfAFlagNamesTheFormOfItsValue(t *testing.T) {
	fs := pflag.NewFlagSet("mcmw", pflag.ContinueOnError)
	config.AddFlags(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		name, _ := pflag.UnquoteUsage(f)
		assert.Equal(t, strings.TrimPrefix(f.Value.Type(), "bool"), name, f.Name)
	})
}

func (s sources) load(t *testing.T) *config.Config {
	t.Helper()
	c, err := config.Load(s.parsed(t))
	require.NoError(t, err)
	return c
}

// literal returns the regular expression that matches s alone.
func literal(s string) string { return regexp.QuoteMeta(s) }

// yamlQuote returns s as a quoted YAML text.
func yamlQuote(s string) string { return strconv.Quote(s) }

func TestATogglesValueMayFollowTheFlagInAnyForm(t *testing.T) {
	for args, want := range map[string]bool{
		"-m a":                      false,
		"-s -m a":                   true,
		"-s true -m a":              true,
		"-s false -m a":             false,
		"-s=true -m a":              true,
		"-s=no -m a":                false,
		"--sharded -m a":            true,
		"--sharded TRUE -m a":       true,
		"--sharded off -m a":        false,
		"-m a b --sharded":          true,
		"--sharded --sharded=0 -ma": false,
	} {
		require.Equal(t, want, sources{args: strings.Fields(args)}.load(t).Sharded, args)
	}
}

func TestNothingAfterTwoDashesIsAToggle(t *testing.T) {
	args := []string{"-m", "a", "--", "-s", "true"}
	require.Equal(t, args, config.JoinToggles(args))
}

func TestTheDefaultsAreThoseOfTheStages(t *testing.T) {
	c := sources{args: []string{"-m", "a"}}.load(t)
	requireOptions(t, middleware.Options{
		Listen: []string{"127.0.0.1:11311"}, UnixMask: 0o700,
		Servers: []route.Server{{Name: "a", Addr: "a:11211", Weight: 1}},
		RequestOptions: worker.RequestOptions{
			Ack: replica.AckLive, Depth: middleware.DefaultDepth,
			Timeout: middleware.DefaultTimeout, StallAfter: middleware.DefaultStallAfter,
		},
		Queue: middleware.DefaultQueue,
		ServerOptions: backend.ServerOptions{
			FailureLimit: middleware.DefaultFailureLimit,
			MissedMemory: middleware.DefaultMissedMemory, ConnectTimeout: middleware.DefaultConnectTimeout,
		},
		ClientOptions: netstage.ClientOptions{
			MinRate:   middleware.DefaultMinRate,
			MaxOutput: middleware.DefaultMaxOutput, WriteTimeout: middleware.DefaultWriteTimeout,
			ClientMemory: middleware.DefaultClientMemory, Limits: protocol.Limits{}.WithDefaults(),
		},
		ChangeStep:   middleware.DefaultChangeStep,
		SweepEvery:   middleware.DefaultSweepEvery,
		SweepRate:    sweep.DefaultRate,
		RefillRate:   sweep.DefaultRate,
		DrainTimeout: middleware.DefaultDrainTimeout,
		HotAge:       middleware.DefaultHotAge,
		HotMemory:    middleware.DefaultHotMemory,
		Policy:       plan.Policy{Large: plan.Large{Item: middleware.DefaultItemSize}},
		Security:     middleware.Security{HandshakeTimeout: middleware.DefaultHandshakeTimeout},
	}, c.With(c.Servers))
	require.Equal(t, "127.0.0.1:9150", c.Admin)
}

// requireOptions expects the options of a single pool, whose settings want has outside Pools.
func requireOptions(t *testing.T, want, got middleware.Options) {
	t.Helper()
	want.Pools = []middleware.PoolOptions{want.OnlyPool()}
	want.Servers = nil
	require.Equal(t, want, got)
}

func TestEveryOptionReachesTheMiddleware(t *testing.T) {
	c := sources{yaml: `
listen: [0.0.0.0:1, "unix:/run/m.sock", "::1"]
listen-port: 2
unix-mask: 0766
announce: ["cache.example:3", "[::1]:4"]
servers: [a, b*2@here, c]
replicas: 2
ack: any
max-connections: 10
idle-timeout: 11s
max-connection-age: 15s
min-rate: 6k
max-output: 12m
write-timeout: 13s
client-memory: 14m
change-step: 19s
get-error: miss
ready: any
failure-limit: 9
rejoin: flush
missed-memory: 5m
sweep-every: 12m
hot-keys: "off"
hot-age: 20ms
hot-memory: 64m
prefixes: "::"
sweep-rate: 13
refill-rate: 14
pool: per-server
read: nearest
zone: here
sharded: true
ring: libmemcached-weighted
hash: md5
hash-tag: "{}"
workers: 3
depth: 4
queue: 5
queue-full: shed
timeout: 6s
stall-after: 65ms
connect-timeout: 7ms
drain-timeout: 1m30s
max-key: 8
max-value: 2m
large-values: 1m
item-size: 512k
max-line: 3k
max-multiget-line: 4k
`}.load(t)
	requireOptions(t, middleware.Options{
		Listen: []string{"0.0.0.0:1", "unix:/run/m.sock", "[::1]:2"}, UnixMask: 0o766,
		Servers: []route.Server{
			{Name: "a", Addr: "a:11211", Weight: 1},
			{Name: "b", Addr: "b:11211", Weight: 2, Zone: "here"},
			{Name: "c", Addr: "c:11211", Weight: 1},
		},
		Placement: route.Options{
			Replicas: 2, Ring: route.RingLibmemcachedWeighted, Hash: route.HashMD5, HashTag: "{}",
			Read: route.ReadNearest, Zone: "here",
		},
		RequestOptions: worker.RequestOptions{
			Ack: replica.AckAny, GetErrorMiss: true, Sharded: true, Depth: 4,
			Timeout: 6 * time.Second, StallAfter: 65 * time.Millisecond,
		},
		Ready: middleware.ReadyAny,
		ServerOptions: backend.ServerOptions{
			FailureLimit: 9, Rejoin: backend.RejoinFlush, MissedMemory: 5 << 20,
			ConnectTimeout: 7 * time.Millisecond,
		},
		ClientOptions: netstage.ClientOptions{
			Announce: []string{"cache.example:3", "[::1]:4"}, MaxConnections: 10,
			IdleTimeout: 11 * time.Second, MaxAge: 15 * time.Second, MinRate: 6 << 10, MaxOutput: 12 << 20,
			WriteTimeout: 13 * time.Second, ClientMemory: 14 << 20, Shed: true,
			Limits: protocol.Limits{MaxKey: 8, MaxValue: 2 << 20, MaxLine: 3 << 10, MaxMultiGetLine: 4 << 10},
		},
		WorkerPool: middleware.WorkersPerServer,
		Workers:    3,
		Queue:      5,
		ChangeStep: 19 * time.Second,
		SweepEvery: 12 * time.Minute, SweepRate: 13, RefillRate: 14,
		Policy:  plan.Policy{Large: plan.Large{Limit: 1 << 20, Item: 512 << 10}},
		HotKeys: hotkeys.Off, HotAge: 20 * time.Millisecond, HotMemory: 64 << 20,
		Prefixes:     "::",
		DrainTimeout: 90 * time.Second,
		Security:     middleware.Security{HandshakeTimeout: middleware.DefaultHandshakeTimeout},
	}, c.With(c.Servers))
}

func TestFlagsOverrideTheEnvironmentWhichOverridesTheFile(t *testing.T) {
	s := sources{
		args: []string{"--workers", "4", "-m", "flag1", "flag2"},
		env:  []string{"MCMW_WORKERS=3", "MCMW_DEPTH=3", "MCMW_SERVERS=env"},
		yaml: "workers: 2\ndepth: 2\nqueue: 2\nservers: [file1, file2, file3]\n",
	}
	c := s.load(t)
	require.Equal(t, []int{4, 3, 2}, []int{c.Workers, c.Depth, c.Queue})
	require.Len(t, c.Specs, 2)
	require.Equal(t, time.Second, c.Timeout)
	for name, origin := range map[string]string{
		"workers": "flag -t, --workers",
		"depth":   "env MCMW_DEPTH",
		"queue":   "mcmw.yaml:3",
		"servers": "flag -m, --servers",
		"timeout": "default",
		"config":  "flag --config",
	} {
		require.Equal(t, origin, c.Origin(name).String(), name)
	}
}

func TestTheFileMayBeNamedByTheEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.yaml")
	require.NoError(t, os.WriteFile(path, []byte("servers: a\n"), 0o600))
	c := sources{env: []string{"MCMW_CONFIG=" + path}}.load(t)
	require.Equal(t, path+":1", c.Origin("servers").String())
}

func TestAnEmptyVariableCountsAsNotSet(t *testing.T) {
	c := sources{args: []string{"-m", "a"}, env: []string{"MCMW_WORKERS=", "MCMW_ADMIN="}}.load(t)
	require.Equal(t, 0, c.Workers)
	require.Equal(t, "127.0.0.1:9150", c.Admin)
}

func TestTheAdminServerCanBeTurnedOff(t *testing.T) {
	for _, s := range []sources{
		{args: []string{"-m", "a", "--admin", ""}},
		{args: []string{"-m", "a", "--admin=off"}},
		{args: []string{"-m", "a"}, env: []string{"MCMW_ADMIN=off"}},
		{args: []string{"-m", "a"}, yaml: "admin: off\n"},
		{args: []string{"-m", "a"}, yaml: "admin: \"\"\n"},
	} {
		require.Empty(t, s.load(t).Admin)
	}
}

// Kubernetes gives containers MCMW_PORT=tcp://... and MCMW_SERVICE_HOST for a service called mcmw.
func TestUnknownVariablesAreIgnoredAndMisspeltOnesAreWarnedAbout(t *testing.T) {
	c := sources{args: []string{"-m", "a"}, env: []string{
		"MCMW_PORT=tcp://10.0.0.1:11311", "MCMW_SERVICE_HOST=10.0.0.1", "MCMW_SERVICE_PORT=11311",
		"MCMW_PORT_11311_TCP_PORT=11311",
		"MCMW_WROKERS=3", "HOME=/root",
	}}.load(t)
	require.Equal(t, []string{"environment variable MCMW_WROKERS is not an option; did you mean MCMW_WORKERS?"},
		c.Warnings)
}

func TestPrintedConfigurationsAreReadBackUnchanged(t *testing.T) {
	for name, s := range map[string]sources{
		"defaults": {args: []string{"-m", "a"}},
		"all set": {args: strings.Fields("-l unix:/tmp/x,:0 --replicas 1 --read primary -s --ring libmemcached " +
			"--hash crc32a --hash-tag {} " +
			"-t 8 --depth 1 --queue 9 --timeout 1ms --stall-after 2ms --connect-timeout 1h --drain-timeout 90s " +
			"--max-key 200 --max-value 2m " +
			"--max-line 4k --max-multiget-line 1g --admin off --log-level debug --log-format json --procs 2 " +
			"--announce c.example:1,[::1]:2 -m null=unix:/x [::1]:1 true c:1:1")},
		"names to look up": {args: strings.Fields("-m a*2 dns+cache cluster+c.cfg.d:5 blue=dns4+cache.example.*3 " +
			"dns6+x:1 srv+_a._b.c*record " +
			"green=srv+_a._b.d k8s+_a._tcp.b.c.svc.cluster.local --resolver [::1]:53 --resolve-interval 1m " +
			"--remove-after 1 --watch-interval 0s")},
		"mappings": {yaml: "servers: [{name: x, address: 'y:1', weight: 3}, {address: z}]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			before := s.load(t)
			for _, origins := range []bool{false, true} {
				var text bytes.Buffer
				require.NoError(t, before.Write(&text, origins))
				after := sources{yaml: text.String()}.load(t)
				require.Equal(t, before.With(before.Servers), after.With(after.Servers), text.String())
				for _, values := range [][]any{
					{before.Admin, after.Admin},
					{before.LogLevel, after.LogLevel},
					{before.LogFormat, after.LogFormat},
					{before.Procs, after.Procs},
					{before.WorkerPool, after.WorkerPool},
					{before.Lookups, after.Lookups},
					{before.ResolveInterval, after.ResolveInterval},
					{before.WatchInterval, after.WatchInterval},
				} {
					require.Equal(t, values[0], values[1])
				}
			}
		})
	}
}

func TestOriginsAreShownAfterTheValues(t *testing.T) {
	c := sources{
		args: []string{"-t", "64"},
		env:  []string{"MCMW_QUEUE=4096"},
		yaml: "\nservers:\n  - a\n  - b\ndepth: 1\n",
	}.load(t)
	var text bytes.Buffer
	require.NoError(t, c.Write(&text, true))
	require.Contains(t, text.String(), "# mcmw.yaml (flag --config)\n")
	require.Contains(t, text.String(), "\nservers: # mcmw.yaml:2\n  - a\n  - b\n")
	require.Contains(t, text.String(), "\nworkers: 64 # flag -t, --workers\n")
	require.Contains(t, text.String(), "\ndepth: 1 # mcmw.yaml:5\n")
	require.Contains(t, text.String(), "\nqueue: 4096 # env MCMW_QUEUE\n")
	require.Contains(t, text.String(), "\nreplicas: all # default\n")
}

func TestAConfigurationWithoutServersCanBePrintedButNotLoaded(t *testing.T) {
	s := sources{}.parsed(t)
	s.Incomplete = true
	c, err := config.Load(s)
	require.NoError(t, err)
	var text bytes.Buffer
	require.NoError(t, c.Write(&text, true))
	require.Contains(t, text.String(), "\nservers: [] # default\n")
	_, err = config.Load(sources{}.parsed(t))
	require.ErrorContains(t, err, "servers: none given; accepted: at least one of")
}

func TestTheDocumentationIsUpToDate(t *testing.T) {
	written, err := os.ReadFile("../../docs/configuration.md")
	require.NoError(t, err)
	require.Equal(t, config.Documentation(), string(written), "run: go generate ./internal/config")
}
