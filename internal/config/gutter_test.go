package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/route"
)

func TestAGuttersValuesLiveForAMinuteOrForTheTimeGiven(t *testing.T) {
	const own, rest = "pools:\n  a: {servers: [x, y, z], replicas: 1, gutter: b",
		"}\n  b: {servers: [v]}\nroutes:\n  - {default: a}\n"
	for more, ttl := range map[string]int{"": 60, ", gutter-ttl: 5s": 5} {
		o := serving(sources{yaml: own + more + rest}.load(t))
		require.Equal(t, "b", o.Pools[0].Options.Gutter)
		require.Equal(t, ttl, o.Pools[0].Options.GutterTTL)
		require.Empty(t, o.Pools[1].Options.Gutter)
	}
	c := sources{yaml: own + rest}.load(t)
	require.NoError(t, sources{yaml: own + ", gutter-ttl: 5s" + rest}.load(t).CheckReload(c))
	require.NotEqual(t, sources{yaml: own + ", gutter-ttl: 5s" + rest}.load(t).Fingerprint(), c.Fingerprint())
}

func TestAGutterThatAPoolCannotHaveIsRefusedWithItsLine(t *testing.T) {
	const routes = "  b: {servers: [v]}\nroutes:\n  - {default: a}\n"
	const one = "pools:\n  a:\n    servers: [x]\n"
	const two = "pools:\n  a:\n    servers: [x, y]\n"
	const three = "pools:\n  a:\n    servers: [x, y, z]\n"
	for text, message := range map[string]string{
		three + "    gutter: c\n" +
			routes: `mcmw.yaml:4: pools.a.gutter: pool "a" has the gutter "c", which is not a pool; accepted: another pool`,
		three + "    gutter: a\n" +
			routes: `mcmw.yaml:4: pools.a.gutter: pool "a" has the gutter "a", which is this pool itself; accepted: another pool`,
		three + "    gutter: \"a b\"\n" +
			routes: `mcmw.yaml:4: pools.a.gutter: "a b" is not the name of a pool; accepted: another pool, or none`,
		three + "    gutter-ttl: 5s\n" +
			routes: `mcmw.yaml:4: pools.a.gutter-ttl: given without a gutter; accepted: together with gutter`,
		three + "    gutter: b\n    gutter-ttl: 0s\n" +
			routes: `mcmw.yaml:5: pools.a.gutter-ttl: "0s" is too short; accepted: 1s to 1h`,
		three + "    gutter: b\n    gutter-ttl: 2h\n" +
			routes: `mcmw.yaml:5: pools.a.gutter-ttl: "2h" is too long; accepted: 1s to 1h`,
		three + "    gutter: b\n    gutter-ttl: 1.5s\n" +
			routes: `mcmw.yaml:5: pools.a.gutter-ttl: "1.5s" is not in whole seconds; accepted: a time such as 60s`,
		two + "    gutter: b\n" +
			routes: `mcmw.yaml:4: pools.a.gutter: the pool has too few servers, 2, for writers auto; accepted: 3 servers or more, or writers one`,
		one + "    gutter: b\n" +
			routes: `mcmw.yaml:4: pools.a.gutter: the pool has too few servers, 1, for writers auto; accepted: 3 servers or more`,
		one + "    writers: one\n    gutter: b\n" +
			routes: `mcmw.yaml:5: pools.a.gutter: the pool has too few servers, 1, for writers one; accepted: 2 servers or more`,
		three + "    gutter: b\n" + routes +
			"shadows:\n  - {of: a, to: b, share: 0.5}\n": `mcmw.yaml:4: pools.a.gutter: the pool, or "b", is a shadow; accepted: pools that are not shadows`,
		"rejoin: trust\n" + three + "    gutter: b\n" +
			routes: `mcmw.yaml:5: pools.a.gutter: not possible with rejoin trust; accepted: rejoin invalidate or flush`,
	} {
		requireRefused(t, text, message)
	}
}

func TestAGutterThatCannotChangeIsReportedWithItsLine(t *testing.T) {
	c := sources{yaml: "pools:\n  a:\n    servers: [x, y, z]\n    gutter: b\n  b: {servers: [v]}\nroutes:\n  - " +
		"{default: a}\n"}.load(t)
	require.ErrorContains(t, c.Locate(route.WrongGutter("a", "why")), "mcmw.yaml:4: pools.a.gutter: why")
	c = sources{yaml: "pools:\n  a:\n    servers: [x, y, z]\nroutes:\n  - {default: a}\n"}.load(t)
	require.ErrorContains(t, c.Locate(route.WrongGutter("a", "why")), "pools.a.gutter: why")
}
