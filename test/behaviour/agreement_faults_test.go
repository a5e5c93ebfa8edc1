package behaviour_test

import (
	"fmt"
	"math/rand/v2"
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
	"mcmw/internal/replica"
)

// ledger records what clients wrote. Every value is written once.
type ledger struct {
	clock atomic.Int64
	done  atomic.Int64 // writes that were answered

	mu     sync.Mutex // guards the fields below
	writes map[string][]*ledgerEntry
}

// ledgerEntry is a set or, without a value, a delete. ended is never unless it was answered with success.
type ledgerEntry struct {
	value        string
	began, ended int64
}

func newLedger() *ledger { return &ledger{writes: map[string][]*ledgerEntry{}} }

// crowd lets clients write random keys until stop is called. Each connects to the address that of returns, again
// whenever its connection ends. Values have at least size bytes.
func (l *ledger) crowd(t *testing.T, clients int, of func(client int) string, seed uint64, keys []string,
	size int,
) (stop func()) {
	var ended atomic.Bool
	var writers sync.WaitGroup
	padding := strings.Repeat("x", size)
	for w := range clients {
		r := rand.New(rand.NewPCG(seed, uint64(w)))
		writers.Go(func() {
			var c *mctest.Client
			for n := 0; !ended.Load(); n++ {
				if c == nil {
					var err error
					if c, err = mctest.Dial(of(w)); err != nil {
						c = nil // the middleware has just ended: of returns the next one's address soon
						continue
					}
				}
				value := fmt.Sprintf("%d-%d-%s", w, n, padding)
				if r.IntN(8) == 0 {
					value = ""
				}
				if !l.write(c, keys[r.IntN(len(keys))], value) {
					c.Close()
					c = nil
				}
			}
			if c != nil {
				c.Close()
			}
		})
	}
	stop = func() {
		ended.Store(true)
		writers.Wait()
	}
	t.Cleanup(stop)
	return stop
}

// await waits until n more writes were answered.
func (l *ledger) await(t *testing.T, n int64) {
	t.Helper()
	goal := l.done.Load() + n
	require.Eventually(t, func() bool { return l.done.Load() >= goal }, mctest.Patience, mctest.Tick)
}

// write lets c set or delete a key, and reports whether its connection can still be used.
func (l *ledger) write(c *mctest.Client, key, value string) bool {
	e := &ledgerEntry{value: value, began: l.clock.Add(1), ended: never}
	l.mu.Lock()
	l.writes[key] = append(l.writes[key], e)
	l.mu.Unlock()
	request := "delete " + key + "\r\n"
	if value != "" {
		request = fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key, len(value), value)
	}
	reply, err := c.Do(request)
	ended := l.clock.Add(1)
	if err == nil && (reply == "STORED\r\n" || reply == "DELETED\r\n" || reply == "NOT_FOUND\r\n") {
		l.mu.Lock()
		e.ended = ended
		l.mu.Unlock()
	}
	if err != nil {
		return false
	}
	l.done.Add(1)
	return true
}

// wrong returns a line for each server whose value of the key nobody wrote, or was written before the start of a later,
// answered write.
func (l *ledger) wrong(servers []*mctest.Server) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for key, writes := range l.writes {
		for s, server := range servers {
			value, ok := server.Get(key)
			if !ok {
				continue
			}
			k := slices.IndexFunc(writes, func(e *ledgerEntry) bool { return e.value == value })
			if k < 0 {
				lines = append(lines, fmt.Sprintf("%s: server %d holds %.20q, which nobody wrote", key, s, value))
				continue
			}
			if slices.ContainsFunc(writes, func(e *ledgerEntry) bool {
				return e.ended != never && e.began > writes[k].ended
			}) {
				lines = append(lines, fmt.Sprintf("%s: server %d holds %.20q, although later writes were answered", key,
					s, value))
			}
		}
	}
	return lines
}

// mishap is a fault during writes through a fleet. It gets the third middleware, that one's connection to the third
// server, and that server.
type mishap struct {
	begin, end func(m *child, path *mctest.Proxy, s *mctest.Server)
	memory     string // of the servers, MiB
	size       int    // of values, bytes
}

func TestReplicasAgreeBehindAFleetAfterFaults(t *testing.T) {
	nothing := func(*child, *mctest.Proxy, *mctest.Server) {}
	signal := func(s syscall.Signal) func(m *child, path *mctest.Proxy, server *mctest.Server) {
		return func(m *child, _ *mctest.Proxy, _ *mctest.Server) { _ = m.cmd.Process.Signal(s) }
	}
	inject := func(f mctest.Fault) func(m *child, path *mctest.Proxy, server *mctest.Server) {
		return func(_ *child, path *mctest.Proxy, _ *mctest.Server) { path.Inject(f) }
	}
	seed := mctest.Seed(t)
	rounds, keys, writes := 1, numbered(30), int64(200)
	if mctest.Long() {
		rounds, keys, writes = 20, numbered(400), 500
	}
	for name, what := range map[string]mishap{
		"a middleware is stopped and continued": {
			begin: signal(syscall.SIGSTOP),
			end:   signal(syscall.SIGCONT),
		},
		"a middleware doesn't reach a server that others do": {
			begin: inject(mctest.Fault{Lose: true}),
			end:   inject(mctest.Fault{}),
		},
		"a server is killed and comes back": {begin: func(_ *child, _ *mctest.Proxy,
			s *mctest.Server,
		) {
			s.Stop()
		}, end: func(_ *child, _ *mctest.Proxy, s *mctest.Server) { s.Start() }},
		"servers evict": {
			begin: nothing, end: nothing, memory: "4",
			size: 4 << 20 / len(keys),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var args []string
			if what.memory != "" {
				args = []string{"-m", what.memory}
			}
			servers := mctest.StartNewMemcacheds(t, 3, args...)
			o := middleware.Options{Writers: middleware.WritersSeveral, SweepEvery: 100 * time.Millisecond}
			o.Ack, o.Timeout = replica.AckAll, 500*time.Millisecond
			fleet := fleetOf(t, 2, o, false, servers)
			path := mctest.StartProxy(t, servers[2].Addr())
			o.SweepEvery = 0 // a middleware that is stopped during its sweep would keep the others from sweeping
			o.Servers = mwtest.Named(servers[0].Addr(), servers[1].Addr(), path.Addr())
			third := startChild(t, o)
			addrs := []string{fleet[0].Addr(), fleet[1].Addr(), third.addrs[0]}
			l := newLedger()
			stop := l.crowd(t, 12, func(w int) string { return addrs[w%len(addrs)] }, seed, keys, what.size)
			for range rounds {
				l.await(t, writes)
				what.begin(third, path, servers[2])
				l.await(t, writes)
				what.end(third, path, servers[2])
			}
			l.await(t, writes)
			stop()
			third.stop(t)
			awaitSweeps(t, fleet...)
			lines, present := disagreeing(t, servers, keys)
			require.Empty(t, lines)
			require.NotZero(t, present)
			require.Empty(t, l.wrong(servers))
			evicted := servers[0].Stat("evictions")
			require.Equal(t, what.memory != "", evicted > 0)
			t.Logf("%d writes, %d keys, %d evictions on the first server", l.done.Load(), present, evicted)
		})
	}
}

// The test upgrades from one writer to several, one middleware after the other. Until the last one is upgraded, nothing
// finds differences that the old ones leave; then a comparison does.
func TestReplicasAgreeBehindAFleetAfterAnUpgradeToSeveralWriters(t *testing.T) {
	t.Parallel()
	seed, keys, writes := mctest.Seed(t), numbered(30), int64(300)
	if mctest.Long() {
		keys, writes = numbered(400), 20_000
	}
	servers := mctest.StartNewMemcacheds(t, 3)
	fleet := fleetOf(t, 2, agreementOptions(middleware.WritersOne), false, servers)
	var addrs [2]atomic.Value
	for n, m := range fleet {
		addrs[n].Store(m.Addr())
	}
	l := newLedger()
	stop := l.crowd(t, 12, func(w int) string { return addrs[w%len(addrs)].Load().(string) }, seed, keys, 0)
	l.await(t, writes)
	o := agreementOptions(middleware.WritersSeveral)
	o.SweepEvery = 100 * time.Millisecond
	for n, old := range fleet {
		fleet[n] = fleetOf(t, 1, o, false, servers)[0]
		addrs[n].Store(fleet[n].Addr())
		require.NoError(t, old.Stop())
		l.await(t, writes)
	}
	stop()
	awaitSweeps(t, fleet...)
	lines, present := disagreeing(t, servers, keys)
	require.Empty(t, lines)
	require.NotZero(t, present)
	require.Empty(t, l.wrong(servers))
}
