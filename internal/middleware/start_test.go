package middleware_test

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
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

// answersUntil starts a server that answers mcmw's own requests. A connection whose line begins with unanswered ends
// when last returns.
func answersUntil(t *testing.T, unanswered string, last func(p *mctest.Peer)) *mctest.Script {
	return mctest.StartScript(t, func(p *mctest.Peer) {
		for line, ok := p.Line(); ok; line, ok = p.Line() {
			if strings.HasPrefix(line, unanswered) {
				last(p)
				return
			}
			p.Known(line)
		}
	})
}

func TestAStartThatWaitsForAServerCanBeStopped(t *testing.T) {
	for name, unanswered := range map[string]string{
		"does not answer":                      "version",
		"does not say whether it has versions": "ms ",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{}, 1)
			server := answersUntil(t, unanswered, func(p *mctest.Peer) {
				asked <- struct{}{}
				p.Stall()
			})
			o := middleware.Options{Servers: mwtest.Named(server.Addr(), mctest.StartNewMemcached(t).Addr())}
			o.ConnectTimeout = time.Hour
			m := mwtest.Begin(t, o)
			<-asked
			require.NoError(t, m.Stop())
		})
	}
}

func TestAStartOfWhichNoServerStoresRecordsInTimeSaysSo(t *testing.T) {
	warned := make(chan struct{})
	defer close(warned)
	silent := answersUntil(t, "ms ", func(*mctest.Peer) { <-warned })
	log := &mctest.Output{}
	mwtest.Begin(t, middleware.Options{
		Servers: mwtest.Named(silent.Addr()), Writers: middleware.WritersOne,
		Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	select {
	case <-log.Written("on too few servers, because too few can be reached or answer in time"):
	case <-time.After(mctest.Patience):
		require.FailNow(t, "no warning", log)
	}
}

func TestAStartComparesReplicasThatAReloadOfTheKilledMiddlewareHadMade(t *testing.T) {
	for name, before := range map[string]func(o *middleware.Options){
		"more replicas":   func(o *middleware.Options) { o.Placement.Replicas = 1 },
		"a second server": func(o *middleware.Options) { o.Servers = o.Servers[:1:1] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &mctest.Output{}
			after := middleware.Options{
				Servers: mwtest.Servers(mctest.StartMemcacheds(t, 2)...),
				Writers: middleware.WritersOne,
			}
			o := after
			before(&o)
			killed := mwtest.Start(t, o) // it never ends, as far as the servers tell
			require.NoError(t, killed.Apply(t.Context(), after))
			after.Log = slog.New(slog.NewTextHandler(log, nil))
			mwtest.Start(t, after)
			require.Contains(t, log.String(), "an earlier mcmw did not shut down cleanly: the replicas are compared")
		})
	}
}

func TestAnOutageLeavesUndecidedOrAsItIsWhetherThereAreSeveralWriters(t *testing.T) {
	for name, atStart := range map[string]bool{"at the start": true, "at a reload": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := &mctest.Output{}
			servers := mctest.StartNewMemcacheds(t, 3)
			o := middleware.Options{
				Servers: mwtest.Servers(servers...), Log: slog.New(slog.NewTextHandler(log, nil)),
			}
			if atStart {
				stopAll(servers)
			}
			waiting := log.Written("waiting for a server")
			m := mwtest.Begin(t, o)
			several := func() bool { return m.Stats().Snapshot().Several }
			if atStart {
				<-waiting
				require.False(t, several())
			} else {
				<-m.Ready()
				require.True(t, several())
				stopAll(servers)
				o.Depth = 1
				require.NoError(t, m.Apply(t.Context(), o))
				require.True(t, several())
			}
			for _, s := range servers {
				s.Start()
			}
			require.Eventually(t, several, mctest.Patience, mctest.Tick)
			client := m.Dial(t)
			require.Eventually(t, func() bool {
				return client.MustDo(t, "set k 0 0 1\r\nv\r\n") == "STORED\r\n"
			}, mctest.Patience, mctest.Tick)
		})
	}
}

func TestAStartWithoutServersWarnsOnceAboutAnOldServerThatReturns(t *testing.T) {
	t.Parallel()
	log := &mctest.Output{}
	servers := mctest.StartMemcacheds(t, 2)
	o := middleware.Options{
		Servers: mwtest.Servers(servers...), Log: slog.New(slog.NewTextHandler(log, nil)),
	}
	stopAll(servers)
	waiting := log.Written("waiting for a server")
	m := mwtest.Begin(t, o)
	<-waiting
	servers[0].Start()
	<-m.Ready()
	o.Depth = 1
	require.NoError(t, m.Apply(t.Context(), o))
	require.Equal(t, 1, strings.Count(log.String(), "some servers are a memcached before 1.6.27"))
}

// An instance starts while it reaches no server, or none says whether it has versions. Before it knows that other
// instances may write the servers, it flushes none.
func TestAStartWithoutServersLeavesThemWhatOtherInstancesRelyOn(t *testing.T) {
	for name, unanswered := range map[string]string{"unreachable": "", "unknown versions": "ms bWNtdyBwcm9iZQ== "} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := mctest.StartNewMemcacheds(t, 3)
			o := middleware.Options{Servers: mwtest.Servers(servers...)}
			o.Ack = replica.AckLive
			other := mwtest.Start(t, o)
			require.Equal(t, "STORED\r\n", other.Dial(t).MustDo(t, "set k 0 0 1\r\nv\r\n"))
			var open [3]atomic.Bool
			o.Servers = slices.Clone(o.Servers)
			for i, s := range servers {
				o.Servers[i].Addr = passesOn(t, s.Addr(), unanswered, &open[i])
			}
			log := &mctest.Output{}
			o.Log = slog.New(slog.NewTextHandler(log, nil))
			waiting := log.Written("waiting for a server")
			m := mwtest.Begin(t, o)
			select {
			case <-waiting:
			case <-time.After(mctest.Patience):
				require.FailNow(t, "it serves before it knows how to write", log)
			}
			several := func() bool { return m.Stats().Snapshot().Several }
			require.False(t, several())
			open[0].Store(true)
			require.Eventually(t, several, mctest.Patience, mctest.Tick)
			open[1].Store(true)
			open[2].Store(true)
			<-m.Ready()
			require.NotContains(t, log.String(), "flushed")
			for _, s := range servers {
				value, held := s.Get("k")
				require.True(t, held)
				require.Equal(t, "v", value)
			}
			require.Equal(t, "VALUE k 0 1\r\nv\r\nEND\r\n", m.Dial(t).MustDo(t, "get k\r\n"))
		})
	}
}

func TestAMiddlewareThatReachesServersOnlyAfterItsStartJoinsTheChangeUnderWay(t *testing.T) {
	for name, options := range map[string]func(t *testing.T) (before, after middleware.Options){
		"servers with one copy":   changeOfServers(1),
		"servers with two copies": changeOfServers(2),
		"routes": func(t *testing.T) (before, after middleware.Options) {
			before = severalPools(t, 1)
			return before, routed(before, "a", "2-", "b", "3-", "c")
		},
	} {
		for phases := range 2 {
			t.Run(fmt.Sprintf("%s, phase %d", name, phases+1), func(t *testing.T) {
				t.Parallel()
				before, after := options(t)
				first := mwtest.Start(t, before)
				require.NoError(t, first.Apply(t.Context(), after))
				for range phases {
					first.EndPhase()
				}
				late, open := startCutOff(t, after)
				open()
				<-late.Ready()
				require.Equal(t, first.Phase(), late.Phase())
				late.AwaitUp(t)
				load := startTraffic(t, first, late)
				rounds(t, load, first, late)
				load.stop()
				require.Zero(t, load.stale.Load())
			})
		}
	}
}

// startCutOff starts a middleware that reaches no server until open is called, and waits until it has noticed that.
func startCutOff(t *testing.T, o middleware.Options) (m *mwtest.MW, open func()) {
	t.Helper()
	isOpen := new(atomic.Bool)
	cutOff := func(servers []route.Server) []route.Server {
		servers = slices.Clone(servers)
		for i, s := range servers {
			servers[i].Addr = passesOn(t, s.Addr, "", isOpen)
		}
		return servers
	}
	o.Servers, o.Pools = cutOff(o.Servers), slices.Clone(o.Pools)
	for i := range o.Pools {
		o.Pools[i].Servers = cutOff(o.Pools[i].Servers)
	}
	log := &mctest.Output{}
	o.Log = slog.New(slog.NewTextHandler(log, nil))
	waiting := log.Written("waiting for a server")
	m = mwtest.Begin(t, o)
	<-waiting
	return m, func() { isOpen.Store(true) }
}

// passesOn starts a server that passes lines on to the one at target. Until open is true it ends a connection with a
// line that begins with unanswered. It returns its address.
func passesOn(t *testing.T, target, unanswered string, open *atomic.Bool) string {
	return mctest.StartScript(t, func(p *mctest.Peer) {
		if unanswered == "" && !open.Load() {
			return
		}
		to, err := net.Dial("tcp", target)
		if err != nil {
			return
		}
		defer to.Close()
		go func() {
			replies := make([]byte, 1<<16)
			for {
				n, err := to.Read(replies)
				p.Send(string(replies[:n]))
				if err != nil {
					return
				}
			}
		}()
		for line, ok := p.Line(); ok; line, ok = p.Line() {
			if !open.Load() && strings.HasPrefix(line, unanswered) {
				return
			}
			if _, err := to.Write([]byte(line + "\r\n")); err != nil {
				return
			}
		}
	}).Addr()
}

func stopAll(servers []*mctest.Server) {
	for _, s := range servers {
		s.Stop()
	}
}

// Pool b held x before it was removed; meanwhile x was written in pool a.
func TestAPoolThatWasRemovedReadsNothingOldWhenItsServersAreReachedOnlyAfterTheStart(t *testing.T) {
	both := newPools(t, middleware.WritersSeveral, 2, 0, "a", "b")
	alone := both
	alone.Pools = both.Pools[:1:1]
	both.Routes.Prefixes = []route.Prefix{{Prefix: "x", Pool: "b"}}
	for i, o := range []middleware.Options{both, alone} {
		m := mwtest.Start(t, o)
		require.Equal(t, "STORED\r\n", m.Dial(t).MustDo(t, fmt.Sprintf("set x 0 0 1\r\n%d\r\n", i)))
		require.NoError(t, m.Stop())
	}
	m, open := startCutOff(t, both)
	open()
	<-m.Ready()
	require.Equal(t, "END\r\n", m.Dial(t).MustDo(t, "get x\r\n"))
}
