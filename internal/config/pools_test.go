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

func TestInvalidPoolsAndRoutesAreRefusedWithTheirLine(t *testing.T) {
	const pools = "pools:\n  a: {servers: [x]}\n  b: {servers: [y]}\n"
	const routes = "routes:\n  - {default: a}\n"
	for text, message := range map[string]string{
		pools: `mcmw.yaml:1: routes: no default pool, for the keys without a prefix; accepted: one of a, b`,
		pools +
			"routes:\n  - {prefix: s, pool: a}\n": `mcmw.yaml:4: routes: no default pool, for the keys without a prefix; accepted: one of a, b`,
		pools +
			"routes:\n  - {default: c}\n": `mcmw.yaml:5: routes: the default pool "c" is unknown; accepted: one of a, b`,
		pools +
			"routes:\n  - {default: a}\n  - {default: b}\n": `mcmw.yaml:6: routes: the mapping has a second default pool, "b"; accepted: entries`,
		pools +
			"routes:\n  - {default: a}\n  - {prefix: s, pool: c}\n": `mcmw.yaml:6: routes: the pool "c" of prefix "s" is unknown; accepted: one of a, b`,
		pools + routes +
			"  - {prefix: s, pool: a}\n  - {prefix: s, pool: b}\n": `mcmw.yaml:7: routes: prefix "s" is given twice; accepted: each once`,
		pools + routes +
			"  - {prefix: \"\", pool: a}\n": `mcmw.yaml:6: routes: the mapping has no text for the key "prefix"; accepted: entries`,
		pools + routes +
			"  - {pool: a}\n": `mcmw.yaml:6: routes: the mapping has no key "prefix"; accepted: entries`,
		pools + routes +
			"  - {prefix: s}\n": `mcmw.yaml:6: routes: the mapping has no key "pool"; accepted: entries`,
		pools + routes +
			"  - {prefix: s, pool: a, default: b}\n": `mcmw.yaml:6: routes: the mapping has a default and a key other than reads and accepts; accepted: entries`,
		pools + routes +
			"  - {prefx: s, pool: a}\n": `mcmw.yaml:6: routes: the mapping has the unknown key "prefx"; did you mean prefix?; accepted: entries`,
		pools + routes +
			"  - s\n": `mcmw.yaml:6: routes: "s" is not a route; accepted: entries`,
		"servers: [x]\n" +
			routes: `mcmw.yaml:2: routes: given without pools; accepted: together with pools, which replace servers`,
		"servers: [z]\n" + pools +
			routes: `mcmw.yaml:1: servers: given together with pools; accepted: servers in each pool, or no pools`,
		"pools: a\n" +
			routes: `mcmw.yaml:1: pools: "a" is not a mapping; accepted: a mapping from the names of pools`,
		"pools:\n  a: x\n" +
			routes: `mcmw.yaml:2: pools.a: not a mapping; accepted: options of a pool`,
		"pools:\n  a b: {servers: [x]}\n" +
			routes: `mcmw.yaml:2: pools: the name "a b"; accepted: 1 to 63 letters and digits`,
		"pools:\n  a: {servers: [x]}\n  a: {servers: [y]}\n" + routes: `mcmw.yaml:3: pools.a: given twice`,
		"pools:\n  a: {replicas: 1}\n" +
			routes: `mcmw.yaml:2: pools.a.servers: none given; accepted: `,
		"pools:\n  a:\n    servers: [x]\n    replcas: 1\n" +
			routes: `mcmw.yaml:4: pools.a: unknown key "replcas"; did you mean replicas?; accepted: servers, replicas`,
		"pools:\n  a:\n    servers: [x]\n    depth: 1\n" +
			routes: `mcmw.yaml:4: pools.a: "depth" is the same for all pools and not accepted in a pool; accepted: servers`,
		"pools:\n  a:\n    servers: [x]\n    pools: {}\n" +
			routes: `mcmw.yaml:4: pools.a: "pools" is the same for all pools`,
		"pools:\n  a:\n    servers: [x]\n    replicas: none\n" +
			routes: `mcmw.yaml:4: pools.a.replicas: "none" is not a whole number; accepted: all, or 1 to 500`,
		"pools:\n  a:\n    servers: [x]\n    replicas: 2\n" +
			routes: `mcmw.yaml:4: pools.a.replicas: "2" is more than there are servers (1); accepted: all, or 1 to 1`,
		"pools:\n  a:\n    servers: [x]\n    ack: quorum\n" +
			routes: `mcmw.yaml:4: pools.a.ack: "quorum" needs two replicas or more`,
		"pools:\n  a:\n    servers: [x]\n    hash: md5\n" +
			routes: `mcmw.yaml:4: pools.a.hash: "md5" needs a ketama ring`,
		"pools:\n  a:\n    servers: [x]\n    servers: [y]\n" +
			routes: `mcmw.yaml:4: pools.a.servers: given twice; first on line 3`,
		"pools:\n  a:\n    servers: [\"127.0.0.1:11311\"]\n" +
			routes: `mcmw.yaml:3: pools.a.servers: "127.0.0.1:11311" is an address mcmw itself listens on`,
		"pools:\n  a: {servers: [x]}\n  b:\n    servers: [\"y=x\"]\n" +
			routes: `mcmw.yaml:4: pools.b.servers: address x:11211 is used by server "x" in pool "a" and by server "y" in pool "b"; accepted: each address in one pool`,
		"pools:\n  a: {servers: [x]}\n  b:\n    servers: [\"x=y\"]\n" +
			routes: `mcmw.yaml:4: pools.b.servers: server "x" is in pool "a" and in pool "b"; accepted: each server in one pool`,
		pools + routes +
			"  - {prefix: s, pool: a, reads: c}\n": `mcmw.yaml:6: routes: the pool "c" for reads is unknown; accepted: one of a, b`,
		pools +
			"routes:\n  - {default: a, reads: c}\n": `mcmw.yaml:5: routes: the pool "c" for reads is unknown; accepted: one of a, b`,
		pools + routes +
			"  - {prefix: s, pool: a, deletes: b}\n": `mcmw.yaml:6: routes: the mapping has the unknown key "deletes"; accepted: entries of the form {prefix: "user:", pool: NAME, reads: NAME, strip: true, accepts: reads}`,
		pools + routes +
			"  - {prefix: s, pool: a, accepts: x}\n": `mcmw.yaml:6: routes: the mapping accepts "x"; accepted: entries`,
		pools + routes +
			"  - {prefix: s, pool: a, read: b}\n": `mcmw.yaml:6: routes: the mapping has the unknown key "read"; did you mean reads?; accepted: entries`,
		pools + routes +
			"  - {prefix: s, pool: a, reads: b, reads: a}\n": `mcmw.yaml:6: routes: the mapping has the key "reads" twice; accepted: entries`,
		pools + routes +
			"  - {prefix: s, pool: a, reads: [b]}\n": `mcmw.yaml:6: routes: the mapping has no text for the key "reads"; accepted: entries`,
		pools + routes +
			"  - {prefix: s, pool: b, strip: true, reads: a}\n": `mcmw.yaml:6: routes: prefix "s" is stripped, but pool "a" also has the keys without a prefix`,
		pools + routes +
			"  - {prefix: s, pool: a, strip: true}\n": `mcmw.yaml:6: routes: prefix "s" is stripped, but pool "a" also has the keys without a prefix`,
		pools + routes +
			"  - {prefix: r, pool: b}\n  - {prefix: s, pool: b, strip: true}\n": `mcmw.yaml:7: routes: prefix "s" is stripped, but pool "b" also has prefix "r"`,
		pools + routes +
			"  - {prefix: s, pool: b, strip: true}\n  - {prefix: r, pool: a, reads: b}\n": `mcmw.yaml:6: routes: prefix "s" is stripped, but pool "b" also has prefix "r"`,
		"gutter: a\n" + pools +
			routes: `mcmw.yaml:1: "gutter" is an option of a pool; accepted in the mapping of a pool, under pools`,
	} {
		requireRefused(t, text, message)
	}
	require.Contains(t, refused(t, sources{args: []string{"-m", "z"}, yaml: pools + routes})[0],
		"flag -m, --servers: given together with pools")
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

func TestInvalidShadowsAreRefusedWithTheirLine(t *testing.T) {
	const pools = "pools:\n  a: {servers: [x]}\n  b: {servers: [y]}\n  c: {servers: [z]}\nroutes:\n  - {default: " +
		"a}\n  - {prefix: s, pool: b}\nshadows:\n"
	four := strings.Replace(pools, "routes:", "  e: {servers: [v]}\nroutes:", 1)
	for text, message := range map[string]string{
		pools +
			"  - {of: a, to: d, share: 1}\n": `mcmw.yaml:9: shadows: the pool "d" is unknown; accepted: one of a, b, c`,
		pools +
			"  - {of: d, to: c, share: 1}\n": `mcmw.yaml:9: shadows: the pool "d" is unknown`,
		pools +
			"  - {of: a, to: c, share: 1}\n  - {of: b, to: c, share: 1}\n": `mcmw.yaml:10: shadows: pool "c" is the shadow of two pools; accepted: of one pool`,
		pools +
			"  - {of: a, to: a, share: 1}\n": `mcmw.yaml:9: shadows: pool "a" can't be its own shadow`,
		pools +
			"  - {of: a, to: b, share: 1}\n": `mcmw.yaml:9: shadows: pool "b" has a route, so it can't be a shadow`,
		pools +
			"  - {of: c, to: a, share: 1}\n": `mcmw.yaml:9: shadows: pool "a" has a route`,
		pools +
			"  - {of: a, to: c, share: 0}\n": `mcmw.yaml:9: shadows: a share of 0; accepted: above 0, up to 1`,
		four +
			"  - {of: c, to: e, share: 1}\n": `mcmw.yaml:10: shadows: pool "c" has no route, so it gets no requests to copy; accepted: one of a, b`,
		four +
			"  - {of: a, to: c, share: 1}\n  - {of: a, to: e, share: 1}\n": `mcmw.yaml:11: shadows: pool "a" has two shadows; accepted: one`,
		pools +
			"  - {of: a, to: c, share: -0.5}\n": `mcmw.yaml:9: shadows: a share of -0.5; accepted: above 0, up to 1`,
		pools +
			"  - {of: a, to: c, share: NaN}\n": `mcmw.yaml:9: shadows: a share of NaN; accepted: above 0, up to 1`,
		pools +
			"  - {of: a, to: c, share: 2}\n": `mcmw.yaml:9: shadows: a share of 2; accepted: above 0, up to 1`,
		pools +
			"  - {of: a, to: c, share: tenth}\n": `mcmw.yaml:9: shadows: the mapping has the share "tenth", which is not a number; accepted: entries`,
		pools +
			"  - {of: a, to: c}\n": `mcmw.yaml:9: shadows: the mapping has no key "share"; accepted: entries`,
		pools +
			"  - {of: a, share: 1}\n": `mcmw.yaml:9: shadows: the mapping has no key "to"; accepted: entries`,
		pools +
			"  - {of: a, to: c, share: 1, what: writes}\n": `mcmw.yaml:9: shadows: the mapping has the key "what" with "writes"; accepted: entries`,
		pools +
			"  - {of: a, to: c, share: 1, compare: maybe}\n": `mcmw.yaml:9: shadows: the mapping has the key "compare" with "maybe"; accepted: entries`,
		pools +
			"  - {of: a, too: c, share: 1}\n": `mcmw.yaml:9: shadows: the mapping has the unknown key "too"; did you mean to?; accepted: entries`,

		pools + "  - a\n": `mcmw.yaml:9: shadows: "a" is not a shadow; accepted: entries`,

		pools +
			"  - {of: a, to: c, share: 1}\nmigrations:\n  - {from: a, to: c, start: 2026-12-01T10:00:00Z, end: " +
			"2026-12-01T12:00:00Z}\n": `mcmw.yaml:11: migrations: pool "c" is a shadow; accepted: pools that are not shadows`,
		"servers: [x]\nshadows:\n  - {of: a, to: c, share: 1}\n": `mcmw.yaml:2: shadows: given without pools; accepted: together with pools, which replace servers`,
	} {
		requireRefused(t, text, message)
	}
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
	for _, r := range []struct{ a, b, byDefault, more, message string }{
		{
			", gutter: b", "", "", "",
			`mcmw.yaml:3: routes: prefix "s:": reads go to pool "b", which is the gutter of pool "a"; give pool "a" another gutter`,
		},
		{
			", gutter: c", "", ", reads: c", "",
			`mcmw.yaml:4: routes: the default pool's reads go to pool "c", which is the gutter of pool "a"`,
		},
		{
			"", "", "", "migrations:\n- {from: b, to: d, start: 2026-12-01T10:00:00Z, end: 2026-12-01T12:00:00Z}\n",
			`mcmw.yaml:3: routes: prefix "s:": reads go to pool "b", and the keys of pool "b" migrate; accepted: only one of these`,
		},
		{"", "", "", "shadows:\n- {of: a, to: b, share: 1}\n", `mcmw.yaml:6: shadows: pool "b" has a route`},
	} {
		require.Contains(t, strings.Join(refused(t, sources{yaml: fmt.Sprintf(pools, r.a, r.b, r.byDefault) + r.more}),
			"\n"), r.message)
	}
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
	for _, r := range []struct{ gutter, strip, more, message string }{
		{"", "maybe", "", `mcmw.yaml:3: routes: the mapping has the strip "maybe"`},
		{
			"", "true", "- {prefix: q, pool: a}\n",
			`mcmw.yaml:3: routes: prefix "s:" is stripped, but pool "a" also has prefix "q": two keys could become one there; give the prefix a pool of its own, or don't strip it`,
		},
		{
			", large-values: 2m", "true", "max-value: 2m\n",
			`mcmw.yaml:3: routes: prefix "s:" is stripped, and pool "a" has large-values; accepted: only one of these`,
		},
		{
			", gutter: c, writers: one", "true", "- {prefix: q, pool: b, reads: c}\n",
			`mcmw.yaml:3: routes: prefix "s:" is stripped, and the gutter "c" of pool "a" also has other keys; give pool "a" a gutter for its keys alone`,
		},
		{
			"", "true", "- {prefix: q, pool: b, reads: a}\n",
			`mcmw.yaml:3: routes: prefix "s:" is stripped, but pool "a" also has prefix "q": `,
		},
		{
			", gutter: b, writers: one", "true", "",
			`mcmw.yaml:3: routes: prefix "s:" is stripped, and the gutter "b" of pool "a" also has other keys; give pool "a" a gutter for its keys alone`,
		},
		{
			"", "true", "shadows:\n- {of: a, to: c, share: 1}\n",
			`mcmw.yaml:3: routes: prefix "s:" is stripped, and pool "a" has a shadow; accepted: only one of these`,
		},
		{
			"", "true", "migrations:\n- {from: b, to: a, start: 2026-12-01T10:00:00Z, end: 2026-12-01T12:00:00Z}\n",
			`mcmw.yaml:3: routes: prefix "s:" is stripped, and the keys of pool "a" migrate; accepted: only one of these`,
		},
	} {
		require.Contains(t, strings.Join(refused(t, sources{yaml: fmt.Sprintf(pools, r.gutter, r.strip) + r.more}),
			"\n"), r.message)
	}
	sources{yaml: fmt.Sprintf(pools, ", gutter: c, writers: one", "true")}.load(t)
}
