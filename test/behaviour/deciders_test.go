package behaviour_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/replica"
	"mcmw/internal/route"
)

// referee lets clients compete through all middlewares of a fleet for what only one can win: the add of a new key, and
// the cas of an item.
type referee struct {
	held, won, failed atomic.Int64
	slowest           atomic.Int64 // ns
	several           sync.Map     // complaints
}

// begin starts n contests at a time until stop is closed, and returns a function that waits for them.
func (f *referee) begin(t *testing.T, fleet []*mwtest.MW, n int, stop chan struct{}) (wait func()) {
	var contests sync.WaitGroup
	for k := range n {
		var clients []*mctest.Client
		for _, m := range fleet {
			clients = append(clients, m.Dial(t))
		}
		contests.Go(func() {
			for round := 0; ; round++ {
				select {
				case <-stop:
					return
				case <-time.After(2 * time.Millisecond):
				}
				key := fmt.Sprintf("contest-%d-%d", k, round)
				f.contest(clients, "add "+key+" 0 60 1\r\n1\r\n")
				reply, err := clients[round%len(clients)].Do("gets " + key + "\r\n")
				if err != nil {
					return
				}
				if items, err := mctest.ParseValues(reply); err == nil && len(items) == 1 {
					f.contest(clients, fmt.Sprintf("cas %s 0 60 1 %s\r\n2\r\n", key, items[0].Cas))
				}
			}
		})
	}
	return contests.Wait
}

// contest lets all clients send command at the same time.
func (f *referee) contest(clients []*mctest.Client, command string) {
	begun := time.Now()
	for _, c := range clients {
		if err := c.Send([]byte(command)); err != nil {
			f.several.Store(err.Error(), true)
			return
		}
	}
	winners := 0
	for _, c := range clients {
		reply, err := c.Reply()
		switch {
		case err != nil:
			f.several.Store(err.Error(), true)
		case reply == "STORED\r\n":
			winners++
		case strings.HasPrefix(reply, "SERVER_ERROR "):
			f.failed.Add(1)
		}
	}
	if took := int64(time.Since(begun)); took > f.slowest.Load() {
		f.slowest.Store(took)
	}
	f.held.Add(1)
	switch {
	case winners == 1:
		f.won.Add(1)
	case winners > 1:
		f.several.Store(fmt.Sprintf("%d of %d won: %q", winners, len(clients), command), true)
	}
}

// more waits until n more contests were held.
func (f *referee) more(t *testing.T, n int64) {
	t.Helper()
	enough := f.held.Load() + n
	held := func() bool { return f.held.Load() >= enough }
	require.Eventually(t, held, mctest.Patience, pollPause, "clients get no answers")
}

func TestNoLockIsWonTwiceWhileAServerFailsAndReturns(t *testing.T) {
	inPool := func(o *middleware.Options, placement route.Options) {
		p := middleware.PoolOptions{Pool: route.Pool{Name: "pool", Options: placement}, Ack: o.Ack, Writers: o.Writers}
		p.ServerOptions = o.ServerOptions
		o.Pools, o.Routes = []middleware.PoolOptions{p}, route.Routes{Default: "pool"}
	}
	for name, change := range map[string]func(o *middleware.Options){
		"ack live":     func(*middleware.Options) {},
		"ack any":      func(o *middleware.Options) { o.Ack = replica.AckAny },
		"ack all":      func(o *middleware.Options) { o.Ack = replica.AckAll },
		"two replicas": func(o *middleware.Options) { o.Placement.Replicas, o.Pool = 2, middleware.PoolPerServer },
		"a pool":       func(o *middleware.Options) { inPool(o, route.Options{Read: route.ReadPrimary}) },
		"a gutter": func(o *middleware.Options) {
			inPool(o, route.Options{Replicas: 1, Gutter: "spare", GutterTTL: 60})
			spare := pooled("spare", route.Options{Replicas: 1}, mctest.StartNewMemcacheds(t, 3)...)
			spare.Writers, spare.Ack, spare.ServerOptions = o.Writers, o.Ack, o.ServerOptions
			o.Pools = append(o.Pools, spare)
		},
	} {
		// One after another; see TestAServerThatOneMiddlewareCannotReachIsReadByNone.
		t.Run(name, func(t *testing.T) {
			o := liveOptions()
			o.Placement.Read, o.Timeout = route.ReadPrimary, 2*time.Second
			change(&o)
			servers := mctest.StartNewMemcacheds(t, 3)
			fleet, proxies := behindProxies(t, 2, o, servers)
			var f referee
			stop := make(chan struct{})
			wait := f.begin(t, fleet, 24, stop)
			ended := false
			end := func() {
				if !ended {
					ended = true
					close(stop)
					wait()
				}
			}
			defer end()
			f.more(t, 100)
			back := func() {
				for _, m := range fleet {
					for s := range servers {
						up := func() bool { return upUnmarked(m.Stats().Snapshot().Servers[s].Health) }
						require.Eventually(t, up, mctest.Patience, pollPause)
					}
				}
			}
			rounds := 1
			if mctest.Long() {
				rounds = 20
			}
			noticed := func(s int, fleet ...*mwtest.MW) {
				for _, m := range fleet {
					trouble := func() bool { return m.Stats().Snapshot().Servers[s].Health.State != "up" }
					require.Eventually(t, trouble, mctest.Patience, mctest.Tick)
				}
				f.more(t, 300)
			}
			for round := range rounds * len(servers) {
				s := round % 3
				path := proxies[round%2][s]
				path.Inject(mctest.Fault{Cut: 1, Refuse: true})
				noticed(s, fleet[round%2])
				path.Inject(mctest.Fault{})
				back()
				f.more(t, 300)
				servers[s].Stop()
				noticed(s, fleet...)
				servers[s].Start()
				back()
				f.more(t, 300)
			}
			end()
			f.several.Range(func(what, _ any) bool {
				t.Error(what)
				return true
			})
			t.Logf("%d contests of %d were won, %d requests failed, the slowest contest took %v", f.won.Load(),
				f.held.Load(),
				f.failed.Load(), time.Duration(f.slowest.Load()).Round(time.Millisecond))
		})
	}
}
