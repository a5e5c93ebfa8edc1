package behaviour_test

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
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
	"mcmw/internal/route"
	"mcmw/internal/worker"
)

const (
	largeValues = 150
	largeSize   = 1_000_000
)

// largeByte returns the byte of which the value of key i consists.
func largeByte(i int) []byte { return []byte{byte('a' + i%26)} }

// fillLarge stores n large values.
func fillLarge(t *testing.T, addr string, n int) {
	t.Helper()
	c := mctest.MustDial(t, addr)
	for i := range n {
		require.Equal(t, "STORED\r\n",
			c.MustDo(t, fmt.Sprintf("set large%d 0 0 %d\r\n%s\r\n", i, largeSize,
				bytes.Repeat(largeByte(i), largeSize))))
	}
}

// multiGet returns a get of n large values.
func multiGet(n int) string {
	var keys strings.Builder
	for i := range n {
		fmt.Fprintf(&keys, " large%d", i)
	}
	return "get" + keys.String() + "\r\n"
}

func pipelinedGets(n int) string {
	return strings.ReplaceAll(strings.TrimPrefix(multiGet(n), "get "), " ", "\r\nget ")
}

// readLarge reads the values of keys 0 to n-1, and want after the last one; if pipelined, each with its own END. It
// calls pause after every value.
func readLarge(conn net.Conn, n int, pipelined bool, pause func()) error {
	r := bufio.NewReaderSize(conn, 64<<10)
	line := func(want string) error {
		got, err := r.ReadString('\n')
		if err != nil || got != want {
			return fmt.Errorf("received %q instead of %q: %w", got, want, err)
		}
		return nil
	}
	got := make([]byte, largeSize)
	for i := range n {
		if err := line(fmt.Sprintf("VALUE large%d 0 %d\r\n", i, largeSize)); err != nil {
			return err
		}
		if _, err := io.ReadFull(r, got); err != nil {
			return fmt.Errorf("value %d: %w", i, err)
		}
		if bytes.Count(got, largeByte(i)) != largeSize {
			return fmt.Errorf("value %d is wrong", i)
		}
		if err := line("\r\n"); err != nil {
			return err
		}
		if pipelined || i == n-1 {
			if err := line("END\r\n"); err != nil {
				return err
			}
		}
		if pause != nil {
			pause()
		}
	}
	return nil
}

// askLarge lets clients concurrently request the first n large values.
func askLarge(t *testing.T, addr string, clients, n int, pipelined bool) {
	t.Helper()
	request := multiGet(n)
	if pipelined {
		request = "get " + pipelinedGets(n)
	}
	errs := make(chan error, clients)
	for range clients {
		c := mctest.MustDial(t, addr)
		require.NoError(t, c.Conn.SetDeadline(time.Now().Add(2*time.Minute)))
		go func() {
			if _, err := io.WriteString(c.Conn, request); err != nil {
				errs <- err
				return
			}
			errs <- readLarge(c.Conn, n, pipelined, nil)
		}()
	}
	for range clients {
		assert.NoError(t, <-errs)
	}
}

func TestLargeRepliesTakeBoundedMemory(t *testing.T) {
	mctest.RaceSkips(t, mctest.Measures)
	const clients, most = 16, 150 << 20
	server := mctest.StartMemcached(t, "-m", "400")
	fillLarge(t, server.Addr(), largeValues)
	for name, o := range map[string]middleware.Options{
		"shared":               {},
		"synchronous":          {Workers: 4, RequestOptions: worker.RequestOptions{Depth: 1}},
		"little client memory": {ClientOptions: netstage.ClientOptions{ClientMemory: 8 << 20}},
		"a pool per server":    {WorkerPool: middleware.WorkersPerServer},
	} {
		for kind, pipelined := range map[string]bool{"one multi-get": false, "pipelined gets": true} {
			if !mctest.Long() && !pipelined && o.ClientMemory == 0 &&
				(o.Workers > 0 || o.WorkerPool == middleware.WorkersPerServer) {
				continue // its reply is bounded like that of shared workers
			}
			t.Run(name+"/"+kind, func(t *testing.T) {
				o.Servers = mwtest.Servers(server)
				child := startChild(t, o)
				askLarge(t, child.addrs[0], clients, largeValues, pipelined)
				took := child.mostMemory(t)
				t.Logf("%.1f MiB at most", float64(took)/(1<<20))
				assert.Less(t, took, int64(most))
				begin := time.Now()
				require.Eventually(t, func() bool { return child.memory(t) < most/4 }, mctest.Patience,
					100*time.Millisecond)
				t.Logf("%.1f MiB %v after the load", float64(child.memory(t))/(1<<20),
					time.Since(begin).Round(100*time.Millisecond))
			})
		}
	}
}

// The clients' replies do not fit in the memory for replies of all clients, and the clients read slowly.
func TestAClientThatReadsIsNeverDisconnected(t *testing.T) {
	const clients, values = 16, 20
	server := mctest.StartMemcached(t, "-m", "100")
	fillLarge(t, server.Addr(), values)
	for name, clientMemory := range map[string]int{"64m": 64 << 20, "4m": 4 << 20} {
		t.Run(name, func(t *testing.T) {
			m := mwtest.Start(t, middleware.Options{
				Servers:        mwtest.Servers(server),
				ClientOptions:  netstage.ClientOptions{ClientMemory: clientMemory},
				RequestOptions: worker.RequestOptions{Timeout: mctest.Patience},
			})
			errs := make(chan error, clients)
			for i := range clients {
				c := m.Dial(t)
				require.NoError(t, c.Conn.SetDeadline(time.Now().Add(4*mctest.Patience)))
				require.NoError(t, c.Send([]byte(multiGet(values))))
				go func() {
					errs <- readLarge(c.Conn, values, false,
						func() { time.Sleep(time.Duration(i) * 5 * time.Millisecond) })
				}()
			}
			stop := bystander(t, m.Addr())
			for range clients {
				assert.NoError(t, <-errs)
			}
			stop()
		})
	}
}

// The scripts have replies that exceed what a round keeps; each script is sent at once, sometimes after reads of small
// values. Values that are requested later, or were dropped and requested again, must be those that memcached would have
// answered the first time.
func TestLargePipelinesAreAnsweredAsByMemcached(t *testing.T) {
	const keys, small = 12, 400
	scripts := 2
	if mctest.Long() {
		scripts = 1000
	}
	for name, o := range map[string]middleware.Options{
		"one server":        {},
		"three replicas":    {RequestOptions: worker.RequestOptions{Sharded: true}},
		"shards":            {Placement: route.Options{Replicas: 1}},
		"two replicas":      {Placement: route.Options{Replicas: 2}},
		"a pool per server": {WorkerPool: middleware.WorkersPerServer},
		"synchronous":       {Workers: 2, RequestOptions: worker.RequestOptions{Depth: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			n := 3
			if name == "one server" || name == "synchronous" {
				n = 1
			}
			o.Servers, o.Timeout, o.Workers = mwtest.Servers(mctest.StartMemcacheds(t, n)...), mctest.Patience,
				cmp.Or(o.Workers, 1)
			through, direct := mwtest.Start(t, o).Dial(t), mctest.MustDial(t, mctest.StartMemcached(t).Addr())
			both := func(request string, replies int) {
				t.Helper()
				go func() { _ = direct.Send([]byte(request)) }()
				go func() { _ = through.Send([]byte(request)) }()
				for range replies {
					want := direct.MustReply(t)
					got := through.MustReply(t)
					require.True(t, want == got, "%q\nwas answered %q instead of %q", cut(request), cut(got), cut(want))
				}
			}
			smallKeys := "get"
			for i := range small {
				both(fmt.Sprintf("set small%d 0 0 1\r\nx\r\n", i), 1)
				smallKeys += fmt.Sprintf(" small%d", i)
			}
			rnd := rand.New(rand.NewPCG(mctest.Seed(t), 1))
			key := func() string { return fmt.Sprintf("k%d", rnd.IntN(keys)) }
			for range scripts {
				for i := range keys {
					size := 1 + rnd.IntN(1_000_000)
					both(fmt.Sprintf("set k%d 0 0 %d\r\n%s\r\n", i, size, strings.Repeat("v", size)), 1)
				}
				if rnd.IntN(5) == 0 { // large values are no longer expected
					both(smallKeys+"\r\n"+smallKeys+"\r\n", 2)
				}
				var script strings.Builder
				replies, values := 0, 0
				for values < 14 {
					replies++
					switch rnd.IntN(10) {
					case 0:
						fmt.Fprintf(&script, "set %s 0 0 3\r\nnew\r\n", key())
					case 1:
						fmt.Fprintf(&script, "set %s 0 0 3 noreply\r\nold\r\n", key())
						replies--
					case 2:
						fmt.Fprintf(&script, "delete %s\r\n", key())
					case 3:
						fmt.Fprintf(&script, "mg %s v\r\n", key())
						values++
					case 4:
						fmt.Fprintf(&script, "gat 0 %s missing %s\r\n", key(), key())
						values += 2
					case 5:
						fmt.Fprintf(&script, "append %s 0 0 1\r\n+\r\n", key())
					default:
						script.WriteString("get")
						for range 1 + rnd.IntN(6) {
							script.WriteString(" " + key())
							values++
						}
						script.WriteString(" missing\r\n")
					}
				}
				both(script.String(), replies)
			}
		})
	}
}
