package load

import (
	"bytes"
	"container/heap"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// world simulates a server and the time. Requests and replies travel over real sockets at once. While the thread waits,
// time advances to the next event. The server handles one request after another, each for the time service, and does
// nothing from stall to resume. Times are ns.
type world struct {
	t              *testing.T
	now            int64
	service        int64
	stall, resume  int64
	oversleep      int64 // how much too long a wait without an event is
	free           int64 // when the server will have finished all its requests
	peers          []int // the server's sockets
	epoll          int   // watches peers
	events         []unix.EpollEvent
	replies        replyQueue
	most, received int // largest number of requests at the server at a time; their total
}

type pendingReply struct {
	at   int64
	peer int
}

type replyQueue []pendingReply

func (q replyQueue) Len() int           { return len(q) }
func (q replyQueue) Less(i, j int) bool { return q[i].at < q[j].at }
func (q replyQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *replyQueue) Push(x any)        { *q = append(*q, x.(pendingReply)) }
func (q *replyQueue) Pop() any {
	last := len(*q) - 1
	r := (*q)[last]
	*q = (*q)[:last]
	return r
}

// wait is the thread's wait function.
func (w *world) wait(epoll int, events []unix.EpollEvent, ns int64) (int, error) {
	w.serve()
	until := w.now + ns
	if len(w.replies) > 0 && w.replies[0].at <= until {
		w.now = w.replies[0].at
	} else {
		w.now = until + w.oversleep
	}
	for len(w.replies) > 0 && w.replies[0].at <= w.now {
		r := heap.Pop(&w.replies).(pendingReply)
		_, err := unix.Write(r.peer, []byte("END\r\n"))
		require.NoError(w.t, err)
	}
	return unix.EpollWait(epoll, events, 0)
}

// serve receives the requests that have been sent.
func (w *world) serve() {
	buf := make([]byte, 16<<10)
	ready, err := unix.EpollWait(w.epoll, w.events, 0)
	require.NoError(w.t, err)
	// Sorted, so that every run is the same.
	slices.SortFunc(w.events[:ready], func(a, b unix.EpollEvent) int { return int(a.Fd - b.Fd) })
	for _, event := range w.events[:ready] {
		peer := w.peers[event.Fd]
		n, err := unix.Read(peer, buf)
		require.NoError(w.t, err)
		for range bytes.Count(buf[:n], []byte("\n")) {
			begin := max(w.now, w.free)
			end := begin + w.service
			if begin < w.resume && end > w.stall {
				end = w.resume + end - max(begin, w.stall)
			}
			w.free = end
			heap.Push(&w.replies, pendingReply{end, peer})
			w.received++
		}
	}
	w.most = max(w.most, len(w.replies))
}

// run runs a load of one thread in this world.
func (w *world) run(o Options) *Result {
	w.t.Helper()
	o.Targets, o.Gets = []string{"made:1"}, 1
	if o.Timeout == 0 {
		o.Timeout = 24 * time.Hour
	}
	o, err := o.Complete()
	require.NoError(w.t, err)
	g := &Generator{o: o, windows: make(chan *window, 1000), spare: make(chan *window)}
	g.work = newWorkload(&g.o)
	g.phase.set(&o, int64(o.WarmUp))
	th := newThread(g.work, &g.phase, g.windows, g.spare)
	th.now, th.wait = func() int64 { return w.now }, w.wait
	g.threads = []*thread{th}
	defer th.close()
	w.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	require.NoError(w.t, err)
	w.t.Cleanup(func() { unix.Close(w.epoll) })
	w.events = make([]unix.EpollEvent, o.Connections)
	for id := range o.Connections {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
		require.NoError(w.t, err)
		w.t.Cleanup(func() { unix.Close(pair[1]) })
		w.peers = append(w.peers, pair[1])
		require.NoError(w.t, unix.EpollCtl(w.epoll, unix.EPOLL_CTL_ADD, pair[1],
			&unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(id)}))
		th.conns = append(th.conns, newConn(g.work, id, pair[0]))
	}
	require.NoError(w.t, th.open())
	require.NoError(w.t, th.run())
	all := newSeries(&g.o, 1)
	for len(g.windows) > 0 {
		all.add(<-g.windows)
	}
	all.finish()
	return g.result(all, Usage{})
}

// stallResponses returns the response times, s, descending, of requests that are due every 1/rate from the beginning of
// a stall on, if the server then takes service for each. Request i is due at i/rate and ends after the stall and i+1
// services, until the server has caught up.
func stallResponses(stall, rate, service float64) (responses []float64) {
	for i := 0.0; ; i++ {
		r := stall + (i+1)*service - i/rate
		if r <= service {
			return responses
		}
		responses = append(responses, r)
	}
}

// TestAStallOfTheServerIsSeenInFullByAnOpenLoop stops the server for 200 ms in a run of 10 s. Every request due
// meanwhile counts with the whole time that it would have had to wait, although a connection sends the next request
// only after a reply.
func TestAStallOfTheServerIsSeenInFullByAnOpenLoop(t *testing.T) {
	const (
		seconds = 10
		rate    = 1000
		service = 100e-6
		stall   = 0.2
	)
	slow := stallResponses(stall, rate, service)
	var sum float64
	for _, r := range slow {
		sum += r
	}
	mean := (sum + service*float64(seconds*rate-len(slow))) / (seconds * rate)
	for name, pipeline := range map[string]int{"one request at a time": 1, "more than come due in the stall": 64} {
		t.Run(name, func(t *testing.T) {
			w := &world{t: t, service: int64(service * 1e9), stall: 3e9, resume: 3.2e9}
			r := w.run(Options{
				Connections: 10, Pipeline: pipeline, Schedule: Constant(rate),
				Duration: seconds * time.Second,
			})
			require.EqualValues(t, seconds*rate, r.Total.Requests)
			latency := r.Total.Latency
			assert.InDelta(t, mean, latency.Mean.Seconds(), 1e-7)
			// 10 of 10,000 requests took longer than the 99.9th percentile; HDR buckets are a thousandth wide.
			assert.InEpsilon(t, slow[10], latency.P999.Seconds(), 0.001)
			assert.InEpsilon(t, slow[100], latency.P99.Seconds(), 0.001)
			assert.InEpsilon(t, slow[0], latency.Max.Seconds(), 0.001)
			assert.InEpsilon(t, service, latency.P50.Seconds(), 0.001)
			if pipeline == 1 {
				assert.Equal(t, 10, w.most)
				assert.InEpsilon(t, service, r.Total.Service.P50.Seconds(), 0.001)
				assert.Less(t, r.Total.Service.P99, 2*time.Millisecond,
					"the service time hides nearly all of the stall")
				assert.InDelta(t, mean-r.Total.Service.Mean.Seconds(), r.Pace.Slip.Mean.Seconds(), 1e-3*mean,
					"the rest is the slip")
			} else {
				assert.Equal(t, latency, *r.Total.Service, "all requests were sent when they were due")
				assert.Less(t, r.Pace.Slip.Max, 2*time.Nanosecond)
			}
			assert.Less(t, r.Pace.OwnSlip.Max, 2*time.Nanosecond, "the generator causes none of it")
			assert.Zero(t, r.Pace.Unsent)
			assert.InDelta(t, seconds*rate, r.Pace.Scheduled, 1e-6)
			assert.Equal(t, LimitNone, r.Generator.Limit)
			require.Len(t, r.Windows, seconds)
			for i, window := range r.Windows {
				assert.InDelta(t, rate, window.Scheduled, 1e-6)
				assert.Equal(t, i == 3, window.Latency.Max > 2*time.Millisecond, "second %d", i)
			}
		})
	}
	t.Run("a closed loop hardly sees it", func(t *testing.T) {
		w := &world{t: t, service: int64(service * 1e9), stall: 3e9, resume: 3.2e9}
		r := w.run(Options{Connections: 10, ThinkTime: 9900 * time.Microsecond, Duration: seconds * time.Second})
		assert.InDelta(t, seconds*rate, float64(r.Total.Requests), 250)
		assert.Less(t, r.Total.Latency.P99, 2*time.Millisecond)
		assert.Less(t, r.Total.Latency.Mean.Seconds(), mean/5)
	})
}

func TestAThreadThatWasLateReadsTheRepliesBeforeItCallsThemOverdue(t *testing.T) {
	w := &world{t: t, service: 1e9, oversleep: 11e9}
	r := w.run(Options{Connections: 1, Requests: 1, Timeout: 10 * time.Second})
	assert.EqualValues(t, 1, r.Total.Requests)
}

func TestRequestsThatCouldNotBeSentAreCounted(t *testing.T) {
	w := &world{t: t, service: 1000, stall: 3e9, resume: 20e9}
	r := w.run(Options{Connections: 10, Pipeline: 1, Schedule: Constant(1000), Duration: 5 * time.Second})
	assert.EqualValues(t, 3010, r.Total.Requests)
	assert.EqualValues(t, 1990, r.Pace.Unsent)
	assert.InDelta(t, 5000, r.Pace.Scheduled, 1e-6)
	assert.Contains(t, r.Pace.String(), "1990 WERE DUE BUT COULD NOT BE SENT")
}

func TestALateGeneratorIsReported(t *testing.T) {
	for oversleep, limit := range map[time.Duration]Limit{
		100 * time.Microsecond:  LimitNone,
		1500 * time.Microsecond: LimitSchedule,
	} {
		w := &world{t: t, service: 1000, oversleep: int64(oversleep)}
		r := w.run(Options{Connections: 2, Schedule: Constant(100), Duration: 2 * time.Second})
		assert.InEpsilon(t, oversleep.Seconds(), r.Pace.OwnSlip.P50.Seconds(), 0.05)
		assert.InEpsilon(t, oversleep.Seconds(), r.Total.Latency.P50.Seconds(), 0.05, "the response time includes it")
		assert.InEpsilon(t, 1e-6, r.Total.Service.P50.Seconds(), 0.01, "the service time does not include it")
		assert.Equal(t, limit, r.Generator.Limit)
	}
}

// The interactive response time law: N customers that think for Z make N/(R+Z) requests per second.
func TestThinkTimesObeyTheInteractiveResponseTimeLaw(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    Options
	}{
		{"constant", Options{Connections: 10, ThinkTime: 10 * time.Millisecond}},
		{"constant, pipelined", Options{Connections: 5, Pipeline: 4, ThinkTime: 10 * time.Millisecond}},
		{"exponential", Options{Connections: 40, Pipeline: 3, ThinkTime: 20 * time.Millisecond, ThinkRandom: true}},
		{"a server at its limit", Options{Connections: 200, ThinkTime: 10 * time.Millisecond}},
	} {
		w := &world{t: t, service: 100_000}
		tt.o.Duration, tt.o.WarmUp = 3*time.Second, time.Second
		r := w.run(tt.o)
		customers := float64(r.Connections * r.Pipeline)
		law := customers / (r.Total.Latency.Mean + tt.o.ThinkTime).Seconds()
		assert.InEpsilon(t, law, r.Total.OpsPerSec, 0.015, tt.name)
		assert.Less(t, r.Pace.OwnSlip.Max, 2*time.Nanosecond, tt.name)
		assert.Nil(t, r.Total.Service, tt.name)
		if tt.name == "a server at its limit" {
			assert.InEpsilon(t, 10_000, r.Total.OpsPerSec, 0.001)
			assert.InEpsilon(t, 200/10_000.0-0.010, r.Total.Latency.Mean.Seconds(), 0.01)
		}
	}
}

// With constant service (M/D/1) the mean wait is half that of M/M/1: Wq = rho s / (2 (1-rho)), by Pollaczek and
// Khinchine.
func TestPoissonArrivalsWaitAsTheoryPredicts(t *testing.T) {
	w := &world{t: t, service: 500_000}
	s := Constant(1200)
	s.Poisson = true
	r := w.run(Options{Connections: 20, Pipeline: 1000, Schedule: s, Duration: 40 * time.Second, Seed: 1})
	const rho, service = 0.6, 500e-6
	assert.InEpsilon(t, service+rho*service/(2*(1-rho)), r.Total.Latency.Mean.Seconds(), 0.04)
	assert.InEpsilon(t, 1200, r.Total.OpsPerSec, 0.02)
}

func TestTheRequestsOfAnOpenLoopCanBeLimited(t *testing.T) {
	w := &world{t: t, service: 1000}
	r := w.run(Options{Connections: 3, Schedule: Constant(300), Requests: 5, Duration: 0})
	assert.EqualValues(t, 15, r.Total.Requests)
	assert.InDelta(t, 14.0/300, r.Elapsed.Seconds(), 1e-4)
}

func TestTheAgendaKeepsTheEarliestConnectionFirst(t *testing.T) {
	var a agenda
	conns := make([]*conn, 50)
	for i := range conns {
		conns[i] = &conn{pace: pace{at: -1, due: int64(i * 37 % 50)}}
		a.set(conns[i], true)
	}
	conns[3].pace.due = 1000
	a.set(conns[3], true)
	a.set(conns[4], false)
	a.set(conns[4], false)
	var due []int64
	for len(a) > 0 {
		due = append(due, a[0].pace.due)
		a.set(a[0], false)
	}
	assert.Len(t, due, 49)
	assert.True(t, slices.IsSorted(due))
	assert.EqualValues(t, 1000, due[48])
}

func TestPacingAllocatesNothing(t *testing.T) {
	for _, o := range []Options{
		{Connections: 8, Pipeline: 4, Schedule: Constant(1000)},
		{Connections: 8, Pipeline: 4, ThinkTime: time.Millisecond, ThinkRandom: true, GetKeys: Gaussian},
	} {
		o.Targets = []string{"made:1"}
		o, err := o.Complete()
		require.NoError(t, err)
		w, p := newWorkload(&o), &pacer{o: &o}
		var a agenda
		for id := range o.Connections {
			c := newConn(w, id, -1)
			p.start(c)
			a.set(c, true)
		}
		out, drawn := make([]byte, 0, 4096), make([]uint64, o.KeysPerGet)
		assert.Zero(t, testing.AllocsPerRun(1000, func() {
			c := a[0]
			now := c.pace.due
			out = c.appendRequest(out[:0], w, drawn)
			p.advance(c)
			c.drop()
			p.replied(c, now, false)
			a.set(c, true)
		}))
	}
}

func TestHistogramsInJSONKeepTheRecordedValues(t *testing.T) {
	d := newDistribution()
	for i := range 10_000 {
		d.record(int64(math.Exp(float64(i) / 500)))
	}
	j := newHistogramOf(d.h)
	assert.EqualValues(t, 10_000, j.HDR().TotalCount())
	for i := range j.From {
		assert.Less(t, j.From[i], j.To[i])
		assert.LessOrEqual(t, j.To[i]-j.From[i], max(j.From[i]/1024, 1))
	}
	assert.True(t, j.HDR().Equals(d.h))
}
