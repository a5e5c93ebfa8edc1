package middleware_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
)

// warmUp returns a migration from pool old to pool new that copies only keys that reads miss, and has no end yet.
func warmUp() middleware.Migration {
	return middleware.Migration{
		From: "old", To: "new",
		Start: time.Now().Add(2 * migrationStep).UTC().Truncate(time.Second), WarmsUp: true, Within: 0.01,
	}
}

// startWarmUp makes the fleet, with the options o, begin to warm up pool new.
func startWarmUp(t *testing.T, fleet []*mwtest.MW, o *middleware.Options, load *traffic) {
	o.Migrations = []middleware.Migration{warmUp()}
	applyAll(t, fleet, *o, nil)
	for _, m := range fleet {
		m.AwaitCleaned()
	}
	advance(t, fleet, load, 2*migrationStep+migrationStep/2, "delete-new")
	advance(t, fleet, load, migrationStep, "warm-up")
}

func TestReadsWarmUpAPoolUnderLoadWithoutAnErrorAnOldValueOrAMiss(t *testing.T) {
	for name, replicas := range map[string]int{"each key on one": 1, "all hold every key": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := migratingOptions(t, 2, replicas)
			fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
			c := fleet[0].Dial(t)
			const kept = 300
			get := "get"
			for i := range kept {
				value := strings.Repeat("v", 1+i)
				require.Equal(t, "STORED\r\n",
					c.MustDo(t, fmt.Sprintf("set kept-%d %d %d %d\r\n%s\r\n", i, i, 1900*(i%2), len(value), value)))
				get += fmt.Sprintf(" kept-%d absent-%d", i, i)
			}
			load := startTraffic(t, fleet...)
			startWarmUp(t, fleet, &o, load)
			all := c.MustDo(t, get+"\r\n")
			require.Equal(t, kept, strings.Count(all, "VALUE "))
			require.Equal(t, "EN\r\n", c.MustDo(t, "mg absent-1 v\r\n"))
			require.True(t, strings.HasPrefix(c.MustDo(t, "mg kept-3 k v f\r\n"), "VA 4 kkept-3 f3\r\nvvvv\r\n"))
			require.Eventually(t, func() bool {
				before := of(fleet[0]).Read
				require.Equal(t, all, c.MustDo(t, get+"\r\n"))
				require.True(t, strings.HasPrefix(c.MustDo(t, "mg kept-3 k v f\r\n"), "VA 4 kkept-3 f3\r\nvvvv\r\n"))
				since := of(fleet[0]).Read.Since(before)
				return since.New > kept && since.Neither >= kept && since.Old < kept/10
			}, mctest.Patience, 5*time.Millisecond, "reads are not answered by the new pool")
			require.Eventually(t, func() bool { return of(fleet[0]).Here >= uint64(kept) }, mctest.Patience,
				mctest.Tick)

			// The old pool decides the results of commands, and the new pool gets them.
			require.Equal(t, "STORED\r\n", c.MustDo(t, "set number 0 0 1\r\n1\r\n"))
			require.Equal(t, "2\r\n", fleet[1].Dial(t).MustDo(t, "incr number 1\r\n"))
			require.Equal(t, "VALUE number 0 1\r\n2\r\nEND\r\n", c.MustDo(t, "get number\r\n"))
			require.Equal(t, "NOT_STORED\r\n", c.MustDo(t, "add number 0 0 1\r\n9\r\n"))
			require.Equal(t, "TOUCHED\r\n", c.MustDo(t, "touch number 1000\r\n"))
			require.Regexp(t, "^VA 1 t(1000|9..)\r\n2\r\n", c.MustDo(t, "mg number v t\r\n"))
			require.True(t, strings.HasPrefix(c.MustDo(t, "gat 500 number\r\n"), "VALUE number 0 1\r\n2\r\n"))
			require.Regexp(t, "^HD t(500|4..)\r\n", c.MustDo(t, "mg number t\r\n"))
			require.Equal(t, "DELETED\r\n", c.MustDo(t, "delete number\r\n"))
			require.Equal(t, "END\r\n", fleet[1].Dial(t).MustDo(t, "get number\r\n"))

			ending := o
			g := o.Migrations[0]
			g.End = g.Start.Add(12 * migrationStep)
			ending.Migrations = []middleware.Migration{g}
			applyAll(t, fleet, ending, load)
			advance(t, fleet, load, 6*migrationStep, "warm-up")
			advance(t, fleet, load, 2*migrationStep, "copy")
			advance(t, fleet, load, 2*migrationStep, "both")
			advance(t, fleet, load, migrationStep, "done")
			load.stop()
			assert.Zero(t, load.stale.Load())
			assert.Zero(t, load.missed.Load())
			assert.Equal(t, all, c.MustDo(t, get+"\r\n"))
			for i := range kept {
				expiry := " t-1"
				if i%2 == 1 {
					expiry = " t1"
				}
				reply := c.MustDo(t, fmt.Sprintf("mg kept-%d f t\r\n", i))
				require.True(t, strings.HasPrefix(reply, fmt.Sprintf("HD f%d%s", i, expiry)), "%d: %q", i, reply)
			}
		})
	}
}

func TestAPoolBeingWarmedUpAnswersAloneWhileTheOldPoolIsDown(t *testing.T) {
	o := migratingOptions(t, 1, 1)
	started := mctest.StartNewMemcacheds(t, 2)
	old, warmed := started[0], started[1]
	o.Pools[0] = poolOf("old", named("old", old), 1)
	o.Pools[1] = poolOf("new", named("new", warmed), 1)
	o.Pools[0].Writers, o.Pools[1].Writers = middleware.WritersSeveral, middleware.WritersSeveral
	fleet := []*mwtest.MW{mwtest.Start(t, o)}
	c := fleet[0].Dial(t)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set read 0 0 1\r\n1\r\n"))
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set unread 0 0 1\r\n1\r\n"))
	startWarmUp(t, fleet, &o, nil)
	const read = "VALUE read 0 1\r\n1\r\nEND\r\n"
	require.Equal(t, read, c.MustDo(t, "get read\r\n"))
	require.Eventually(t, func() bool { return of(fleet[0]).Here == 1 }, mctest.Patience, mctest.Tick)
	// A middleware that is restarted goes on, with what its own clients miss.
	require.Equal(t, "STORED\r\n", mctest.MustDial(t, old.Addr()).MustDo(t, "set later 7 0 1\r\n1\r\n"))
	require.NoError(t, fleet[0].Stop())
	fleet = []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
	advance(t, fleet, nil, 3*migrationStep+migrationStep/2, "warm-up")
	c = fleet[0].Dial(t)
	require.Equal(t, "VALUE later 7 1\r\n1\r\nEND\r\n", c.MustDo(t, "get later\r\n"))
	require.Eventually(t, func() bool { return of(fleet[0]).Here == 1 }, mctest.Patience, mctest.Tick)
	require.Zero(t, of(fleet[1]).Here)
	require.NoError(t, fleet[1].Stop())
	old.Stop()
	require.Equal(t, read, c.MustDo(t, "get read unread\r\n"), "a miss of the new pool is a miss")
	require.Equal(t, "EN\r\n", c.MustDo(t, "mg unread v\r\n"))
	require.Equal(t, "VA 1\r\n1\r\n", c.MustDo(t, "mg read v\r\n"))
	require.Contains(t, c.MustDo(t, "set read 0 0 1\r\n2\r\n"), "SERVER_ERROR")
	fleet[0].Settled(t)
	assert.Equal(t, uint64(2), of(fleet[0]).Read.Unanswered)
	old.Restart()
	// Once the old pool answers a gets, it is read again: the keys whose writes it missed have been deleted there.
	require.Eventually(t, func() bool { return !strings.HasPrefix(c.MustDo(t, "gets read\r\n"), "SERVER_ERROR") },
		mctest.Patience, mctest.Tick)
	require.Eventually(t, func() bool { return c.MustDo(t, "set read 0 0 1\r\n3\r\n") == "STORED\r\n" },
		mctest.Patience, mctest.Tick)
	warmed.Stop()
	require.Equal(t, "VALUE read 0 1\r\n3\r\nEND\r\n", c.MustDo(t, "get read unread\r\n"),
		"the new pool is not needed to read")
	require.Equal(t, "VA 1\r\n3\r\n", c.MustDo(t, "mg read v\r\n"))
	old.Stop()
	require.Contains(t, c.MustDo(t, "get read\r\n"), "SERVER_ERROR", "without both pools it is an error")
}

func TestStrippedKeysAreReadAndTouchedWhileAnotherPoolIsWarmedUp(t *testing.T) {
	o := migratingOptions(t, 1, 1)
	warmed, bare := mctest.StartNewMemcached(t), mctest.StartNewMemcacheds(t, 2)
	o.Pools[1].Servers = named("new", warmed)
	o.Pools = append(o.Pools, poolOf("bare", named("bare", bare...), 0))
	o.Routes.Prefixes = []route.Prefix{{Prefix: "s:", Pool: "bare", Strip: true}}
	fleet := []*mwtest.MW{mwtest.Start(t, o)}
	c := fleet[0].Dial(t)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1\r\n1\r\n"))
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set s:k 0 0 1\r\n2\r\n"))
	startWarmUp(t, fleet, &o, nil)
	const read = "VALUE k 0 1\r\n1\r\nVALUE s:k 0 1\r\n2\r\nEND\r\n"
	require.Equal(t, read, c.MustDo(t, "get k s:none s:k none\r\n"))
	require.Eventually(t, func() bool {
		_, there := warmed.Get("k")
		return there
	}, mctest.Patience, mctest.Tick)
	require.Equal(t, "VALUE s:k 0 1\r\n2\r\nEND\r\n", c.MustDo(t, "gat 0 s:k\r\n"))
	require.Equal(t, "VA 1 ks:k\r\n2\r\n", c.MustDo(t, "mg s:k k v\r\n"))
	_, there := warmed.Get("k")
	require.True(t, there, "s:k is another key")
	bare[0].Stop()
	for range 4 { // each begins with another server
		require.Equal(t, read, c.MustDo(t, "get k s:none s:k none\r\n"))
	}
}

func TestAWarmUpGoesBackUnderLoadWithoutAnErrorAnOldValueOrAMiss(t *testing.T) {
	o := migratingOptions(t, 2, 1)
	fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
	c := fleet[0].Dial(t)
	without := o
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set kept 0 0 1\r\n1\r\n"))
	load := startTraffic(t, fleet...)
	startWarmUp(t, fleet, &o, load)
	require.Equal(t, "VALUE kept 0 1\r\n1\r\nEND\r\n", c.MustDo(t, "get kept\r\n"))
	require.Eventually(t, func() bool { return of(fleet[0]).Here+of(fleet[1]).Here > 0 }, mctest.Patience, mctest.Tick)
	g := o.Migrations[0]
	g.Back = g.Start.Add(6 * migrationStep)
	o.Migrations = []middleware.Migration{g}
	applyAll(t, fleet, o, load)
	require.Equal(t, "warm-up", of(fleet[0]).Phase)
	advance(t, fleet, load, 3*migrationStep, "copy")
	advance(t, fleet, load, migrationStep, "back")
	for _, m := range fleet {
		require.ErrorContains(t, m.Apply(context.Background(), without),
			"cannot be dropped before "+g.Back.Format(time.RFC3339))
	}
	advance(t, fleet, load, migrationStep, "back") // after Back
	applyAll(t, fleet, without, load)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set kept 0 0 1\r\n2\r\n"))
	load.stop()
	assert.Zero(t, load.stale.Load())
	assert.Zero(t, load.missed.Load())
	require.Equal(t, "VALUE kept 0 1\r\n2\r\nEND\r\n", c.MustDo(t, "get kept\r\n"))
	for _, s := range o.Pools[1].Servers {
		require.NotContains(t, mctest.MustDial(t, s.Addr).MustDo(t, "get kept\r\n"), "\r\n2\r\n",
			"the pool is not written any more")
	}

	// Another warm-up begins with a clean pool.
	again := warmUp()
	again.Start = again.Start.Add(8 * migrationStep)
	o.Migrations = []middleware.Migration{again}
	for _, m := range fleet {
		require.NoError(t, m.Apply(context.Background(), o))
		m.AwaitCleaned()
	}
	for _, s := range o.Pools[1].Servers {
		require.Equal(t, "END\r\n", mctest.MustDial(t, s.Addr).MustDo(t, "get kept\r\n"))
	}
}

func TestAWarmUpGetsItsEndAStepBeforeAndCannotBeDropped(t *testing.T) {
	o := migratingOptions(t, 1, 1)
	fleet := []*mwtest.MW{mwtest.Start(t, o)}
	m := fleet[0]
	startWarmUp(t, fleet, &o, nil)
	refused := func(text string, migrations ...middleware.Migration) {
		t.Helper()
		next := o
		next.Migrations = migrations
		require.ErrorContains(t, m.Apply(context.Background(), next), text)
	}
	refused(`because other mcmw may read pool "new"; set back: `)
	g := o.Migrations[0]
	g.Back = g.Start.Add(4 * migrationStep)
	refused("cannot change from none to back "+g.Back.Format(time.RFC3339), g)
	g.Back = time.Time{}
	g.End = g.Start.Add(5 * migrationStep)
	refused("cannot change from", g)
	g.End = g.Start.Add(6 * migrationStep)
	next := o
	next.Migrations = []middleware.Migration{g}
	require.NoError(t, m.Apply(context.Background(), next))
	g.Within = 0.5
	next.Migrations = []middleware.Migration{g}
	require.NoError(t, m.Apply(context.Background(), next))
}
