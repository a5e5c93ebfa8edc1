package admin

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/model"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/worker"
)

// slower calls try until it returns "", each time with servers that take twice as long, so that the delays of a busy
// machine count for less. try returns a description of what is wrong.
func slower(t *testing.T, try func(times time.Duration) string) {
	t.Helper()
	for times := time.Duration(1); ; times *= 2 {
		wrong := try(times)
		if wrong == "" {
			return
		}
		t.Logf("servers %d times as slow: %s", times, wrong)
		require.Less(t, times, time.Duration(32), wrong)
	}
}

// far starts a server that answers every get after delay, whatever its load.
func far(t *testing.T, delay time.Duration) string {
	return mctest.StartScript(t, func(p *mctest.Peer) {
		p.Answer(func(string) string {
			time.Sleep(delay)
			return "END\r\n"
		})
	}).Addr()
}

// slow starts a server that serves gets one after the other over all its connections, each for the time service.
func slow(t *testing.T, service time.Duration) string {
	var one sync.Mutex
	return mctest.StartScript(t, func(p *mctest.Peer) {
		p.Answer(func(string) string {
			one.Lock()
			defer one.Unlock()
			time.Sleep(service)
			return "END\r\n"
		})
	}).Addr()
}

// observe sends gets from a number of clients through a middleware, and returns the model's report. Each client sends
// its next get when the reply to the previous one has come. Before that each server is observed without load.
func observe(t *testing.T, o middleware.Options, clients, requests int) *model.Report {
	t.Helper()
	// A busy machine must not look like a failing server, and workers must wait for a slow server.
	o.Timeout, o.StallAfter = time.Minute, -1
	m := mwtest.Start(t, o)
	idle := m.Dial(t)
	for i := range 20 * len(o.Servers) {
		idle.MustDo(t, fmt.Sprintf("get key-%d\r\n", i))
	}
	before := m.Stats().Snapshot()
	var load sync.WaitGroup
	for c := range clients {
		client := m.Dial(t)
		load.Go(func() {
			for i := c; i < requests; i += clients {
				if _, err := client.Do(fmt.Sprintf("get key-%d\r\n", i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	load.Wait()
	after := m.Stats().Snapshot()
	report := model.Analyse(modelWindow(after.Sub(before), after))
	t.Logf("%s\n%+v", report.Advice, *report)
	return report
}

func oneWorkerEach(workers int, servers ...string) middleware.Options {
	return middleware.Options{
		Workers: workers, RequestOptions: worker.RequestOptions{Depth: 1}, Servers: mwtest.Named(servers...),
		Placement: route.Options{Replicas: 1},
	}
}

// limited returns "" if part is the saturated bottleneck, else a description of the result.
func limited(r *model.Report, part string) string {
	if found := r.Parts[r.Bottleneck].String(); found != part || !r.Saturated {
		return fmt.Sprintf("saturated: %t, by %s", r.Saturated, found)
	}
	return ""
}

func TestASlowServerIsFoundToBeTheLimit(t *testing.T) {
	slower(t, func(times time.Duration) string {
		r := observe(t, oneWorkerEach(8, far(t, times*10*time.Millisecond), slow(t, times*40*time.Millisecond),
			far(t, times*10*time.Millisecond)), 32, 150)
		if wrong := limited(r, "server server-2"); wrong != "" {
			return wrong
		}
		require.Contains(t, r.Advice, "Server server-2 is the limit")
		require.Contains(t, r.Advice, "More workers would not help")
		require.LessOrEqual(t, r.UsefulWorkers, 8)
		return ""
	})
}

func TestOneWorkerIsFoundToBeTheLimitAndMoreWouldHelp(t *testing.T) {
	slower(t, func(times time.Duration) string {
		r := observe(t, oneWorkerEach(1, far(t, times*20*time.Millisecond)), 16, 150)
		if wrong := limited(r, "the workers"); wrong != "" {
			return wrong
		}
		require.Contains(t, r.Advice, "More workers than the current 1 would help")
		helped := observe(t, oneWorkerEach(r.UsefulWorkers, far(t, times*20*time.Millisecond)), 16, 500)
		if r.UsefulWorkers <= 4 || helped.Rate <= 2*r.Rate {
			return fmt.Sprintf("%d workers, which are said to be useful, serve %.1f requests/s, one %.1f",
				r.UsefulWorkers, helped.Rate, r.Rate)
		}
		return ""
	})
}

// milestones is a counter that signals when it reaches a number. Only one goroutine waits.
type milestones struct {
	mu    sync.Mutex // guards the fields below
	count uint64
	next  uint64
	there chan struct{} // closed when count reaches next; nil: no goroutine waits
}

func (m *milestones) add() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count++
	m.tell()
}

// reached returns a channel that is closed when the count reaches n.
func (m *milestones) reached(n uint64) <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	there := make(chan struct{})
	m.next, m.there = n, there
	m.tell()
	return there
}

func (m *milestones) tell() {
	if m.there != nil && m.count >= m.next {
		close(m.there)
		m.there = nil
	}
}

// TestLittlesLawHoldsWithin2Percent compares the samples with rate times time while the load is steady: each client has
// one request in the system, and each worker serves one of them.
func TestLittlesLawHoldsWithin2Percent(t *testing.T) {
	slower(t, func(times time.Duration) string {
		o := oneWorkerEach(8, slow(t, times*2*time.Millisecond))
		o.Timeout, o.StallAfter = time.Minute, -1
		m := mwtest.Start(t, o)
		var stop atomic.Bool
		var load sync.WaitGroup
		var answered milestones
		for range 40 {
			client := m.Dial(t)
			load.Go(func() {
				for !stop.Load() {
					if _, err := client.Do("get key\r\n"); err != nil {
						t.Error(err)
						return
					}
					answered.add()
				}
			})
		}
		after := func(n uint64) *stats.Snapshot {
			select {
			case <-answered.reached(n):
			case <-time.After(mctest.Patience):
				require.Fail(t, "the load has stopped", "%d requests should have been answered", n)
			}
			return m.Stats().Snapshot()
		}
		defer load.Wait()
		defer stop.Store(true)
		// The law is exact except for the requests in the system when the window begins or ends. They count for less in
		// a long window.
		from := after(200)
		until := after(from.Answered + 1000)
		wrong := ""
		for _, law := range model.Analyse(modelWindow(until.Sub(from), until)).Laws {
			if math.Abs(law.Measured-law.Predicted) >= 0.02*law.Predicted {
				wrong += fmt.Sprintf("%.3f in %s sampled, %.3f by rate and time; ", law.Measured, law.Law,
					law.Predicted)
			}
		}
		return wrong
	})
}
