package behaviour_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/marker"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
)

// keptKeys are the keys whose values must survive.
const keptKeys = 2000

// keptAtOnce is how many of the keys are stored, or read, at once.
const keptAtOnce = 100

// keep stores the keys through c. Sets of which one is answered with an error, which happens on a busy machine, are
// repeated.
func keep(t *testing.T, c *mctest.Client) {
	t.Helper()
	for first := 0; first < keptKeys; first += keptAtOnce {
		var sets []byte
		for i := first; i < first+keptAtOnce; i++ {
			sets = fmt.Appendf(sets, "set kept-%d %d 0 7\r\nvalue-%d\r\n", i, i, i%10)
		}
		poll(t, "not all sets are acknowledged", func() bool {
			require.NoError(t, c.Send(sets))
			stored := 0
			for range keptAtOnce {
				if c.MustReply(t) == "STORED\r\n" {
					stored++
				}
			}
			return stored == keptAtOnce
		})
	}
}

// hits returns how many of reads of the keys through c find their values. A retrieval that is answered with an error,
// which happens on a busy machine, is repeated.
func hits(t *testing.T, c *mctest.Client) (n int) {
	t.Helper()
	for first := 0; first < keptKeys; first += keptAtOnce {
		line := "get"
		for i := first; i < first+keptAtOnce; i++ {
			line += fmt.Sprintf(" kept-%d", i)
		}
		var items []mctest.Item
		require.Eventually(t, func() bool {
			var err error
			items, err = mctest.ParseValues(c.MustDo(t, line+"\r\n"))
			return err == nil
		}, mctest.Patience, pollPause)
		for _, item := range items {
			var i int
			_, err := fmt.Sscanf(item.Key, "kept-%d", &i)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("%d value-%d", i, i%10), item.Flags+" "+item.Value, item.Key)
		}
		n += len(items)
	}
	return n
}

// awaitRefilled waits until server says that it is refilled, and each of fleet reads all servers.
func awaitRefilled(t *testing.T, server *mctest.Server, fleet []*mwtest.MW) {
	t.Helper()
	c := mctest.MustDial(t, server.Addr())
	ask := "mg " + base64.StdEncoding.EncodeToString([]byte(marker.RefilledKey)) + " b\r\n"
	require.Eventually(t, func() bool { return c.MustDo(t, ask) == "HD\r\n" }, mctest.Patience, pollPause,
		"%s is not refilled", server.Addr())
	for _, m := range fleet {
		require.Eventually(t, func() bool {
			for _, s := range m.Stats().Snapshot().Servers {
				if !upUnmarked(s.Health) {
					return false
				}
			}
			return true
		}, mctest.Patience, pollPause, "not all servers are read")
	}
}

// deleter sets and deletes keys of its own through one middleware after the other until stop is closed. After the
// answer to a deletion no middleware may find the key.
func deleter(t *testing.T, fleet []*mwtest.MW, keys int, stop chan struct{}, deleted *atomic.Int64) (wait func()) {
	var clients sync.WaitGroup
	for k := range keys {
		var conns []*mctest.Client
		for _, m := range fleet {
			conns = append(conns, m.Dial(t))
		}
		clients.Go(func() {
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				do := func(through int, command string) string {
					reply, err := conns[through%len(conns)].Do(command)
					if err != nil {
						return err.Error()
					}
					return reply
				}
				key := fmt.Sprintf("gone-%d-%d", k, n/2%50)
				if n%2 == 0 {
					do(n/2, "set "+key+" 0 0 1\r\nx\r\n")
					continue
				}
				if reply := do(n, "delete "+key+"\r\n"); reply != "DELETED\r\n" && reply != "NOT_FOUND\r\n" {
					continue
				}
				deleted.Add(1)
				for i := range 2 * len(conns) {
					if reply := do(i, "get "+key+"\r\n"); strings.HasPrefix(reply, "VALUE ") {
						t.Errorf("%s is read after it was deleted", key)
					}
				}
			}
		})
	}
	return clients.Wait
}

// witnessOn stores an item on each of servers that the middlewares don't know, and returns a function that reports
// whether one of them is still there.
func witnessOn(t *testing.T, servers []*mctest.Server) (stays func() bool) {
	t.Helper()
	for _, s := range servers {
		require.Equal(t, "STORED\r\n", mctest.MustDial(t, s.Addr()).MustDo(t, "set witness 0 0 1\r\nx\r\n"))
	}
	return func() bool {
		return slices.ContainsFunc(servers, func(s *mctest.Server) bool {
			return mctest.MustDial(t, s.Addr()).MustDo(t, "get witness\r\n") != "END\r\n"
		})
	}
}

func TestAServerThatMovesIsRefilledWhileItsFormerAddressStillAnswers(t *testing.T) {
	servers := mctest.StartNewMemcacheds(t, 4)
	o := liveOptions()
	o.Servers, o.Listen = mwtest.Servers(servers[:3]...), []string{"127.0.0.1:0"}
	o.RefillRate, o.Timeout = 1_000_000, time.Second
	m := mwtest.Start(t, o)
	fleet := []*mwtest.MW{m}
	for _, s := range servers[:3] {
		awaitRefilled(t, s, fleet)
	}
	keep(t, m.Dial(t))
	o.Servers = slices.Clone(o.Servers)
	o.Servers[1].Addr = servers[3].Addr()
	require.NoError(t, m.Apply(context.Background(), o))
	awaitRefilled(t, servers[3], fleet)
	// The checks of the last writes delete keys of which they find no copy at the new address.
	kept := hits(t, mctest.MustDial(t, servers[0].Addr()))
	require.NotZero(t, kept)
	require.Equal(t, kept, hits(t, mctest.MustDial(t, servers[3].Addr())))
}

func TestARestartOfAllServersInTurnKeepsTheKeysUnderLoad(t *testing.T) {
	for name, of := range map[string]struct {
		servers, instances int
		writers            middleware.Writers
	}{
		"three servers":      {3, 2, middleware.WritersSeveral},
		"two servers":        {2, 2, middleware.WritersSeveral},
		"one mcmw of itself": {2, 1, middleware.WritersOne},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			restartAllInTurn(t, of.servers, of.instances, of.writers)
		})
	}
}

// keepOnAll stores the keys until each of servers has all of them: with acks of live servers one that did not answer in
// time, which happens on a busy machine, lacks keys although their sets succeeded.
func (s *scene) keepOnAll(t *testing.T, servers []*mctest.Server) {
	t.Helper()
	poll(t, "the servers do not have all keys", func() bool {
		keep(t, s.fleet[0].Dial(t))
		return !slices.ContainsFunc(servers, func(server *mctest.Server) bool {
			awaitRefilled(t, server, s.fleet)
			return hits(t, mctest.MustDial(t, server.Addr())) < keptKeys
		})
	})
}

// restartKeepsKeys restarts server s, and reports whether all kept keys are found after it was refilled from others.
// They are not if a middleware was without a processor for so long that it flushed all servers.
func restartKeepsKeys(t *testing.T, scene *scene, s *mctest.Server, others []*mctest.Server) bool {
	t.Helper()
	stays := witnessOn(t, others)
	s.Stop()
	scene.more(t, 100)
	s.Start()
	begun := time.Now()
	awaitRefilled(t, s, scene.fleet)
	t.Logf("refilled after %v", time.Since(begun))
	missing := 0
	for _, m := range scene.fleet {
		missing += keptKeys - hits(t, m.Dial(t))
	}
	if missing > 0 {
		require.False(t, stays(), "%d reads missed, and not all the other servers were flushed", missing)
	}
	return missing == 0
}

func restartAllInTurn(t *testing.T, n, instances int, writers middleware.Writers) {
	servers := mctest.StartNewMemcacheds(t, n)
	o := liveOptions()
	o.Writers, o.RefillRate, o.Timeout = writers, 1_000_000, time.Second
	scene := stage(t, instances, o, servers)
	// One of two servers counts for a while only, if the machine is so busy that leases lapse.
	scene.fails = true
	var deleted atomic.Int64
	// While the fleet answers with errors only, each after its timeout, it must not fall behind what clients send.
	load := loadOf(t)
	load.Rate, load.SharedRate = load.Rate/4, load.SharedRate/4
	scene.legal(t, load, func() {
		stop := make(chan struct{})
		wait := deleter(t, scene.fleet, 4, stop, &deleted)
		for i, s := range servers {
			others := slices.Concat(servers[:i], servers[i+1:])
			scene.keepOnAll(t, servers)
			for flushed := 0; !restartKeepsKeys(t, scene, s, others); flushed++ {
				require.Less(t, flushed, 3, "the other servers are flushed with each restart")
				scene.keepOnAll(t, servers)
			}
		}
		close(stop)
		wait()
	})
	require.NotZero(t, deleted.Load())
	o.Servers, o.Timeout, o.ConnectTimeout = mwtest.Servers(servers...), mctest.Patience, mctest.Patience
	p, err := middleware.Verify(context.Background(), o, middleware.Verification{Values: true})
	require.NoError(t, err)
	require.Zero(t, p.Differ)
}

// stageFull stages two middlewares whose servers hold the keys and count as full. direct are connections to servers.
func stageFull(t *testing.T, o middleware.Options, servers []*mctest.Server) (s *scene, direct []*mctest.Client) {
	t.Helper()
	s = stage(t, 2, o, servers)
	keep(t, s.fleet[0].Dial(t))
	for _, server := range servers {
		awaitRefilled(t, server, s.fleet)
		direct = append(direct, mctest.MustDial(t, server.Addr()))
	}
	return s, direct
}

func TestWhatAnotherMiddlewareSaysOfAServerWhoseCopiesWereTakenBackDoesNotCount(t *testing.T) {
	t.Parallel()
	servers := mctest.StartNewMemcacheds(t, 3)
	o := liveOptions()
	o.RefillRate, o.Timeout = 1_000_000, time.Minute // copies wait so long for their check that the claim is renewed
	stageFull(t, o, servers)
	servers[1].Stop()
	servers[1].Start()
	c := mctest.MustDial(t, servers[1].Addr())
	poll(t, "no copies", func() bool { return hits(t, c) == keptKeys })
	require.Equal(t, "OK\r\n", c.MustDo(t, "flush_all\r\n"))
	claim, full := base64.StdEncoding.EncodeToString([]byte(marker.RefillKey)),
		base64.StdEncoding.EncodeToString([]byte(marker.RefilledKey))
	require.Equal(t, "HD\r\n", c.MustDo(t, "ms "+claim+" 13 b\r\n{\"owner\":\"b\"}\r\n"))
	require.Equal(t, "HD\r\n", c.MustDo(t, "ms "+full+" 1 b\r\nb\r\n"))
	poll(t, "the server still counts as full", func() bool { return c.MustDo(t, "mg "+full+" b\r\n") == "EN\r\n" })
}

func TestCopiesThatServersLackAreThereAgainAfterASweepUnderLoad(t *testing.T) {
	t.Parallel()
	servers := mctest.StartNewMemcacheds(t, 3)
	o := liveOptions()
	o.RefillRate, o.SweepEvery, o.Timeout = 1_000_000, time.Second, time.Second
	scene, direct := stageFull(t, o, servers)
	var stays []func() bool
	for s, c := range direct {
		stays = append(stays, witnessOn(t, servers[s:s+1]))
		for i := s; s < 2 && i < keptKeys; i += 5 {
			c.MustDo(t, fmt.Sprintf("delete kept-%d\r\n", i))
		}
	}
	var deleted atomic.Int64
	// While the fleet answers with errors only, each after its timeout, it must not fall behind what clients send.
	load := loadOf(t)
	load.Rate, load.SharedRate = load.Rate/4, load.SharedRate/4
	scene.legal(t, load, func() {
		stop := make(chan struct{})
		wait := deleter(t, scene.fleet, 4, stop, &deleted)
		held := 0
		poll(t, "a server lacks copies", func() bool {
			held = hits(t, direct[0])
			return hits(t, direct[1]) == held && hits(t, direct[2]) == held
		})
		close(stop)
		wait()
		// Middlewares that were without a processor for long flush servers. Keys may then be on none of them.
		if held < keptKeys {
			stays = slices.DeleteFunc(stays, func(stay func() bool) bool { return stay() })
			require.Greater(t, len(stays), 1, "%d keys are lost, and at most one server was flushed", keptKeys-held)
		}
	})
	require.NotZero(t, deleted.Load())
}

func TestTheFewCopiesThatWritersAtOnceHaveLostAreThereAgainAfterTwoSweeps(t *testing.T) {
	t.Parallel()
	const raced, writers = 15, 16 // fewer than 1 % of all keys
	servers := mctest.StartNewMemcacheds(t, 3)
	o := liveOptions()
	o.RefillRate, o.Timeout = 1_000_000, time.Second
	scene, direct := stageFull(t, o, servers)
	lacking := func() (n int) {
		for i := range raced {
			held := 0
			for _, c := range direct {
				if c.MustDo(t, fmt.Sprintf("mg raced-%d\r\n", i)) == "HD\r\n" {
					held++
				}
			}
			if held > 0 {
				n += len(direct) - held
			}
		}
		return n
	}
	for lacks := 0; lacks == 0; lacks = lacking() {
		var clients sync.WaitGroup
		for w := range writers {
			c := scene.fleet[w%len(scene.fleet)].Dial(t)
			clients.Go(func() {
				for i := range raced {
					_, _ = c.Do(fmt.Sprintf("set raced-%d 0 0 2\r\n%02d\r\n", i, w))
				}
			})
		}
		clients.Wait()
	}
	t.Log(lacking(), "copies lack")
	o.Servers, o.SweepEvery = mwtest.Servers(servers...), time.Second
	mwtest.Start(t, o)
	poll(t, "copies lack", func() bool { return lacking() == 0 })
}

// What the pods of servers are told.
func TestAServerIsSaidToBeRefilledWhenItIsReadAndWithoutRefillAtOnce(t *testing.T) {
	servers := mctest.StartNewMemcacheds(t, 3)
	o := liveOptions()
	o.Servers, o.Listen = mwtest.Servers(servers...), []string{"127.0.0.1:0"}
	o.RefillRate, o.Timeout = 1_000_000, time.Second
	m := mwtest.Start(t, o)
	fleet := []*mwtest.MW{m}
	says := func(want ...bool) {
		t.Helper()
		require.Eventually(t, func() bool {
			said := m.Refilled()
			for i, s := range o.Servers {
				if refilled, known := said[s]; !known || refilled != want[i] {
					return false
				}
			}
			return len(said) == len(want)
		}, mctest.Patience, pollPause)
	}
	for _, s := range servers {
		awaitRefilled(t, s, fleet)
	}
	says(true, true, true)
	keep(t, m.Dial(t))

	o.RefillRate = 1 // it would take half an hour
	require.NoError(t, m.Apply(context.Background(), o))
	servers[1].Stop()
	servers[1].Start()
	says(true, false, true)
	o.RefillRate = 0
	require.NoError(t, m.Apply(context.Background(), o))
	says(true, true, true)
}
