package stats

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/protocol"
)

func TestAnEntryIsReadAsItWasWritten(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 4))
	var e entry
	for range 10_000 {
		a := answered{
			n:       1 + random.Uint64N(maxEntryRequests),
			command: protocol.Command(random.IntN(int(protocol.NumCommands))),
			result:  Result(random.IntN(int(NumResults))),
			class:   Class(random.IntN(int(NumClasses))), keys: random.Uint64N(maxEntryKeys + 1),
			misses: random.Uint64N(maxEntryKeys + 1),
		}
		for s := range a.stages {
			a.stages[s] = random.Int64N(maxEntryTime+1) >> random.IntN(32)
		}
		require.True(t, a.fits())
		e.store(&a)
		require.Equal(t, a, e.load())

		server, ns := random.IntN(1<<10), random.Int64N(maxServerTime+1)
		s := newServerEntry(server, ns)
		require.Equal(t, []any{server, ns, uint64(1), false}, []any{s.server(), s.ns(), s.n(), s.waited()})
		s = s + oneServerTime | serverWaited
		require.Equal(t, []any{server, ns, uint64(2), true}, []any{s.server(), s.ns(), s.n(), s.waited()})
	}
	require.Equal(t, maxServerTime, newServerEntry(3, 1<<62).ns())
	require.Zero(t, newServerEntry(3, -1).ns())
}

// TestNothingIsLostBetweenJournalAndCounts records times that fit into an entry and times that don't, equal and
// different ones, and compares the counts with plain sums.
func TestNothingIsLostBetweenJournalAndCounts(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 1))
	r := New(Options{Servers: []string{"a", "b"}, Workers: 1})
	w := r.Worker(0)
	var requests, keys, response, calls, waited uint64
	var stages [NumStages]uint64
	var times Times
	for i := range 5_000 {
		if i == 0 || random.IntN(3) > 0 {
			parts := [NumStages]time.Duration{}
			for s := range parts {
				parts[s] = time.Duration(random.Int64N(1 << (1 + random.IntN(36)))) // up to a minute
			}
			times = *timesOf(parts[0], parts[1], parts[2], parts[3], parts[4])
		}
		k := random.IntN(3)
		w.Count(protocol.Get, ResultMiss, k, 0, &times)
		requests++
		keys += uint64(k)
		response += uint64(times.Response())
		for s := range NumStages {
			stages[s] += uint64(times.Of(s))
		}
		server, ns := random.IntN(2), random.Int64N(3)
		w.Server(server, ns)
		calls++
		if random.IntN(4) == 0 {
			w.Waited(1-server, 5)
			waited += 5
		}
		if random.IntN(50) > 0 {
			continue
		}
		w.Flush()
		s := r.Snapshot()
		all := s.All()
		require.Equal(t, []uint64{requests, requests, requests}, []uint64{s.Total(), all.Count(), s.Answered})
		require.Equal(t, response, all.Sum())
		require.Equal(t, []uint64{keys, keys}, []uint64{s.Keys, s.Misses})
		for i := range stages {
			require.Equal(t, stages[i], s.Stages[i].Sum(), "%v", Stage(i))
			require.Equal(t, requests, s.Stages[i].Count(), "%v", Stage(i))
		}
		require.Equal(t, calls, s.Servers[0].Times.Count()+s.Servers[1].Times.Count())
		require.Equal(t, waited, s.Servers[0].Waited+s.Servers[1].Waited)
	}
}

// A snapshot counts each request in all counters or in none.
func TestASnapshotIsConsistentWhileAWorkerRecords(t *testing.T) {
	r := New(Options{Servers: []string{"a"}, Workers: 1})
	done := make(chan struct{})
	var worker sync.WaitGroup
	worker.Go(func() {
		defer close(done)
		w := r.Worker(0)
		for i := range 20_000 {
			d := time.Duration(i % 1000)
			w.Request(protocol.Get, ResultMiss, 1, 0,
				&Times{
					Enqueued: int64(d), Dequeued: int64(2 * d), Sent: int64(3 * d), Received: int64(4 * d),
					Replied: int64(5 * d),
				})
		}
	})
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		s := r.Snapshot()
		n := s.Total()
		require.Equal(t, []uint64{n, n}, []uint64{s.Keys, s.Misses})
		require.Equal(t, n, s.Response[ClassGet].Count())
		var stages uint64
		for i := range s.Stages {
			require.Equal(t, n, s.Stages[i].Count(), "%v", Stage(i))
			stages += s.Stages[i].Sum()
		}
		require.Equal(t, s.Response[ClassGet].Sum(), stages)
		require.Equal(t, s.Stages[StageNet].Squares(), s.Stages[StageReply].Squares())
	}
	worker.Wait()
}
