package behaviour_test

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/worker"
)

// memoryUse is the memory of this process, bytes.
type memoryUse struct {
	heap     int64 // live objects
	resident int64
}

func (m memoryUse) String() string {
	return fmt.Sprintf("heap %d KiB, resident %d KiB", m.heap>>10, m.resident>>10)
}

// measureMemory collects garbage and returns the remaining memory.
func measureMemory(t *testing.T) memoryUse {
	t.Helper()
	// Objects in a sync.Pool survive one collection.
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memoryUse{heap: int64(m.HeapAlloc), resident: processMemory(t, os.Getpid(), "VmRSS")}
}

// memoryPipeline is the number of requests in a pipeline of the test of memory; long ones are cheap.
const memoryPipeline = 250

// memoryRounds is the number of rounds after which memory is measured. There are up to mostMemoryRounds if none was
// flat, as on a busy machine, where buffers reach their final size late.
const memoryRounds, mostMemoryRounds = 5, 25

// The allowed growth per round, bytes: a fraction of a byte per request, so that a long run finds a leak in one of a
// hundred requests, plus an amount that does not depend on the length of the round.
const (
	flatPerRequest = 0.125
	flatHeap       = 16 << 10
	flatResident   = 1 << 20
)

// requireFlat measures the memory after equal rounds of requests, which round makes. A leak of requests adds to every
// round, unlike buffers and pools that reach their final size, and a late collector. So the round with the least growth
// shows a leak.
func requireFlat(t *testing.T, requests int, round func() memoryUse) {
	t.Helper()
	share := int64(flatPerRequest * float64(requests))
	least := memoryUse{math.MaxInt64, math.MaxInt64}
	flat := func() bool { return least.heap < share+flatHeap && least.resident < share+flatResident }
	uses := []memoryUse{round()}
	for n := 1; n < memoryRounds || n < mostMemoryRounds && !flat(); n++ {
		use, last := round(), uses[n-1]
		uses = append(uses, use)
		least = memoryUse{min(least.heap, use.heap-last.heap), min(least.resident, use.resident-last.resident)}
	}
	t.Logf("after rounds of %d requests: %v", requests, uses)
	require.Less(t, least.heap, share+flatHeap, "bytes by which the heap grew in every round")
	require.Less(t, least.resident, share+flatResident, "bytes by which the process grew in every round")
}

// TestMemoryStaysFlatOverManyRequests repeats the same pipeline, so that every buffer soon has its final size, and
// later growth comes from the requests.
func TestMemoryStaysFlatOverManyRequests(t *testing.T) {
	total := 100_000
	if mctest.Long() {
		total = 10_000_000
	}
	const connections = 4
	servers := mctest.StartMemcacheds(t, 3, "-t", "1")
	m := mwtest.Start(t, middleware.Options{
		Servers:        mwtest.Servers(servers...),
		RequestOptions: worker.RequestOptions{Sharded: true, Depth: 2 * memoryPipeline, Timeout: mctest.Patience},
	})

	// Mostly reads, which are cheaper, and writes for which the servers' replies must be compared.
	value := strings.Repeat("v", 30)
	set := fmt.Sprintf("set 1.k 0 0 %d\r\n%s\r\n", len(value), value)
	hit := fmt.Sprintf("VALUE 1.k 0 %d\r\n%s\r\n", len(value), value)
	const gets = memoryPipeline - 20
	request := set + strings.Repeat("get 1.k\r\n", gets) + strings.Repeat("get 1.k 2.missing 3.missing 1.k\r\n", 16) +
		"mg 1.k s q\r\nms 2.k 2 q\r\nok\r\ntouch 1.k 0\r\n"
	want := "STORED\r\n" + strings.Repeat(hit+"END\r\n", gets) + strings.Repeat(hit+hit+"END\r\n", 16) +
		fmt.Sprintf("HD s%d\r\nTOUCHED\r\n", len(value))

	clients := make([]*mctest.Client, connections)
	for i := range clients {
		clients[i] = m.Dial(t)
	}
	exchange := func(n int) {
		var wg sync.WaitGroup
		errs := make([]error, connections)
		for i, c := range clients {
			require.NoError(t, c.Conn.SetDeadline(time.Now().Add(10*time.Minute)))
			wg.Go(func() {
				errs[i] = exchangeLoop(c.Conn, []byte(request), []byte(want), make([]byte, len(want)),
					n/connections/memoryPipeline)
			})
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
	}
	requireFlat(t, total/memoryRounds, func() memoryUse {
		exchange(total / memoryRounds)
		use := measureMemory(t)
		if mctest.Race { // the race detector's memory grows more than that; the round memory runs this test without it
			use.resident = 0
		}
		return use
	})
}
