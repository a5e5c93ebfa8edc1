package netstage_test

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
	"mcmw/internal/request"
	"mcmw/internal/stats"
	"mcmw/internal/worker"
)

func TestMoreRequestsThanABatchHoldsAreAnsweredInOrder(t *testing.T) {
	for name, o := range map[string]middleware.Options{
		"one at a time":     {Workers: 1, RequestOptions: worker.RequestOptions{Depth: 1}},
		"pipelined":         {Workers: 4, RequestOptions: worker.RequestOptions{Depth: 4096}},
		"queue for one":     {Workers: 4, Queue: 1},
		"a pool per server": {WorkerPool: middleware.WorkersPerServer},
	} {
		t.Run(name, func(t *testing.T) {
			c := start(t, o).Dial(t)
			require.Equal(t, "STORED\r\n", c.MustDo(t, "set n 0 0 1\r\n0\r\n"))
			const n = 5*request.MaxBatch + 1
			// One read brings them all, and a refused value in their middle.
			large := fmt.Sprintf("set large 0 0 2000000\r\n%s\r\n", strings.Repeat("\n", 2_000_000))
			incrs := strings.Repeat("incr n 1\r\n", n)
			go func() { _ = c.Send([]byte(incrs + large + incrs + strings.Repeat("\n", n))) }()
			for i := range 2*n + 1 {
				want := strconv.Itoa(i+1) + "\r\n"
				switch {
				case i == n:
					want = "SERVER_ERROR object too large for cache\r\n"
				case i > n:
					want = strconv.Itoa(i) + "\r\n"
				}
				require.Equal(t, want, c.MustReply(t))
			}
			for range n {
				require.Equal(t, "CLIENT_ERROR bad command line format\r\n", c.MustReply(t))
			}
		})
	}
}

// As with memcached, the refusal itself comes after the value has come.
func TestARefusedValueDoesNotHoldBackTheRequestsBeforeIt(t *testing.T) {
	c := start(t, middleware.Options{}).Dial(t)
	value := strings.Repeat("x", 2_000_000)
	for _, part := range []int{0, 1000, 1_999_999} {
		require.NoError(t, c.Send([]byte("set k 0 0 1\r\nx\r\nget k\r\nset large 0 0 2000000\r\n"+value[:part])))
		require.Equal(t, "STORED\r\n", c.MustReply(t))
		require.Equal(t, "VALUE k 0 1\r\nx\r\nEND\r\n", c.MustReply(t))
		require.NoError(t, c.Send([]byte(value[part:]+"\r\nget k\r\n")))
		require.Equal(t, "SERVER_ERROR object too large for cache\r\n", c.MustReply(t))
		require.Equal(t, "VALUE k 0 1\r\nx\r\nEND\r\n", c.MustReply(t))
	}
}

// largest is the size of the largest value that memcached accepts. A buffer for its set has 1 MiB + 16 KiB.
const largest = 1<<20 - 1000

func setLargest(key string) string {
	return fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key, largest, strings.Repeat(key, largest))
}

// sentPart is the number of bytes of a large set after which it gets a buffer for all of it.
const sentPart = 300_000

// startPart sends a part of a large set that needs a large buffer.
func startPart(t *testing.T, m *mwtest.MW, key string) *mctest.Client {
	t.Helper()
	c := m.Dial(t)
	require.NoError(t, c.Send([]byte(setLargest(key)[:sentPart])))
	return c
}

// anyRate is a MinRate for tests in which no client must count as slow: on a busy machine all clients are slow.
const anyRate = -1

func requestMemory(m *mwtest.MW) int64 { return m.Stats().Snapshot().RequestMemory }

func TestALargeRequestWaitsUntilOthersReleaseTheirMemory(t *testing.T) {
	m := start(t, middleware.Options{ClientOptions: netstage.ClientOptions{ClientMemory: 1 << 20, MinRate: anyRate}})
	a := startPart(t, m, "a")
	all := int64(request.BufferSize(1 << 20))
	require.Eventually(t, func() bool { return requestMemory(m) == all }, mctest.Patience, mctest.Tick)
	b := m.Dial(t)
	sent := make(chan error, 1)
	go func() { sent <- b.Send([]byte(setLargest("b") + setLargest("b") + "get absent\r\n")) }()
	c := m.Dial(t)
	for range 100 {
		require.Equal(t, "STORED\r\n", c.MustDo(t, "set small 0 0 10000\r\n"+strings.Repeat("x", 10_000)+"\r\n"))
	}
	require.Equal(t, all, requestMemory(m), "b gets nothing while a has all there is")
	require.NoError(t, a.Send([]byte(setLargest("a")[sentPart:])))
	require.Equal(t, "STORED\r\n", a.MustReply(t))
	for _, want := range []string{"STORED\r\n", "STORED\r\n", "END\r\n"} {
		require.Equal(t, want, b.MustReply(t))
	}
	require.NoError(t, <-sent)
	for _, key := range []string{"a", "b"} {
		require.Equal(t, fmt.Sprintf("VALUE %s 0 %d\r\n%s\r\nEND\r\n", key, largest, strings.Repeat(key, largest)),
			c.MustDo(t, "get "+key+"\r\n"))
	}
	require.Eventually(t, func() bool { return requestMemory(m) == 0 }, mctest.Patience, mctest.Tick)
}

func TestAClientThatGetsNoMemoryGetsAnErrorAndTheOthersAreServed(t *testing.T) {
	t.Cleanup(netstage.SetMemoryPatience(10 * time.Millisecond))
	m := start(t, middleware.Options{ClientOptions: netstage.ClientOptions{ClientMemory: 1 << 20, MinRate: anyRate}})
	a := startPart(t, m, "a")
	require.Eventually(t, func() bool { return requestMemory(m) > 1<<20 }, mctest.Patience, mctest.Tick)
	b := m.Dial(t)
	go func() { _ = b.Send([]byte("get absent\r\n" + setLargest("b"))) }()
	rest, err := b.Rest()
	require.NoError(t, err)
	require.Equal(t, "END\r\nSERVER_ERROR out of memory reading request\r\n", rest)
	require.Eventually(t, func() bool { return closed(m, stats.CloseMemory) == 1 }, mctest.Patience, mctest.Tick)
	require.Equal(t, "END\r\n", m.Dial(t).MustDo(t, "get b\r\n"))
	require.NoError(t, a.Send([]byte(setLargest("a")[sentPart:])))
	require.Equal(t, "STORED\r\n", a.MustReply(t), "the first client keeps its memory")
}

func TestMemoryIsTakenForBytesThatHaveComeNotForAnnouncedOnes(t *testing.T) {
	const clients = 64
	m := start(t, middleware.Options{ClientOptions: netstage.ClientOptions{ClientMemory: 8 << 20}})
	for range clients {
		require.NoError(t, m.Dial(t).Send([]byte(setLargest("a")[:20_000])))
	}
	require.Eventually(t, func() bool { return requestMemory(m) == clients*64<<10 }, mctest.Patience, mctest.Tick)
	require.Equal(t, "STORED\r\n", m.Dial(t).MustDo(t, setLargest("b")))
}

// Each holds a part of the memory, and together they hold all of it: none gets more until another is served.
func TestLargeRequestsThatArriveTogetherAreAllServed(t *testing.T) {
	const clients, part = 32, 64 << 10
	m := start(t, middleware.Options{ClientOptions: netstage.ClientOptions{
		ClientMemory: clients * part,
		MinRate:      anyRate,
	}})
	set := setLargest("a")
	begun := make([]*mctest.Client, clients)
	for i := range begun {
		begun[i] = m.Dial(t)
		require.NoError(t, begun[i].Send([]byte(set[:20_000])))
	}
	require.Eventually(t, func() bool { return requestMemory(m) == clients*part }, mctest.Patience, mctest.Tick)
	for _, c := range begun {
		go func() { _ = c.Send([]byte(set[20_000:])) }()
	}
	for _, c := range begun {
		require.Equal(t, "STORED\r\n", c.MustReply(t))
	}
}

func TestASlowSenderIsClosedWhenOthersNeedItsMemory(t *testing.T) {
	t.Cleanup(netstage.SetWantedPatience(50 * time.Millisecond))
	m := start(t, middleware.Options{ClientOptions: netstage.ClientOptions{ClientMemory: 1 << 20}})
	a := startPart(t, m, "a")
	require.Eventually(t, func() bool { return requestMemory(m) > 1<<20 }, mctest.Patience, mctest.Tick)
	require.Equal(t, "STORED\r\n", m.Dial(t).MustDo(t, setLargest("b")))
	rest, err := a.Rest()
	require.NoError(t, err)
	require.Equal(t, "SERVER_ERROR request came too slowly\r\n", rest)
	require.Eventually(t, func() bool { return closed(m, stats.CloseSlow) == 1 }, mctest.Patience, mctest.Tick)
}

// drip sends a request one byte every few milliseconds, for as long as it can.
func drip(c *mctest.Client) {
	for c.Send([]byte("x")) == nil {
		time.Sleep(5 * time.Millisecond)
	}
}

func TestBytesThatDripDoNotKeepAConnectionOpen(t *testing.T) {
	for name, begin := range map[string]string{
		"a line": "", "a value": "set k 0 0 1000000\r\n",
		"a refused value": "set k 0 0 5000000\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			m := start(t, middleware.Options{ClientOptions: netstage.ClientOptions{IdleTimeout: 50 * time.Millisecond}})
			c := m.Dial(t)
			require.NoError(t, c.Send([]byte(begin)))
			drip(c)
			require.Eventually(t, func() bool { return closed(m, stats.CloseIdle) == 1 }, mctest.Patience, mctest.Tick)
		})
	}
}

func TestTheErrorReachesAClientThatIsStillSending(t *testing.T) {
	t.Cleanup(netstage.SetMemoryPatience(10 * time.Millisecond))
	m := start(t, middleware.Options{ClientOptions: netstage.ClientOptions{ClientMemory: 1 << 20}})
	startPart(t, m, "a")
	require.Eventually(t, func() bool { return requestMemory(m) > 1<<20 }, mctest.Patience, mctest.Tick)
	// sends sends for longer than mcmw waits for a silent client. It returns false if it was silent itself, because the
	// machine is busy.
	sends := func(b *mctest.Client) bool {
		require.NoError(t, b.Send([]byte(setLargest("b")[:100_000])))
		last := time.Now()
		prompt := func(err error) bool {
			if time.Since(last) > 500*time.Millisecond {
				return false
			}
			require.NoError(t, err)
			last = time.Now()
			return true
		}
		pace := time.NewTicker(50 * time.Millisecond)
		defer pace.Stop()
		for range 40 {
			<-pace.C
			if !prompt(b.Send([]byte("x"))) {
				return false
			}
		}
		return prompt(b.CloseWrite())
	}
	b := m.Dial(t)
	for tries := 0; !sends(b); tries++ {
		require.Less(t, tries, 20)
		b = m.Dial(t)
	}
	rest, err := b.Rest()
	require.NoError(t, err)
	require.Equal(t, "SERVER_ERROR out of memory reading request\r\n", rest)
}

func TestADrainEndsConnectionsThatWaitForMemory(t *testing.T) {
	m := start(t, middleware.Options{
		ClientOptions: netstage.ClientOptions{ClientMemory: 1 << 20},
		DrainTimeout:  100 * time.Millisecond,
	})
	for _, key := range []string{"a", "b", "c"} {
		startPart(t, m, key)
	}
	require.Eventually(t, func() bool { return requestMemory(m) > 1<<20 }, mctest.Patience, mctest.Tick)
	require.NoError(t, m.Stop())
	require.Zero(t, requestMemory(m))
}

// In addition to the memory for replies, one worker's round may be in use.
func TestTheRepliesOfSlowReadersAreBoundedInTotalAndOtherClientsAreServed(t *testing.T) {
	t.Cleanup(netstage.SetWantedPatience(time.Second))
	const memory, round, slow, gets = 8 << 20, 5 << 20, 16, 20
	m := start(t, middleware.Options{Workers: 1, ClientOptions: netstage.ClientOptions{ClientMemory: memory}})
	c := m.Dial(t)
	require.Equal(t, "STORED\r\n", c.MustDo(t, setLargest("k")))
	for range slow {
		_, err := io.WriteString(connectNarrow(t, m), strings.Repeat("get k\r\n", gets))
		require.NoError(t, err)
	}
	reads := connectNarrow(t, m)
	_, err := io.WriteString(reads, strings.Repeat("get k\r\n", gets))
	require.NoError(t, err)
	read := make(chan error, 1)
	go func() {
		_, err := io.CopyN(io.Discard, reads,
			int64(gets*len(fmt.Sprintf("VALUE k 0 %d\r\n%s\r\nEND\r\n", largest, strings.Repeat("k", largest)))))
		read <- err
	}()
	require.Eventually(t, func() bool {
		assert.LessOrEqual(t, m.Stats().Snapshot().ReplyMemory, int64(memory+round))
		return closed(m, stats.CloseSlow) > 0
	}, mctest.Patience, mctest.Tick)
	require.NoError(t, <-read)
	require.Equal(t, "END\r\n", c.MustDo(t, "get absent\r\n"))
}
