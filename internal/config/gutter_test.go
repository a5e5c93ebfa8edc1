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

func TestAGutterThatCannotChangeIsReportedWithItsLine(t *testing.T) {
	c := sources{yaml: "pools:\n  a:\n    servers: [x, y, z]\n    gutter: b\n  b: {servers: [v]}\nroutes:\n  - " +
		"{default: a}\n"}.load(t)
	require.ErrorContains(t, c.Locate(route.WrongGutter("a", "why")), "mcmw.yaml:4: pools.a.gutter: why")
	c = sources{yaml: "pools:\n  a:\n    servers: [x, y, z]\nroutes:\n  - {default: a}\n"}.load(t)
	require.ErrorContains(t, c.Locate(route.WrongGutter("a", "why")), "pools.a.gutter: why")
}
