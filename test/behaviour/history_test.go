package behaviour_test

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/test/history"
)

// scene is a fleet of middlewares in front of servers, under a load whose history must be legal.
type scene struct {
	servers []*mctest.Server
	fleet   []*mwtest.MW
	paths   [][]*mctest.Proxy // by middleware and server
	addrs   []string          // of the middlewares
	load    *history.Load
	// stops: a middleware stops for a while, and the clients that use all of them wait for it.
	stops  bool
	shares bool // the load has shared keys
	// fails: requests may fail while a server is down, and count as going on.
	fails bool
}

// stage starts n middlewares with o in front of servers, each behind proxies of its own.
func stage(t *testing.T, n int, o middleware.Options, servers []*mctest.Server) *scene {
	t.Helper()
	s := &scene{servers: servers}
	s.fleet, s.paths = behindProxies(t, n, o, servers)
	for _, m := range s.fleet {
		s.addrs = append(s.addrs, m.Addr())
	}
	return s
}

// more waits until n more reads, writes and requests for shared keys have succeeded.
func (s *scene) more(t *testing.T, n uint64) {
	t.Helper()
	reads, writes, shared := s.load.Progress(s.fails)
	poll(t, "requests do not continue to succeed", func() bool {
		r, w, of := s.load.Progress(s.fails)
		return r-reads >= n && w-writes >= n && (of-shared >= n || s.stops || !s.shares)
	})
}

// noticed waits until middlewares see a server not up.
func (s *scene) noticed(t *testing.T, server int, fleet ...*mwtest.MW) {
	t.Helper()
	for _, m := range fleet {
		poll(t, "a server is not seen to fail",
			func() bool { return m.Stats().Snapshot().Servers[server].Health.State != "up" })
	}
}

// up waits until all middlewares may read all servers.
func (s *scene) up(t *testing.T) {
	t.Helper()
	for _, m := range s.fleet {
		for i := range s.servers {
			poll(t, "a server is not up again",
				func() bool { return upUnmarked(m.Stats().Snapshot().Servers[i].Health) })
		}
	}
}

// restart stops a server, lets requests go on once all middlewares have noticed, and starts it again.
func (s *scene) restart(t *testing.T, server int, n uint64) {
	t.Helper()
	s.servers[server].Stop()
	s.noticed(t, server, s.fleet...)
	s.more(t, n)
	s.servers[server].Start()
	s.up(t)
}

// cut lets one middleware lose a server, lets requests go on, and mends the path.
func (s *scene) cut(t *testing.T, mcmw, server int, n uint64) {
	t.Helper()
	s.paths[mcmw][server].Inject(mctest.Fault{Cut: 1, Refuse: true})
	s.noticed(t, server, s.fleet[mcmw])
	s.more(t, n)
	s.paths[mcmw][server].Inject(mctest.Fault{})
	s.up(t)
}

// loadOf returns the load of a short run: most of the time a test waits for a server's state to change, and must not
// take the processors from all others.
func loadOf(t *testing.T) history.Options {
	t.Helper()
	o := history.Options{Clients: 8, Rate: 800, SharedClients: 8, SharedRate: 1600, Contests: 6, Seed: mctest.Seed(t)}
	if mctest.Long() {
		o.Rate, o.SharedRate = 8000, 8000
	}
	return o
}

// poll waits until condition holds. Unlike require.Eventually it calls it in the test's own goroutine, which must do
// the counting.
func poll(t *testing.T, otherwise string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(mctest.Patience); !condition(); time.Sleep(mctest.Tick) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v %s", mctest.Patience, otherwise)
		}
	}
}

// legal plays with the scene under a load, and judges its history. It returns the counts.
func (s *scene) legal(t *testing.T, o history.Options, play func()) *history.Verified {
	t.Helper()
	v := s.played(t, o, play)
	judge(t, v)
	return v
}

// judge requires that no value was wrong or stale, no lock won twice, no answer lost, and that all servers agree.
func judge(t *testing.T, v *history.Verified) {
	t.Helper()
	for what, n := range map[string]uint64{
		"wrong": v.Wrong + v.Shared.Wrong, "stale": v.Stale + v.Shared.Stale, "won twice": v.Shared.SeveralWinners,
		"lost": v.Reads.Lost + v.Writes.Lost, "differing": v.Shared.Differing,
	} {
		assert.Zero(t, n, "%s: %q", what, append(v.Examples, v.Shared.Examples...))
	}
}

// played plays with the scene under a load, waits until all keys can be read, and returns the counts.
func (s *scene) played(t *testing.T, o history.Options, play func()) *history.Verified {
	t.Helper()
	o.Addrs, o.Prefix = s.addrs, cmp.Or(o.Prefix, fmt.Sprintf("%x-", rand.Uint32()))
	s.load, s.shares = history.Start(o), o.SharedClients > 0
	stop := sync.OnceFunc(s.load.Stop)
	defer stop()
	s.more(t, 20)
	play()
	s.more(t, 20)
	stop()
	s.up(t)
	shared := cmp.Or(s.load.AuditShared(), new(history.Shared))
	for _, addr := range o.Addrs {
		poll(t, "not every key can be read", func() bool {
			err := s.load.Audit(t.Context(), addr, 2)
			if failed := new(history.FailedRead); err != nil && !errors.As(err, &failed) {
				t.Fatal(err)
			}
			return err == nil
		})
	}
	v := s.load.Verified()
	v.Shared = *shared
	t.Logf("%d reads, %d failed; %d writes, %d failed; %d requests for shared keys, %d failed; %d contests",
		v.Reads.Sent,
		v.Reads.Failed, v.Writes.Sent, v.Writes.Failed, shared.Requests, shared.Failed, shared.Contests)
	return v
}

// A history is a topology, the faults of a play, and a load. Each of these is legal.
func TestHistoriesAreLegalWhileServersFail(t *testing.T) {
	inPool := func(o *middleware.Options, placement route.Options) {
		p := middleware.PoolOptions{Pool: route.Pool{Name: "pool", Options: placement}, Ack: o.Ack, Writers: o.Writers}
		p.ServerOptions = o.ServerOptions
		o.Pools, o.Routes = []middleware.PoolOptions{p}, route.Routes{Default: "pool"}
	}
	primary := func(o *middleware.Options) { o.Placement.Read, o.Timeout = route.ReadPrimary, 2*time.Second }
	rounds := 1
	if mctest.Long() {
		rounds = 60
	}
	for name, tc := range map[string]struct {
		mcmw   int // default 2
		change func(t *testing.T, o *middleware.Options)
		play   func(t *testing.T, s *scene)
	}{
		"ack live":    {},
		"three mcmw":  {mcmw: 3},
		"ack any":     {change: func(_ *testing.T, o *middleware.Options) { o.Ack = replica.AckAny }},
		"ack quorum":  {change: func(_ *testing.T, o *middleware.Options) { o.Ack = replica.AckQuorum }},
		"ack all":     {change: func(_ *testing.T, o *middleware.Options) { o.Ack = replica.AckAll }},
		"round robin": {change: func(_ *testing.T, o *middleware.Options) { o.Placement.Read = route.ReadRoundRobin }},
		"two replicas": {change: func(_ *testing.T, o *middleware.Options) {
			o.Placement.Replicas, o.WorkerPool = 2, middleware.WorkersPerServer
		}},
		"a pool": {change: func(_ *testing.T, o *middleware.Options) {
			inPool(o, route.Options{Read: route.ReadPrimary})
		}},
		"a gutter": {change: func(t *testing.T, o *middleware.Options) {
			inPool(o, route.Options{Replicas: 1, Gutter: "spare", GutterTTL: 60})
			spare := pooled("spare", route.Options{Replicas: 1}, mctest.StartNewMemcacheds(t, 3)...)
			spare.Writers, spare.Ack, spare.ServerOptions = o.Writers, o.Ack, o.ServerOptions
			o.Pools = append(o.Pools, spare)
		}, play: func(t *testing.T, s *scene) {
			for _, m := range s.fleet {
				g := m.Stats().Snapshot().Gutters[0]
				assert.Positive(t, g.Reads)
				assert.Positive(t, g.Writes)
			}
			if mctest.Long() {
				s.servers[1].Freeze()
				s.more(t, 200)
				s.servers[1].Thaw()
			}
		}},
	} {
		// One after another: on a busy machine the looks at the marks of several fleets at once take longer than the
		// lease, and nothing is answered.
		t.Run(name, func(t *testing.T) {
			o := liveOptions()
			primary(&o)
			o.SweepEvery = 100 * time.Millisecond
			if tc.change != nil {
				tc.change(t, &o)
			}
			s := stage(t, cmp.Or(tc.mcmw, 2), o, mctest.StartNewMemcacheds(t, 3))
			s.fails = o.Ack == replica.AckAll
			s.legal(t, loadOf(t), func() {
				for round := range rounds {
					s.cut(t, round%2, round%len(s.servers), 100)
					s.restart(t, (round+1)%len(s.servers), 100)
				}
				if tc.play != nil {
					tc.play(t, s)
				}
			})
			if name != "a gutter" { // there a key has one server
				awaitSweeps(t, s.fleet...)
				lines, _ := disagreeing(t, s.servers, s.load.Keys())
				assert.Empty(t, lines)
			}
		})
	}
}

// While all middlewares see the first server of a counter up, no increment and no cas of it is lost or counts twice.
func TestNoIncrementIsLostBehindThreeMiddlewaresWhileAServerRestarts(t *testing.T) {
	t.Parallel()
	s := stage(t, 3, middleware.Options{
		Writers: middleware.WritersSeveral, Placement: route.Options{Read: route.ReadPrimary},
	}, mctest.StartNewMemcacheds(t, 3))
	router, err := route.New(mwtest.Servers(s.servers...), route.Options{})
	require.NoError(t, err)
	o := loadOf(t)
	o.Contests = 1
	decides := func(server int, prefix string) bool {
		return slices.ContainsFunc(history.Counted(prefix), func(key string) bool {
			return router.Primary([]byte(key)) == server
		})
	}
	for n := 0; o.Prefix == "" || decides(2, o.Prefix); n++ {
		o.Prefix = fmt.Sprintf("%d-", n)
	}
	v := s.legal(t, o, func() {
		s.more(t, 500)
		s.servers[2].Restart()
		s.more(t, 1000)
	})
	assert.NotZero(t, v.Shared.Increments)
	assert.NotZero(t, v.Shared.Swaps)
	assert.Zero(t, v.Shared.Lost+v.Shared.Twice+v.Shared.Gone, "%q", v.Shared.Examples)
}

func TestReplicasAgreeBehindAFleetAfterFaults(t *testing.T) {
	signal := func(number syscall.Signal) func(m *child, path *mctest.Proxy, server *mctest.Server) {
		return func(m *child, _ *mctest.Proxy, _ *mctest.Server) { _ = m.cmd.Process.Signal(number) }
	}
	inject := func(f mctest.Fault) func(m *child, path *mctest.Proxy, server *mctest.Server) {
		return func(_ *child, path *mctest.Proxy, _ *mctest.Server) { path.Inject(f) }
	}
	rounds := 1
	if mctest.Long() {
		rounds = 20
	}
	for name, tc := range map[string]struct {
		begin, end func(m *child, path *mctest.Proxy, server *mctest.Server)
		evict      bool
	}{
		"a middleware is stopped and continued": {begin: signal(syscall.SIGSTOP), end: signal(syscall.SIGCONT)},
		"a middleware doesn't reach a server that others do": {
			begin: inject(mctest.Fault{Lose: true}), end: inject(mctest.Fault{}),
		},
		"servers evict": {begin: inject(mctest.Fault{}), end: inject(mctest.Fault{}), evict: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var args []string
			load := loadOf(t)
			if tc.evict {
				args, load.Large = []string{"-m", "4"}, true
			}
			servers := mctest.StartNewMemcacheds(t, 3, args...)
			o := middleware.Options{Writers: middleware.WritersSeveral, SweepEvery: 100 * time.Millisecond}
			o.Ack, o.Timeout = replica.AckAll, 500*time.Millisecond
			s := stage(t, 2, o, servers)
			path := mctest.StartProxy(t, servers[2].Addr())
			o.SweepEvery = 0 // a middleware that is stopped during its sweep would keep the others from sweeping
			o.Servers = mwtest.Named(servers[0].Addr(), servers[1].Addr(), path.Addr())
			third := startChild(t, o)
			s.addrs, s.stops = append(s.addrs, third.addrs[0]), true
			s.legal(t, load, func() {
				for range rounds {
					s.more(t, 200)
					tc.begin(third, path, servers[2])
					s.more(t, 200)
					tc.end(third, path, servers[2])
				}
				s.more(t, 200)
			})
			third.stop(t)
			awaitSweeps(t, s.fleet...)
			lines, present := disagreeing(t, servers, s.load.Keys())
			require.Empty(t, lines)
			require.NotZero(t, present)
			require.Equal(t, tc.evict, servers[0].Stat("evictions") > 0)
		})
	}
}

// The fleet is upgraded from one writer to several, one middleware after the other. Until the last one is upgraded,
// nothing finds differences that the old ones leave; then a comparison does.
func TestReplicasAgreeBehindAFleetAfterAnUpgradeToSeveralWriters(t *testing.T) {
	t.Parallel()
	s := &scene{servers: mctest.StartNewMemcacheds(t, 3)}
	s.fleet = fleetOf(t, 2, agreementOptions(middleware.WritersOne), false, s.servers)
	load := loadOf(t)
	load.Resend, load.Restarts = true, true
	for _, m := range s.fleet {
		load.Addrs = append(load.Addrs, m.Addr())
	}
	s.load, s.shares = history.Start(load), true
	stop := sync.OnceFunc(s.load.Stop)
	defer stop()
	s.more(t, 500)
	o := agreementOptions(middleware.WritersSeveral)
	o.SweepEvery = 100 * time.Millisecond
	for n, old := range s.fleet {
		require.NoError(t, old.Stop())
		o.Listen = []string{old.Addr()}
		s.fleet[n] = fleetOf(t, 1, o, false, s.servers)[0]
		s.more(t, 500)
	}
	s.agrees(t, load.Addrs, stop)
}

// agrees ends the load by stop, and checks that a sweep leaves all servers alike, and that no read since was stale.
// addrs are those of the middlewares.
func (s *scene) agrees(t *testing.T, addrs []string, stop func()) {
	t.Helper()
	s.load.Begin(history.After)
	stop()
	awaitSweeps(t, s.fleet...)
	lines, present := disagreeing(t, s.servers, s.load.Keys())
	require.Empty(t, lines)
	require.NotZero(t, present)
	for _, addr := range addrs {
		require.NoError(t, s.load.Audit(t.Context(), addr, 3))
	}
	v := s.load.Verified()
	require.Zero(t, v.StaleAfter, "%q", v.Examples)
	require.Zero(t, v.Wrong, "%q", v.Examples)
}

// Both middlewares start while no server answers, so they find out under load that there may be several writers.
func TestReplicasAgreeBehindAFleetThatStartsBeforeItsServers(t *testing.T) {
	t.Parallel()
	s := &scene{servers: mctest.StartNewMemcacheds(t, 3)}
	for _, server := range s.servers {
		server.Stop()
	}
	o := agreementOptions(middleware.WritersAuto)
	o.SweepEvery, o.Servers, o.Listen = 100*time.Millisecond, mwtest.Servers(s.servers...), []string{"127.0.0.1:0"}
	load := loadOf(t)
	load.Resend, load.Restarts = true, true
	for range 2 {
		log := &mctest.Output{}
		waiting := log.Written("waiting for a server")
		o.Log = slog.New(slog.NewTextHandler(log, nil))
		m := mwtest.Begin(t, o)
		<-waiting
		s.fleet, load.Addrs = append(s.fleet, m), append(load.Addrs, m.Addr())
	}
	for _, server := range s.servers {
		server.Start()
	}
	for _, m := range s.fleet {
		<-m.Ready()
	}
	s.load, s.shares = history.Start(load), true
	stop := sync.OnceFunc(s.load.Stop)
	defer stop()
	s.more(t, 1000)
	for _, m := range s.fleet {
		require.True(t, m.Stats().Snapshot().Several)
	}
	s.agrees(t, load.Addrs, stop)
}
