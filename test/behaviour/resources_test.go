package behaviour_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
)

// exchangeLoop sends request and expects reply n times, without allocating.
func exchangeLoop(conn net.Conn, request, want, scratch []byte, n int) error {
	for range n {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		if _, err := io.ReadFull(conn, scratch[:len(want)]); err != nil {
			return fmt.Errorf("%w after %q", err, cut(string(scratch)))
		}
		if !bytes.Equal(scratch[:len(want)], want) {
			return fmt.Errorf("received %q, expected %q", cut(string(scratch[:len(want)])), cut(string(want)))
		}
	}
	return nil
}

// warmLoad has the bytes that a connection sends repeatedly, and the expected replies.
type warmLoad struct {
	name     string
	prepare  func(key string) string
	request  func(key string) string
	want     func(key string) string
	requests int  // in request
	sameKey  bool // all connections use one key
	basic    bool // measured with every topology even in a short run
}

func warmLoads() []warmLoad {
	set := func(key string, size int) string {
		return fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key, size, strings.Repeat("v", size))
	}
	hit := func(key string, size int) string {
		return fmt.Sprintf("VALUE %s 0 %d\r\n%s\r\n", key, size, strings.Repeat("v", size))
	}
	always := func(text string) func(string) string { return func(string) string { return text } }
	sized := func(size int) func(string) string { return func(key string) string { return set(key, size) } }
	get := func(key string) string { return "get " + key + "\r\n" }
	found := func(size int) func(string) string {
		return func(key string) string { return hit(key, size) + "END\r\n" }
	}
	// ten joins the results of f for ten keys.
	ten := func(f func(key string) string) func(string) string {
		return func(key string) string {
			var b strings.Builder
			for i := range 10 {
				b.WriteString(f(fmt.Sprintf("%d-%s", i, key)))
			}
			return b.String()
		}
	}
	return []warmLoad{
		{name: "get of 64 bytes", basic: true, prepare: sized(64), request: get, want: found(64), requests: 1},
		{name: "get of 4 KiB", prepare: sized(4096), request: get, want: found(4096), requests: 1},
		{name: "get of 50,000 bytes", prepare: sized(50_000), request: get, want: found(50_000), requests: 1},
		{name: "gets that miss", request: always("get x\r\nget y\r\n"), want: always("END\r\nEND\r\n"), requests: 2},
		{name: "10 pipelined gets", prepare: ten(sized(64)), request: ten(get), want: ten(found(64)), requests: 10},
		{
			name: "16 pipelined gets of one key", prepare: sized(64), requests: 16,
			request: func(key string) string { return strings.Repeat(get(key), 16) },
			want:    func(key string) string { return strings.Repeat(hit(key, 64)+"END\r\n", 16) },
		},
		{
			name: "multi-get of 10 keys", basic: true, prepare: ten(sized(64)), requests: 1,
			request: func(key string) string {
				return "get" + ten(func(key string) string { return " " + key })(key) + "\r\n"
			},
			want: func(key string) string {
				return ten(func(key string) string { return hit(key, 64) })(key) + "END\r\n"
			},
		},
		{name: "set of 64 bytes", basic: true, request: sized(64), want: always("STORED\r\n"), requests: 1},
		{name: "set of 4 KiB", request: sized(4096), want: always("STORED\r\n"), requests: 1},
		{
			name: "set of one key by all connections", request: sized(64), want: always("STORED\r\n"), requests: 1,
			sameKey: true,
		},
		{
			name: "8 sets with noreply and a get", requests: 9,
			request: func(key string) string {
				return strings.Repeat(strings.Replace(set(key, 64), " 64\r\n", " 64 noreply\r\n", 1), 8) + get(key)
			},
			want: found(64),
		},
		{
			name: "delete and touch", prepare: sized(1), requests: 2, want: always("NOT_FOUND\r\nTOUCHED\r\n"),
			request: func(key string) string { return "delete absent-" + key + "\r\ntouch " + key + " 0\r\n" },
		},
		{
			name: "incr", prepare: func(key string) string { return "set " + key + " 0 0 1\r\n1\r\n" }, requests: 1,
			request: func(key string) string { return "incr " + key + " 0\r\n" }, want: always("1\r\n"),
		},
	}
}

func TestTheWarmPathAllocatesNothing(t *testing.T) {
	mctest.RaceSkips(t, mctest.Allocates)
	for _, p := range []topology{
		{"one server", 1, 0, false},
		{"three servers, replicas all, sharded", 3, 0, true},
		{"three servers, replicas 1, sharded", 3, 1, true},
	} {
		for _, load := range warmLoads() {
			if !mctest.Long() && !load.basic && (p.servers == 1 || p.replicas == 1) {
				continue
			}
			t.Run(p.name+", "+load.name, func(t *testing.T) {
				m, _ := p.start(t)
				checkAllocations(t, m, load)
			})
		}
	}
}

func checkAllocations(t *testing.T, m *mwtest.MW, load warmLoad) {
	t.Helper()
	const (
		connections = 4
		// mostPer bounds the allocations per request of the runtime, the collector and the pools that it empties.
		mostPer = 0.01
		// once bounds the allocations that do not depend on the number of requests: of what is done by time, and pages
		// of histograms, for the first response time in a range.
		once = 200
		// rounds are measured at most. What a request allocates, it allocates in each of them; what a busy machine
		// causes is absent from one.
		rounds = 5
	)
	measured := 6000 // requests in a round
	if mctest.Long() {
		measured = 100_000
	}
	each := measured / load.requests / connections
	exchange := make([]func(n int) error, connections)
	for i := range exchange {
		key := fmt.Sprintf("%d-key", i)
		if load.sameKey {
			key = "key"
		}
		c := m.Dial(t)
		if load.prepare != nil {
			prepare := load.prepare(key)
			require.NoError(t, c.Send([]byte(prepare)))
			for range strings.Count(prepare, "set ") {
				require.Equal(t, "STORED\r\n", c.MustReply(t))
			}
		}
		request, want := []byte(load.request(key)), []byte(load.want(key))
		scratch := make([]byte, len(want))
		require.NoError(t, c.Conn.SetDeadline(time.Now().Add(mctest.Patience)))
		exchange[i] = func(n int) error { return exchangeLoop(c.Conn, request, want, scratch, n) }
	}
	inParallel(t, connections, func(i int) error { return exchange[i](each / 2) })
	requests := float64(each * load.requests * connections)
	least := math.Inf(1)
	for round := 0; round < rounds && least >= requests*mostPer+once; round++ {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		inParallel(t, connections, func(i int) error { return exchange[i](each) })
		runtime.ReadMemStats(&after)
		made := float64(after.Mallocs - before.Mallocs)
		t.Logf("%.0f allocations, %.5f and %.1f bytes per request", made, made/requests,
			float64(after.TotalAlloc-before.TotalAlloc)/requests)
		least = min(least, made)
	}
	require.Less(t, least, requests*mostPer+once)
}

func TestAnIdleConnectionCostsLittle(t *testing.T) {
	mctest.RaceSkips(t, mctest.Measures)
	const (
		connections = 10_000
		most        = 8 << 10 // bytes each
		files       = connections + 1000
	)
	require.Equal(t, files, allowedFiles(t, files), "this test needs %d open files; raise the limit (ulimit -n)", files)
	child := startChild(t, middleware.Options{Servers: mwtest.Servers(mctest.StartMemcached(t)), Workers: 2})

	// The first connections cause other allocations, which are not counted.
	warm := dialAndUse(t, child.addrs[0], 100)
	before := child.memory(t)
	conns := dialAndUse(t, child.addrs[0], connections)
	after := child.memory(t)
	each := (after - before) / connections
	t.Logf("%d idle connections, each having made one request: resident memory %d KiB before, %d KiB after, %d bytes "+
		"each",
		connections, before>>10, after>>10, each)
	t.Attr("idle_connection_bytes", strconv.FormatInt(each, 10))
	require.Less(t, each, int64(most))

	// The connections still work.
	for _, c := range append(conns[:3:3], conns[len(conns)-3:]...) {
		require.Equal(t, "END\r\n", c.MustDo(t, "get idle\r\n"))
	}
	for _, c := range append(warm, conns...) {
		c.Close()
	}
	child.stop(t)
}

// dialAndUse opens n connections and makes a request on each.
func dialAndUse(t *testing.T, addr string, n int) []*mctest.Client {
	t.Helper()
	conns := make([]*mctest.Client, n)
	inParallel(t, n, func(i int) (err error) {
		if conns[i], err = mctest.Dial(addr); err == nil {
			_, err = conns[i].Do("get idle\r\n")
		}
		return err
	})
	return conns
}
