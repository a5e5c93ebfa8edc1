package config_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/config"
	"mcmw/internal/middleware"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/shadow"
)

const twoPools = `replicas: 2
timeout: 4s
ack: quorum
failure-limit: 7
zone: here
pools:
  sessions:
    servers: [a, b, "c*2@here"]
    ack: all
    read: nearest
    timeout: 5s
  pages:
    servers:
      - {name: d, address: "x:1"}
    replicas: 1
    ack: live
    writers: one
    ring: twemproxy
    hash: md5
    hash-tag: "{}"
    failure-limit: 9
    connect-timeout: 3s
routes:
  - {prefix: "s:", pool: sessions}
  - {prefix: "s:old:", pool: pages}
  - {default: pages}
`

// serving returns the middleware's options when no server has to be looked up.
func serving(c *config.Config) middleware.Options {
	var servers []route.Server
	for _, s := range c.AllLookups().Specs {
		servers = append(servers, s.Server)
	}
	return c.With(servers)
}

// requireReread prints c and reads it back. It fails unless the result, which it returns, is equal.
func requireReread(t *testing.T, c *config.Config) *config.Config {
	t.Helper()
	var printed bytes.Buffer
	require.NoError(t, c.Write(&printed, false))
	again := sources{yaml: printed.String()}.load(t)
	require.Equal(t, serving(c), serving(again))
	require.Equal(t, c.Fingerprint(), again.Fingerprint())
	return again
}

func TestAPoolHasTheOptionsOfItsMappingAndOtherwiseThoseOutsideThePools(t *testing.T) {
	o := serving(sources{
		args: []string{"--failure-limit", "8"}, env: []string{"MCMW_CONNECT_TIMEOUT=2s"},
		yaml: twoPools,
	}.load(t))
	require.Empty(t, o.Servers)
	require.Equal(t, route.Routes{Prefixes: []route.Prefix{
		{Prefix: "s:", Pool: "sessions"},
		{Prefix: "s:old:", Pool: "pages"},
	}, Default: "pages"}, o.Routes)
	require.Len(t, o.Pools, 2)
	sessions, pages := o.Pools[0], o.Pools[1]

	require.Equal(t, route.Pool{
		Name: "sessions", Servers: []route.Server{
			{Name: "a", Addr: "a:11211", Weight: 1},
			{Name: "b", Addr: "b:11211", Weight: 1},
			{Name: "c", Addr: "c:11211", Weight: 2, Zone: "here"},
		},
		Options: route.Options{Replicas: 2, Read: route.ReadNearest, Zone: "here"},
	}, sessions.Pool)
	require.Equal(t, replica.AckAll, sessions.Ack)
	require.Equal(t, middleware.WritersAuto, sessions.Writers)
	require.Equal(t, 8, sessions.FailureLimit, "a flag overrides the file, and is the default of the pools")
	require.Equal(t, 2*time.Second, sessions.ConnectTimeout)
	require.Equal(t, middleware.DefaultMissedMemory, sessions.MissedMemory)

	require.Equal(t, route.Pool{
		Name: "pages", Servers: []route.Server{{Name: "d", Addr: "x:1", Weight: 1}},
		Options: route.Options{
			Replicas: 1, Ring: route.RingTwemproxy, Hash: route.HashMD5, HashTag: "{}",
			Zone: "here",
		},
	}, pages.Pool)
	require.Equal(t, replica.AckLive, pages.Ack)
	require.Equal(t, middleware.WritersOne, pages.Writers)
	require.Equal(t, 9, pages.FailureLimit)
	require.Equal(t, 3*time.Second, pages.ConnectTimeout)
	require.Equal(t, []time.Duration{5 * time.Second, 4 * time.Second},
		[]time.Duration{sessions.Timeout, pages.Timeout})
}

func TestPoolsAreNotGivenTogetherWithServersOfAFlag(t *testing.T) {
	require.Contains(t, refused(t, sources{
		args: []string{"-m", "z"}, yaml: "pools: {a: {servers: [x]}}\nroutes: [{default: a}]\n",
	})[0], "flag -m, --servers: given together with pools")
}

func TestServersOfAPoolThatWereLookedUpAreCheckedLikeThoseGiven(t *testing.T) {
	c := sources{yaml: "pools:\n  a: {servers: [dns+x], replicas: 2}\n  b: {servers: [dns+y]}\n" +
		"routes: [{default: a}]\n"}.load(t)
	server := func(pool, name string) route.Server {
		return route.Server{Name: name, Addr: name + ":1", Weight: 1, Pool: pool}
	}
	require.Equal(t, "a", c.AllLookups().Specs[0].Server.Pool)
	require.NoError(t, c.CheckServers([]route.Server{server("a", "1"), server("a", "2"), server("b", "3")}))
	require.ErrorContains(t, c.CheckServers([]route.Server{server("a", "1"), server("b", "3")}),
		"mcmw.yaml:2: pools.a.replicas: \"2\" is more than there are servers (1)")
	require.ErrorContains(t, c.CheckServers([]route.Server{server("a", "1"), server("a", "2"), server("b", "2")}),
		`pools.b.servers: server "2" is in pool "a" and in pool "b"`)
}

func TestPoolsAreReadPrintedAndShownInChanges(t *testing.T) {
	c := sources{yaml: twoPools}.load(t)
	require.Empty(t, requireReread(t, c).Changes(c))

	other := sources{yaml: "replicas: 2\ntimeout: 4s\nack: quorum\nfailure-limit: 7\nzone: here\npools: {sessions: " +
		"{servers: [a, b], replicas: 1, ack: live}}\nroutes: [{default: sessions}]\n"}.load(t)
	require.NoError(t, other.CheckReload(c))
	require.NotEqual(t, c.Fingerprint(), other.Fingerprint())
	changes := other.Changes(c)
	require.Len(t, changes, 2)
	require.Contains(t, changes[0].String(),
		"pools: sessions (servers a,b,c*2@here, read nearest, ack all, timeout 5s), pages (")
	require.Contains(t, changes[0].String(), " -> sessions (servers a,b, replicas 1, ack live)")
	require.Equal(t, `routes: "s:" sessions, "s:old:" pages, default pages -> default sessions`, changes[1].String())
}

const shadowed = `pools:
  live: {servers: [a, b]}
  pages: {servers: [c]}
  test: {servers: [x, y], replicas: 1}
  next: {servers: [z]}
routes:
  - {prefix: "s:", pool: live}
  - {default: pages}
shadows:
  - {of: live, to: test, share: 0.1}
  - {of: pages, to: next, share: 1, what: all, compare: false}
`

func TestAPoolThatIsAShadowIsNothingElse(t *testing.T) {
	c := sources{yaml: shadowed}.load(t)
	o := serving(c)
	require.Len(t, o.Pools, 2)
	require.Len(t, o.Shadows, 2)
	require.Equal(t, "live", o.Shadows[0].Of)
	require.Equal(t, shadow.Options{Share: 0.1, Compare: true}, o.Shadows[0].Options)
	require.Equal(t, "test", o.Shadows[0].To.Name)
	require.Equal(t, 1, o.Shadows[0].To.Options.Replicas)
	require.Len(t, o.Shadows[0].To.Servers, 2)
	require.Equal(t, shadow.Options{Share: 1, All: true}, o.Shadows[1].Options)
	_, err := middleware.New(o)
	require.NoError(t, err)

	requireReread(t, c)
	other := sources{yaml: strings.Replace(shadowed, "share: 0.1", "share: 0.2", 1)}.load(t)
	require.NoError(t, other.CheckReload(c))
	require.Equal(t,
		"shadows: live to test (share 0.1, what reads), pages to next (share 1, what all, not compared) -> "+
			"live to test (share 0.2, what reads), pages to next (share 1, what all, not compared)",
		other.Changes(c)[0].String())
}

func TestARouteSendsReadsOnlyToAPoolThatSharesNothingElseWithItsOwn(t *testing.T) {
	const pools = "pools: {a: {servers: [x, y, z], writers: several%s}, b: {servers: [u, v, w], writers: several%s}, " +
		"c: {servers: [q]}, d: {servers: [r], writers: several}}\nroutes:\n- {prefix: \"s:\", pool: a, reads: b}\n- " +
		"{default: a%s}\n"
	c := sources{yaml: fmt.Sprintf(pools, ", gutter: c", ", gutter: d", ", reads: d")}.load(t)
	require.Equal(t, route.Routes{
		Prefixes: []route.Prefix{{Prefix: "s:", Pool: "a", Reads: "b"}}, Default: "a",
		Reads: "c",
	}, serving(sources{yaml: fmt.Sprintf(pools, "", "", ", reads: c")}.load(t)).Routes)
	require.Equal(t, []string{
		`routes: prefix "s:": reads go to pool b and see only what is written there, not what is written to pool a`,
		"routes: default: reads go to pool d and see only what is written there, not what is written to pool a",
	}, c.Notes())
	sources{yaml: fmt.Sprintf(pools, "", "", "") + "shadows:\n- {of: b, to: c, share: 1}\n"}.load(t)

	c = sources{yaml: fmt.Sprintf(pools, "", "", ", reads: b")}.load(t)
	requireReread(t, c)
	other := sources{yaml: fmt.Sprintf(pools, "", "", "")}.load(t)
	require.NotEqual(t, c.Fingerprint(), other.Fingerprint())
	require.NoError(t, other.CheckReload(c))
	require.Equal(t, `routes: "s:" a, reads b, default a, reads b -> "s:" a, reads b, default a`,
		other.Changes(c)[0].String())
}

func TestARouteStripsItsPrefixOnlyIfThePoolHasNoOtherKeys(t *testing.T) {
	const pools = "pools: {a: {servers: [x, y, z], replicas: 1%s}, b: {servers: [u]}, c: {servers: [v]}}\nroutes:\n- " +
		"{prefix: \"s:\", pool: a, strip: %s}\n- {default: b}\n"
	c := sources{yaml: fmt.Sprintf(pools, "", "true")}.load(t)
	require.Equal(t, []route.Prefix{{Prefix: "s:", Pool: "a", Strip: true}}, serving(c).Routes.Prefixes)
	text := "pools: {a: {servers: [x]}}\n" +
		"routes: [{prefix: s, pool: a, accepts: nothing}, {default: a, accepts: reads}]\n"
	require.Equal(t, route.Routes{
		Prefixes: []route.Prefix{{Prefix: "s", Pool: "a", Accepts: route.AcceptsNothing}}, Default: "a",
		Accepts: route.AcceptsReads,
	}, serving(sources{yaml: text}.load(t)).Routes)
	require.False(t, serving(sources{yaml: fmt.Sprintf(pools, "", "false")}.load(t)).Routes.Prefixes[0].Strip)
	sources{yaml: fmt.Sprintf(pools, ", gutter: c, writers: one", "true")}.load(t)
}
