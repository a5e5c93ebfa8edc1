package behaviour_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/worker"
	"mcmw/test/history"
)

// quit opens a connection, and ends it in one of the ways in which clients leave requests and replies unfinished.
func quit(addr string, rng *rand.Rand) error {
	c, err := mctest.Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	const keys = 40
	key := func() string { return fmt.Sprintf("quit-%d", rng.IntN(keys)) }
	set := func(size int, more string) string {
		return fmt.Sprintf("set %s 0 0 %d%s\r\n%s\r\n", key(), size, more, strings.Repeat("q", size))
	}
	request := func() string {
		if rng.IntN(3) == 0 {
			return set(rng.IntN(200), "")
		}
		return "get " + key() + " " + key() + "\r\n"
	}
	text, lines := "", 0 // how many lines of the replies it reads
	switch rng.IntN(7) {
	case 0:
	case 1: // in the middle of a line, after a complete request
		text = request() + "get quit-1 quit-" + strings.Repeat("1", rng.IntN(3))
	case 2: // in the middle of a value
		text = set(40_000, "")
		text = text[:len(text)-1-rng.IntN(40_000)]
	case 3: // with replies in flight
		for range 1 + rng.IntN(10) {
			text += request()
		}
	case 4: // in the middle of a reply
		text, lines = set(40_000, " noreply")+"get quit-"+strings.Join(numbered(keys), " quit-")+" "+key()+"\r\n", 1
	case 5: // half-closed, but reading the replies
		if err := c.Send([]byte(request())); err != nil {
			return err
		}
		if err := c.CloseWrite(); err != nil {
			return err
		}
		_, err := c.Rest()
		return err
	default: // a value that is not acknowledged
		text = set(rng.IntN(200), " noreply")
	}
	if err := c.Send([]byte(text)); err != nil {
		return err
	}
	for range lines {
		if _, err := c.Line(); err != nil {
			return err
		}
	}
	if rng.IntN(2) == 0 {
		return c.Reset()
	}
	return nil
}

// withQuitters lets connections end in all ways while requests of the load go on.
func (s *scene) withQuitters(t *testing.T, seed uint64) {
	t.Helper()
	quits := 50
	if mctest.Long() {
		quits = 1000
	}
	var quitters sync.WaitGroup
	for n := range 8 {
		rng := rand.New(rand.NewPCG(seed, uint64(n)))
		quitters.Go(func() {
			for range quits {
				assert.NoError(t, quit(s.addrs[0], rng))
			}
		})
	}
	quitters.Wait()
	s.more(t, 50)
}

// mixupLoad has no shared keys: a foreign byte would show in any answer.
func mixupLoad(t *testing.T) history.Options {
	o := loadOf(t)
	o.SharedClients, o.Rate = 0, 2*o.Rate
	return o
}

func TestNoReplyHoldsAnotherKeysBytesUnderRandomDisconnects(t *testing.T) {
	seed := mctest.Seed(t)
	for _, p := range topologies {
		for _, pool := range []middleware.WorkerPool{middleware.WorkersShared, middleware.WorkersPerServer} {
			if pool == middleware.WorkersPerServer && p.servers == 1 {
				continue
			}
			t.Run(fmt.Sprintf("%s, pool %v", p.name, pool), func(t *testing.T) {
				o, servers := p.options(t, middleware.Options{Workers: 4, WorkerPool: pool})
				before := goleak.IgnoreCurrent()
				m := mwtest.Start(t, o)
				goroutines := runtime.NumGoroutine()
				s := &scene{servers: servers, fleet: []*mwtest.MW{m}, addrs: []string{m.Addr()}}
				s.legal(t, mixupLoad(t), func() { s.withQuitters(t, seed) })
				poll(t, "connections that clients ended stay open",
					func() bool { return m.Stats().Snapshot().Open() == 0 })
				poll(t, "goroutines of ended connections stay",
					func() bool { return runtime.NumGoroutine() <= goroutines })
				require.NoError(t, m.Stop())
				goleak.VerifyNone(t, before)
			})
		}
	}
}

func TestNoReplyHoldsAnotherKeysBytesWhileServersBreakOff(t *testing.T) {
	seed := mctest.Seed(t)
	for _, p := range topologies[:4] {
		t.Run(p.name, func(t *testing.T) {
			o, servers := p.options(t, middleware.Options{
				Workers:        8,
				RequestOptions: worker.RequestOptions{Timeout: 100 * time.Millisecond},
			})
			s := stage(t, 1, o, servers)
			s.fails = true // the timeout is short
			s.legal(t, mixupLoad(t), func() {
				rng := rand.New(rand.NewPCG(seed, 0))
				over := make(chan struct{})
				var faults sync.WaitGroup
				faults.Go(func() {
					for {
						f := mctest.Fault{Cut: 1 + rng.IntN(100_000), Reset: rng.IntN(2) == 0}
						switch rng.IntN(5) {
						case 0:
							f = mctest.Fault{Double: true}
						case 1:
							f = mctest.Fault{Bytewise: true}
						case 2:
							f = mctest.Fault{Stall: true}
						case 3:
							f = mctest.Fault{Refuse: true, Cut: 1}
						}
						path := s.paths[0][rng.IntN(len(servers))]
						path.Inject(f)
						select {
						case <-over:
							path.Inject(mctest.Fault{})
							return
						case <-time.After(time.Duration(rng.IntN(10_000)) * time.Microsecond):
						}
						path.Inject(mctest.Fault{})
					}
				})
				s.withQuitters(t, seed)
				s.more(t, 1000)
				close(over)
				faults.Wait()
			})
		})
	}
}
