package stats

import (
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/protocol"
)

func TestWhatIsAddedFieldByFieldConsistsOfNumbersAlone(t *testing.T) {
	var only func(t reflect.Type) bool
	only = func(t reflect.Type) bool {
		switch t.Kind() {
		case reflect.Struct:
			for f := range t.Fields() {
				if !only(f.Type) {
					return false
				}
			}
			return true
		case reflect.Array:
			return only(t.Elem())
		default:
			return t.Kind() == reflect.Uint64
		}
	}
	for _, v := range []any{
		Counts{},
		NetCounts{},
		Totals{},
		ServerCounts{},
		ShadowCounts{},
		SweepCounts{},
		Planned{},
		Diverted{},
		Warming{},
		page{},
	} {
		require.True(t, only(reflect.TypeOf(v)), "%T", v)
	}
	require.False(t, only(reflect.TypeOf(Histogram{})))
}

// TestNothingIsLostOnTheWayIntoASnapshot records equal and different times, and compares the counts with plain sums.
func TestNothingIsLostOnTheWayIntoASnapshot(t *testing.T) {
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
