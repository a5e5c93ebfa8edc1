package model

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheWaitOfOneWorkerIsThatOfAnMM1Queue(t *testing.T) {
	// W = rho S / (1 - rho), as in Jain, section 31.2.
	require.InDelta(t, 0.8*0.01/(1-0.8), WaitMMm(80, 0.01, 1), 1e-12)
	require.Zero(t, WaitMMm(100, 0.01, 1), "at its limit there is no steady state")
	require.Zero(t, WaitMMm(0, 0.01, 3))
	require.InDelta(t, 0.5541*0.1/(5-4), WaitMMm(40, 0.1, 5), 1e-5)
}

// TestAServersUtilizationIsThatOfItsModel computes the response time by exact mean value analysis for k requests that
// circulate between one server and a delay, and estimates the utilization from it.
func TestAServersUtilizationIsThatOfItsModel(t *testing.T) {
	const demand, delay = 1e-3, 0.1e-3 // s
	queue, think := 0.0, 0.02
	for k := 1.0; k <= 64; k++ {
		response := demand*(1+queue) + delay
		x := k / (think + response)
		queue = x * demand * (1 + queue)
		if k < 4 {
			continue
		}
		there := x * response
		estimate := ServerUtilization(response, demand+delay, there, k)
		if x*demand > 0.98 {
			require.Greater(t, estimate, Saturated, "%v requests", k)
		}
		if x*demand < 0.3 {
			require.Less(t, estimate, 0.4, "%v requests", k)
		}
	}
}

func TestAServersUtilizationIsBoundedByTheWaitForIt(t *testing.T) {
	require.InDelta(t, 0.1/1.08, ServerUtilization(0.010, 0.001, 0.1, 5), 1e-12)
	require.Zero(t, ServerUtilization(0, 0, 5, 5))
	require.Zero(t, ServerUtilization(0.02, 0.02, 50, 50), "far away, not busy")
	require.Zero(t, ServerUtilization(Noise, 0, 50, 50), "too short to tell")
	require.InDelta(t, 1, ServerUtilization(1, 0.001, 50, 1), 0.03)
}

func TestCapacityAndUtilizationFollowTheUtilizationLaw(t *testing.T) {
	require.InDelta(t, 400, Capacity(100, 0.25), 1e-12)
	require.Zero(t, Capacity(100, 0), "not known")
	require.InDelta(t, 0.5, WorkerUtilization(4, 8, 1), 1e-12)
	require.InDelta(t, 1, WorkerUtilization(65, 2, 32), 1e-12)
	require.InDelta(t, 3, Little(6, 2), 1e-12)
	require.Zero(t, Little(0, 0))
}

// loaded returns a window of 10 s in which 1,000 requests/s kept half of four workers busy, and what change makes of
// it.
func loaded(change func(*Window)) *Report {
	w := &Window{
		Seconds: 10, Answered: 10_000, Arrived: 10_000, QueueTime: 5, WorkerTime: 1, ServerTime: 18, ReplyTime: 1,
		Samples: 1000, SampledQueue: 500, SampledService: 2000, Workers: 4, Depth: 1, Processors: 2, Processor: 4,
		Servers: []Server{
			{Name: "a", Calls: 5000, TypicalTime: 5000 * 1.1e-3, Fastest: 1e-3, Waited: 9},
			{Name: "b", Calls: 5000, TypicalTime: 5000 * 1.2e-3, Fastest: 1e-3, Waited: 9},
		},
	}
	change(w)
	return Analyse(w)
}

func TestAnswersFromMemoryRaiseTheCapacityOfWorkersAndServers(t *testing.T) {
	without := loaded(func(*Window) {})
	r := loaded(func(w *Window) { w.Hot = 30_000 })
	require.InDelta(t, 0.75, r.Hot, 1e-12)
	require.InDelta(t, 4*without.Rate, r.Rate, 1e-9)
	for i := range r.Parts {
		require.InDelta(t, without.Parts[i].Utilization, r.Parts[i].Utilization, 1e-12)
		require.InDelta(t, 4*without.Parts[i].Capacity, r.Parts[i].Capacity, 1e-6)
	}
	require.Equal(t, without.UsefulWorkers, r.UsefulWorkers)
	require.Equal(t, without.Laws, r.Laws)
	require.Equal(t, without.Wait, r.Wait)
	require.Contains(t, r.Advice, "75 % are answered from memory")
	require.Equal(t, -1, loaded(func(w *Window) { *w = Window{Seconds: 1} }).Bottleneck)
	all := loaded(func(w *Window) { *w = Window{Seconds: 10, Hot: 100_000, Processor: 10, Processors: 2} })
	require.InDelta(t, 20_000, all.Capacity, 1e-6, "no request reached a worker")
}

func TestTheReportNamesThePartThatSaturatesFirst(t *testing.T) {
	for _, c := range []struct {
		name       string
		change     func(*Window)
		bottleneck string
		saturated  bool
		capacity   float64
		useful     int
		advice     string
	}{
		{
			"light load", func(*Window) {}, "the workers", false, 2000, 3,
			"Nothing is saturated at 1,000 requests/s: the busiest part, the workers, is at 50 % and would saturate " +
				"at about 2,000 requests/s.",
		},
		{
			"workers taken", func(w *Window) { w.ServerTime, w.QueueTime = 38, 200 }, "the workers", true, 1000, 18,
			"The workers are the limit: at 1,000 requests/s 100 % of their slots are in use, and 20.0 requests wait. " +
				"More workers than the current 4 would help, up to about 18: beyond that, server b is the limit, at " +
				"about 4,500 requests/s.",
		},
		{
			"as many workers as requests", func(w *Window) { w.ServerTime, w.QueueTime = 38, 0.1 }, "the workers", true,
			1000, 5,
			"The workers are the limit: at 1,000 requests/s 100 % of their slots are in use, and 0.0 requests wait. " +
				"More workers than the current 4 would help, up to about 5: that is one for every request that " +
				"clients now send at a time.",
		},
		{
			"slow server", func(w *Window) {
				w.ServerTime = 38
				w.Servers[1].TypicalTime = 5000 * 7e-3
				w.Servers[1].Waited = 38
			},
			"server b", true, 1000 * 3.85 / 3.8, 2,
			"Server b is the limit, at about 1,013 requests/s: its replies take 7.00 ms, but only 1.00 ms when it is " +
				"idle; " +
				"3.8 of 4 workers wait for it. More workers would not help (2 are enough); a faster server or fewer " +
				"calls to it would.",
		},
		{
			"processor used up", func(w *Window) { w.Processor, w.ServerTime = 19.4, 38 }, "the processor", true,
			1000 / 0.97, 2,
			"The processor is the limit, for the net stage and the workers: at 1,000 requests/s mcmw uses 1.94 of " +
				"its 2 processors. " +
				"More workers would not help; more processors (--procs) or another mcmw would.",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := loaded(c.change)
			require.Equal(t, c.bottleneck, r.Parts[r.Bottleneck].String())
			require.Equal(t, c.saturated, r.Saturated)
			require.InDelta(t, c.capacity, r.Capacity, 1e-6)
			require.Equal(t, c.useful, r.UsefulWorkers)
			require.Equal(t, c.advice, r.Advice)
		})
	}
}

func TestTheReportComparesSamplesWithLittlesLaw(t *testing.T) {
	r := loaded(func(*Window) {})
	require.Equal(t, []Law{{Law: "queue", Measured: 0.5, Predicted: 0.5}, {Law: "service", Measured: 2, Predicted: 2}},
		r.Laws)
	require.InDelta(t, 0.5e6, r.Wait.Measured, 1e-6)
	// a = 1,000/s times 2 ms, four slots: C = 0.1739, W = C S / (m - a).
	require.InDelta(t, 0.1739*2e-3/2*1e9, r.Wait.Predicted, 100)
}

func TestWithoutRequestsThereIsNoBottleneck(t *testing.T) {
	for _, w := range []*Window{
		{},
		{Seconds: 10, Workers: 2, Depth: 1, Processors: 1, Servers: []Server{{Name: "a"}}},
	} {
		r := Analyse(w)
		require.Equal(t, -1, r.Bottleneck)
		require.Zero(t, r.Capacity)
		require.Contains(t, r.Advice, "No requests")
		for _, p := range r.Parts {
			require.False(t, math.IsNaN(p.Utilization) || math.IsNaN(p.Capacity))
		}
	}
}
