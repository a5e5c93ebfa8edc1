package behaviour_test

import (
	"fmt"
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
)

// memoryUse is what this process uses, bytes.
type memoryUse struct {
	heap     int64 // in use by what is alive
	resident int64
}

func (m memoryUse) String() string {
	return fmt.Sprintf("heap %d KiB, resident %d KiB", m.heap>>10, m.resident>>10)
}

// measureMemory collects and returns what is left.
func measureMemory(t *testing.T) memoryUse {
	t.Helper()
	// What pools hold survives one collection.
	runtime.GC()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memoryUse{heap: int64(m.HeapAlloc), resident: processMemory(t, os.Getpid(), "VmRSS")}
}

// memoryPipeline is the number of requests in a pipeline of the test of memory; long ones are cheap.
const memoryPipeline = 250

// By how much the memory of one middleware may differ, bytes, between a fifth and all of its requests: over 10 million of
// them, an eighth of a byte per request.
const (
	flatHeap     = 1 << 20
	flatResident = 16 << 20
)

// TestMemoryStaysFlatOverManyRequests sends the same pipeline again and again, so that every buffer has its final size
// early, and what grows then grows with the requests.
func TestMemoryStaysFlatOverManyRequests(t *testing.T) {
	total := 100_000
	if long() {
		total = 10_000_000
	}
	const connections = 4
	servers := mctest.StartMemcacheds(t, 3, "-t", "1")
	m := mwtest.Start(t, middleware.Options{
		Servers: mwtest.Servers(servers...), Sharded: true, Depth: 2 * memoryPipeline, Timeout: orderPatience,
	})

	// Mostly reads, which are cheaper, and of the writes those that need the servers' replies to be compared.
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
				errs[i] = exchangeLoop(c.Conn, []byte(request), []byte(want), make([]byte, len(want)), n/connections/memoryPipeline)
			})
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
	}
	begin := time.Now()
	exchange(total / 5)
	before := measureMemory(t)
	exchange(total - total/5)
	after := measureMemory(t)
	t.Logf("%d requests in %v; behind a fifth of them %v, behind all %v", total, time.Since(begin).Round(time.Millisecond), before, after)
	require.Less(t, after.heap-before.heap, int64(flatHeap), "bytes by which the heap grew")
	require.Less(t, after.resident-before.resident, int64(flatResident), "bytes by which the process grew")
}
