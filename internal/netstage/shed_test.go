package netstage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

const shedLine = "SERVER_ERROR overloaded: the queue is full, nothing was done\r\n"

// full is a middleware whose only worker waits for its server and whose queue is full.
type full struct {
	*mwtest.MW
	proxy   *mctest.Proxy
	waiting []*mctest.Client // each waits for the END of a get
}

func startFull(t *testing.T, o middleware.Options) *full {
	t.Helper()
	f := &full{proxy: mctest.StartProxy(t, mctest.StartMemcached(t).Addr())}
	o.Servers = mwtest.Named(f.proxy.Addr())
	o.Workers, o.Depth, o.Queue, o.Timeout, o.StallAfter, o.Shed = 1, 1, 1, 2*time.Minute, -1, true
	f.MW = mwtest.Start(t, o)
	f.proxy.Inject(mctest.Fault{Stall: true})
	t.Cleanup(func() { f.proxy.Inject(mctest.Fault{}) })
	f.wait(t, func(s *stats.Snapshot) bool { return s.WorkersBusy == 1 })
	f.wait(t, func(s *stats.Snapshot) bool { return s.QueueLength == 1 })
	return f
}

// wait sends a get and waits until reached returns true.
func (f *full) wait(t *testing.T, reached func(s *stats.Snapshot) bool) {
	t.Helper()
	c := f.Dial(t)
	require.NoError(t, c.Send([]byte("get absent\r\n")))
	require.Eventually(t, func() bool { return reached(f.Stats().Snapshot()) }, mctest.Patience, mctest.Tick)
	f.waiting = append(f.waiting, c)
}

// release lets the server answer, so that the queued requests are served.
func (f *full) release(t *testing.T) {
	t.Helper()
	f.proxy.Inject(mctest.Fault{})
	for _, c := range f.waiting {
		require.Equal(t, "END\r\n", c.MustReply(t))
	}
}

func TestShedRequestsAreAnsweredInOrderAndHaveNoEffect(t *testing.T) {
	f := startFull(t, middleware.Options{})
	c := f.Dial(t)
	requests := []struct{ text, reply string }{
		{"get a b c\r\n", shedLine},
		{"set k 0 0 1\r\nv\r\n", shedLine},
		{"set k 0 0 1 noreply\r\nv\r\n", ""},
		{"mg k v q O123\r\n", shedLine},
		{"ms aw== 1 b q\r\nv\r\n", shedLine},
		{"mn\r\n", "MN\r\n"},
		{"nonsense\r\n", "ERROR\r\n"},
		{"incr n 1\r\n", shedLine},
		{"gats 0 k\r\n", shedLine},
		{"stats\r\n", shedLine},
		{"flush_all noreply\r\n", ""},
		{"set large 0 0 2000000\r\n" + strings.Repeat("x", 2_000_000) + "\r\n", shedLine},
		{"version\r\n", shedLine},
	}
	var batch, want strings.Builder
	for _, r := range requests {
		batch.WriteString(r.text)
		want.WriteString(r.reply)
	}
	require.NoError(t, c.Send([]byte(batch.String())))
	var got strings.Builder
	for got.Len() < want.Len() {
		got.WriteString(c.MustReply(t))
	}
	require.Equal(t, want.String(), got.String())
	s := f.Stats().Snapshot()
	require.EqualValues(t, len(requests), s.Ended(stats.ResultShed))
	require.EqualValues(t, 3, s.Requests[protocol.Set][stats.ResultShed])
	require.EqualValues(t, batch.Len()-2_000_002, s.FromClients, "without the value that was skipped")
	f.release(t)
	require.Equal(t, "END\r\n", c.MustDo(t, "get k\r\n"), "shed requests did nothing")
	require.Contains(t, c.MustDo(t, "stats\r\n"), fmt.Sprintf("\r\nSTAT mcmw_shed %d\r\n", len(requests)))
}

// A batch enters the queue of its first request.
func TestABatchIsShedWhenTheQueueItEntersIsFull(t *testing.T) {
	f := startFull(t, middleware.Options{WorkerPool: middleware.WorkersPerServer})
	c := f.Dial(t)
	require.Equal(t, shedLine, c.MustDo(t, "get k\r\nset k 0 0 1 noreply\r\nv\r\n"))
	require.EqualValues(t, 2, f.Stats().Snapshot().Ended(stats.ResultShed))
	f.release(t)
	require.Equal(t, "END\r\n", c.MustDo(t, "get k\r\n"))
}

func TestAClientThatQuitsWhileTheQueueIsFullIsClosed(t *testing.T) {
	f := startFull(t, middleware.Options{})
	c := f.Dial(t)
	require.NoError(t, c.Send([]byte("get k\r\nquit\r\n")))
	rest, err := c.Rest()
	require.NoError(t, err)
	require.Equal(t, shedLine, rest)
	require.EqualValues(t, 1, f.Stats().Snapshot().Ended(stats.ResultShed))
	f.release(t)
}

func TestAClientThatReadsNoRefusalsIsClosedAsSlow(t *testing.T) {
	f := startFull(t, middleware.Options{ClientOptions: netstage.ClientOptions{
		MaxOutput:    1 << 10,
		WriteTimeout: 50 * time.Millisecond,
	}})
	c := f.Dial(t)
	go func() {
		gets := []byte(strings.Repeat("get k\r\n", 10_000))
		for c.Send(gets) == nil {
		}
	}()
	require.Eventually(t, func() bool { return closed(f.MW, stats.CloseSlow) == 1 }, mctest.Patience, mctest.Tick)
	f.release(t)
}

func TestADrainAnswersShedRequests(t *testing.T) {
	f := startFull(t, middleware.Options{DrainTimeout: 2 * time.Minute})
	c := f.Dial(t)
	require.Equal(t, shedLine, c.MustDo(t, "get k\r\n"))
	require.NoError(t, c.Send([]byte("get k\r\nset k 0 0 1\r\nv\r\n")))
	f.Cancel()
	rest, err := c.Rest()
	require.NoError(t, err)
	require.Equal(t, shedLine+shedLine, rest)
	f.release(t)
	require.NoError(t, f.Stop())
}
