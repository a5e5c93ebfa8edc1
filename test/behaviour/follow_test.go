package behaviour_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/faulty"
	"mcmw/internal/follow"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/plan"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// followed returns options with a pool main, which the pool other follows.
func followed(o follow.Options, main, other []*mctest.Server) middleware.Options {
	to := pooled("other", route.Options{Replicas: 1}, other...)
	to.ConnectTimeout = 2 * time.Second
	return middleware.Options{
		Pools:  []middleware.PoolOptions{pooled("main", route.Options{}, main...)},
		Routes: route.Routes{Default: "main"}, Follows: []middleware.FollowOptions{{Of: "main", To: to, Options: o}},
	}
}

// follower returns the state of the pool that follows.
func follower(m *mwtest.MW) stats.Follow { return m.Stats().Snapshot().Follows[0] }

// awaitFollower waits until the state of the pool that follows is as wanted.
func awaitFollower(t *testing.T, m *mwtest.MW, wanted func(f stats.Follow) bool) {
	t.Helper()
	require.Eventually(t, func() bool { return wanted(follower(m)) }, mctest.Patience, mctest.Tick)
}

func paid(f stats.Follow) bool { return f.Debts == 0 && f.Doubt.IsZero() }

func TestAFollowingPoolLosesTheKeysThatAreWritten(t *testing.T) {
	main, other := mctest.StartMemcacheds(t, 2), mctest.StartMemcacheds(t, 2)
	options := followed(follow.Options{}, main, other)
	m := mwtest.Start(t, options)
	there := mwtest.Start(t, middleware.Options{
		Servers: options.Follows[0].To.Servers, Placement: route.Options{Replicas: 1},
	})
	c, o := m.Dial(t), there.Dial(t)
	commands := map[string]string{
		"set": "set set 0 0 1\r\n2\r\n", "delete": "delete delete\r\n", "md": "md md\r\n", "incr": "incr incr 1\r\n",
		"ms": "ms ms 1 MA\r\n2\r\n", "stale": "md stale I\r\n",
	}
	kept := map[string]string{
		"get": "get get\r\n", "touch": "touch touch 0\r\n", "gat": "gat 0 gat\r\n", "add": "add add 0 0 1\r\n2\r\n",
		"mg": "mg mg T0 v\r\n", "delivered": "md delivered P\r\n",
	}
	for _, client := range []*mctest.Client{c, o} {
		for key := range commands {
			require.Equal(t, "STORED\r\n", client.MustDo(t, "set "+key+" 0 0 1\r\n1\r\n"))
		}
		for key := range kept {
			require.Equal(t, "STORED\r\n", client.MustDo(t, "set "+key+" 0 0 1\r\n1\r\n"))
		}
		awaitFollower(t, m, paid)
	}
	for _, command := range commands {
		c.MustDo(t, command)
	}
	for _, command := range kept {
		c.MustDo(t, command)
	}
	c.MustDo(t, "delete only-there\r\n")
	awaitFollower(t, m, paid)
	for key := range commands {
		assert.Equal(t, "END\r\n", o.MustDo(t, "get "+key+"\r\n"), key)
	}
	for key := range kept {
		assert.NotEqual(t, "END\r\n", o.MustDo(t, "get "+key+"\r\n"), key)
	}
}

func TestAFollowingPoolGetsWhatThePoolHolds(t *testing.T) {
	main, other := mctest.StartNewMemcacheds(t, 2), mctest.StartNewMemcacheds(t, 1)
	m := mwtest.Start(t, followed(follow.Options{What: follow.All}, main, other))
	c := m.Dial(t)
	for _, command := range []string{
		"set a 7 0 1\r\n1\r\n", "append a 0 0 1\r\n2\r\n", "set n 0 100 1\r\n1\r\n", "incr n 4\r\n",
		"set d 0 0 1\r\n1\r\n", "delete d\r\n", "ms YmluIGtleQ== 1 b T0\r\n3\r\n",
		"set gone 0 0 1\r\n1\r\n", "touch gone -1\r\n",
		"set stale 0 0 1\r\n1\r\n", "md stale I\r\n", "mg vivified N30\r\n",
	} {
		c.MustDo(t, command)
	}
	awaitFollower(t, m, paid)
	there := mctest.MustDial(t, other[0].Addr())
	for command, reply := range map[string]string{
		"mg a v f t": "VA 2 f7 t-1\r\n12\r\n",
		"get n":      "VALUE n 0 1\r\n5\r\nEND\r\n", "get d": "END\r\n",
		"mg YmluIGtleQ== b v": "VA 1\r\n3\r\n", "get gone": "END\r\n", "get stale": "END\r\n",
		"get vivified": "END\r\n",
	} {
		assert.Equal(t, reply, there.MustDo(t, command+"\r\n"), command)
	}
	assert.NotEqual(t, "HD t-1\r\n", there.MustDo(t, "mg n t\r\n"))
	assert.Equal(t, mctest.MustDial(t, main[0].Addr()).MustDo(t, "mg a c\r\n"), there.MustDo(t, "mg a c\r\n"),
		"the versions are equal")
	var stale string
	for _, server := range main { // at least the key's first server holds it
		stale += mctest.MustDial(t, server.Addr()).MustDo(t, "mg stale\r\n")
	}
	assert.Regexp(t, " W", stale, "the next client that reads it is to renew it")
	assert.NotRegexp(t, " Z", stale)
	require.Equal(t, "OK\r\n", c.MustDo(t, "flush_all\r\n"))
	awaitFollower(t, m, paid)
	assert.Equal(t, "END\r\n", there.MustDo(t, "get a\r\n"))
}

func TestAFollowingPoolThatIsCutOffGetsEverythingLater(t *testing.T) {
	for _, what := range []string{follow.Deletes, follow.All} {
		all := what == follow.All
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			main, other := mctest.StartNewMemcacheds(t, 2), mctest.StartNewMemcacheds(t, 1)
			proxy := mctest.StartProxy(t, other[0].Addr())
			options := followed(follow.Options{What: what}, main, other)
			options.Follows[0].To.Servers[0].Addr = proxy.Addr()
			m := mwtest.Start(t, options)
			c, there := m.Dial(t), mctest.MustDial(t, other[0].Addr())
			there.MustDo(t, "set k0 0 0 3\r\nold\r\n")
			proxy.Inject(faulty.Fault{Lose: true})
			const keys = 3000
			for i := range keys {
				require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set k%d 0 0 1\r\n1\r\n", i)))
			}
			require.Equal(t, "DELETED\r\n", c.MustDo(t, "delete k1\r\n"))
			assert.Positive(t, follower(m).Debts)
			proxy.Inject(faulty.Fault{})
			awaitFollower(t, m, paid)
			for _, key := range []string{"k0", "k1", "k2999"} {
				value, held := other[0].Get(key)
				assert.True(t, !held || all && value == "1" && key != "k1", "%s is %q", key, value)
			}
		})
	}
}

func TestDebtsWithoutMemoryBecomeADoubtThatCopyingOrAFlushEnds(t *testing.T) {
	for _, o := range []follow.Options{
		{What: follow.All, Memory: 4 << 10}, {What: follow.Deletes, Flush: true, Memory: 4 << 10},
	} {
		t.Run(o.What, func(t *testing.T) {
			t.Parallel()
			main, other := mctest.StartNewMemcacheds(t, 1), mctest.StartNewMemcacheds(t, 1)
			proxy := mctest.StartProxy(t, other[0].Addr())
			options := followed(o, main, other)
			options.Follows[0].To.Servers[0].Addr = proxy.Addr()
			m := mwtest.Start(t, options)
			c, there := m.Dial(t), mctest.MustDial(t, other[0].Addr())
			proxy.Inject(faulty.Fault{Lose: true})
			const keys = 200
			for i := range keys {
				there.MustDo(t, fmt.Sprintf("set k%d 0 0 3\r\nold\r\n", i))
				c.MustDo(t, fmt.Sprintf("set k%d 0 0 3\r\nnew\r\n", i))
			}
			f := follower(m)
			assert.False(t, f.Doubt.IsZero())
			assert.Positive(t, f.Dropped)
			proxy.Inject(faulty.Fault{})
			awaitFollower(t, m, paid)
			for i := range keys {
				value, held := other[0].Get(fmt.Sprintf("k%d", i))
				assert.True(t, !held || value == "new", "k%d is %q", i, value)
			}
		})
	}
}

func TestARestartPaysWhatAnEarlierMiddlewareOwed(t *testing.T) {
	main, other := mctest.StartNewMemcacheds(t, 2), mctest.StartNewMemcacheds(t, 1)
	options := followed(follow.Options{What: follow.All}, main, other)
	options.DrainTimeout = time.Millisecond
	m := mwtest.Start(t, options)
	require.Equal(t, "STORED\r\n", m.Dial(t).MustDo(t, "set k 0 0 3\r\nold\r\n"))
	awaitFollower(t, m, paid)
	require.NoError(t, m.Stop())
	m = mwtest.Start(t, options)
	assert.True(t, paid(follower(m)), "the earlier middleware owed nothing")

	other[0].Freeze()
	require.Equal(t, "STORED\r\n", m.Dial(t).MustDo(t, "set k 0 0 3\r\nnew\r\n"))
	require.NoError(t, m.Stop())
	other[0].Thaw()
	m = mwtest.Start(t, options)
	awaitFollower(t, m, paid)
	value, held := other[0].Get("k")
	assert.True(t, !held || value == "new", value)
}

func TestTwoRegionsFollowEachOtherWithoutAnEnd(t *testing.T) {
	servers := mctest.StartMemcacheds(t, 2)
	dir := t.TempDir()
	var regions []*mwtest.MW
	for i, s := range servers {
		o := followed(follow.Options{}, []*mctest.Server{s}, nil)
		o.Listen = []string{"unix:" + filepath.Join(dir, fmt.Sprint(i))}
		o.Follows[0].To.Servers = []route.Server{{Name: "region", Addr: "unix:" + filepath.Join(dir, fmt.Sprint(1-i))}}
		regions = append(regions, mwtest.Start(t, o))
	}
	for _, m := range regions {
		require.Equal(t, "STORED\r\n", m.Dial(t).MustDo(t, "set k 0 0 1\r\n1\r\n"))
		for _, m := range regions {
			awaitFollower(t, m, paid)
		}
	}
	_, held := servers[0].Get("k")
	assert.False(t, held, "the second region's write has deleted it")
	_, held = servers[1].Get("k")
	assert.True(t, held)
	for _, m := range regions {
		assert.Equal(t, uint64(1), follower(m).Delivered)
	}
}

func TestRegionsThatFillTheirCachesFollowOnlyWhatClientsDelete(t *testing.T) {
	main, other := mctest.StartMemcacheds(t, 1), mctest.StartMemcacheds(t, 1)
	m := mwtest.Start(t, followed(follow.Options{What: follow.Purges}, main, other))
	c, there := m.Dial(t), mctest.MustDial(t, other[0].Addr())
	for _, key := range []string{"filled", "deleted", "invalidated"} {
		require.Equal(t, "STORED\r\n", there.MustDo(t, "set "+key+" 0 0 1\r\n1\r\n"))
		require.Equal(t, "STORED\r\n", c.MustDo(t, "set "+key+" 0 0 1\r\n1\r\n"))
	}
	c.MustDo(t, "delete deleted\r\n")
	c.MustDo(t, "md invalidated I T30\r\n")
	awaitFollower(t, m, paid)
	assert.Equal(t, "VALUE filled 0 1\r\n1\r\nEND\r\n", there.MustDo(t, "get filled deleted invalidated\r\n"))
}

func TestAFollowingPoolIsAddedAndRemovedUnderLoad(t *testing.T) {
	main, other := mctest.StartNewMemcacheds(t, 1), mctest.StartNewMemcacheds(t, 1)
	with := followed(follow.Options{What: follow.All}, main, other)
	with.Listen = []string{"127.0.0.1:0"}
	without := with
	without.Follows = nil
	m := mwtest.Start(t, without)
	c := m.Dial(t)
	require.NoError(t, m.Apply(context.Background(), with))
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1\r\n1\r\n"))
	awaitFollower(t, m, paid)
	value, _ := other[0].Get("k")
	assert.Equal(t, "1", value)
	require.NoError(t, m.Apply(context.Background(), without))
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1\r\n2\r\n"))
	value, _ = other[0].Get("k")
	assert.Equal(t, "1", value)
	assert.Empty(t, m.Stats().Snapshot().Follows)
}

func TestAReloadAppliesToTheServersOfAFollowingPoolThatStay(t *testing.T) {
	file := passwordFile(t, "mcmw:secret\n")
	main := mctest.StartMemcacheds(t, 1)
	options := followed(follow.Options{}, main, []*mctest.Server{mctest.StartMemcached(t, "-Y", file)})
	options.Listen = []string{"127.0.0.1:0"}
	m := mwtest.Start(t, options)
	require.Equal(t, "STORED\r\n", m.Dial(t).MustDo(t, "set k 0 0 1\r\n1\r\n"))
	require.Equal(t, 1, follower(m).Debts)
	next := options
	next.EachPool(func(p *middleware.PoolOptions) {
		if p.Name == "other" {
			p.ServerAuthFile = file
		}
	})
	require.NoError(t, m.Apply(context.Background(), next))
	awaitFollower(t, m, paid)
}

// Policies of a pool with tombstones.
var (
	holding      = plan.Policy{Holds: true}
	holdingLarge = plan.Policy{Holds: true, Large: plan.Large{Limit: 1 << 20, Item: 16 << 10}}
)

// twoRegions returns a middleware of a region main, and one of a region that follows it with tombstones that stay for
// hold. there are the options of the latter, without servers. through: deliveries go through another middleware there,
// otherwise to the servers.
func twoRegions(t *testing.T, hold time.Duration, there middleware.Options, through bool) (main, other *mwtest.MW) {
	t.Helper()
	servers := mctest.StartNewMemcacheds(t, 4)
	to := pooled("other", route.Options{Replicas: 2}, servers[:3]...)
	to.Large, to.Holds, to.Writers = there.Large, there.Holds, there.Writers
	there.Pools, there.Routes.Default = []middleware.PoolOptions{to}, "other"
	if through && there.Large.Limit == 0 {
		stripped := pooled("stripped", route.Options{}, servers[3])
		stripped.Holds = there.Holds
		there.Pools = append(there.Pools, stripped)
		there.Routes.Prefixes = []route.Prefix{{Prefix: "s:", Pool: "stripped", Strip: true}}
	}
	other = mwtest.Start(t, there)
	o := followed(follow.Options{Hold: hold}, mctest.StartMemcacheds(t, 1), nil)
	if o.Follows[0].To.Servers = to.Servers; through {
		another := mwtest.Start(t, there)
		o.Follows[0].To.Servers = []route.Server{{Name: "region", Addr: another.Addr()}}
	} else {
		o.Follows[0].To.Options = to.Options
	}
	return mwtest.Start(t, o), other
}

func TestAnOldRowDoesNotComeBackWhileADeleteHolds(t *testing.T) {
	for _, r := range []struct {
		name    string
		through bool
		there   middleware.Options
	}{
		{"to the servers", false, middleware.Options{Policy: holding}},
		{"through another middleware", true, middleware.Options{Policy: holding}},
		{"with one writer", false, middleware.Options{Policy: holding, Writers: middleware.WritersOne}},
		{"with large values", true, middleware.Options{Policy: holdingLarge}},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			main, there := twoRegions(t, time.Hour, r.there, r.through)
			c, o := main.Dial(t), there.Dial(t)
			value := "old"
			if r.there.Large.Limit > 0 {
				value = strings.Repeat(value, 10_000)
			}
			row := fmt.Sprintf("%d\r\n%s\r\n", len(value), value)
			for _, key := range []string{"k", "s:k", "s:" + strings.Repeat("k", 248)} {
				t.Log(key)
				set := "set " + key + " 0 0 " + row
				o.MustDo(t, set)
				c.MustDo(t, "delete "+key+"\r\n")
				awaitFollower(t, main, paid)
				absent := func() {
					t.Helper()
					require.Equal(t, "END\r\n", o.MustDo(t, "get "+key+"\r\n"))
				}
				absent()
				require.Equal(t, "NOT_STORED\r\n", o.MustDo(t, "add "+key+" 0 0 "+row))
				absent()
				require.Equal(t, "NS\r\n", o.MustDo(t, fmt.Sprintf("ms %s %d ME\r\n%s\r\n", key, len(value), value)))
				absent()
				require.NoError(t, o.Send(fmt.Appendf(nil, "add %s 0 0 %d noreply\r\n%s\r\n", key, len(value), value)))
				absent()

				leased := o.MustDo(t, "mg "+key+" N30 c\r\n")
				require.Regexp(t, `^HD c\d+ W`, leased)
				token := strings.TrimPrefix(strings.Fields(leased)[1], "c")
				lease := fmt.Sprintf("ms %s %d C%s\r\n%s\r\n", key, len(value), token, value)
				require.Equal(t, "NF\r\n", o.MustDo(t, lease))
				absent()

				require.Equal(t, "STORED\r\n", o.MustDo(t, set), "a set is not stopped")
				gets := strings.Fields(o.MustDo(t, "gets "+key+"\r\n"))
				require.Equal(t, "NOT_FOUND\r\n", o.MustDo(t, fmt.Sprintf("cas %s 0 0 %d %s\r\n%s\r\n", key, len(value),
					gets[4], value)))
				absent()
				require.Equal(t, "STORED\r\n", o.MustDo(t, set))
				require.Equal(t, "NOT_STORED\r\n", o.MustDo(t, "add "+key+" 0 0 "+row), "it is there")
				require.NotEqual(t, "END\r\n", o.MustDo(t, "get "+key+"\r\n"))
				require.Equal(t, "NOT_STORED\r\n", o.MustDo(t, "replace "+key+" 0 0 "+row))
				absent()
			}
			assert.Equal(t, "STORED\r\n", o.MustDo(t, "add another 0 0 1\r\n1\r\n"))
		})
	}
}

func TestARowComesBackAfterTheHoldOrWithoutIt(t *testing.T) {
	for _, r := range []struct {
		name  string
		hold  time.Duration
		there middleware.Options
	}{
		{"after it", time.Second, middleware.Options{Policy: holding}},
		{"a region that does not heed it", time.Hour, middleware.Options{}},
		{"a pool that follows without it", 0, middleware.Options{Policy: holding}},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			main, there := twoRegions(t, r.hold, r.there, true)
			c, o := main.Dial(t), there.Dial(t)
			c.MustDo(t, "delete k\r\n")
			awaitFollower(t, main, paid)
			add := "add k 0 0 1\r\n1\r\n"
			if r.name == "after it" {
				stored := func() bool { return o.MustDo(t, add) == "STORED\r\n" }
				require.Eventually(t, stored, mctest.Patience, mctest.Tick)
			} else {
				require.Equal(t, "STORED\r\n", o.MustDo(t, add))
			}
		})
	}
}

func TestNoneOfManyOldRowsComesBackWhileDeletesAreDelivered(t *testing.T) {
	for _, through := range []bool{false, true} {
		t.Run(fmt.Sprint(through), func(t *testing.T) {
			t.Parallel()
			main, there := twoRegions(t, time.Hour, middleware.Options{Policy: holding}, through)
			const keys, readers = 200, 4
			stop := make(chan struct{})
			var reading sync.WaitGroup
			for range readers {
				o := there.Dial(t)
				reading.Go(func() {
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						default:
							o.MustDo(t, fmt.Sprintf("add k%d 0 0 3\r\nold\r\n", i%keys))
						}
					}
				})
			}
			c := main.Dial(t)
			for i := range keys {
				c.MustDo(t, fmt.Sprintf("delete k%d\r\n", i))
			}
			awaitFollower(t, main, paid)
			close(stop)
			reading.Wait()
			o := there.Dial(t)
			for i := range keys {
				require.Equal(t, "END\r\n", o.MustDo(t, fmt.Sprintf("get k%d\r\n", i)))
			}
		})
	}
}
