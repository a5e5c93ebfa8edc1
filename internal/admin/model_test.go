package admin

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"mcmw/internal/model"
	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

func TestTheModelIsExported(t *testing.T) {
	report := &model.Report{
		Bottleneck: 1, Capacity: 900, UsefulWorkers: 7,
		Parts: []model.Part{
			{Part: "workers", Utilization: 0.25, Capacity: 1000},
			{Part: "server", Server: "a", Utilization: 0.5, Capacity: 900},
		},
		Laws: []model.Law{{Law: "queue", Measured: 3, Predicted: 4}},
		Wait: model.Wait{Measured: 5e6, Predicted: 6e6},
	}
	values := gather(t, newTable(func() *model.Report { return report }, modelMetrics))
	require.Equal(t, map[string]float64{
		`mcmw_model_utilization_ratio{part="workers",server=""}`:                 0.25,
		`mcmw_model_utilization_ratio{part="server",server="a"}`:                 0.5,
		`mcmw_model_part_capacity_requests_per_second{part="workers",server=""}`: 1000,
		`mcmw_model_part_capacity_requests_per_second{part="server",server="a"}`: 900,
		`mcmw_model_bottleneck{part="workers",server=""}`:                        0,
		`mcmw_model_bottleneck{part="server",server="a"}`:                        1,
		`mcmw_model_capacity_requests_per_second`:                                900,
		`mcmw_model_useful_workers`:                                              7,
		`mcmw_model_requests{law="queue",of="measured"}`:                         3,
		`mcmw_model_requests{law="queue",of="predicted"}`:                        4,
		`mcmw_model_queue_wait_seconds{of="measured"}`:                           0.005,
		`mcmw_model_queue_wait_seconds{of="predicted"}`:                          0.006,
	}, values)

	problems, err := testutil.CollectAndLint(newTable(func() *model.Report { return report }, modelMetrics))
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestTheModelExistsFromTheStartAndLooksBackTenSeconds(t *testing.T) {
	r := stats.New(stats.Options{Servers: []string{"a", "b"}, Workers: 2, Depth: 1})
	h := newHistory(snapshotAt(r, 0))
	require.Equal(t, -1, h.now.Load().model.Bottleneck)
	parts := []string{}
	for i := range h.now.Load().model.Parts {
		parts = append(parts, h.now.Load().model.Parts[i].String())
	}
	require.Equal(t, []string{"the processor", "the workers", "server a", "server b"}, parts)

	const requests = 500 // in each second; each is in service for 2 ms
	for second := 1; second <= 3*modelLength; second++ {
		if second > modelLength {
			for range requests {
				r.Net().Arrivals().Add(1)
				r.Worker(0).Take(1)
				r.Worker(0).Request(protocol.Get, stats.ResultOK, 1, 1,
					times(0, time.Millisecond, 0, 2*time.Millisecond, 0))
				r.Worker(0).Server(1, int64(2*time.Millisecond))
				r.Worker(0).Flush()
			}
			r.Sample()
		}
		h.add(time.UnixMilli(int64(second)), snapshotAt(r, time.Duration(second)*time.Second))
		m := h.now.Load().model
		window := min(second, modelLength)
		busy := float64(min(max(second-modelLength, 0), modelLength)) / float64(window)
		require.InDelta(t, float64(window), m.Window, 1e-9)
		require.InDelta(t, busy*requests, m.Rate, 1e-6, "second %d", second)
		require.InDelta(t, busy*requests, m.Arrivals, 1e-6)
		require.InDelta(t, busy*requests*2e-3/2, m.Parts[1].Utilization, 1e-9)
		require.InDelta(t, busy*requests*1e-3, m.Laws[0].Predicted, 1e-9)
	}
	require.InDelta(t, 1e6, h.now.Load().model.Wait.Measured, 1e-3)
}

func TestTheAPICarriesTheModelHistogramsAndQueues(t *testing.T) {
	registry := stats.New(stats.Options{
		Servers: []string{"a"}, Workers: 1,
		Queues: []stats.Queue{
			{Name: "a/read", Capacity: 9, Length: func() int { return 4 }},
			{Name: "a/write", Capacity: 8},
		},
	})
	s, url := serve(t, Options{Registry: registry})
	registry.Worker(0).Request(protocol.Set, stats.ResultOK, 1, 0,
		times(time.Microsecond, 2*time.Microsecond, 3*time.Microsecond, 4*time.Microsecond, 5*time.Microsecond))
	registry.Worker(0).Waited(0, int64(time.Second))
	registry.Worker(0).Flush()
	s.history.add(time.UnixMilli(1), registry.Snapshot())

	r := statsOf(t, url+"/api/stats")
	require.Equal(t, []stats.QueueSnapshot{
		{Name: "a/read", Length: 4, Capacity: 9}, {Name: "a/write", Capacity: 8},
	}, r.Queues)
	require.NotNil(t, r.Model)
	require.NotEmpty(t, r.Model.Advice)
	p := r.Points[0]
	require.Len(t, p.Hist, len(r.Bounds)+1)
	for i, n := range p.Hist {
		require.EqualValues(t, map[bool]int{true: 1}[i > 0 && r.Bounds[i-1] <= 15000 && 15000 < r.Bounds[i]], n,
			fmt.Sprint(i))
	}
	set := p.Classes[stats.ClassSet]
	require.Equal(t, [stats.NumStages]float64{1000, 2000, 3000, 4000, 5000}, set.Stages)
	require.Positive(t, set.P50)
	require.Positive(t, p.Servers[0].Waited)
}
