package behaviour_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/worker"
)

// placed is a running middleware with a router that tells the test the servers of every key.
type placed struct {
	*mwtest.MW
	servers []*mctest.Server
	router  *route.Router
}

// startPlaced starts the servers of p and a middleware with options o in front of them. The middleware stores no
// records, because those would count as gets.
func startPlaced(t *testing.T, p topology, o middleware.Options) *placed {
	t.Helper()
	o.Rejoin = backend.RejoinTrust
	o, servers := p.options(t, o)
	router, err := route.New(o.Servers, o.Placement)
	require.NoError(t, err)
	return &placed{MW: mwtest.Start(t, o), servers: servers, router: router}
}

// numbered returns n keys. They begin with their number, because twemproxy's hash, the default on rings, places keys
// that differ only in their last bytes on one server.
func numbered(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("%d-key", i)
	}
	return keys
}

// spread checks that every server is the first for some of keys; otherwise the keys would show nothing about placement.
func (m *placed) spread(t *testing.T, keys []string) {
	t.Helper()
	for s := range m.servers {
		require.True(t, slices.ContainsFunc(keys, func(key string) bool { return m.router.Primary([]byte(key)) == s }),
			"none of these keys is server %d's: %q", s+1, keys)
	}
}

// cmdGets returns the number of keys requested from each server so far.
func (m *placed) cmdGets() []int64 {
	counts := make([]int64, len(m.servers))
	for i, s := range m.servers {
		counts[i] = s.Stat("cmd_get")
	}
	return counts
}

// askedSince returns the number of keys requested from each server since cmdGets returned before.
func (m *placed) askedSince(before []int64) []int64 {
	counts := m.cmdGets()
	for i := range counts {
		counts[i] -= before[i]
	}
	return counts
}

// copyOf is one server's copy of a key; the zero value is none.
type copyOf struct {
	value, flags string
	ttl          int // s, -1: no expiry
}

// holds returns server's copies of keys.
func holds(t *testing.T, server *mctest.Server, keys []string) []copyOf {
	t.Helper()
	c := mctest.MustDial(t, server.Addr())
	defer c.Close()
	copies := make([]copyOf, len(keys))
	for i, key := range keys {
		reply := c.MustDo(t, "mg "+key+" f t v\r\n")
		if reply == "EN\r\n" {
			continue
		}
		line, value, _ := strings.Cut(reply, "\r\n")
		fields := strings.Fields(line)
		require.Len(t, fields, 4, "%q", reply)
		ttl, err := strconv.Atoi(fields[3][1:])
		require.NoError(t, err, "%q", reply)
		copies[i] = copyOf{value: strings.TrimSuffix(value, "\r\n"), flags: fields[2][1:], ttl: ttl}
	}
	return copies
}

func TestEachReadPolicyReadsFromReplicasOfTheKeyOnly(t *testing.T) {
	p := topology{"", 3, 2, false}
	policies := []route.ReadPolicy{route.ReadDefault, route.ReadRoundRobin, route.ReadPrimary, route.ReadLeastBusy}
	for _, pool := range []middleware.WorkerPool{middleware.WorkersShared, middleware.WorkersPerServer} {
		for _, policy := range policies {
			t.Run(fmt.Sprintf("%v, pool %v", policy, pool), func(t *testing.T) {
				t.Parallel()
				o := middleware.Options{Workers: 1, WorkerPool: pool, Placement: route.Options{Read: policy}}
				m := startPlaced(t, p, o)
				c := m.Dial(t)
				keys := numbered(10)
				m.spread(t, keys)
				for _, key := range keys {
					before := m.cmdGets()
					const reads = 20
					for range reads {
						c.MustDo(t, "get "+key+"\r\n")
					}
					asked := m.askedSince(before)
					holders := m.router.Replicas([]byte(key), nil)
					for s, n := range asked {
						switch {
						case !slices.Contains(holders, s):
							require.Zero(t, n, "%s was read from server %d, which does not hold it", key, s+1)
						case policy == route.ReadRoundRobin:
							require.EqualValues(t, reads/len(holders), n, "%s: %v", key, asked)
						case policy != route.ReadLeastBusy && s == holders[0]:
							require.EqualValues(t, reads, n, "%s: %v", key, asked)
						}
					}
					require.EqualValues(t, reads, sum(asked), key)
				}
			})
		}
	}
}

func TestNearestReadsUseTheOwnZoneAndTheOthersOnceItIsDown(t *testing.T) {
	for _, pool := range []middleware.WorkerPool{middleware.WorkersShared, middleware.WorkersPerServer} {
		for _, replicas := range []int{0, 3} {
			t.Run(fmt.Sprintf("pool %s, replicas %d", pool, replicas), func(t *testing.T) {
				t.Parallel()
				o, servers := topology{servers: 4, replicas: replicas}.options(t, middleware.Options{
					Listen: []string{"127.0.0.1:0"}, Workers: 1, WorkerPool: pool,
					Placement:     route.Options{Read: route.ReadNearest, Zone: "east"},
					ServerOptions: backend.ServerOptions{Rejoin: backend.RejoinTrust}, // as startPlaced
				})
				for i := range o.Servers {
					o.Servers[i].Zone = []string{"west", "east"}[i%2]
				}
				router, err := route.New(o.Servers, o.Placement)
				require.NoError(t, err)
				m := &placed{MW: mwtest.Start(t, o), servers: servers, router: router}
				c := m.Dial(t)
				keys := numbered(10)
				for _, key := range keys {
					require.Equal(t, "STORED\r\n", c.MustDo(t, "set "+key+" 0 0 1\r\nv\r\n"))
				}
				// read reads each key and returns the number of requests to each server.
				read := func(key string) []int64 {
					before := m.cmdGets()
					for range 12 {
						require.Equal(t, "VALUE "+key+" 0 1\r\nv\r\nEND\r\n", c.MustDo(t, "get "+key+"\r\n"))
					}
					return m.askedSince(before)
				}
				askNear := func(near ...int) {
					for _, key := range keys {
						holders := slices.DeleteFunc(router.Replicas([]byte(key), nil),
							func(s int) bool { return !slices.Contains(near, s) })
						asked := read(key)
						for s, n := range asked {
							want := 0
							if slices.Contains(holders, s) {
								want = 12 / len(holders)
							}
							require.EqualValues(t, want, n, "%s from server %d: %v", key, s+1, asked)
						}
					}
				}
				askNear(1, 3)
				o.Servers = slices.Clone(o.Servers)
				for i := range o.Servers {
					o.Servers[i].Zone = []string{"east", "west"}[i%2]
				}
				require.NoError(t, m.Apply(t.Context(), o))
				askNear(0, 2)
				servers[0].Stop()
				servers[2].Stop()
				m.servers = []*mctest.Server{servers[1], servers[3]}
				for _, key := range keys {
					require.EqualValues(t, 12, sum(read(key)))
				}
			})
		}
	}
}

func TestLeastBusyReadsAvoidAServerThatOwesReplies(t *testing.T) {
	servers := mctest.StartMemcacheds(t, 3)
	proxies, named := proxied(t, servers)
	m := &placed{servers: servers, MW: mwtest.Start(t, middleware.Options{
		Servers: named, Workers: 4, RequestOptions: worker.RequestOptions{Timeout: mctest.Patience},
		Placement:     route.Options{Read: route.ReadLeastBusy},
		ServerOptions: backend.ServerOptions{Rejoin: backend.RejoinTrust}, // as startPlaced
	})}
	proxies[1].Inject(mctest.Fault{Stall: true})
	// Some get goes to the stalled server, because all servers are idle and take turns.
	var stuck *mctest.Client
	for range 20 {
		stuck = m.Dial(t)
		before := m.cmdGets()
		require.NoError(t, stuck.Send([]byte("get k\r\n")))
		var asked []int64
		require.Eventually(t, func() bool { asked = m.askedSince(before); return sum(asked) == 1 }, mctest.Patience,
			pollPause)
		if asked[1] == 1 {
			break
		}
		require.Equal(t, "END\r\n", stuck.MustReply(t))
		stuck = nil
	}
	require.NotNil(t, stuck, "no get went to server 2")
	before := m.cmdGets()
	c := m.Dial(t)
	for range 60 {
		require.Equal(t, "END\r\n", c.MustDo(t, "get k\r\n"))
	}
	asked := m.askedSince(before)
	require.Zero(t, asked[1])
	require.EqualValues(t, 60, sum(asked))
	proxies[1].Inject(mctest.Fault{})
	require.Equal(t, "END\r\n", stuck.MustReply(t))
}

func sum(counts []int64) (total int64) {
	for _, n := range counts {
		total += n
	}
	return total
}

const (
	// pollPause is the time between two checks of an awaited condition.
	pollPause = 5 * time.Millisecond
)

func TestAShardedMultiGetIsSplitEvenly(t *testing.T) {
	for _, servers := range []int{2, 3, 5} {
		t.Run(fmt.Sprintf("%d servers", servers), func(t *testing.T) {
			t.Parallel()
			m := startPlaced(t, topology{"", servers, 0, true}, middleware.Options{Workers: 2})
			c := m.Dial(t)
			require.Equal(t, "STORED\r\n", c.MustDo(t, "set 1-key 0 0 1\r\nx\r\n"))
			for _, keys := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 50, 99, 100, 101, 1000} {
				before := m.cmdGets()
				c.MustDo(t, "get "+strings.Join(numbered(keys), " ")+"\r\n")
				asked := m.askedSince(before)
				require.EqualValues(t, keys, sum(asked), "every key is asked for once: %v", asked)
				require.LessOrEqual(t, slices.Max(asked)-slices.Min(asked), int64(1), "%d keys: %v", keys, asked)
			}
		})
	}
}

func TestAMultiGetThatIsNotShardedGoesToOneServer(t *testing.T) {
	m := startPlaced(t, topology{"", 3, 0, false}, middleware.Options{Workers: 2})
	c := m.Dial(t)
	total := make([]int64, len(m.servers))
	for range 12 {
		before := m.cmdGets()
		c.MustDo(t, "get a b c d e\r\n")
		asked := m.askedSince(before)
		require.ElementsMatch(t, []int64{5, 0, 0}, asked)
		for s, n := range asked {
			total[s] += n
		}
	}
	require.NotContains(t, total, int64(0), "the servers take turns: %v", total)
}

func TestAMultiGetOfKeysOnOneReplicaAsksEachPrimary(t *testing.T) {
	for _, sharded := range []bool{false, true} {
		m := startPlaced(t, topology{"", 3, 1, sharded}, middleware.Options{Workers: 2})
		c := m.Dial(t)
		keys := numbered(200)
		m.spread(t, keys)
		request := "get " + strings.Join(keys, " ")
		want := make([]int64, len(m.servers))
		for _, key := range keys {
			want[m.router.Primary([]byte(key))]++
		}
		before := m.cmdGets()
		c.MustDo(t, request+"\r\n")
		require.Equal(t, want, m.askedSince(before))
	}
}
