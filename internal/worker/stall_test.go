package worker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/worker"
)

// keysOf returns n keys whose first server is server s of m.
func keysOf(t *testing.T, o middleware.Options, m *mwtest.MW, servers []*mctest.Server, s, n int) []string {
	t.Helper()
	var named []route.Server
	for _, server := range servers {
		named = append(named, route.Server{Name: server.Addr(), Addr: server.Addr()})
	}
	router, err := route.New(named, o.Placement)
	require.NoError(t, err)
	var keys []string
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprintf("%d-key", i); router.Primary([]byte(key)) == s {
			keys = append(keys, key)
		}
	}
	return keys
}

// silence is longer than a server that runs is silent, even on a busy machine: if all replicas of a key seem to stall,
// its requests wait together with those for the frozen one.
const silence = 500 * time.Millisecond

// arrangements are arrangements of workers in which a stalled server must not hold up requests to other servers.
var arrangements = map[string]middleware.Options{
	"one worker":             {Workers: 1, RequestOptions: worker.RequestOptions{Depth: 8}},
	"synchronous workers":    {Workers: 3, RequestOptions: worker.RequestOptions{Depth: 1}},
	"a pool for each server": {WorkerPool: middleware.WorkersPerServer, Workers: 1},
}

func TestRequestsThatDoNotNeedAStalledServerDoNotWaitForIt(t *testing.T) {
	for name, o := range arrangements {
		t.Run(name, func(t *testing.T) {
			// A request that waits for the timeout fails the test.
			o.Timeout, o.StallAfter = 10*time.Minute, silence
			o.Placement.Replicas = 1
			m, servers := replicas(t, 3, o)
			addr := m.Addr()
			frozen := keysOf(t, o, m, servers, 1, 12)
			others := append(keysOf(t, o, m, servers, 0, 5), keysOf(t, o, m, servers, 2, 5)...)
			c := dial(t, addr)
			for _, key := range append(append([]string(nil), frozen...), others...) {
				require.Equal(t, "STORED\r\n", c.ask(fmt.Sprintf("set %s 0 0 1\r\nx\r\n", key), 1))
			}

			servers[1].Freeze()
			var waiting []*client
			for i, key := range frozen {
				w := dial(t, addr)
				waiting = append(waiting, w)
				// Every kind of request that needs the server.
				w.ask([]string{
					"get %s\r\n", "set %s 0 0 1\r\nx\r\n", "mg %s v\r\n", "gat 0 %s\r\n", "delete %s\r\n",
					"get " + others[0] + " %s\r\n",
				}[i%6], 0, key)
			}
			for range 20 {
				for _, key := range others {
					assert.Equal(t, "VALUE "+key+" 0 1\r\nx\r\nEND\r\n", c.ask("get %s\r\n", 3, key))
					assert.Equal(t, "STORED\r\n", c.ask("set %s 0 0 1\r\nx\r\n", 1, key))
				}
				assert.Equal(t, "VALUE "+others[0]+" 0 1\r\nx\r\nVALUE "+others[7]+" 0 1\r\nx\r\nEND\r\n",
					c.ask("get "+others[0]+" %s\r\n", 5, others[7]))
			}
			assert.NotZero(t, m.Stats().Snapshot().Servers[1].Health.Stalls)

			servers[1].Thaw()
			for i, w := range waiting {
				key := frozen[i]
				want := []string{
					"VALUE " + key + " 0 1\r\nx\r\nEND\r\n", "STORED\r\n", "VA 1\r\nx\r\n",
					"VALUE " + key + " 0 1\r\nx\r\nEND\r\n", "DELETED\r\n",
					"VALUE " + others[0] + " 0 1\r\nx\r\nVALUE " + key + " 0 1\r\nx\r\nEND\r\n",
				}[i%6]
				assert.Equal(t, want, w.ask("", []int{3, 1, 2, 3, 1, 5}[i%6]), "request for %s", key)
				assert.Equal(t, "VALUE "+others[1]+" 0 1\r\nx\r\nEND\r\n", w.ask("get %s\r\n", 3, others[1]))
			}
			for _, key := range frozen {
				assert.Equal(t, "STORED\r\n", c.ask("set %s 0 0 1\r\nx\r\n", 1, key))
			}
		})
	}
}

func TestAStalledReplicaHoldsUpOnlyItsWrites(t *testing.T) {
	for name, o := range arrangements {
		t.Run(name, func(t *testing.T) {
			o.Timeout, o.StallAfter = 10*time.Minute, silence
			m, servers := replicas(t, 3, o)
			addr := m.Addr()
			c := dial(t, addr)
			for i := range 20 {
				require.Equal(t, "STORED\r\n", c.ask("set %d-key 0 0 1\r\nx\r\n", 1, i))
			}
			servers[1].Freeze()
			var writers []*client
			for i := range 4 {
				w := dial(t, addr)
				writers = append(writers, w)
				w.ask([]string{"set %d-key 0 0 1\r\ny\r\n", "touch %d-key 0\r\n"}[i%2], 0, i)
			}
			// The other replicas answer reads of other keys. (Few keys: a key that shares a lock with a write waits for
			// it.)
			for range 30 {
				for i := 10; i < 14; i++ {
					assert.Equal(t, fmt.Sprintf("VALUE %d-key 0 1\r\nx\r\nEND\r\n", i), c.ask("get %d-key\r\n", 3, i))
				}
			}
			servers[1].Thaw()
			for i, w := range writers {
				assert.Equal(t, []string{"STORED\r\n", "TOUCHED\r\n"}[i%2], w.ask("", 1))
			}
			for i := range 20 {
				want := "x"
				if i < 4 && i%2 == 0 {
					want = "y"
				}
				for _, s := range servers {
					assert.Equal(t, want, get(t, s, fmt.Sprintf("%d-key", i)))
				}
			}
		})
	}
}

func TestARequestThatNeedsAStalledServerFailsAtItsDeadlineAndLaterAtOnce(t *testing.T) {
	o := middleware.Options{
		Workers:        2,
		RequestOptions: worker.RequestOptions{Timeout: time.Second, StallAfter: 20 * time.Millisecond},
		ServerOptions:  backend.ServerOptions{ConnectTimeout: time.Second},
	}
	o.Placement.Replicas = 1
	m, servers := replicas(t, 2, o)
	keys := keysOf(t, o, m, servers, 1, 30)
	c := dial(t, m.Addr())
	for _, key := range keys {
		store(c, key, "old")
	}
	servers[1].Freeze()
	var waiting []*client
	for i, key := range keys {
		w := dial(t, m.Addr())
		waiting = append(waiting, w)
		w.ask([]string{"get %s\r\n", "set %s 0 0 3\r\nnew\r\n"}[i%2], 0, key)
	}
	for _, w := range waiting {
		assert.Contains(t, w.ask("", 1), "SERVER_ERROR "+servers[1].Addr())
	}
	for i := 0; m.Stats().Snapshot().Servers[1].Health.State != "down"; i++ {
		assert.Contains(t, c.ask("get %s\r\n", 1, keys[0]), "SERVER_ERROR "+servers[1].Addr())
		require.Less(t, i, 100)
	}
	servers[1].Thaw()
	for i, key := range keys {
		reply := ""
		for reply = c.ask("get %s\r\n", 1, key); reply != "END\r\n"; reply = c.ask("get %s\r\n", 1, key) {
			if reply[:5] == "VALUE" {
				reply = c.ask("", 2)
				break
			}
		}
		// The value of an abandoned write may be there or not; the value before it must not be there.
		if i%2 == 1 {
			assert.NotEqual(t, "old\r\nEND\r\n", reply, key)
		} else {
			assert.Equal(t, "old\r\nEND\r\n", reply, key)
		}
	}
}

// Requests that arrive while the patient worker waits for a stalled server have timed out when it takes them, and are
// never sent.
func TestAWriteThatTimesOutBeforeItIsSentCountsAsMissed(t *testing.T) {
	o := middleware.Options{
		Workers:        1,
		RequestOptions: worker.RequestOptions{Timeout: 2 * time.Second, StallAfter: 20 * time.Millisecond},
		ServerOptions:  backend.ServerOptions{ConnectTimeout: 2 * time.Second},
	}
	o.Placement.Replicas, o.FailureLimit = 1, 1000
	for write, command := range map[string]string{"set": "set %s 0 0 3\r\nnew\r\n", "flush": "flush_all\r\n"} {
		t.Run(write, func(t *testing.T) {
			t.Parallel()
			m, servers := replicas(t, 2, o)
			keys := keysOf(t, o, m, servers, 1, 10)
			c := dial(t, m.Addr())
			for _, key := range keys {
				store(c, key, "old")
			}
			served := m.Stats().Snapshot().Taken
			servers[1].Freeze()
			var waiting []*client
			for i, key := range keys {
				w := dial(t, m.Addr())
				waiting = append(waiting, w)
				if i >= 2 {
					w.ask(strings.ReplaceAll(command, "%s", key), 0)
					continue
				}
				// The pool's worker has the first one, the patient worker the second.
				w.ask("get %s\r\n", 0, key)
				require.Eventually(t, func() bool {
					now := m.Stats().Snapshot()
					return now.Taken > served+uint64(i) && now.Servers[1].Health.Stalls > 0
				}, mctest.Patience, mctest.Tick)
			}
			for _, w := range waiting {
				assert.Contains(t, w.ask("", 1), "SERVER_ERROR "+servers[1].Addr())
			}
			servers[1].Thaw()
			for _, key := range keys[2:] {
				reply := "SERVER_ERROR "
				for strings.HasPrefix(reply, "SERVER_ERROR ") {
					reply = c.ask("get %s\r\n", 1, key)
				}
				if reply != "END\r\n" {
					reply = c.ask("", 2)
				}
				assert.NotEqual(t, "old\r\nEND\r\n", reply, key)
			}
		})
	}
}

func TestAWriteThatWaitsInVainForAStalledReplicaIsAnsweredByTheOthers(t *testing.T) {
	for name, o := range arrangements {
		t.Run(name, func(t *testing.T) {
			o.Timeout, o.StallAfter, o.ConnectTimeout = 2*time.Second, 20*time.Millisecond, 2*time.Second
			o.FailureLimit, o.Ack = 1000, replica.AckAny
			m, servers := replicas(t, 3, o)
			servers[1].Freeze()
			var writers []*client
			for i := range 20 {
				w := dial(t, m.Addr())
				writers = append(writers, w)
				w.ask("set %d-key 0 0 1\r\ny\r\n", 0, i)
			}
			for _, w := range writers {
				assert.Equal(t, "STORED\r\n", w.ask("", 1))
			}
			for i := range 20 {
				assert.Equal(t, "y", get(t, servers[0], fmt.Sprintf("%d-key", i)))
			}
			servers[1].Thaw()
		})
	}
}

func TestAQuietReadThatWaitsInVainForAStalledServerIsAMissWithoutAReply(t *testing.T) {
	o := middleware.Options{
		Workers: 1,
		RequestOptions: worker.RequestOptions{
			Timeout: 200 * time.Millisecond, StallAfter: 20 * time.Millisecond,
			GetErrorMiss: true,
		},
	}
	o.FailureLimit = 1 << 20
	m, servers := replicas(t, 1, o)
	// not by mcmw, whose timeout is short
	require.Equal(t, "STORED\r\n", mctest.MustDial(t, servers[0].Addr()).MustDo(t, "set k 0 0 1\r\nx\r\n"))
	servers[0].Freeze()
	defer servers[0].Thaw()
	for range 3 {
		var waiting []*client
		for range 8 {
			c := dial(t, m.Addr())
			waiting = append(waiting, c)
			c.ask("mg k v q\r\nme k\r\nmn\r\n", 0)
		}
		for _, c := range waiting {
			assert.Contains(t, c.ask("", 1), "SERVER_ERROR ", "me has no miss that could stand for an error")
			assert.Equal(t, "MN\r\n", c.ask("", 1))
		}
	}
}

// This includes the first requests that find the servers stalled, requests that need several servers, and requests that
// follow others on their connection.
func TestWithAllServersStalledARequestTakesNoLongerThanTheTimeout(t *testing.T) {
	requests := []string{
		"get a\r\n", "get a b c d e f g h\r\n", "gets a\r\n", "gat 0 b\r\n", "mg c v\r\n", "get a\r\nget b\r\n",
		"set d 0 0 1\r\nx\r\n", "cas e 0 0 1 7\r\nx\r\n", "incr f 1\r\n", "ms g 1\r\nx\r\n", "ma h\r\n",
		"touch i 0\r\n", "delete j\r\n",
	}
	for name, o := range arrangements {
		for _, copies := range []int{1, 0} {
			t.Run(fmt.Sprintf("%s, replicas %d", name, copies), func(t *testing.T) {
				t.Parallel()
				o := o
				o.Timeout, o.StallAfter, o.FailureLimit = 8*time.Second, 50*time.Millisecond, 1<<20
				o.Placement.Replicas, o.Sharded = copies, true
				// A busy machine is late sometimes, a request that waits for one server after the other always.
				if late := askStalled(t, o, requests); late != "" {
					late = askStalled(t, o, requests)
					require.Empty(t, late, "longer than the timeout, twice")
				}
			})
		}
	}
}

// askStalled sends each request twice to a middleware with o whose servers are stalled. late says how many replies take
// longer than the timeout, "" if none does.
func askStalled(t *testing.T, o middleware.Options, requests []string) (late string) {
	m, servers := replicas(t, 3, o)
	for _, s := range servers {
		s.Freeze()
		defer s.Thaw()
	}
	var waiting []*client
	for i := range 2 * len(requests) {
		c := dial(t, m.Addr())
		waiting = append(waiting, c)
		c.ask(requests[i%len(requests)], 0)
	}
	// A request that waits for one server after the other takes half as long again. The limit consists of pauses,
	// because a machine that is late for the timeouts is also late for each pause.
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range 110 {
			time.Sleep(o.Timeout / 80)
		}
	}()
	answered := make(chan string, len(waiting))
	go func() {
		defer close(answered)
		for i, c := range waiting {
			for range strings.Count(requests[i%len(requests)], "\r\nget") {
				c.ask("", 1)
			}
			answered <- c.ask("", 1)
		}
	}()
	take := func(n int) (more bool) {
		select {
		case reply, ok := <-answered:
			if ok {
				assert.Contains(t, reply, "SERVER_ERROR ")
			}
			return ok
		case <-over:
			late = fmt.Sprintf("%d of %d requests are late, the first of them is %q", len(waiting)-n, len(waiting),
				requests[n%len(requests)])
			return false
		}
	}
	n := 0
	for take(n) {
		n++
	}
	for range answered { // late, but answered: no request may be in progress when the servers continue
	}
	return late
}
