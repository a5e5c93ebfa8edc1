package worker_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/link"
	"mcmw/internal/marker"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/worker"
)

// twoPools starts a middleware in front of two pools of three servers. Pool a has the keys that begin with a, pool b
// all others. The servers of a carry marks, which count after more than a quarter of a second, because of another
// middleware that does not acknowledge marks.
func twoPools(t *testing.T, o middleware.Options) (m *mwtest.MW, a, b []*mctest.Server) {
	t.Helper()
	a, b = mctest.StartNewMemcacheds(t, 3), mctest.StartNewMemcacheds(t, 3)
	o.Routes = route.Routes{Prefixes: []route.Prefix{{Prefix: "a", Pool: "a"}}, Default: "b"}
	for n, servers := range [][]*mctest.Server{a, b} {
		name := "ab"[n : n+1]
		p := middleware.PoolOptions{Pool: route.Pool{Name: name, Servers: mwtest.Servers(servers...)}}
		for i := range p.Servers {
			p.Servers[i].Name = name + "-" + p.Servers[i].Name
		}
		p.Writers = middleware.WritersSeveral
		if name == "a" {
			p.Ack, p.ServerOptions = replica.AckQuorum,
				backend.ServerOptions{FailureLimit: 1, ConnectTimeout: time.Second}
		}
		o.Pools = append(o.Pools, p)
	}
	for _, server := range a {
		another(t, server)
	}
	return mwtest.Start(t, o), a, b
}

// another stores the name of a middleware that does not acknowledge marks, as such a middleware does regularly.
func another(t *testing.T, server *mctest.Server) {
	t.Helper()
	c := mctest.MustDial(t, server.Addr())
	defer c.Close()
	require.Equal(t, "HD\r\n", c.MustDo(t, fmt.Sprintf("ms %s 7 b\r\nanother\r\n", link.Key(marker.RunningKey).Text)))
}

// sends lets n clients send request, in which %d stands for the client's number, and returns a channel with their
// answers.
func sends(t *testing.T, m *mwtest.MW, n int, request string) <-chan string {
	answers := make(chan string, n)
	for i := range n {
		c := m.Dial(t)
		require.NoError(t, c.Send(fmt.Appendf(nil, request, i)))
		go func() {
			reply, err := c.Reply()
			if err != nil {
				reply = err.Error()
			}
			answers <- reply
		}()
	}
	return answers
}

// outage calls do while server, the first of m's, is down. If do returns false there is another outage: on a busy
// machine, for example, the marks may have been read too long ago to know what the server missed.
func outage(t *testing.T, m *mwtest.MW, server *mctest.Server, do func() bool) {
	t.Helper()
	state := func() string { return m.Stats().Snapshot().Servers[0].Health.State }
	for tries := 0; ; tries++ {
		require.Less(t, tries, 20)
		require.Eventually(t, func() bool { return state() == "up" }, mctest.Patience, mctest.Tick)
		server.Stop()
		if do() {
			return
		}
		server.Start()
	}
}

// A write that a server missed is answered when all mcmw instances know of it. Meanwhile all workers do other work.
func TestRequestsOfOnePoolAreAnsweredWhileWritesOfAnotherWaitForAMark(t *testing.T) {
	for name, o := range map[string]middleware.Options{
		"one worker":             {Workers: 1},
		"synchronous workers":    {Workers: 2, RequestOptions: worker.RequestOptions{Depth: 1}},
		"a pool for each server": {WorkerPool: middleware.WorkersPerServer, Workers: 1},
	} {
		t.Run(name, func(t *testing.T) {
			const writers = 8
			m, a, _ := twoPools(t, o)
			c := m.Dial(t)
			require.Equal(t, "STORED\r\n", c.MustDo(t, "set a 0 0 1\r\nx\r\n"))
			require.Equal(t, "STORED\r\n", c.MustDo(t, "set b 0 0 1\r\nx\r\n"))

			outage(t, m, a[0], func() bool {
				written := sends(t, m, writers, "set a%d 0 0 1\r\ny\r\n")
				require.Eventually(t, func() bool { return m.Stats().Snapshot().Servers[0].Health.State != "up" },
					mctest.Patience, mctest.Tick)
				meanwhile := 0
				for len(written) == 0 {
					require.Equal(t, "VALUE b 0 1\r\nx\r\nEND\r\n", c.MustDo(t, "get b\r\n"))
					require.Equal(t, "STORED\r\n", c.MustDo(t, "set b 0 0 1\r\nx\r\n"))
					meanwhile++
				}
				known := true
				for range writers {
					known = <-written == "STORED\r\n" && known
				}
				t.Logf("%d requests while no write of the other pool was answered", 2*meanwhile)
				return known && meanwhile > 3 // all of them can be late on a busy machine
			})
		})
	}
}

// Requests that follow such a write on its connection are answered after it, in order, with the values of that time.
func TestRequestsAfterAWriteThatWaitsForAMarkAreAnsweredInOrder(t *testing.T) {
	const last = "VALUE b 0 1\r\n7\r\nEND\r\n"
	m, a, _ := twoPools(t, middleware.Options{Workers: 1})
	outage(t, m, a[0], func() bool {
		c := m.Dial(t)
		defer c.Close()
		require.NoError(t,
			c.Send([]byte("set b 0 0 1\r\n1\r\nget b\r\nset a 0 0 1\r\n2\r\nget a\r\nincr b 1\r\nget b a\r\nset a 0 "+
				"0 1 noreply\r\n3\r\nms a 1 q\r\n4\r\nmn\r\nget a\r\n"+
				"append a 0 0 1\r\n0\r\nincr a 1\r\nget b\r\nset b 0 0 1\r\n7\r\nget b\r\n")))
		for _, reply := range []string{
			"STORED\r\n", "VALUE b 0 1\r\n1\r\nEND\r\n", "STORED\r\n", "VALUE a 0 1\r\n2\r\nEND\r\n", "2\r\n",
			"VALUE b 0 1\r\n2\r\nVALUE a 0 1\r\n2\r\nEND\r\n", "MN\r\n", "VALUE a 0 1\r\n4\r\nEND\r\n", "STORED\r\n",
			"41\r\n",
			"VALUE b 0 1\r\n2\r\nEND\r\n", "STORED\r\n", last,
		} {
			got := c.MustReply(t)
			if strings.Contains(got, "SERVER_ERROR a-server-") {
				for got != last { // no reply may remain for the next outage
					got = c.MustReply(t)
				}
				return false
			}
			require.Equal(t, reply, got)
		}
		for _, s := range a[1:] {
			value, _ := s.Get("a")
			assert.Equal(t, "41", value)
		}
		return true
	})
}

// If no mark can be set, the write fails, and so do later writes to the pool. Requests to other pools are answered.
func TestAWriteWhoseMarkCannotBeSetFailsAndLaterRequestsAreAnswered(t *testing.T) {
	m, a, _ := twoPools(t, middleware.Options{Workers: 1, RequestOptions: worker.RequestOptions{Timeout: time.Second}})
	a[0].Stop()
	a[1].Stop()
	require.Eventually(t, func() bool { return m.Stats().Snapshot().Servers[2].Health.State == "stale" },
		mctest.Patience, mctest.Tick, "until then it is read")
	late := regexp.MustCompile("SERVER_ERROR b-server-[123]: .*(no reply in time|too few servers say whether it " +
		"missed writes)")
	exchange := func() bool {
		c := m.Dial(t)
		defer c.Close()
		require.NoError(t,
			c.Send([]byte("set b 0 0 1\r\n1\r\nset a 0 0 1\r\n2\r\nget b\r\nincr b 1\r\nset a 0 0 1 "+
				"noreply\r\n3\r\nms a 1 q\r\n4\r\ndecr b 1\r\nget b a\r\n")))
		for _, reply := range []string{
			"STORED\r\n", "SERVER_ERROR a-server-[12]: ", "VALUE b 0 1\r\n1\r\nEND\r\n", "2\r\n",
			"SERVER_ERROR a-server-[12]: ", "1\r\n",
			"VALUE b 0 1\r\n1\r\nSERVER_ERROR a-server-[123]: ",
		} {
			got := c.MustReply(t)
			if late.MatchString(got) {
				// on a busy machine b's servers may be late, too, or their marks may have been read too long ago
				return false
			}
			require.Regexp(t, "^"+reply, got)
		}
		return true
	}
	for exchanges, tries := 0, 0; exchanges < 3; tries++ {
		require.Less(t, tries, 20)
		if exchange() {
			exchanges++
		}
	}
}

// A read needs a majority of the pool's servers. While too few of them can be asked no request waits for them, because
// nothing but their return helps.
func TestAnErrorIsGivenAtOnceWhenTooFewServersCanBeReached(t *testing.T) {
	for name, miss := range map[string]bool{"errors": false, "misses": true} {
		t.Run(name, func(t *testing.T) {
			// A request that waits for the timeout fails the test.
			m, a, _ := twoPools(t, middleware.Options{
				Workers:        1,
				RequestOptions: worker.RequestOptions{Timeout: 10 * time.Minute, GetErrorMiss: miss, Sharded: true},
			})
			c := m.Dial(t)
			require.Eventually(t, func() bool { return c.MustDo(t, "set a 0 0 1\r\n1\r\n") == "STORED\r\n" },
				mctest.Patience, mctest.Tick)
			a[0].Stop()
			a[1].Stop()
			require.Eventually(t, func() bool { return m.Stats().Snapshot().Servers[2].Health.State == "stale" },
				mctest.Patience, mctest.Tick)
			for request, missed := range map[string]string{
				"get a\r\n": "END\r\n", "get a a2 a3\r\n": "END\r\n", "gets a\r\n": "END\r\n", "mg a v\r\n": "EN\r\n",
				"mg a c\r\n": "EN\r\n", "gat 0 a\r\n": "END\r\n",
				"set a 0 0 1\r\n2\r\n": "", "delete a\r\n": "", "touch a 0\r\n": "", "add an 0 0 1\r\n2\r\n": "",
				"incr a 1\r\n": "", "append a 0 0 1\r\n2\r\n": "",
				"cas a 0 0 1 5\r\n2\r\n": "", "ms a 1 C5\r\n2\r\n": "", "ma a\r\n": "",
			} {
				if reply := c.MustDo(t, request); miss && missed != "" {
					require.Equal(t, missed, reply, request)
				} else {
					require.Regexp(t, "^SERVER_ERROR a-server-", reply, request)
				}
			}
			a[0].Start()
			a[1].Start()
			require.Eventually(t, func() bool {
				return c.MustDo(t, "get a\r\n") == "END\r\n" && c.MustDo(t, "set a 0 0 1\r\n3\r\n") == "STORED\r\n"
			}, mctest.Patience, mctest.Tick)
		})
	}
}

func TestAWriteDoesNotWaitForAMarkBeyondItsTimeout(t *testing.T) {
	m, a, _ := twoPools(t, middleware.Options{RequestOptions: worker.RequestOptions{Timeout: 200 * time.Millisecond}})
	outage(t, m, a[0], func() bool {
		require.Regexp(t, "^SERVER_ERROR ", m.Dial(t).MustDo(t, "set a 0 0 1\r\nx\r\n"))
		return true
	})
}

// A server that stalls is marked, as one that is down is. Writes that the others have carried out don't wait for it.
func TestAReplicatedWriteDoesWithoutAServerThatStalls(t *testing.T) {
	for name, o := range arrangements {
		for _, writers := range []middleware.Writers{middleware.WritersOne, middleware.WritersSeveral} {
			t.Run(name+", writers "+writers.String(), func(t *testing.T) {
				// A request that waits for the timeout fails the test.
				o.Timeout, o.StallAfter, o.Writers, o.Ack = 10*time.Minute, silence, writers, replica.AckLive
				servers := mctest.StartNewMemcacheds(t, 3)
				o.Servers = mwtest.Servers(servers...)
				m := mwtest.Start(t, o)
				c := m.Dial(t)
				state := func() string { return m.Stats().Snapshot().Servers[2].Health.State }
				for n := 1; n <= 3; n++ {
					require.Eventually(t, func() bool {
						return c.MustDo(t, "set a 0 0 1\r\n0\r\n") == "STORED\r\n" && state() == "up"
					}, mctest.Patience, mctest.Tick)
					servers[2].Freeze()
					first, done := "gat 0 a\r\n", "VALUE a 0 1\r\n0\r\nEND\r\n"
					if n > 1 {
						first, done = fmt.Sprintf("set a 0 0 1\r\n%d\r\n", n), "STORED\r\n"
					}
					// The writers' time for a mark ends early if the machine is too busy to look for marks.
					require.Eventually(t, func() bool { return c.MustDo(t, first) == done }, mctest.Patience,
						mctest.Tick)
					require.NoError(t, c.Send([]byte("set b 0 0 1\r\n5\r\ndelete a\r\nget a\r\nset a 0 0 1\r\n6\r\n"+
						"get a\r\ngat 0 a b\r\n")))
					for _, want := range []string{
						"STORED\r\n", "DELETED\r\n", "END\r\n", "STORED\r\n",
						"VALUE a 0 1\r\n6\r\nEND\r\n", "VALUE a 0 1\r\n6\r\nVALUE b 0 1\r\n5\r\nEND\r\n",
					} {
						require.Equal(t, want, c.MustReply(t))
					}
					servers[2].Thaw()
				}
				require.Eventually(t, func() bool { return state() == "up" }, mctest.Patience, mctest.Tick)
				if value, has := servers[2].Get("a"); has {
					require.Equal(t, "6", value)
				}
			})
		}
	}
}

// A server that a read has found to stall is not waited for once more.
func TestAReplicatedWriteDoesWithoutASuspectAtOnce(t *testing.T) {
	t.Parallel()
	const stallAfter = 5 * time.Second // longer than a machine is late
	o := middleware.Options{
		Writers:        middleware.WritersSeveral,
		RequestOptions: worker.RequestOptions{Timeout: 10 * time.Minute, StallAfter: stallAfter, Ack: replica.AckLive},
	}
	servers := mctest.StartNewMemcacheds(t, 3)
	o.Servers = mwtest.Servers(servers...)
	m := mwtest.Start(t, o)
	c := m.Dial(t)
	servers[2].Freeze()
	defer servers[2].Thaw()
	for m.Stats().Snapshot().Servers[2].Health.Stalls == 0 {
		c.MustDo(t, "get a\r\n")
	}
	require.Equal(t, "up", m.Stats().Snapshot().Servers[2].Health.State)
	written := sends(t, m, 1, "set a%d 0 0 1\r\n1\r\n")
	require.Eventually(t, func() bool { return len(written) > 0 }, stallAfter, mctest.Tick)
	require.Equal(t, "STORED\r\n", <-written)
}

// While too few servers of a pool can be asked for marks, none of them is read, and reads wait until their timeout, but
// no longer, however many arrive.
func TestAReadThatWaitsForAServerIsAnsweredInTimeWhileMoreReadsArrive(t *testing.T) {
	m, a, _ := twoPools(t, middleware.Options{
		Workers:        1,
		RequestOptions: worker.RequestOptions{Timeout: 400 * time.Millisecond},
	})
	a[0].Freeze() // if it had ended, nothing would wait for it
	a[1].Freeze()
	require.Eventually(t, func() bool { return m.Stats().Snapshot().Servers[2].Health.State == "stale" },
		mctest.Patience, mctest.Tick)
	first := sends(t, m, 1, "get a%d b\r\n")
	more := 0
	for ; len(first) == 0; more++ {
		sends(t, m, 1, "get a%d\r\n")
		time.Sleep(40 * time.Millisecond) // the rate at which reads arrive; it waits for nothing
	}
	assert.Contains(t, <-first, "SERVER_ERROR ") // on a machine that is late for the timeout it may name a server of b
	// Ten arrive within the timeout. The limit consists of pauses, because a machine that is late for the timeout is
	// also late for each pause.
	assert.Less(t, more, 50)
}
