package worker_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/worker"
)

// benchConnections is the number of clients of the closed loops. Each sends a request when it has the reply to the
// previous one.
const benchConnections = 64

// benchPools are the compared arrangements of workers: the default, synchronous workers, and workers per server.
var benchPools = []struct {
	name    string
	options middleware.Options
}{
	{"shared", middleware.Options{}},
	{"shared,workers=64,depth=1", middleware.Options{Workers: 64, RequestOptions: worker.RequestOptions{Depth: 1}}},
	{"per-server", middleware.Options{WorkerPool: middleware.WorkersPerServer}},
}

// warmUp is the number of requests that each client sends before the measurement begins. They open the connections, and
// let the middleware find out about its servers.
const warmUp = 10

// closedLoop lets the clients send requests until b.N are answered, and returns the response times, sorted, in
// nanoseconds. request appends a client's next request; reply is the expected reply.
func closedLoop(b *testing.B, addr string, request func(dst []byte, random *rand.Rand) []byte, reply string) []int64 {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	times := make([][]int64, benchConnections)
	start := make(chan struct{})
	var warm, wg sync.WaitGroup
	for i := range benchConnections {
		conn, err := net.Dial("tcp", addr)
		require.NoError(b, err)
		random := rand.New(rand.NewPCG(1, uint64(i)))
		var buf []byte
		got := make([]byte, len(reply))
		ask := func() (took time.Duration, ok bool) {
			buf = request(buf[:0], random)
			sent := time.Now()
			if _, err := conn.Write(buf); err != nil {
				b.Error(err)
				return 0, false
			}
			if n, err := io.ReadFull(conn, got); err != nil || string(got) != reply {
				b.Errorf("%q was answered %q: %v", buf, got[:n], err)
				return 0, false
			}
			return time.Since(sent), true
		}
		warm.Add(1)
		wg.Go(func() {
			defer conn.Close()
			ok := true
			for n := 0; n < warmUp && ok; n++ {
				_, ok = ask()
			}
			warm.Done()
			<-start
			for ok && left.Add(-1) >= 0 {
				var took time.Duration
				if took, ok = ask(); ok {
					times[i] = append(times[i], int64(took))
				}
			}
		})
	}
	warm.Wait()
	b.ResetTimer()
	used := processTime(b)
	close(start)
	wg.Wait()
	b.StopTimer()
	all := slices.Concat(times...)
	slices.Sort(all)
	if seconds := b.Elapsed().Seconds(); seconds > 0 {
		b.ReportMetric(float64(len(all))/seconds, "requests/s")
		b.ReportMetric(float64(processTime(b)-used)/1e3/float64(len(all)), "cpu-us/request")
	}
	return all
}

// processTime returns the processor time that the process has used so far, which includes the middleware and its
// clients.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// quantile returns the q-quantile of sorted, 0 if it is empty.
func quantile(sorted []int64, q float64) int64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

// Three replicas: the cost of ordering the writes of one key, for many keys and for one key that all clients write.
func BenchmarkReplicatedSet(b *testing.B) {
	for _, pool := range benchPools {
		for _, load := range []struct {
			name string
			keys int
		}{{"uniform", 100_000}, {"one", 1}} {
			b.Run("pool="+pool.name+"/keys="+load.name, func(b *testing.B) {
				o := pool.options
				o.Servers = mwtest.Servers(mctest.StartMemcacheds(b, 3)...)
				m := mwtest.Start(b, o)
				value := strings.Repeat("x", 64)
				closedLoop(b, m.Addr(), func(dst []byte, random *rand.Rand) []byte {
					return fmt.Appendf(dst, "set %d-key 0 0 64\r\n%s\r\n", random.IntN(load.keys), value)
				}, "STORED\r\n")
			})
		}
	}
}

// startPaced starts a server that serves one get at a time over all its connections, and takes service for each.
func startPaced(b *testing.B, service time.Duration) string {
	var one sync.Mutex
	return mctest.StartScript(b, func(p *mctest.Peer) {
		p.Answer(func(string) string {
			one.Lock()
			defer one.Unlock()
			time.Sleep(service)
			return "END\r\n"
		})
	}).Addr()
}

// One of three replicas takes ten times as long as the others for a read.
func BenchmarkReadsWithASlowReplica(b *testing.B) {
	const fast, slow = 2 * time.Millisecond, 20 * time.Millisecond
	for _, pool := range benchPools {
		for _, read := range []route.ReadPolicy{route.ReadRoundRobin, route.ReadLeastBusy} {
			b.Run(fmt.Sprintf("pool=%s/read=%s", pool.name, read), func(b *testing.B) {
				o := pool.options
				o.Servers = mwtest.Named(startPaced(b, fast), startPaced(b, slow), startPaced(b, fast))
				o.Placement.Read = read
				o.Timeout = time.Minute
				m := mwtest.Start(b, o)
				times := closedLoop(b, m.Addr(), func(dst []byte, random *rand.Rand) []byte {
					return fmt.Appendf(dst, "get %d-key\r\n", random.IntN(1000))
				}, "END\r\n")
				b.ReportMetric(float64(quantile(times, 0.5))/1e6, "p50-ms")
				b.ReportMetric(float64(quantile(times, 0.99))/1e6, "p99-ms")
			})
		}
	}
}

// A request for 10,000 keys, split over three servers, and the same request to one of them directly, alternately.
func BenchmarkLargeMultiGet(b *testing.B) {
	const keys = 10_000
	servers := mctest.StartMemcacheds(b, 3)
	value := strings.Repeat("x", 64)
	for _, pool := range benchPools {
		b.Run("pool="+pool.name, func(b *testing.B) {
			o := pool.options
			o.Servers, o.Sharded = mwtest.Servers(servers...), true
			m := mwtest.Start(b, o)
			fill := m.Dial(b)
			line := []byte("get")
			for i := range keys {
				require.Equal(b, "STORED\r\n", fill.MustDo(b, fmt.Sprintf("set %d-key 0 0 64\r\n%s\r\n", i, value)))
				line = fmt.Appendf(line, " %d-key", i)
			}
			line = append(line, "\r\n"...)
			want := fill.MustDo(b, string(line))
			ask := func(conn net.Conn, got []byte) time.Duration {
				start := time.Now()
				_, err := conn.Write(line)
				require.NoError(b, err)
				_, err = io.ReadFull(conn, got)
				require.NoError(b, err)
				took := time.Since(start)
				require.True(b, bytes.Equal(got, []byte(want)))
				return took
			}
			through, direct := mctest.MustDial(b, m.Addr()).Conn, mctest.MustDial(b, servers[0].Addr()).Conn
			got := make([]byte, len(want))
			var a, d []int64
			for b.Loop() {
				a = append(a, int64(ask(through, got)))
				d = append(d, int64(ask(direct, got)))
			}
			slices.Sort(a)
			slices.Sort(d)
			b.ReportMetric(float64(quantile(a, 0.5))/1e6, "mcmw-ms")
			b.ReportMetric(float64(quantile(d, 0.5))/1e6, "direct-ms")
			b.ReportMetric(float64(quantile(a, 0.5))/float64(quantile(d, 0.5)), "ratio")
		})
	}
}
