package behaviour_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/hotkeys"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
	"mcmw/internal/protocol"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// hotGets returns the number of gets that readers have answered.
func hotGets(m *mwtest.MW) uint64 {
	return m.Stats().Snapshot().Requests[protocol.Get][stats.ResultHot]
}

// heat gets key until readers answer with its value.
func heat(t *testing.T, m *mwtest.MW, key string) {
	t.Helper()
	c := m.Dial(t)
	before := hotGets(m)
	for deadline := time.Now().Add(mctest.Patience); hotGets(m) == before; {
		require.True(t, time.Now().Before(deadline), "%s is not served from memory", key)
		require.NoError(t, c.Send([]byte(strings.Repeat("get "+key+"\r\n", 100))))
		for range 100 {
			c.MustReply(t)
		}
	}
}

// holdsHot reports whether a server holds the key "hot", as far as it answers.
func holdsHot(server *mctest.Server) bool {
	c, err := mctest.Dial(server.Addr())
	if err != nil {
		return true
	}
	defer c.Close()
	reply, err := c.Do("get hot\r\n")
	return err != nil || reply != "END\r\n"
}

// One writer stores increasing numbers under a key, or removes it, with all kinds of commands. Later reads must not
// return a number from before an answered write.
func TestNoReadOfAHotKeyIsOlderThanTheLastAnsweredWrite(t *testing.T) {
	for _, n := range []int{1, 2} {
		t.Run(fmt.Sprintf("%d replicas", n), func(t *testing.T) {
			servers := mctest.StartNewMemcacheds(t, 2)
			o := middleware.Options{
				Servers: mwtest.Servers(servers...), Placement: route.Options{Replicas: n}, HotKeys: hotkeys.Serve,
				HotAge: hotkeys.MaxAge, Writers: middleware.WritersOne, Workers: 2, Listen: []string{"127.0.0.1:0"},
			}
			m := mwtest.Start(t, o)
			w := m.Dial(t)
			require.Equal(t, "STORED\r\n", w.MustDo(t, "set hot 0 0 1\r\n1\r\n"))
			heat(t, m, "hot")

			var floor atomic.Int64 // the minimum number that a read may return
			var over, stale atomic.Bool
			var readers sync.WaitGroup
			defer readers.Wait()
			defer over.Store(true)
			for range 3 {
				c := m.Dial(t)
				readers.Go(func() {
					for !over.Load() {
						least := floor.Load()
						reply, err := c.Do("get hot\r\n")
						if !assert.NoError(t, err) {
							return
						}
						var flags, size, got int64
						if _, err := fmt.Sscanf(reply, "VALUE hot %d %d\r\n%d", &flags, &size, &got); err == nil &&
							!assert.GreaterOrEqual(t, got, least, "a read is stale") {
							stale.Store(true)
							return
						}
					}
				})
			}
			number := int64(1)
			for i := range 400 {
				next := number + 1
				command, want, least := "", "", next
				switch i % 10 {
				case 0, 1:
					command, want = fmt.Sprintf("set hot 0 0 6\r\n%06d\r\n", next), "STORED\r\n"
				case 2:
					command, want = "incr hot 1\r\n", fmt.Sprintf("%d\r\n", next)
				case 3:
					command, want = fmt.Sprintf("ms aG90 6 b T0\r\n%06d\r\n", next), "HD\r\n"
				case 4:
					command, want, least = "touch hot 100\r\n", "TOUCHED\r\n", number
				case 5:
					command, want = "md hot\r\n", "HD\r\n"
				case 6:
					command, want = fmt.Sprintf("add hot 0 0 6\r\n%06d\r\n", next), "STORED\r\n"
				case 7:
					command, want, least = "gat 0 cold hot\r\n",
						fmt.Sprintf("VALUE hot 0 6\r\n%06d\r\nEND\r\n", number), number
				case 8:
					command, want = "flush_all\r\n", "OK\r\n"
					if i%20 == 8 {
						command, want = "gat -1 cold hot\r\n", fmt.Sprintf("VALUE hot 0 6\r\n%06d\r\nEND\r\n", number)
					}
				case 9:
					command, want = fmt.Sprintf("set hot 0 0 6 noreply\r\n%06d\r\nmn\r\n", next), "MN\r\n"
				}
				reply := w.MustDo(t, command)
				number = max(number, least)
				switch {
				case reply == "OK\r\n" && slices.ContainsFunc(servers, holdsHot):
					// This memcached's flush_all leaves an item of the last second that another thread has locked.
				case reply == want:
					floor.Store(least)
				default:
					// Only a server that was down, or a key that it lost then, may cause this.
					require.Greater(t, i, 200, "%q was answered %q", command, reply)
				}
				switch {
				case i == 100:
					o.Workers = 3
					require.NoError(t, m.Apply(t.Context(), o))
				case i == 200:
					servers[0].Restart()
				case i < 200 && strings.Contains("1479", fmt.Sprint(i%10)): // the key exists
					before := hotGets(m)
					poll(t, fmt.Sprintf("nothing is served from memory after write %d", i), func() bool {
						require.False(t, stale.Load(), "after write %d", i)
						return hotGets(m) >= before+3
					})
				}
			}
		})
	}
}

func TestAHotItemThatIsAboutToExpireIsNotServedFromMemory(t *testing.T) {
	m := mwtest.Start(t, middleware.Options{
		Servers: mwtest.Servers(mctest.StartNewMemcached(t)),
		HotKeys: hotkeys.Serve, HotAge: hotkeys.MaxAge,
	})
	c := m.Dial(t)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set hot 0 0 1\r\nx\r\n"))
	heat(t, m, "hot")
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set hot 0 1 1\r\ny\r\n"))
	before := hotGets(m)
	for c.MustDo(t, "get hot\r\n") != "END\r\n" {
	}
	assert.Equal(t, before, hotGets(m))
}

// Values get into memory with the data of a set, and with the reply to a get. The server says whether an item has
// expired.
func TestAnItemIsNotServedFromMemoryAfterItsExpiry(t *testing.T) {
	server := mctest.StartNewMemcached(t)
	m := mwtest.Start(t, middleware.Options{
		Servers: mwtest.Servers(server), HotKeys: hotkeys.Serve,
		Writers: middleware.WritersOne,
	})
	c, direct := m.Dial(t), mctest.MustDial(t, server.Addr())
	for _, key := range []string{"stored", "fetched"} {
		require.Equal(t, "STORED\r\n", c.MustDo(t, "set "+key+" 0 0 1\r\nx\r\n"))
		heat(t, m, key)
	}
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set stored 0 3 1\r\ny\r\n"))
	require.Equal(t, "TOUCHED\r\n", c.MustDo(t, "touch fetched 3\r\n"))
	before := hotGets(m)
	for _, key := range []string{"stored", "fetched"} {
		for ended := false; !ended; {
			ended = direct.MustDo(t, "get "+key+"\r\n") == "END\r\n"
			reply := c.MustDo(t, "get "+key+"\r\n")
			require.True(t, !ended || reply == "END\r\n", "%s was answered %q after its expiry", key, reply)
			if key == "stored" {
				c.MustDo(t, "get fetched\r\n")
			}
		}
	}
	assert.Greater(t, hotGets(m), before)
}

func TestValuesFromATimeWithOneWriterAreNotServedOnceThereAreSeveral(t *testing.T) {
	server := mctest.StartNewMemcached(t)
	o := middleware.Options{
		Servers: mwtest.Servers(server), HotKeys: hotkeys.Serve, Writers: middleware.WritersOne,
		Listen: []string{"127.0.0.1:0"},
	}
	m := mwtest.Start(t, o)
	c := m.Dial(t)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set hot 0 0 1\r\nx\r\n"))
	heat(t, m, "hot")
	o.Writers = middleware.WritersSeveral
	require.NoError(t, m.Apply(t.Context(), o))
	require.Equal(t, "STORED\r\n", mctest.MustDial(t, server.Addr()).MustDo(t, "set hot 0 0 1\r\ny\r\n"))
	assert.Equal(t, "VALUE hot 0 1\r\ny\r\nEND\r\n", c.MustDo(t, "get hot\r\n"))
}

// The reply to a get of k and 0 begins like the reply to a get of a key called "k 0".
func TestAGetOfSeveralKeysIsNotServedFromMemory(t *testing.T) {
	m := mwtest.Start(t, middleware.Options{
		Servers: mwtest.Servers(mctest.StartNewMemcached(t)),
		HotKeys: hotkeys.Serve, Writers: middleware.WritersOne,
	})
	c := m.Dial(t)
	for _, value := range []string{"x", "y"} {
		require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1\r\n"+value+"\r\n"))
		for range 10 {
			require.Equal(t, "VALUE k 0 1\r\n"+value+"\r\nEND\r\n", c.MustDo(t, "get k 0\r\n"))
		}
	}
	assert.Zero(t, hotGets(m))
}

func TestAGetAfterAQueuedSetIsNotServedFromMemory(t *testing.T) {
	server := mctest.StartNewMemcached(t)
	m := mwtest.Start(t, middleware.Options{
		Servers: mwtest.Servers(server), HotKeys: hotkeys.Serve, Writers: middleware.WritersOne, Workers: 1,
		Listen: []string{"unix:" + filepath.Join(t.TempDir(), "s")},
	})
	c := m.Dial(t)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set hot 0 0 1\r\nx\r\n"))
	heat(t, m, "hot")
	server.Freeze()
	require.NoError(t, m.Dial(t).Send([]byte("get cold\r\n")))
	poll(t, "the worker does not wait for the server", func() bool { return m.Stats().Snapshot().Serving() == 1 })
	require.NoError(t, c.Send([]byte("set hot 0 0 1\r\ny\r\n")))
	poll(t, "the set is not queued", func() bool { return m.Stats().Snapshot().Waiting() == 1 })
	require.NoError(t, c.Send([]byte("get hot\r\n")))
	require.NoError(t, mctest.AwaitRead(c.Conn, mctest.Patience))
	server.Thaw()
	assert.Equal(t, "STORED\r\n", c.MustReply(t))
	assert.Equal(t, "VALUE hot 0 1\r\ny\r\nEND\r\n", c.MustReply(t))
}

func TestAClientThatReadsLateGetsCompleteRepliesFromMemory(t *testing.T) {
	m := mwtest.Start(t, middleware.Options{
		Servers: mwtest.Servers(mctest.StartNewMemcached(t)),
		HotKeys: hotkeys.Serve, Writers: middleware.WritersOne,
	})
	c, value := m.Dial(t), strings.Repeat("0123456789", 100)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set hot 0 0 1000\r\n"+value+"\r\n"))
	heat(t, m, "hot")
	const gets = 10_000 // more than fits in the sockets
	before := hotGets(m)
	sent := make(chan error, 1)
	go func() { sent <- c.Send([]byte(strings.Repeat("get hot\r\n", gets))) }()
	poll(t, "nothing is served from memory", func() bool { return hotGets(m) > before })
	for range gets {
		require.Equal(t, "VALUE hot 0 1000\r\n"+value+"\r\nEND\r\n", c.MustReply(t))
	}
	require.NoError(t, <-sent)
}

func TestWhenUnreadRepliesUseAllTheirMemorySmallValuesAreServedFromMemory(t *testing.T) {
	const memory = 64 << 10
	m := mwtest.Start(t, middleware.Options{
		Servers: mwtest.Servers(mctest.StartNewMemcached(t)), HotKeys: hotkeys.Serve, Writers: middleware.WritersOne,
		ClientOptions: netstage.ClientOptions{ClientMemory: memory, WriteTimeout: time.Hour},
	})
	c, value := m.Dial(t), strings.Repeat("0123456789", 40)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set hot 0 0 400\r\n"+value+"\r\n"))
	heat(t, m, "hot")
	unread := func() int64 { return m.Stats().Snapshot().ReplyMemory }
	var late []*mctest.Client
	for unread() <= memory {
		before, client := unread(), m.Dial(t)
		late = append(late, client)
		go func() {
			for client.Send([]byte(strings.Repeat("get hot\r\n", 1000))) == nil {
			}
		}()
		poll(t, "a client's replies do not wait for it", func() bool { return unread() > before })
	}
	before := hotGets(m)
	require.Equal(t, "VALUE hot 0 400\r\n"+value+"\r\nEND\r\n", c.MustDo(t, "get hot\r\n"))
	assert.Equal(t, before+1, hotGets(m))
	for _, client := range late {
		require.NoError(t, client.Close())
	}
	poll(t, "what clients that are gone left unread takes memory", func() bool { return unread() == 0 })
	heat(t, m, "hot")
}

func TestOnlyPlainGetsAreServedFromMemory(t *testing.T) {
	m := mwtest.Start(t, middleware.Options{
		Servers: mwtest.Servers(mctest.StartNewMemcached(t)),
		HotKeys: hotkeys.Serve, HotAge: hotkeys.MaxAge,
	})
	c := m.Dial(t)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set hot 3 0 1\r\nx\r\n"))
	heat(t, m, "hot")
	require.Equal(t, "VALUE hot 3 1\r\nx\r\nEND\r\n", c.MustDo(t, "get hot\r\n"))
	before := hotGets(m)
	for _, command := range []string{
		"gets hot\r\n", "mg hot v\r\n", "gat 0 hot\r\n", "get hot hot\r\n",
		"get cold\r\n",
	} {
		c.MustDo(t, command)
	}
	assert.Equal(t, before, hotGets(m))
	heat(t, m, "hot")
	before = hotGets(m)
	// In one batch: a get sees the set before it, but not the set after it.
	require.NoError(t, c.Send([]byte("get hot\r\nset hot 3 0 1\r\ny\r\nget hot\r\n")))
	for _, want := range []string{"VALUE hot 3 1\r\nx\r\nEND\r\n", "STORED\r\n", "VALUE hot 3 1\r\ny\r\nEND\r\n"} {
		assert.Equal(t, want, c.MustReply(t))
	}
	assert.Equal(t, before, hotGets(m))
}

func TestTheHottestKeyIsShownWithItsServers(t *testing.T) {
	servers := mwtest.Servers(mctest.StartMemcacheds(t, 3)...)
	for _, mode := range []hotkeys.Mode{hotkeys.Off, hotkeys.Detect} {
		mw := mwtest.Start(t, middleware.Options{
			Servers: servers, Placement: route.Options{Replicas: 2},
			HotKeys: mode,
		})
		c := mw.Dial(t)
		for i := range 10_000 {
			key := "hot"
			switch i % 4 {
			case 1:
				key = fmt.Sprintf("cold-%d other-%d", i, i)
			case 2:
				key = "aG90" // in base64
			}
			request := "get " + key
			if i%4 == 2 {
				request = "mg " + key + " b v"
			}
			require.Contains(t, []string{"END\r\n", "EN\r\n"}, c.MustDo(t, request+"\r\n"))
		}
		r := mw.HotKeys(3, true)
		if mode == hotkeys.Off {
			assert.Empty(t, r.Keys)
			continue
		}
		require.NotEmpty(t, r.Keys)
		assert.Equal(t, "hot", r.Keys[0].Name)
		assert.InDelta(t, 0.6, r.Keys[0].Share, 0.1)
		assert.Len(t, r.Keys[0].Servers, 2)
		assert.NotEqual(t, "hot", mw.HotKeys(1, false).Keys[0].Name)
	}
}

// Few keys are requested so often that readers answer from memory, while clients change them with all kinds of
// commands.
func TestAnswersForHotKeysAreLinearizable(t *testing.T) {
	const histories = 60
	b := &historyBench{servers: mwtest.Servers(mctest.StartNewMemcacheds(t, 2)...)}
	o := middleware.Options{
		Servers: b.servers, Placement: route.Options{Replicas: 2}, Writers: middleware.WritersOne,
		HotKeys: hotkeys.Serve, HotAge: hotkeys.MaxAge, Workers: 3,
	}
	router, err := route.New(o.Servers, o.Placement)
	require.NoError(t, err)
	fleet := []*mwtest.MW{mwtest.Start(t, o)}
	for k := range historyKeys {
		b.keys = append(b.keys, fmt.Sprintf("hot-%d", k))
		require.Equal(t, "STORED\r\n", fleet[0].Dial(t).MustDo(t, "set "+b.keys[k]+" 0 0 1\r\nx\r\n"))
		heat(t, fleet[0], b.keys[k])
	}
	rng := rand.New(rand.NewPCG(1, 2))
	before := hotGets(fleet[0])
	served := func() uint64 { return hotGets(fleet[0]) - before }
	deadline := time.Now().Add(mctest.Patience)
	for n := 0; n < histories || served() < histories; n++ {
		require.True(t, time.Now().Before(deadline), "only %d gets were answered from memory", served())
		batches := make([][][]planned, 4)
		for i := range batches {
			for range 8 {
				p := planned{kind: "get", key: rng.IntN(historyKeys)}
				if i < 2 && rng.IntN(3) == 0 {
					p = requests().Example(rng.Int())
				}
				batches[i] = append(batches[i], []planned{p})
			}
		}
		_, history, err := b.record(t, fleet, router, batches)
		require.NoError(t, err)
		for k := range history {
			require.True(t, linearizable(history[k], false), "the answers for %s have no sequential order:\n%s",
				b.keys[k], describe(history[k]))
		}
	}
	t.Logf("%d gets were answered from memory", served())
}
