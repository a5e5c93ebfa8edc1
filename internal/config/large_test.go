package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/plan"
)

func TestInvalidLargeValuesAreRefusedWithTheirLine(t *testing.T) {
	const large = "max-value: 16m\npools:\n  a:\n    servers: [x, y, z]\n    writers: several\n    large-values: 16m\n"
	const b, routes = "  b: {servers: [u, v, w], writers: several}\n", "routes: [{default: a}]\n"
	for text, message := range map[string]string{
		"servers: [x]\nlarge-values: 2m\n":                                `mcmw.yaml:2: large-values: "2m" is more than max-value, 1m, so clients can't send such values; accepted: at most max-value, or a larger max-value`,
		"servers: [x]\nmax-value: 1g\nlarge-values: 1g\nitem-size: 16k\n": `mcmw.yaml:3: large-values: "1g" needs more than 4096 chunks of item-size 16k; accepted: less, or a larger item-size`,
		"pools:\n  a:\n    servers: [x]\n    large-values: 2m\n" +
			routes: `mcmw.yaml:4: pools.a.large-values: "2m" is more than max-value, 1m`,
		large + "    gutter: b\n" + b +
			routes: `mcmw.yaml:6: pools.a.large-values: not possible, because the pool has a gutter; accepted: 0`,
	} {
		lines := refused(t, sources{yaml: text})
		require.NotEmpty(t, lines, text)
		require.Contains(t, lines[0], message, text)
	}
}

func TestAReloadTurnsLargeValuesOnAndOffInTwoSteps(t *testing.T) {
	of := func(limit string) sources {
		return sources{yaml: "max-value: 16m\npools:\n  a: {servers: [x], large-values: " + limit +
			"}\n  b: {servers: [y]}\nroutes: [{default: a}]\n"}
	}
	off, reads, on, more := of("0").load(t), of("8k").load(t), of("8m").load(t), of("16m").load(t)
	require.Equal(t, plan.Large{Limit: 8 << 20, Item: 1 << 20}, serving(on).Pools[0].Large)
	require.Zero(t, serving(on).Pools[1].Large.Limit)
	require.NoError(t, reads.CheckReload(off))
	require.NoError(t, on.CheckReload(reads))
	require.NoError(t, more.CheckReload(on))
	require.NoError(t, reads.CheckReload(more))
	require.NoError(t, off.CheckReload(reads))
	require.ErrorContains(t, on.CheckReload(off),
		`mcmw.yaml:3: pools.a.large-values: "8m" cannot replace "0" while mcmw runs; accepted: 8k first, with which mcmw reads values in chunks but stores none`)
	require.ErrorContains(t, off.CheckReload(on), `pools.a.large-values: "0" cannot replace "8m"`)
}
