package netstage_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/worker"
)

func TestAHalfClosedClientGetsTheRepliesToALongPipeline(t *testing.T) {
	m := start(t, middleware.Options{Workers: 2, RequestOptions: worker.RequestOptions{Depth: 4}})
	value := strings.Repeat("v", 50_000)
	c := m.Dial(t)
	require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set k 0 0 %d\r\n%s\r\n", len(value), value)))
	const n = 200
	var want strings.Builder
	for i := range n {
		fmt.Fprintf(&want, "STORED\r\n%d\r\nVALUE k 0 %d\r\n%s\r\nEND\r\n", i+1, len(value), value)
	}
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set n 0 0 1\r\n0\r\n"))
	go func() {
		_ = c.Send([]byte(strings.Repeat("set a 0 0 1\r\nx\r\nincr n 1\r\nget k\r\n", n) + "get unfinish"))
		_ = c.CloseWrite()
	}()
	rest, err := c.Rest()
	require.NoError(t, err)
	require.True(t, want.String() == rest, "%d bytes of %d", len(rest), want.Len())
}

// departures are ways in which clients leave in the middle of something.
var departures = map[string]func(c *mctest.Client, rnd *rand.Rand){
	"reset within a value": func(c *mctest.Client, rnd *rand.Rand) {
		_ = c.Send([]byte(("set gone 0 0 100000\r\n" + strings.Repeat("x", 100_000))[:20+rnd.IntN(90_000)]))
		_ = c.Reset()
	},
	"reset within a value that is too large": func(c *mctest.Client, rnd *rand.Rand) {
		_ = c.Send([]byte(("get k\r\nset gone 0 0 2000000\r\n" + strings.Repeat("x", 100_000))[:30+rnd.IntN(90_000)]))
		_ = c.Reset()
	},
	"reset within a pipeline": func(c *mctest.Client, rnd *rand.Rand) {
		_ = c.Send([]byte(strings.Repeat("get k\r\nset gone 0 0 3\r\nabc\r\n", 300)[:1+rnd.IntN(8000)]))
		_ = c.Reset()
	},
	"reset while replies are written": func(c *mctest.Client, rnd *rand.Rand) {
		_ = c.Send([]byte(strings.Repeat("get large\r\n", 20)))
		for range rnd.IntN(3) {
			_, _ = c.Reply()
		}
		_ = c.Reset()
	},
	"closed while replies are written": func(c *mctest.Client, rnd *rand.Rand) {
		_ = c.Send([]byte(strings.Repeat("get large\r\n", 20)))
		_ = c.Close()
	},
	"half closed, then reset": func(c *mctest.Client, rnd *rand.Rand) {
		_ = c.Send([]byte(strings.Repeat("get large k\r\n", 10)))
		_ = c.CloseWrite()
		_ = c.Reset()
	},
}

func TestClientsThatLeaveInTheMiddleLeaveNothingBehind(t *testing.T) {
	for name, o := range map[string]middleware.Options{
		"shared":     {Workers: 2, RequestOptions: worker.RequestOptions{Depth: 4}},
		"per server": {WorkerPool: middleware.WorkersPerServer, Workers: 1},
	} {
		t.Run(name, func(t *testing.T) {
			o.Timeout, o.StallAfter = time.Minute, -1 // a busy machine must not look like a failing server
			o.Servers = mwtest.Servers(mctest.StartMemcacheds(t, 2)...)
			m := mwtest.Start(t, o)
			other := m.Dial(t)
			large := fmt.Sprintf("VALUE large 0 600000\r\n%s\r\n", strings.Repeat("l", 600_000))
			require.Equal(t, "STORED\r\n",
				other.MustDo(t, "set large 0 0 600000\r\n"+strings.Repeat("l", 600_000)+"\r\n"))
			goroutines := runtime.NumGoroutine()
			rnd := rand.New(rand.NewPCG(1, 2))
			for name, leave := range departures {
				for i := range 20 {
					value := fmt.Sprintf("%s %d", name, i)
					leave(m.Dial(t), rnd)
					require.Equal(t, "STORED\r\n",
						other.MustDo(t, fmt.Sprintf("set k 0 0 %d\r\n%s\r\n", len(value), value)))
					require.Equal(t, fmt.Sprintf("VALUE k 0 %d\r\n%s\r\nEND\r\n", len(value), value),
						other.MustDo(t, "get k\r\n"))
				}
			}
			require.True(t, large+"END\r\n" == other.MustDo(t, "get large\r\n"))
			require.Eventually(t, func() bool {
				s := m.Stats().Snapshot()
				// A few goroutines belong to the test and the runtime; a leak has one for every client.
				return s.Open() == 1 && s.RequestMemory == 0 && s.ReplyMemory == 0 && s.WorkersBusy == 0 &&
					runtime.NumGoroutine() < goroutines+10
			}, time.Minute, time.Millisecond)
			for _, s := range m.Stats().Snapshot().Servers {
				require.Zero(t, s.Errors, "no connection to a server was lost")
			}
		})
	}
}
