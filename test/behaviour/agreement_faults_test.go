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

// ledger is what clients wrote: every value once.
type ledger struct {
	clock atomic.Int64
	done  atomic.Int64 // writes that were answered

	mu     sync.Mutex // guards what follows
	writes map[string][]*ledgerEntry
}

// ledgerEntry is a set, or, with no value, a delete. ended is never if it was not answered with success.
type ledgerEntry struct {
	value        string
	began, ended int64
}

// write lets c set or delete a key, and says whether its connection can still be used.
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
	l.done.Add(1)
	return err == nil
}

// wrong returns a line for each server that holds what nobody wrote under the key, or what was written before a later write began that was
// answered.
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
			if slices.ContainsFunc(writes, func(e *ledgerEntry) bool { return e.ended != never && e.began > writes[k].ended }) {
				lines = append(lines, fmt.Sprintf("%s: server %d holds %.20q, behind which others were answered", key, s, value))
			}
		}
	}
	return lines
}

// mishap is what happens to a fleet while it is written through. It gets the third middleware, its connection to the third server, and that
// server.
type mishap struct {
	begin, end func(m *child, path *mctest.Proxy, s *mctest.Server)
	memory     string // of the servers, MiB
	size       int    // of values, bytes
}

func TestReplicasAgreeBehindAFleetOfWhichSomethingFails(t *testing.T) {
	nothing := func(*child, *mctest.Proxy, *mctest.Server) {}
	signal := func(s syscall.Signal) func(m *child, path *mctest.Proxy, server *mctest.Server) {
		return func(m *child, _ *mctest.Proxy, _ *mctest.Server) { _ = m.cmd.Process.Signal(s) }
	}
	inject := func(f mctest.Fault) func(m *child, path *mctest.Proxy, server *mctest.Server) {
		return func(_ *child, path *mctest.Proxy, _ *mctest.Server) { path.Inject(f) }
	}
	seed := mctest.Seed(t)
	rounds, keys, writes := 1, numbered(30), int64(300)
	if mctest.Long() {
		rounds, keys, writes = 20, numbered(400), 4000
	}
	for name, what := range map[string]mishap{
		"a middleware is stopped and goes on":                {begin: signal(syscall.SIGSTOP), end: signal(syscall.SIGCONT)},
		"a middleware doesn't reach a server that others do": {begin: inject(mctest.Fault{Lose: true}), end: inject(mctest.Fault{})},
		"a server is killed and comes back":                  {begin: func(_ *child, _ *mctest.Proxy, s *mctest.Server) { s.Stop() }, end: func(_ *child, _ *mctest.Proxy, s *mctest.Server) { s.Start() }},
		"servers evict":                                      {begin: nothing, end: nothing, memory: "4", size: 100 << 10},
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
			o.SweepEvery = 0 // who is stopped during a sweep keeps the others from theirs
			o.Servers = mwtest.Named(servers[0].Addr(), servers[1].Addr(), path.Addr())
			third := startChild(t, o)
			addrs := []string{fleet[0].Addr(), fleet[1].Addr(), third.addrs[0]}
			l := &ledger{writes: map[string][]*ledgerEntry{}}
			var ended atomic.Bool
			var writers sync.WaitGroup
			for w := range 12 {
				c := mctest.MustDial(t, addrs[w%len(addrs)])
				r := rand.New(rand.NewPCG(seed, uint64(w)))
				writers.Go(func() {
					for n := 0; !ended.Load(); n++ {
						value := fmt.Sprintf("%d-%d-%s", w, n, strings.Repeat("x", what.size))
						if r.IntN(8) == 0 {
							value = ""
						}
						if !l.write(c, keys[r.IntN(len(keys))], value) {
							t.Errorf("writer %d lost its connection", w)
							return
						}
					}
				})
			}
			await := func(n int64) {
				goal := l.done.Load() + n
				require.Eventually(t, func() bool { return l.done.Load() >= goal }, mctest.Patience, time.Millisecond)
			}
			for range rounds {
				await(writes)
				what.begin(third, path, servers[2])
				await(writes)
				what.end(third, path, servers[2])
			}
			await(writes)
			ended.Store(true)
			writers.Wait()
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
