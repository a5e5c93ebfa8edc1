package middleware_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/plan"
)

// Values of up to 60,000 bytes, on servers with items of 32 KiB.
func TestReloadsUnderLoadReturnLargeValuesWholeAndFailNoRequest(t *testing.T) {
	servers := mwtest.Servers(mctest.StartNewMemcacheds(t, 4, "-I", "32k", "-m", "512", "-o",
		"slab_chunk_max=16,no_lru_maintainer")...)
	o := spread(servers[:3:3])
	o.Placement.Replicas = 2
	fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
	load := startTraffic(t, fleet...)
	load.more()
	limits := func(limit, item int) {
		t.Helper()
		o.Large = plan.Large{Limit: limit, Item: item}
		applyAll(t, fleet, o, load)
	}
	stored := func() (n uint64) {
		for _, m := range fleet {
			n += m.Stats().Snapshot().Large.Stored
		}
		return n
	}
	limits(8<<10, 32<<10) // while all values are small
	limits(100_000, 32<<10)
	load.large.Store(true)
	// few values are too large for one item
	require.Eventually(t, func() bool { return stored() > 0 }, mctest.Patience, mctest.Tick)
	load.more()
	before := stored()
	require.Zero(t, load.missed.Load())
	for _, n := range []int{4, 3} {
		o.Servers = servers[:n:n]
		goThrough(t, fleet, o, load)
	}
	moved := load.missed.Load() // servers that got keys did not hold them yet
	limits(100_000, 16<<10)
	require.Greater(t, stored(), before)
	load.large.Store(false)
	for range 8 { // until each key holds a small value
		load.more()
	}
	limits(8<<10, 16<<10)
	limits(0, 16<<10)
	load.stop()
	assert.Zero(t, load.stale.Load(), "old or torn")
	assert.Equal(t, moved, load.missed.Load(), "misses while no keys move")
	t.Logf("%d rounds, %d missed, %d large values", load.rounds.Load(), load.missed.Load(), stored())
	for _, s := range o.Servers {
		for _, key := range []string{"0-0-key", "1-1-key", "2-2-key", "3-3-key"} {
			assert.False(t, strings.Contains(mctest.MustDial(t, s.Addr).MustDo(t, "get "+key+"\r\n"), "mcmwL"),
				"a head is left")
		}
	}
}

func TestLargeValuesAreWholeOrMissingWhenRoutesGiveTheirKeysToAnotherPool(t *testing.T) {
	servers := mctest.StartNewMemcacheds(t, 5, "-I", "32k", "-m", "512", "-o", "slab_chunk_max=16,no_lru_maintainer")
	o := middleware.Options{ChangeStep: time.Hour}
	for i, name := range []string{"a", "b", "c"} {
		p := poolOf(name, named(name, servers[2*i:min(2*i+2, len(servers))]...), 1)
		// chunks of c are half as long
		p.Writers, p.Large = middleware.WritersSeveral, plan.Large{Limit: 100_000, Item: 32 << 10 >> (i / 2)}
		o.Pools = append(o.Pools, p)
	}
	o = routed(o, "a", "2-", "b", "3-", "b")
	fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
	if mctest.Long() {
		fleet = append(fleet, mwtest.Start(t, o))
	}
	load := startTraffic(t, fleet...)
	load.large.Store(true)
	load.more()
	require.Zero(t, load.missed.Load())
	for _, next := range []middleware.Options{routed(o, "c", "3-", "a"), routed(o, "b", "0-", "a")} {
		applyAll(t, fleet, next, load)
		rounds(t, load, fleet...)
	}
	load.stop()
	assert.Zero(t, load.stale.Load(), "old or torn")
	t.Logf("%d rounds, %d missed", load.rounds.Load(), load.missed.Load())
}
