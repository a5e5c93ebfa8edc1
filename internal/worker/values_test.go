package worker_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
	"mcmw/internal/protocol"
	"mcmw/internal/stats"
	"mcmw/internal/worker"
)

const bigSize = 1_000_000

// unread starts a middleware whose clients may leave memory bytes of replies unread for as long as they like, with one
// big value.
func unread(t *testing.T, memory int) (m *mwtest.MW, taken func() int64) {
	t.Helper()
	m = mwtest.Start(t, middleware.Options{
		Servers: mwtest.Servers(mctest.StartMemcached(t)), Workers: 2,
		ClientOptions: netstage.ClientOptions{ClientMemory: memory, WriteTimeout: time.Hour, MinRate: -1},
	})
	require.Equal(t, "STORED\r\n",
		m.Dial(t).MustDo(t, fmt.Sprintf("set big 0 0 %d\r\n%s\r\n", bigSize, strings.Repeat("x", bigSize))))
	return m, func() int64 { return m.Stats().Snapshot().ReplyMemory }
}

// ignore sends requests on a connection on which nothing is read.
func ignore(t *testing.T, m *mwtest.MW, requests string) {
	t.Helper()
	c := m.Dial(t)
	require.NoError(t, c.Conn.(*net.TCPConn).SetReadBuffer(16<<10))
	require.NoError(t, c.Send([]byte(requests)))
}

func TestClientsThatDoNotReadLetNobodyElseWait(t *testing.T) {
	const memory = 64 << 10
	m, taken := unread(t, memory)
	for range 20 {
		ignore(t, m, strings.Repeat("get big\r\n", 50))
	}
	require.Eventually(t, func() bool { return taken() > memory }, mctest.Patience, mctest.Tick)
	value := strings.Repeat("v", 1000)
	found := "VALUE small 0 1000\r\n" + value + "\r\n"
	big := fmt.Sprintf("VALUE big 0 %d\r\n%s\r\nEND\r\n", bigSize, strings.Repeat("x", bigSize))
	for _, x := range []struct{ request, want string }{
		{"set small 0 0 1000\r\n" + value + "\r\n", "STORED\r\n"},
		{"get small\r\n", found + "END\r\n"},
		{"gat 0 small\r\n", found + "END\r\n"},
		{"mg small v\r\n", "VA 1000\r\n" + value + "\r\n"},
		{"ms other 1\r\nx\r\n", "HD\r\n"},
		{"append other 0 0 1\r\ny\r\n", "STORED\r\n"},
		{"get small" + strings.Repeat(" small", 99) + "\r\n", strings.Repeat(found, 100) + "END\r\n"},
		{"get big\r\n", big}, // its client's socket has room for it
		{"get small\r\n", found + "END\r\n"},
	} {
		got := m.Dial(t).MustDo(t, x.request)
		assert.True(t, x.want == got, "on a connection of its own: %.50q: %.100q", x.request, got)
	}
	c := m.Dial(t)
	require.NoError(t,
		c.Send([]byte("get small\r\nset small 0 0 1\r\nx\r\nget small other\r\nget big\r\nget small\r\n")))
	for _, want := range []string{
		found + "END\r\n", "STORED\r\n",
		"VALUE small 0 1\r\nx\r\nVALUE other 0 2\r\nxy\r\nEND\r\n", big, "VALUE small 0 1\r\nx\r\nEND\r\n",
	} {
		got := c.MustReply(t)
		assert.True(t, want == got, "%.100q: %.100q", want, got)
	}
	assert.Greater(t, taken(), int64(memory), "the memory has been in use all the time")
}

func TestClientsThatDoNotReadTakeBoundedMemoryWhateverTheyAskFor(t *testing.T) {
	const (
		memory, clients = 4 << 20, 100
		workers         = 2
		underWay        = 4<<20 + bigSize  // in a worker's round
		stuck           = 16<<20 + bigSize // in a round, of reads that can't be repeated after the writes in it
		piece           = 16 << 10         // that each client may have
	)
	for name, of := range map[string]struct {
		requests string
		round    int
	}{
		"gets":                                  {"get big\r\n", underWay},
		"multi-gets":                            {"get big big big big big\r\n", underWay},
		"gets, and writes of what they read":    {"get big\r\ntouch big 0\r\n", stuck},
		"values that cannot be asked for again": {"mg big v T0\r\n", underWay},
		"many small values":                     {"get" + strings.Repeat(" small", 100) + "\r\n", underWay},
	} {
		t.Run(name, func(t *testing.T) {
			m, taken := unread(t, memory)
			c := m.Dial(t)
			require.Equal(t, "STORED\r\n",
				c.MustDo(t, fmt.Sprintf("set small 0 0 1000\r\n%s\r\n", strings.Repeat("v", 1000))))
			for range clients {
				ignore(t, m, strings.Repeat(of.requests, 250))
			}
			last, same := int64(-1), 0
			require.Eventually(t, func() bool {
				now := taken()
				if same++; now != last {
					last, same = now, 0
				}
				return same >= 20 && now > memory
			}, mctest.Patience, 10*time.Millisecond)
			t.Logf("%d bytes", last)
			assert.Less(t, last, int64(memory+workers*of.round+clients*piece))
		})
	}
}

// Such a gat takes values out: whoever asks for one again misses it.
func TestAGatThatExpiresItsItemsShowsEachOfThem(t *testing.T) {
	const keys = 12
	value, names := strings.Repeat("x", bigSize), ""
	for i := range keys {
		names += fmt.Sprintf(" k%d", i)
	}
	for name, before := range map[string]string{
		"alone": "", "after all values": "get" + names + "\r\n", "after one value": "get k0\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			m := mwtest.Start(t, middleware.Options{
				Servers: mwtest.Servers(mctest.StartMemcacheds(t, 2, "-m", "256")...), Workers: 2,
			})
			c, found := m.Dial(t), ""
			for i := range keys {
				require.Equal(t, "STORED\r\n",
					c.MustDo(t, fmt.Sprintf("set k%d 0 0 %d\r\n%s\r\n", i, bigSize, value)))
				found += fmt.Sprintf("VALUE k%d 0 %d\r\n%s\r\n", i, bigSize, value)
			}
			require.NoError(t, c.Send([]byte(before+"gat -1"+names+"\r\nget"+names+"\r\n")))
			if before != "" {
				c.MustReply(t)
			}
			got := c.MustReply(t)
			assert.True(t, found+"END\r\n" == got, "%d bytes of %d", len(got), len(found))
			assert.Equal(t, "END\r\n", c.MustReply(t))
		})
	}
}

// The values that servers accept but mcmw does not are stored on the servers directly.
func TestAValueLargerThanMaxValueIsAnErrorAndNoFailureOfItsServer(t *testing.T) {
	for _, maxValue := range []int{1 << 10, 1 << 20} {
		for _, n := range []int{1, 3} {
			pools(t, func(t *testing.T, o middleware.Options) {
				o.ClientOptions = netstage.ClientOptions{Limits: protocol.Limits{MaxValue: maxValue}}
				o.RequestOptions = worker.RequestOptions{Sharded: true}
				var servers []*mctest.Server
				for range n {
					s := mctest.StartMemcached(t, "-I", "4m")
					servers = append(servers, s)
					direct := mctest.MustDial(t, s.Addr())
					for key, size := range map[string]int{
						"large": 3 * maxValue, "more": maxValue + 1,
						"most": maxValue,
					} {
						require.Equal(t, "STORED\r\n",
							direct.MustDo(t, fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key, size,
								strings.Repeat("x", size))))
					}
				}
				o.Servers = mwtest.Servers(servers...)
				m := mwtest.Start(t, o)
				c := m.Dial(t)
				failure := func(size int) string {
					return fmt.Sprintf("SERVER_ERROR a value of %d bytes; accepted: up to %d (--max-value)\r\n", size,
						maxValue)
				}
				most := strings.Repeat("x", maxValue)
				require.Equal(t, "STORED\r\n", c.MustDo(t, "set small 0 0 1\r\nx\r\n"))
				for _, x := range []struct{ request, want string }{
					{"get most\r\n", fmt.Sprintf("VALUE most 0 %d\r\n%s\r\nEND\r\n", maxValue, most)},
					{"get large\r\n", failure(3 * maxValue)},
					{"get more\r\n", failure(maxValue + 1)},
					{"gat 0 large\r\n", failure(3 * maxValue)},
					{"mg large v f\r\n", failure(3 * maxValue)},
					{"mg large v T0\r\n", failure(3 * maxValue)},
					{"mg most v\r\n", fmt.Sprintf("VA %d\r\n%s\r\n", maxValue, most)},
				} {
					got := c.MustDo(t, x.request)
					assert.True(t, x.want == got, "%q: %.100q", x.request, got)
				}
				require.NoError(t,
					c.Send([]byte("mg large v q\r\nmg small v q\r\nmn\r\nget small\r\nget small large small\r\nget "+
						"small\r\nget more\r\n")))
				for _, want := range []string{
					failure(3 * maxValue), "VA 1\r\nx\r\n", "MN\r\n",
					"VALUE small 0 1\r\nx\r\nEND\r\n",
				} {
					assert.Equal(t, want, c.MustReply(t))
				}
				assert.Contains(t, c.MustReply(t), failure(3*maxValue))
				assert.Equal(t, "VALUE small 0 1\r\nx\r\nEND\r\n", c.MustReply(t))
				assert.Equal(t, failure(maxValue+1), c.MustReply(t))
				for _, s := range m.Stats().Snapshot().Servers {
					assert.Zero(t, s.Errors[stats.ReasonProtocol], "%s", s.Name)
				}
			})
		}
	}
}
