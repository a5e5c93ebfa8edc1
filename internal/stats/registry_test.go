package stats

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/protocol"
)

// timesOf returns the Times of a request whose stages took the given durations.
func timesOf(net, queue, worker, server, reply time.Duration) *Times {
	t := &Times{Created: Now()}
	t.Enqueued = t.Created + int64(net)
	t.Dequeued = t.Enqueued + int64(queue)
	t.Sent = t.Dequeued + int64(worker)
	t.Received = t.Sent + int64(server)
	t.Replied = t.Received + int64(reply)
	return t
}

func TestARequestIsCountedOnceInEachCounterThatItConcerns(t *testing.T) {
	r := New(Options{
		Servers: []string{"a", "b"}, Workers: 2,
		Queues: []Queue{
			{Name: "a/read", Capacity: 5, Length: func() int { return 3 }},
			{Name: "a/write", Capacity: 2},
		},
	})
	w := r.Worker(1)
	begin := Now()
	w.Begin(begin)
	w.Request(protocol.Gets, ResultPartial, 5, 3, timesOf(1000, 2000, 3000, 4000, 5000))
	w.Server(1, 4000)
	w.Server(0, 10)
	w.Server(0, 20)
	w.Waited(1, 700)
	w.Bytes(10, 20)
	w.Flush()
	w.ServerError(0, ReasonTimeout)

	s := r.Snapshot()
	require.EqualValues(t, 1, s.Requests[protocol.Gets][ResultPartial])
	require.EqualValues(t, 1, s.Total())
	require.EqualValues(t, 1, s.Response[ClassMultiGet].Count())
	require.EqualValues(t, 15000, s.Response[ClassMultiGet].Sum())
	for i, want := range []uint64{1000, 2000, 3000, 4000, 5000} {
		require.EqualValues(t, 1, s.Stages[i].Count())
		require.Equal(t, want, s.Stages[i].Sum(), "%v", Stage(i))
	}
	require.EqualValues(t, 5, s.Keys)
	require.EqualValues(t, 2, s.Misses)
	require.Equal(t, "b", s.Servers[1].Name)
	require.EqualValues(t, 700, s.Servers[1].Waited)
	require.EqualValues(t, 1, s.Servers[0].Errors[ReasonTimeout])
	require.EqualValues(t, 10, s.FromClients)
	require.EqualValues(t, 20, s.ToClients)
	require.Equal(t, []int{2, 1, 3, 7}, []int{s.Workers, s.WorkersBusy, s.QueueLength, s.QueueCapacity})

	w.Round(4, begin+int64(time.Hour))
	s = r.Snapshot()
	require.EqualValues(t, 4000, s.Servers[1].Times.Sum(), "a server's part shows at the round's end")
	require.EqualValues(t, 30, s.Servers[0].Times.Sum())
	require.Zero(t, s.WorkersBusy)
	require.EqualValues(t, 1, s.Rounds)
	require.EqualValues(t, 4, s.RoundRequests)
	require.EqualValues(t, time.Hour, s.BusyTime)
}

func TestTheStagesOfAllRequestsAddUpToTheirResponseTimes(t *testing.T) {
	r := New(Options{Workers: 3})
	for i := range 1000 {
		d := time.Duration(i)
		r.Worker(i%3).Request(protocol.Command(i%int(protocol.NumCommands)), ResultOK, i%3, i%2,
			timesOf(d*7, d*d, d*11, d*d*d, d))
	}
	s := r.Snapshot()
	var stages uint64
	for i := range s.Stages {
		require.EqualValues(t, 1000, s.Stages[i].Count())
		stages += s.Stages[i].Sum()
	}
	all := s.All()
	require.EqualValues(t, 1000, all.Count())
	require.Equal(t, all.Sum(), stages)
}

func TestOnlyRequestedKeysThatWereNotFoundAreMisses(t *testing.T) {
	for _, c := range []struct {
		name                 string
		command              protocol.Command
		result               Result
		keys, hits           int
		wantKeys, wantMisses uint64
		wantClass            Class
	}{
		{"hit", protocol.Get, ResultOK, 1, 1, 1, 0, ClassGet},
		{"miss", protocol.Get, ResultMiss, 1, 0, 1, 1, ClassGet},
		{"some of a multi-get", protocol.Gats, ResultPartial, 10, 4, 10, 6, ClassMultiGet},
		{"failed get", protocol.Get, ResultServerError, 3, 1, 3, 0, ClassMultiGet},
		{"set", protocol.Set, ResultOK, 1, 0, 0, 0, ClassSet},
		{"delete of nothing", protocol.Delete, ResultNotStored, 1, 0, 0, 0, ClassDelete},
		{"incr", protocol.Incr, ResultOK, 1, 0, 0, 0, ClassArithmetic},
		{"decr", protocol.Decr, ResultOK, 1, 0, 0, 0, ClassArithmetic},
		{"touch", protocol.Touch, ResultOK, 1, 0, 0, 0, ClassTouch},
		{"version", protocol.Version, ResultOK, 0, 0, 0, 0, ClassOther},
		{"nonsense", protocol.Invalid, ResultClientError, 0, 0, 0, 0, ClassOther},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := New(Options{Workers: 1})
			r.Worker(0).Request(c.command, c.result, c.keys, c.hits, timesOf(1, 1, 1, 1, 1))
			s := r.Snapshot()
			require.Equal(t, c.wantKeys, s.Keys)
			require.Equal(t, c.wantMisses, s.Misses)
			require.EqualValues(t, 1, s.Response[c.wantClass].Count())
			require.EqualValues(t, 1, s.Requests[c.command][c.result])
			require.True(t, CanEnd(c.command, c.result))
		})
	}
}

func TestACommandHasTheResultsThatItCanEndWith(t *testing.T) {
	failures := []Result{ResultClientError, ResultServerError, ResultShed}
	for c, others := range map[protocol.Command][]Result{
		protocol.Get:     {ResultOK, ResultMiss, ResultPartial, ResultHot},
		protocol.Gets:    {ResultOK, ResultMiss, ResultPartial, ResultHot},
		protocol.Gat:     {ResultOK, ResultMiss, ResultPartial},
		protocol.Set:     {ResultOK, ResultNotStored},
		protocol.Meta:    {ResultOK, ResultMiss, ResultNotStored},
		protocol.Version: {ResultOK},
		protocol.Invalid: nil,
	} {
		var can []Result
		for r := range NumResults {
			if CanEnd(c, r) {
				can = append(can, r)
			}
		}
		require.ElementsMatch(t, append(others, failures...), can, c.String())
	}
	require.False(t, CanEnd(protocol.Quit, ResultServerError))
}

func TestAWindowHoldsTheCountsBetweenTwoSnapshots(t *testing.T) {
	shadows := []*Shadow{{Of: "main", To: "shadow"}}
	r := New(Options{Servers: []string{"a"}, Workers: 1, State: func(s *Snapshot) {
		for _, shadow := range shadows {
			shadow.AddTo(s, []ServerSnapshot{{Name: "c"}})
		}
	}})
	w := r.Worker(0)
	record := func(d time.Duration) {
		w.Bytes(1, 2)
		w.Request(protocol.Get, ResultMiss, 1, 0, timesOf(d, d, d, d, d))
		w.Server(0, int64(d))
		w.ServerError(0, ReasonReset)
		w.Begin(0)
		w.Round(1, int64(d))
		r.Net().Opened()
		r.Net().Closed(CloseQuit)
		shadows[len(shadows)-1].Copied(1)
	}
	record(time.Second)
	before := r.Snapshot()
	shadows = append([]*Shadow{{Of: "main", To: "shadow"}}, shadows...) // another one of the same names
	shadows[0].Copied(5)
	record(time.Millisecond)
	record(time.Millisecond)
	after := r.Snapshot()

	d := after.Sub(before)
	require.Equal(t, after.At-before.At, d.Uptime)
	require.EqualValues(t, 2, d.Total())
	require.EqualValues(t, 10*time.Millisecond, d.Response[ClassGet].Sum())
	require.Less(t, d.Response[ClassGet].Quantile(1), float64(6*time.Millisecond),
		"the earlier request is not in the window")
	require.EqualValues(t, 2*time.Millisecond, d.Stages[StageReply].Sum())
	require.EqualValues(t, 2*time.Millisecond, d.Servers[0].Times.Sum())
	require.Equal(t, "a", d.Servers[0].Name)
	require.EqualValues(t, 2, d.Servers[0].Errors[ReasonReset])
	require.EqualValues(t, 2, d.Keys)
	require.EqualValues(t, 2, d.Misses)
	require.EqualValues(t, 2, d.Rounds)
	require.EqualValues(t, 2, d.RoundRequests)
	require.EqualValues(t, 2*time.Millisecond, d.BusyTime)
	require.EqualValues(t, 2, d.FromClients)
	require.EqualValues(t, 4, d.ToClients)
	require.EqualValues(t, 2, d.Opened)
	require.EqualValues(t, 2, d.Closed[CloseQuit])
	require.Len(t, d.Shadows, 2)
	require.EqualValues(t, []uint64{5, 2}, []uint64{d.Shadows[0].Copied, d.Shadows[1].Copied})
	require.Equal(t, "c of shadow, the shadow of main", fmt.Sprintf("%s of %s, the shadow of %s", d.Servers[1].Name,
		d.Servers[1].Pool, d.Servers[1].ShadowOf))

	require.EqualValues(t, 3, after.Total(), "the later snapshot is unchanged")
	require.EqualValues(t, 3, after.Servers[0].Errors[ReasonReset])
}

func TestOpenConnectionsAreThoseNotYetClosed(t *testing.T) {
	r := New(Options{})
	n := r.Net()
	for range 5 {
		n.Opened()
	}
	n.Closed(CloseClient)
	n.Closed(CloseShutdown)
	require.EqualValues(t, 3, r.Snapshot().Open())
}

// TestCountsNeverDecreaseInSnapshotsTakenWhileWorkersRecord is mostly for the race detector.
func TestCountsNeverDecreaseInSnapshotsTakenWhileWorkersRecord(t *testing.T) {
	const workers, each = 4, 5000
	r := New(Options{Servers: []string{"a", "b"}, Workers: workers})
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			w := r.Worker(i)
			for j := range each {
				d := time.Duration(j) * 13 * time.Microsecond
				w.Begin(0)
				w.Request(protocol.Get, ResultOK, 1, 1, timesOf(d/4, d, d/8, d*2, d/16))
				w.Server(j%2, int64(d))
				w.Round(1, int64(d))
				r.Net().Opened()
				r.Net().Closed(CloseClient)
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	prev := r.Snapshot()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		s := r.Snapshot()
		d := s.Sub(prev)
		require.LessOrEqual(t, d.Total(), uint64(workers*each))
		require.LessOrEqual(t, d.Stages[StageServer].Count(), uint64(workers*each))
		require.LessOrEqual(t, s.Open(), workers+d.Opened)
		prev = s
	}
	require.EqualValues(t, workers*each, prev.Total())
	all := prev.All()
	require.EqualValues(t, workers*each, all.Count())
	require.EqualValues(t, workers*each, prev.Servers[0].Times.Count()+prev.Servers[1].Times.Count())
}

func TestRecordingAllocatesNothing(t *testing.T) {
	r := New(Options{Servers: []string{"a"}, Workers: 1})
	w := r.Worker(0)
	arrivals := r.Net().Arrivals()
	times := timesOf(time.Microsecond, 2*time.Microsecond, 3*time.Microsecond, 4*time.Microsecond, 5*time.Microsecond)
	allocs := testing.AllocsPerRun(1000, func() {
		w.Begin(0)
		w.Request(protocol.Get, ResultOK, 1, 1, times)
		w.Server(0, 4000)
		w.ServerError(0, ReasonTimeout)
		w.Bytes(10, 20)
		w.Waited(0, 3000)
		w.Take(1)
		arrivals.Add(1)
		r.Sample()
		w.Round(1, 100)
		r.Net().Opened()
		r.Net().Closed(CloseClient)
	})
	require.Zero(t, allocs)
}

func TestTheRecordersOf64WorkersTakeLessThan20Megabytes(t *testing.T) {
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	r := New(Options{Servers: []string{"a", "b", "c"}, Workers: 64})
	for i := range 64 {
		for ns := int64(time.Microsecond); ns < int64(time.Second); ns += ns/50 + 1 { // far more spread than real load
			d := time.Duration(ns)
			for _, c := range []protocol.Command{protocol.Get, protocol.Set} {
				r.Worker(i).Request(c, ResultOK, 1, 1, timesOf(d/50, d, d/20, d, d/20))
			}
			r.Worker(i).Server(i%3, ns)
		}
	}
	used := int64(heap()) - int64(before)
	t.Logf("%.1f MB", float64(used)/1e6)
	require.Less(t, used, int64(20e6))
	runtime.KeepAlive(r)
}

func TestEveryLabelHasAName(t *testing.T) {
	seen := map[string]bool{}
	for _, names := range [][]string{classNames[:], reasonNames[:], closeNames[:], resultNames[:], stageNames[:]} {
		clear(seen)
		for _, name := range names {
			require.NotEmpty(t, name)
			require.False(t, seen[name], "%q stands for two", name)
			seen[name] = true
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	w := New(Options{Workers: 1}).Worker(0)
	times := timesOf(3*time.Microsecond, 150*time.Microsecond, 8*time.Microsecond, 90*time.Microsecond,
		6*time.Microsecond)
	b.ReportAllocs()
	for b.Loop() {
		w.Request(protocol.Get, ResultOK, 1, 1, times)
	}
}

func BenchmarkSnapshot(b *testing.B) {
	r := New(Options{Servers: []string{"a", "b", "c"}, Workers: 64})
	for i := range 64 {
		for ns := int64(time.Microsecond); ns < int64(10*time.Millisecond); ns += ns/50 + 1 {
			d := time.Duration(ns)
			r.Worker(i).Request(protocol.Get, ResultOK, 1, 1, timesOf(d/50, d, d/20, d, d/20))
			r.Worker(i).Server(i%3, ns)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		r.Snapshot()
	}
}

func TestChangingServersAndWorkersLosesNoCount(t *testing.T) {
	r := New(Options{Servers: []string{"a", "b"}, Workers: 2})
	record := func(worker, server int) {
		r.Worker(worker).Request(protocol.Get, ResultOK, 1, 1, timesOf(1, 1, 1, 1, 1))
		r.Worker(worker).Server(server, 1000)
		r.Worker(worker).Flush()
	}
	counts := func() map[string]uint64 {
		of := map[string]uint64{}
		for _, s := range r.Snapshot().Servers {
			of[s.Name] = s.Times.Count()
		}
		return of
	}
	record(0, 0)
	record(1, 1)
	before := r.Snapshot()

	r.Change(Options{Servers: []string{"c", "b"}, Workers: 1, Recorders: 3})
	require.Equal(t, map[string]uint64{"c": 0, "b": 1}, counts())
	without := r.Snapshot()
	record(2, 1)
	record(2, 0)
	s := r.Snapshot()
	require.EqualValues(t, 4, s.Total(), "the counts of the previous workers")
	require.Equal(t, 1, s.Workers)
	window := s.Sub(before)
	require.EqualValues(t, 1, window.Servers[0].Times.Count(), "c is new")
	require.EqualValues(t, 1, window.Servers[1].Times.Count(), "b had another place")

	r.Change(Options{Servers: []string{"a", "c"}, Workers: 4})
	require.Equal(t, map[string]uint64{"a": 1, "c": 1}, counts(), "a continues its previous counts")
	record(3, 0)
	require.Equal(t, map[string]uint64{"a": 2, "c": 1}, counts())
	require.EqualValues(t, 1, r.Snapshot().Sub(without).Servers[0].Times.Count(), "a was away when the window began")
	r.Change(Options{Servers: []string{"b", "a"}})
	require.Equal(t, map[string]uint64{"b": 2, "a": 2}, counts(), "a stayed, b continues its previous counts")

	for i := range keepRemoved + 1 {
		r.Change(Options{Servers: []string{fmt.Sprint(i)}})
	}
	r.Change(Options{Servers: []string{"a"}})
	require.Equal(t, map[string]uint64{"a": 0}, counts(), "forgotten after many others")
}
