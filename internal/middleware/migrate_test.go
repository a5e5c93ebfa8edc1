package middleware_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// migrationStep is so long that phases end only when a test puts the clock forward.
const migrationStep = time.Hour

// migration returns a migration that starts in about two hours and ends eight hours later.
func migration(from, to string) middleware.Migration {
	start := time.Now().Add(2 * migrationStep).UTC().Truncate(time.Second)
	return middleware.Migration{From: from, To: to, Start: start, End: start.Add(8 * migrationStep)}
}

// migratingOptions returns options with two pools, old and new, of so many servers each; all keys are in pool old.
func migratingOptions(t *testing.T, servers, replicas int) middleware.Options {
	o := newPools(t, middleware.WritersSeveral, servers, replicas, "old", "new")
	o.ChangeStep, o.SweepRate = migrationStep, 1_000_000
	return o
}

// advance puts the clocks of the fleet forward, one after the other, with load, which may be nil, in between.
func advance(t *testing.T, fleet []*mwtest.MW, load *traffic, by time.Duration, phase string) {
	t.Helper()
	for _, m := range fleet {
		m.Advance(by)
		load.more()
	}
	for _, m := range fleet {
		require.Equal(t, phase, of(m).Phase)
	}
}

// of returns the state of m's first migration.
func of(m *mwtest.MW) stats.Migration { return m.Stats().Snapshot().Migrations[0] }

// migrateAll takes the fleet through all phases of its migration.
func migrateAll(t *testing.T, fleet []*mwtest.MW, load *traffic) {
	t.Helper()
	advance(t, fleet, load, 2*migrationStep+migrationStep/2, "delete-new")
	for _, m := range fleet { // a middleware that takes longer than this phase deletes copies, too
		m.AwaitCleaned()
	}
	advance(t, fleet, load, migrationStep, "copy")
	advance(t, fleet, load, migrationStep, "copy")
	for _, m := range fleet {
		require.Eventually(t, func() bool { return of(m).Complete }, mctest.Patience, 5*time.Millisecond)
	}
	advance(t, fleet, load, 4*migrationStep, "copy") // no longer copying
	advance(t, fleet, load, migrationStep, "both")
	advance(t, fleet, load, migrationStep, "done")
}

func TestAPoolMigratesUnderLoadWithoutAnErrorAnOldValueOrAMiss(t *testing.T) {
	for name, replicas := range map[string]int{"each key on one": 1, "all hold every key": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := migratingOptions(t, 2, replicas)
			fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
			c := fleet[0].Dial(t)
			const kept = 300
			for i := range kept {
				value := strings.Repeat(strconv.Itoa(i%10), 1+i)
				require.Equal(t, "STORED\r\n",
					c.MustDo(t, fmt.Sprintf("set kept-%d %d %d %d\r\n%s\r\n", i, i, 1900*(i%2), len(value), value)))
			}
			require.Equal(t, "HD\r\n", c.MustDo(t, "ms YSBrZXk= 1 b\r\nx\r\n"), "a key with a blank")
			load := startTraffic(t, fleet...)
			next := o
			next.Migrations = []middleware.Migration{migration("old", "new")}
			applyAll(t, fleet, next, load)
			assert.Equal(t, "waiting", of(fleet[0]).Phase)
			migrateAll(t, fleet, load)

			// The routes name the new pool, and the old pool is removed.
			after := o
			after.Pools, after.Routes = o.Pools[1:], route.Routes{Default: "new"}
			applyAll(t, fleet, after, load)
			load.stop()
			assert.Zero(t, load.stale.Load())
			assert.Zero(t, load.missed.Load())
			for i := range kept {
				reply := fleet[i%2].Dial(t).MustDo(t, fmt.Sprintf("mg kept-%d f t s\r\n", i))
				expiry := " t-1"
				if i%2 == 1 {
					expiry = " t1"
				}
				require.True(t, strings.HasPrefix(reply, fmt.Sprintf("HD f%d%s", i, expiry)), "%d: %q", i, reply)
				require.Contains(t, reply, fmt.Sprintf(" s%d", 1+i))
			}
			require.Equal(t, "VA 1\r\nx\r\n", c.MustDo(t, "mg YSBrZXk= b v\r\n"))
			for _, m := range append(fleet, mwtest.Start(t, after)) {
				c := m.Dial(t)
				require.Equal(t, "STORED\r\n", c.MustDo(t, "set kept-1 0 0 1\r\n1\r\n"))
				// With a count of the server's a token from the old pool could win over it.
				require.Regexp(t, `^VALUE kept-1 0 1 [4-9]\d{18}\r\n`, c.MustDo(t, "gets kept-1\r\n"))
			}
		})
	}
}

func TestAMigrationBackReadsNothingThatItsNewPoolHeldBefore(t *testing.T) {
	for _, configured := range []string{"after the first one", "with the first one", "at the start"} {
		t.Run(configured, func(t *testing.T) {
			t.Parallel()
			migrateThereAndBack(t, configured)
		})
	}
}

// migrateThereAndBack takes a fleet through a migration and then one back. configured says when the one back is added
// to the options.
func migrateThereAndBack(t *testing.T, configured string) {
	o := migratingOptions(t, 1, 1)
	there, back := migration("old", "new"), migration("new", "old")
	back.Start, back.End = there.End.Add(3*migrationStep), there.End.Add(11*migrationStep)
	before := o
	if configured == "at the start" {
		before.Migrations = []middleware.Migration{there, back}
	}
	fleet := []*mwtest.MW{mwtest.Start(t, before), mwtest.Start(t, before)}
	c := fleet[0].Dial(t)
	for _, key := range []string{"kept", "deleted", "changed"} {
		require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set %s 0 0 1\r\n1\r\n", key)))
	}
	apply := func(migrations ...middleware.Migration) {
		t.Helper()
		next := o
		next.Migrations = migrations
		applyAll(t, fleet, next, nil)
	}
	switch configured {
	case "after the first one":
		apply(there)
	case "with the first one":
		apply(there, back)
	}
	migrateAll(t, fleet, nil)
	require.Equal(t, "DELETED\r\n", c.MustDo(t, "delete deleted\r\n"))
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set changed 0 0 1\r\n2\r\n"))
	if configured == "after the first one" {
		apply(there, back)
	}
	second := func(m *mwtest.MW) stats.Migration { return m.Stats().Snapshot().Migrations[1] }
	for _, by := range []time.Duration{2, 1, 1, 1} { // until keys are copied
		for _, m := range fleet {
			m.Advance(by * migrationStep)
			m.AwaitCleaned()
		}
	}
	for _, m := range fleet {
		require.Eventually(t, func() bool { return second(m).Complete }, mctest.Patience, 5*time.Millisecond)
	}
	for _, by := range []time.Duration{3, 1, 1, 1} {
		for _, m := range fleet {
			m.Advance(by * migrationStep)
		}
	}
	for _, m := range fleet {
		require.Equal(t, "done", second(m).Phase)
		c := m.Dial(t)
		assert.Equal(t, "VALUE kept 0 1\r\n1\r\nVALUE changed 0 1\r\n2\r\nEND\r\n",
			c.MustDo(t, "get kept deleted changed\r\n"))
	}
	for _, s := range o.Pools[0].Servers {
		assert.Equal(t, "VALUE changed 0 1\r\n2\r\nEND\r\n",
			mctest.MustDial(t, s.Addr).MustDo(t, "get deleted changed\r\n"))
	}
}

func TestAMiddlewareThatStartsDuringAMigrationContinuesIt(t *testing.T) {
	o := migratingOptions(t, 1, 1)
	first := mwtest.Start(t, o)
	c := first.Dial(t)
	const kept = 100
	for i := range kept {
		require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set %d 0 0 1\r\n1\r\n", i)))
	}
	require.NoError(t, first.Stop())
	g := migration("old", "new")
	g.Start = g.Start.Add(-5*migrationStep - migrationStep/2)
	g.End = g.Start.Add(8 * migrationStep)
	o.Migrations = []middleware.Migration{g}
	copying := mwtest.Start(t, o)
	require.Equal(t, "copy", of(copying).Phase)
	require.Eventually(t, func() bool { return of(copying).Complete }, mctest.Patience, 5*time.Millisecond)
	require.NoError(t, copying.Stop())
	again := mwtest.Start(t, o)
	require.Eventually(t, func() bool { return of(again).Complete }, mctest.Patience, 5*time.Millisecond)
	require.Zero(t, of(again).Here, "keys that were copied are not copied again")
	again.Advance(4 * migrationStep)
	require.Equal(t, "both", of(again).Phase)
	c = again.Dial(t)
	for i := range kept {
		require.Equal(t, fmt.Sprintf("VALUE %d 0 1\r\n1\r\nEND\r\n", i), c.MustDo(t, fmt.Sprintf("get %d\r\n", i)))
	}
	// In phase both, commands that depend on the item miss.
	for command, answer := range map[string]string{
		"incr 1 1\r\n": "NOT_FOUND\r\n", "append 2 0 0 1\r\n1\r\n": "NOT_STORED\r\n", "ma 3 O7 k\r\n": "NF O7 k3\r\n",
		"mg 4 N30 v\r\n": "EN\r\n", "ma 5 q\r\n": "NF\r\n",
		"cas 6 0 0 1 1\r\n1\r\n": "NOT_FOUND\r\n",
	} {
		require.Equal(t, answer, c.MustDo(t, command))
		key := strings.Fields(command)[1]
		require.Equal(t, "END\r\n", c.MustDo(t, "get "+key+"\r\n"))
	}
	require.Equal(t, "NOT_STORED\r\n", c.MustDo(t, "add 7 0 0 1\r\n2\r\n"))
	require.Equal(t, "VALUE 7 0 1\r\n1\r\nEND\r\n", c.MustDo(t, "get 7\r\n"), "it may be a lock that is held")
}

// One middleware has already replaced the migration by another one while the other middleware still fills the new pool.
func TestAMigrationThatReplacesOneInPhaseCopyFindsNoKeysOfThatInTheNewPool(t *testing.T) {
	o := migratingOptions(t, 1, 1)
	fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
	apply := func(m *mwtest.MW, g middleware.Migration) {
		t.Helper()
		o.Migrations = []middleware.Migration{g}
		require.NoError(t, m.Apply(context.Background(), o))
		m.AwaitCleaned()
	}
	g := migration("old", "new")
	for _, m := range fleet {
		apply(m, g)
	}
	advance(t, fleet, nil, 3*migrationStep+migrationStep/2, "copy")
	g.Start, g.End = g.Start.Add(4*migrationStep), g.End.Add(4*migrationStep)
	apply(fleet[0], g)
	a, b := fleet[0].Dial(t), fleet[1].Dial(t)
	require.Equal(t, "STORED\r\n", b.MustDo(t, "set k 0 0 1\r\n1\r\n"))
	apply(fleet[1], g)
	require.Equal(t, "DELETED\r\n", a.MustDo(t, "delete k\r\n"))
	for range 16 {
		for _, m := range fleet {
			m.Advance(migrationStep)
			m.AwaitCleaned()
			require.Equal(t, "END\r\n", m.Dial(t).MustDo(t, "get k\r\n"), of(m).Phase)
		}
	}
	require.Equal(t, "done", of(fleet[0]).Phase)
}

func TestAnImpossibleMigrationIsRefusedWithTheReason(t *testing.T) {
	o := migratingOptions(t, 1, 1)
	third := poolOf("third", named("third", mctest.StartNewMemcacheds(t, 1)...), 1)
	third.Writers = middleware.WritersSeveral
	o.Pools = append(o.Pools, third)
	m := mwtest.Start(t, o)
	g := migration("old", "new")
	refuses(t, m, o, "so that other mcmw read the configuration before it starts", func(o *middleware.Options) {
		h := g
		h.Start = h.Start.Add(-3 * migrationStep / 2)
		o.Migrations = []middleware.Migration{h}
	})
	for pool, text := range map[int]string{
		0: `pool "old" had the gutter "" until now, and the migration`, 1: `pool "old" is the gutter of pool "new"`,
		2: `pool "third" had the gutter "" until now, and the migration`,
	} {
		refuses(t, m, o, text, func(o *middleware.Options) {
			o.Migrations = []middleware.Migration{g}
			gutter := map[bool]string{true: "old", false: "new"}[pool == 1]
			o.Pools[pool].Options.Gutter, o.Pools[pool].Options.GutterTTL = gutter, 1
		})
	}
	refuses(t, m, o, "change-step is 0", func(o *middleware.Options) {
		o.Migrations, o.ChangeStep = []middleware.Migration{g}, 0
	})
	for _, h := range []middleware.Migration{
		{From: "new", To: "old", Start: g.Start, End: g.End},
		{From: "new", To: "third", Start: g.End, End: g.End.Add(8 * migrationStep)},
		{From: "third", To: "new", Start: g.Start.Add(7 * migrationStep), End: g.End.Add(8 * migrationStep)},
	} {
		refuses(t, m, o, `it overlaps with the migration from pool "old" to pool "new"`, func(o *middleware.Options) {
			o.Migrations = []middleware.Migration{g, h}
		})
	}
	o.Migrations = []middleware.Migration{g}
	require.NoError(t, m.Apply(context.Background(), o))
	m.Advance(4*migrationStep + migrationStep/2)
	require.Equal(t, "copy", of(m).Phase)
	refuses(t, m, o, `the list of servers of pool "new" cannot change during the migration from pool`,
		func(o *middleware.Options) {
			o.Pools[1].Servers = append(o.Pools[1].Servers[:1:1], route.Server{Name: "another", Addr: "127.0.0.1:1"})
		})
	refuses(t, m, o, "change-step cannot change", func(o *middleware.Options) { o.ChangeStep = time.Minute })
	dropped := o
	dropped.Migrations = nil
	require.NoError(t, m.Apply(context.Background(), dropped), "no middleware reads the new pool")
	require.Empty(t, m.Stats().Snapshot().Migrations)
	elsewhere := dropped
	elsewhere.Routes = route.Routes{Default: "new"}
	require.ErrorAs(t, m.Apply(context.Background(), elsewhere), new(middleware.NotYet),
		"other middlewares may still copy to it")
	g = middleware.Migration{
		From: "old", To: "new", Start: g.Start.Add(5 * migrationStep),
		End: g.End.Add(5 * migrationStep),
	}
	o.Migrations = []middleware.Migration{g}
	require.NoError(t, m.Apply(context.Background(), o))
	m.Advance(10 * migrationStep)
	require.Equal(t, "both", of(m).Phase)
	refuses(t, m, o, `cannot be dropped or changed before it ends`, func(o *middleware.Options) { o.Migrations = nil })
	m.Advance(migrationStep)
	require.Equal(t, "done", of(m).Phase)
	refuses(t, m, o, `the migration from pool "old" to pool "new" is dropped; change the routes to pool "new"`,
		func(o *middleware.Options) { o.Migrations = nil })
	o.Migrations, o.Routes = nil, route.Routes{Default: "new"}
	require.NoError(t, m.Apply(context.Background(), o))
}

func TestBothPoolsAcknowledgeAWriteOfAMigratingKey(t *testing.T) {
	o := migratingOptions(t, 1, 1)
	o.Pools[0].Ack, o.Pools[1].Ack = replica.AckAny, replica.AckAny
	g := migration("old", "new")
	g.Start = g.Start.Add(-4*migrationStep - migrationStep/2)
	g.End = g.Start.Add(8 * migrationStep)
	o.Migrations = []middleware.Migration{g}
	m := mwtest.Start(t, o)
	require.Equal(t, "copy", of(m).Phase)
	c := m.Dial(t)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1\r\n1\r\n"))
	for _, p := range o.Pools {
		require.Equal(t, "VALUE k 0 1\r\n1\r\nEND\r\n", mctest.MustDial(t, p.Servers[0].Addr).MustDo(t, "get k\r\n"))
	}
	require.Equal(t, "2\r\n", c.MustDo(t, "incr k 1\r\n"))
	for _, p := range o.Pools {
		require.Equal(t, "VALUE k 0 1\r\n2\r\nEND\r\n", mctest.MustDial(t, p.Servers[0].Addr).MustDo(t, "get k\r\n"))
	}
}

// In the long form of the test 100,000 keys migrate under a load of 3,000 requests per second.
func TestEveryKeyThatIsThereIsFoundWhileAPoolMigrates(t *testing.T) {
	const clients = 32
	// least keys must be copied; the load itself may store most of them in both pools
	keys, pause, least := 2_000, time.Duration(0), 1
	if mctest.Long() {
		keys, pause, least = 100_000, clients*time.Second/3_000, 50_000
	}
	o := migratingOptions(t, 2, 1)
	o.SweepRate = 20_000
	fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
	value := func(key, version int) string { return fmt.Sprintf("%d:%d:%0*d", key, version, 1+key%200, 0) }
	set := func(key, version int) string {
		v := value(key, version)
		return fmt.Sprintf("set key-%d %d 0 %d\r\n%s\r\n", key, key%7, len(v), v)
	}
	for n := range clients {
		c := fleet[n%2].Dial(t)
		for key := n; key < keys; key += clients {
			require.Equal(t, "STORED\r\n", c.MustDo(t, set(key, 0)))
		}
	}
	load, seed, began := &traffic{t: t}, mctest.Seed(t), time.Now()
	for n := range clients {
		connections := []*mctest.Client{fleet[0].Dial(t), fleet[1].Dial(t)}
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		versions := make([]int, keys) // from 0: the stored version; below 0: the key was deleted
		// In an order that visits each key only once in a while: the check after a store may meet copies that the other
		// middleware is storing, and delete them.
		order := random.Perm(keys / clients)
		load.done.Go(func() {
			due := time.Now()
			for i := 0; !load.end.Load(); i++ {
				key := order[i%len(order)]*clients + n
				command, want := fmt.Sprintf("get key-%d\r\n", key), "END\r\n"
				switch dice := random.IntN(100); {
				case versions[key] < 0 && dice < 50, dice < 10:
					versions[key] = max(versions[key], -versions[key]) + 1
					command, want = set(key, versions[key]), "STORED\r\n"
				case versions[key] >= 0 && dice < 11:
					versions[key] = -versions[key] - 1
					command, want = fmt.Sprintf("delete key-%d\r\n", key), "DELETED\r\n"
				case versions[key] >= 0:
					v := value(key, versions[key])
					want = fmt.Sprintf("VALUE key-%d %d %d\r\n%s\r\nEND\r\n", key, key%7, len(v), v)
				}
				reply, err := connections[random.IntN(2)].Do(command)
				if err != nil || reply != want {
					assert.Fail(t, "a wrong answer", "%q was answered with %q, not %q (%v), in %s and %s", command,
						reply, want, err, of(fleet[0]).Phase, of(fleet[1]).Phase)
					load.end.Store(true)
				}
				load.rounds.Add(1)
				due = due.Add(pause)
				time.Sleep(time.Until(due)) // keep the rate
			}
		})
	}
	t.Cleanup(load.stop)
	o.Migrations = []middleware.Migration{migration("old", "new")}
	applyAll(t, fleet, o, load)
	migrateAll(t, fleet, load)
	load.more()
	load.stop()
	copied := of(fleet[0]).Here + of(fleet[1]).Here
	t.Logf("%d keys copied, %d requests in %v", copied, load.rounds.Load(), time.Since(began))
	assert.GreaterOrEqual(t, copied, uint64(least))
}
