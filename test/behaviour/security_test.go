package behaviour_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/secret"
)

func passwordFile(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "passwords")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// secured starts a middleware in front of one server, with TLS and passwords on both sides, and returns an
// authenticated client.
func secured(t *testing.T) *mctest.Client {
	t.Helper()
	ca := mctest.NewCA(t)
	file := passwordFile(t, "mcmw:secret\n")
	server := mctest.StartMemcachedTLS(t, ca, "-Y", file, "-o", "ssl_ca_cert="+ca.File, "-o", "ssl_verify_mode=2")
	cert, key := ca.Issue()
	o := middleware.Options{Servers: mwtest.Servers(server), Security: middleware.Security{
		TLS:       secret.ServerFiles{Cert: cert, Key: key, ClientCA: ca.File},
		AuthFile:  passwordFile(t, "app:password\n"),
		ServerTLS: true, ServerFiles: secret.ClientFiles{CA: ca.File, Cert: cert, Key: key, Name: "localhost"},
		ServerAuthFile: file,
	}}
	o.Timeout = 2 * mctest.Patience
	c := mctest.MustDialTLS(t, mwtest.Start(t, o).Addr(), ca.Client(ca.Issue("app")))
	require.NoError(t, c.Authenticate("app", "password"))
	return c
}

// memcached before 1.6.39 does not notice requests that share a TLS record with the end of a longer one.
func TestPipelinedRequestsOfAnySizeAreAnsweredOverTLS(t *testing.T) {
	c := secured(t)
	for _, size := range []int{10, 3_000, 9_000, 16_300, 20_000, 70_000} {
		value := strings.Repeat("v", size)
		var requests, want strings.Builder
		for i := range 60 {
			fmt.Fprintf(&requests, "set k%d 0 0 %d\r\n%s\r\n", i, size, value)
			want.WriteString("STORED\r\n")
			if i%3 == 0 {
				fmt.Fprintf(&requests, "ms q%d %d q\r\n%s\r\nmg k%d s\r\nget k%d%s\r\n", i, size, value, i, i,
					strings.Repeat(" missing", 40*(i%7)))
				fmt.Fprintf(&want, "HD s%d\r\nVALUE k%d 0 %d\r\n%s\r\nEND\r\n", size, i, size, value)
			}
		}
		requests.WriteString("mn\r\n")
		want.WriteString("MN\r\n")
		sent := make(chan error)
		go func() { sent <- c.Send([]byte(requests.String())) }()
		for rest := want.String(); rest != ""; {
			reply := c.MustReply(t)
			require.True(t, strings.HasPrefix(rest, reply), "values of %d bytes: %.100q, expected %.100q", size,
				reply, rest)
			rest = rest[len(reply):]
		}
		require.NoError(t, <-sent)
		// mcmw sends a request of its own after a quiet one.
		require.Equal(t, "MN\r\n", c.MustDo(t, fmt.Sprintf("ms q %d q\r\n%s\r\nmn\r\n", size, value)))
	}
}

func TestAMultiGetLongerThanATLSRecordIsAnswered(t *testing.T) {
	c := secured(t)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1\r\nv\r\n"))
	for _, keys := range []int{300, 500, 1000, 5000} {
		line := "get " + strings.Repeat(strings.Repeat("x", 60)+" ", keys) + "k\r\n"
		require.Equal(t, "VALUE k 0 1\r\nv\r\nEND\r\n", c.MustDo(t, line))
		require.NoError(t, c.Send([]byte(line+"get k\r\n"+line)))
		for range 3 {
			require.Equal(t, "VALUE k 0 1\r\nv\r\nEND\r\n", c.MustReply(t))
		}
	}
}

func TestOneOfTwoPoolsHasTLSToItsServers(t *testing.T) {
	ca := mctest.NewCA(t)
	secret1, plain := mctest.StartMemcachedTLS(t, ca), mctest.StartMemcached(t)
	o := middleware.Options{
		Listen: []string{"127.0.0.1:0"},
		Pools: []middleware.PoolOptions{
			pooled("secret", route.Options{}, secret1),
			pooled("plain", route.Options{}, plain),
		},
		Routes:   route.Routes{Prefixes: []route.Prefix{{Prefix: "s", Pool: "secret"}}, Default: "plain"},
		Security: middleware.Security{ServerTLS: true, ServerFiles: secret.ClientFiles{CA: ca.File, Name: "localhost"}},
	}
	o.Pools[0].ServerTLS = true
	m := mwtest.Start(t, o)
	c := m.Dial(t)
	for key, server := range map[string]*mctest.Server{"s": secret1, "p": plain} {
		require.Equal(t, "STORED\r\n", c.MustDo(t, "set "+key+" 0 0 1\r\nx\r\n"))
		_, there := server.Get(key)
		require.True(t, there, key)
	}
	next := o
	next.Pools = slices.Clone(o.Pools)
	next.Pools[1].ServerTLS = true
	require.ErrorContains(t, m.Apply(t.Context(), next), `TLS of the servers cannot change`)
}

func TestEachOfTwoPoolsLogsInToItsServersWithItsOwnPassword(t *testing.T) {
	names := [...]string{"a", "b", "open", "added"}
	var pools []middleware.PoolOptions
	servers := map[string]*mctest.Server{}
	for _, name := range names {
		var args []string
		path := ""
		if name != "open" {
			path = passwordFile(t, name+":secret-"+name+"\n")
			args = []string{"-Y", path}
		}
		servers[name] = mctest.StartMemcached(t, args...)
		p := pooled(name, route.Options{}, servers[name])
		p.ServerAuthFile = path
		pools = append(pools, p)
	}
	o := middleware.Options{
		Listen: []string{"127.0.0.1:0"}, Pools: pools[:3],
		Routes: route.Routes{
			Prefixes: []route.Prefix{{Prefix: "a", Pool: "a"}, {Prefix: "b", Pool: "b"}},
			Default:  "open",
		},
	}
	m := mwtest.Start(t, o)
	c := m.Dial(t)
	for _, key := range []string{"a1", "b1", "c1"} {
		require.Equal(t, "STORED\r\n", c.MustDo(t, "set "+key+" 0 0 1\r\nx\r\n"))
		require.Equal(t, "VALUE "+key+" 0 1\r\nx\r\nEND\r\n", c.MustDo(t, "get "+key+"\r\n"))
	}
	_, there := servers["open"].Get("c1")
	require.True(t, there)

	next := o
	next.Pools = slices.Clone(o.Pools)
	next.Pools[1].ServerAuthFile = o.Pools[0].ServerAuthFile
	require.ErrorContains(t, m.Apply(t.Context(), next),
		`pool "b": the file with the password for the servers cannot change`)

	next.Pools = append(slices.Clone(o.Pools), pools[3])
	next.Routes.Prefixes = append(slices.Clone(o.Routes.Prefixes), route.Prefix{Prefix: "d", Pool: "added"})
	for i := range next.Pools {
		next.Pools[i].Writers = middleware.WritersOne
	}
	require.NoError(t, m.Apply(t.Context(), next))
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set d1 0 0 1\r\nx\r\n"))
}

func TestAServerThatRefusesThePasswordIsNamedToTheClient(t *testing.T) {
	server := mctest.StartMemcached(t, "-Y", passwordFile(t, "mcmw:secret\n"))
	o := middleware.Options{Servers: mwtest.Servers(server)}
	o.Security.ServerAuthFile = passwordFile(t, "mcmw:secret\n")
	m := mwtest.Start(t, o)
	c := m.Dial(t)
	require.Equal(t, "END\r\n", c.MustDo(t, "get k\r\n"))

	require.NoError(t, os.WriteFile(o.Security.ServerAuthFile, []byte("mcmw:guessed\n"), 0o600))
	require.Eventually(t, func() bool {
		server.Restart() // so that new connections are made
		reply, err := c.Do("get k\r\n")
		return err == nil && strings.HasPrefix(reply, "SERVER_ERROR server-1: ") &&
			strings.HasSuffix(reply, "authentication: refused with \"CLIENT_ERROR authentication failure\"\r\n")
	}, mctest.Patience, pollPause)
	require.NoError(t, os.WriteFile(o.Security.ServerAuthFile, []byte("mcmw:secret\n"), 0o600))
	require.Eventually(t, func() bool {
		reply, err := c.Do("get k\r\n")
		return err == nil && reply == "END\r\n"
	}, mctest.Patience, pollPause)
}

// With TLS 1.3 such a server first accepts the session.
func TestMcmwIsNotReadyIfAServerDemandsACertificateThatItDoesNotHave(t *testing.T) {
	ca := mctest.NewCA(t)
	server := mctest.StartMemcachedTLS(t, ca, "-o", "ssl_ca_cert="+ca.File, "-o", "ssl_verify_mode=2")
	var log mctest.Output
	o := middleware.Options{Servers: mwtest.Servers(server), Log: slog.New(slog.NewTextHandler(&log, nil))}
	o.Security.ServerTLS, o.Security.ServerFiles = true, secret.ClientFiles{CA: ca.File, Name: "localhost"}
	m := mwtest.Begin(t, o)
	require.Eventually(t, func() bool {
		return strings.Contains(log.String(), "certificate required") ||
			strings.Contains(log.String(), "connection reset by peer")
	}, mctest.Patience, pollPause)
	require.False(t, m.IsReady())
}

func TestSecurityOptionsCannotChangeWhileClientsAreServed(t *testing.T) {
	o := middleware.Options{Servers: mwtest.Servers(mctest.StartMemcached(t)), Listen: []string{"127.0.0.1:0"}}
	m := mwtest.Start(t, o)
	o.Security.AuthFile = passwordFile(t, "a:b\n")
	require.ErrorContains(t, m.Apply(context.Background(), o),
		"TLS and authentication cannot change while clients are served")
}

// serverless returns the options of a middleware in front of n servers that refuse what ElastiCache Serverless refuses.
// Warnings go to log.
func serverless(t *testing.T, n int, log *mctest.Output) (o middleware.Options) {
	ca := mctest.NewCA(t)
	var addrs []string
	for range n {
		addrs = append(addrs, mctest.StartServerless(t, ca, mctest.StartNewMemcached(t).Addr()).Addr())
	}
	o.Servers, o.SweepEvery = mwtest.Named(addrs...), time.Millisecond
	o.Security.ServerTLS, o.Security.ServerFiles = true, secret.ClientFiles{CA: ca.File, Name: "localhost"}
	o.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return o
}

// refusals are requests that such a server refuses, and the replies through a middleware in front of several of them.
var refusals = map[string]string{
	"flush_all 5": "CLIENT_ERROR", "stats items": "ERROR", "me k": "ERROR", "verbosity 1": "ERROR",
	"get" + strings.Repeat(" "+strings.Repeat("k", 250), 100): "CLIENT_ERROR",
}

func requireServesServerless(t *testing.T, m, other *mwtest.MW) {
	t.Helper()
	c := m.Dial(t)
	for line, want := range refusals {
		require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1\r\nv\r\n"))
		assert.True(t, strings.HasPrefix(c.MustDo(t, line+"\r\n"), want), "%.30s", line)
		require.Equal(t, "VALUE k 0 1\r\nv\r\nEND\r\n", other.Dial(t).MustDo(t, "get k\r\n"), "after %.30s", line)
	}
	require.Equal(t, "OK\r\n", c.MustDo(t, "flush_all\r\n"))
	require.Equal(t, "END\r\n", c.MustDo(t, "get k\r\n"))
	for _, s := range m.Stats().Snapshot().Servers {
		assert.Equal(t, backend.Up.String(), s.Health.State, s.Name)
		assert.False(t, s.Health.MarkedHere || s.Health.MarkedElsewhere, s.Name)
	}
}

func TestAServerlessCacheIsServedWithoutAWarning(t *testing.T) {
	var log mctest.Output
	o := serverless(t, 1, &log)
	requireServesServerless(t, mwtest.Start(t, o), mwtest.Start(t, o))
	assert.Empty(t, log.String())
}

func TestReplicasThatCannotBeListedAreServedAndALogLineSaysOnceWhatDoesNotHold(t *testing.T) {
	var log mctest.Output
	o := serverless(t, 3, &log)
	m := mwtest.Start(t, o)
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "the replicas cannot be compared") },
		mctest.Patience, pollPause)
	first := log.String()
	var quiet mctest.Output
	o.Log = slog.New(slog.NewTextHandler(&quiet, nil))
	requireServesServerless(t, m, mwtest.Start(t, o))
	assert.Equal(t, 1, strings.Count(first, "level=WARN"), first)
	assert.Contains(t, first, "a memcached with the LRU crawler is needed")
	assert.Equal(t, first, log.String(), "it says nothing more, and nothing again")
}
