package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/plan"
)

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
