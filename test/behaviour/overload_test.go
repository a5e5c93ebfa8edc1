package behaviour_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
	"mcmw/internal/worker"
)

const shedLine = "SERVER_ERROR overloaded: the queue is full, nothing was done"

// startFar starts a distant server: every reply of a real server is delayed. It is slow without using the processor, so
// that a test can offer a multiple of the load that it can serve.
func startFar(t *testing.T, delay time.Duration) (addr string) {
	t.Helper()
	server := mctest.StartMemcached(t)
	listen, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			near, err := listen.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server.Addr())
			if err != nil {
				near.Close()
				continue
			}
			wg.Go(func() {
				defer far.Close()
				_, _ = io.Copy(far, near)
			})
			wg.Go(func() {
				defer near.Close()
				buf := make([]byte, 1<<20)
				for {
					n, err := far.Read(buf)
					time.Sleep(delay)
					if _, werr := near.Write(buf[:n]); err != nil || werr != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(wg.Wait)
	t.Cleanup(server.Stop)
	t.Cleanup(func() { listen.Close() })
	return listen.Addr().String()
}

// caller is a client that sends requests when they are due, even if earlier ones are not answered, up to a window;
// requests beyond the window are given up. It knows every expected reply.
type caller struct {
	key    string
	conn   *mctest.Client
	rnd    *rand.Rand
	value  int           // size of the values
	window chan struct{} // a token for each request without a reply
	sent   chan int      // -> reader: the version that a set stores, 0 for a get

	// Owned by the reader.
	stored         int // the version of the last STORED
	served, shed   int
	responses      []time.Duration
	due            chan time.Time // -> reader: when each request was due
	givenUp, wrote int            // owned by the sender
}

const callWindow = 4

func newCaller(t *testing.T, addr, key string, i, value int) *caller {
	t.Helper()
	return &caller{
		key: fmt.Sprintf("%s-%d", key, i), conn: mctest.MustDial(t, addr), rnd: rand.New(rand.NewPCG(uint64(i), 1)),
		value:  value,
		window: make(chan struct{}, callWindow), sent: make(chan int, callWindow),
		due: make(chan time.Time, callWindow),
	}
}

// content is the value of a version.
func (c *caller) content(version int) string {
	return strings.Repeat(fmt.Sprintf("%08d", version), c.value/8)
}

// run sends a request every interval until the end; with interval 0, as fast as they are answered.
func (c *caller) run(begin, end time.Time, interval time.Duration) error {
	read := make(chan error, 1)
	go func() { read <- c.read() }()
	err := c.send(begin, end, interval)
	close(c.sent)
	return errors.Join(err, <-read)
}

func (c *caller) send(begin, end time.Time, interval time.Duration) error {
	version := 0
	for due := begin; due.Before(end); due = due.Add(interval) {
		time.Sleep(time.Until(due))
		if interval == 0 {
			due = time.Now()
			c.window <- struct{}{}
		} else {
			select {
			case c.window <- struct{}{}:
			default:
				c.givenUp++
				continue
			}
		}
		text := "get " + c.key + "\r\n"
		set := 0
		if version == 0 || c.rnd.IntN(20) == 0 {
			version++
			set = version
			text = fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", c.key, c.value/8*8, c.content(version))
		}
		c.wrote++
		c.sent <- set
		c.due <- due
		if err := c.conn.Send([]byte(text)); err != nil {
			return err
		}
	}
	return nil
}

func (c *caller) read() error {
	for set := range c.sent {
		reply, err := c.conn.Reply()
		if err != nil {
			return err
		}
		want := "END\r\n"
		switch {
		case set > 0:
			want = "STORED\r\n"
		case c.stored > 0:
			want = fmt.Sprintf("VALUE %s 0 %d\r\n%s\r\nEND\r\n", c.key, c.value/8*8, c.content(c.stored))
		}
		switch reply {
		case shedLine + "\r\n":
			c.shed++
		case want:
			c.served++
			c.stored = max(c.stored, set)
			c.responses = append(c.responses, time.Since(<-c.due))
			<-c.window
			continue
		default:
			return fmt.Errorf("%s: received %q, expected %q", c.key, cut(reply), cut(want))
		}
		<-c.due
		<-c.window
	}
	return nil
}

// offered is the result of a load.
type offered struct {
	asked, served, shed, givenUp int
	responses                    []time.Duration // of served requests, sorted
}

func (o offered) quantile(q float64) time.Duration {
	if len(o.responses) == 0 {
		return 0
	}
	return o.responses[int(q*float64(len(o.responses)-1))].Round(100 * time.Microsecond)
}

// offer lets n callers, each with its own keys that begin with key, send rate requests per second in total; 0: as many
// as they can.
func offer(t *testing.T, addr, key string, n, value int, rate float64, length time.Duration) (o offered) {
	t.Helper()
	callers := make([]*caller, n)
	for i := range callers {
		callers[i] = newCaller(t, addr, key, i, value)
	}
	var interval time.Duration
	if rate > 0 {
		interval = time.Duration(float64(n) / rate * float64(time.Second))
	}
	begin := time.Now()
	errs := make(chan error, n)
	for i, c := range callers {
		first := begin.Add(interval * time.Duration(i) / time.Duration(n))
		go func() { errs <- c.run(first, begin.Add(length), interval) }()
	}
	for range callers {
		assert.NoError(t, <-errs)
	}
	for _, c := range callers {
		c.conn.Close()
		o.asked += c.wrote + c.givenUp
		o.served += c.served
		o.shed += c.shed
		o.givenUp += c.givenUp
		o.responses = append(o.responses, c.responses...)
	}
	slices.Sort(o.responses)
	return o
}

// memoryBound is the bound of docs/overload.md on the memory of a process that clients can cause, bytes.
func memoryBound(connections, clientMemory int) int64 {
	const (
		collector  = 2        // Go's collector lets the heap grow to twice what is in use
		connection = 8 << 10  // an idle connection
		buffer     = 16 << 10 // request.ReadSize; larger requests count as client memory
		requests   = 64 << 10 // request.MaxBatch of them
		batches    = 2        // one in progress, and one read meanwhile
		each       = connection + batches*(buffer+requests)
	)
	return collector * int64(connections*each+2*clientMemory)
}

// The test offers ten times the sustainable load. It requires right replies and bounded memory, and reports the
// throughput and the time to recover.
func TestOverloadTakesBoundedMemoryAndEveryReplyIsRight(t *testing.T) {
	const (
		connections  = 100
		value        = 100_000
		clientMemory = 16 << 20
	)
	length := time.Second
	if mctest.Long() {
		length = 3 * time.Second
	}
	for _, shed := range []bool{false, true} {
		t.Run(map[bool]string{false: "block", true: "shed"}[shed], func(t *testing.T) {
			child := startChild(t, middleware.Options{
				Servers: mwtest.Named(startFar(t, 2*time.Millisecond)), Workers: 2,
				RequestOptions: worker.RequestOptions{Depth: 1}, Queue: 32,
				ClientOptions: netstage.ClientOptions{Shed: shed, ClientMemory: clientMemory},
			})
			addr := child.addrs[0]
			before := child.memory(t)
			sustained := offer(t, addr, "sustained", 4, value, 0, length)
			rate := float64(sustained.served) / length.Seconds()
			require.Positive(t, rate)
			normal := offer(t, addr, "normal", 4, value, rate/4, length)
			ended, recovered := make(chan time.Time, 1), make(chan time.Time, 1)
			timer := time.AfterFunc(length, func() {
				ended <- time.Now()
				recovered <- recovery(t, addr, 2*normal.quantile(0.99))
			})
			defer timer.Stop()
			over := offer(t, addr, "over", connections, value, 10*rate, length)
			after := (<-recovered).Sub(<-ended).Round(time.Millisecond)
			most := child.mostMemory(t) - before
			t.Logf("sustainable: %.0f requests a second", rate)
			t.Logf("a quarter of it: response time %v in the middle, %v at the 99th percentile", normal.quantile(0.5),
				normal.quantile(0.99))
			t.Logf("ten times it, %d connections: of %d requests a second %d served, %d shed, %d given up; response "+
				"time %v and %v", connections,
				persecond(over.asked, length), persecond(over.served, length), persecond(over.shed, length),
				persecond(over.givenUp, length),
				over.quantile(0.5), over.quantile(0.99))
			t.Logf("memory: %.1f MiB more than before, of at most %.1f MiB", float64(most)/(1<<20),
				float64(memoryBound(connections, clientMemory))/(1<<20))
			t.Logf("back to at most twice the normal 99th percentile %v after the load ended", after)
			if shed {
				require.NotZero(t, over.shed)
			} else {
				require.Zero(t, over.shed)
			}
			if !mctest.Race {
				require.Less(t, most, memoryBound(connections, clientMemory))
			}
		})
	}
}

func persecond(n int, length time.Duration) int { return int(float64(n) / length.Seconds()) }

// recovery sends one request after the other until ten in a row took at most normal, and returns the start of the first
// of these. It gives up soon, because it only measures.
func recovery(t *testing.T, addr string, normal time.Duration) time.Time {
	t.Helper()
	begin := time.Now()
	c, err := mctest.Dial(addr)
	if !assert.NoError(t, err) {
		return begin
	}
	defer c.Close()
	first, inRow := begin, 0
	for inRow < 10 && time.Since(begin) < 5*time.Second {
		asked := time.Now()
		switch reply, err := c.Do("get absent\r\n"); {
		case !assert.NoError(t, err):
			return begin
		case reply != "END\r\n":
			assert.Equal(t, shedLine+"\r\n", reply)
			inRow = 0
			continue
		}
		if time.Since(asked) > normal {
			inRow = 0
			continue
		}
		if inRow == 0 {
			first = asked
		}
		inRow++
	}
	return first
}

// All clients concurrently send the largest values, endlessly, and read nothing.
func TestManyClientsWithLargeValuesTakeBoundedMemory(t *testing.T) {
	mctest.RaceSkips(t, mctest.Measures)
	const (
		connections  = 200
		clientMemory = 16 << 20
		size         = 1<<20 - 1000
	)
	server := mctest.StartMemcached(t, "-m", "64")
	child := startChild(t, middleware.Options{
		Servers: mwtest.Servers(server), Workers: 1, RequestOptions: worker.RequestOptions{Depth: 1}, Queue: 1024,
		// a busy machine must not look like a slow client
		ClientOptions: netstage.ClientOptions{ClientMemory: clientMemory, MinRate: -1},
	})
	before := child.memory(t)
	server.Freeze()
	t.Cleanup(server.Thaw)
	sets := []byte(strings.Repeat(fmt.Sprintf("set k 0 0 %d\r\n%s\r\n", size, strings.Repeat("x", size)), 3))
	var written atomic.Int64
	errs := make(chan error, connections)
	clients := make([]*mctest.Client, connections)
	for i := range clients {
		c := mctest.MustDial(t, child.addrs[0])
		// The kernel's buffers take only a part of three megabytes. The server is frozen for less time than a client
		// waits for memory.
		require.NoError(t, c.Conn.(*net.TCPConn).SetWriteBuffer(64<<10))
		clients[i] = c
		go func() {
			errs <- func() error {
				for part := range slices.Chunk(sets, 64<<10) {
					if err := c.Send(part); err != nil {
						return err
					}
					written.Add(int64(len(part)))
				}
				for range 3 {
					if reply, err := c.Reply(); err != nil || reply != "STORED\r\n" {
						return fmt.Errorf("received %q: %w", reply, err)
					}
				}
				return nil
			}()
		}()
	}
	// Once the memory is used, nothing more is read: the clients' progress stops.
	last, same := int64(-1), 0
	require.Eventually(t, func() bool {
		now := written.Load()
		if now != last {
			same = 0
		}
		last, same = now, same+1
		return same == 10 && now > connections*(16<<10)
	}, mctest.Patience, 20*time.Millisecond)
	stalled := child.mostMemory(t) - before
	server.Thaw()
	for range clients {
		require.NoError(t, <-errs)
	}
	most := child.mostMemory(t) - before
	t.Logf("%d clients with three values of a megabyte each: %.1f MiB while nothing was served, %.1f MiB at most, of "+
		"%.1f MiB", connections,
		float64(stalled)/(1<<20), float64(most)/(1<<20), float64(memoryBound(connections, clientMemory))/(1<<20))
	require.Less(t, most, memoryBound(connections, clientMemory))
}
