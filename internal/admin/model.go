package admin

import (
	"time"

	"mcmw/internal/model"
	"mcmw/internal/stats"
)

// typicalQuantile is the quantile of a server's call times that the model takes as typical; see
// model.Server.TypicalTime.
const typicalQuantile = 0.25

// fastestRank returns the rank, among n times, of the one that is taken as a call's time without queueing. The very
// shortest times are useless: a worker that is interrupted between sending and reading the clock sees a reply at once.
func fastestRank(n uint64) uint64 { return max(3, n/1000) }

// modelWindow returns the model's input for the window w, which ends at the cumulative snapshot total.
func modelWindow(w, total *stats.Snapshot) *model.Window {
	all := w.All()
	spent := func(s stats.Stage) float64 { return seconds(w.Stages[s].Sum()) }
	m := &model.Window{
		Seconds:        float64(w.Uptime) / float64(time.Second),
		Answered:       float64(all.Count()),
		Arrived:        float64(w.Arrived),
		Hot:            float64(w.Hot()),
		QueueTime:      spent(stats.StageQueue),
		WorkerTime:     spent(stats.StageWorker),
		ServerTime:     spent(stats.StageServer),
		ReplyTime:      spent(stats.StageReply),
		Samples:        float64(w.Samples),
		SampledQueue:   float64(w.SampledWaiting),
		SampledService: float64(w.SampledServing),
		Workers:        w.Workers,
		Depth:          w.Depth,
		Processors:     w.Processors,
		Processor:      seconds(w.ProcessorTime),
	}
	for i := range w.Servers {
		s := &w.Servers[i]
		if s.ShadowOf != "" {
			continue // no request waits for it
		}
		calls, sinceStart := float64(s.Times.Count()), &total.Servers[i].Times
		m.Servers = append(m.Servers, model.Server{
			Name:        s.Name,
			Calls:       calls,
			TypicalTime: calls * s.Times.Quantile(typicalQuantile) / float64(time.Second),
			Fastest:     float64(sinceStart.Low(fastestRank(sinceStart.Count()))) / float64(time.Second),
			Waited:      seconds(s.Waited),
		})
	}
	return m
}

// modelMetrics are the model's results for the last 10 s.
var modelMetrics = []metric[*model.Report]{
	{
		"model_utilization_ratio",
		"Utilization of the part (the processor, the workers, a server) over the last 10 s, 0 to 1.",
		[]string{"part", "server"},
		func(r *model.Report, to sink) {
			for _, p := range r.Parts {
				to.gauge(p.Utilization, p.Part, p.Server)
			}
		},
	},
	{
		"model_part_capacity_requests_per_second",
		"Rate of requests at which the part saturates; 0 while it is not known.",
		[]string{"part", "server"},
		func(r *model.Report, to sink) {
			for _, p := range r.Parts {
				to.gauge(p.Capacity, p.Part, p.Server)
			}
		},
	},
	{
		"model_capacity_requests_per_second",
		"Rate of requests at which the first part saturates; 0 while it is not known.", nil,
		func(r *model.Report, to sink) { to.gauge(r.Capacity) },
	},
	{
		"model_bottleneck", "1 for the part that saturates first, else 0; 0 for all parts while there is no load.",
		[]string{"part", "server"},
		func(r *model.Report, to sink) {
			for i, p := range r.Parts {
				to.gauge(indicator(i == r.Bottleneck), p.Part, p.Server)
			}
		},
	},
	{
		"model_useful_workers",
		"Number of workers that can be kept busy before another part saturates; 0 while it is not known.", nil,
		func(r *model.Report, to sink) { to.gauge(float64(r.UsefulWorkers)) },
	},
	{
		"model_requests",
		"Mean number of requests in the queue and in service: measured by samples, and predicted by Little's law.",
		[]string{"law", "of"},
		func(r *model.Report, to sink) {
			for _, l := range r.Laws {
				to.gauge(l.Measured, l.Law, "measured")
				to.gauge(l.Predicted, l.Law, "predicted")
			}
		},
	},
	{
		"model_queue_wait_seconds",
		"Mean wait in the queue: measured, and predicted for an M/M/m queue (0 if that has no steady state).",
		[]string{"of"},
		func(r *model.Report, to sink) {
			to.gauge(r.Wait.Measured/1e9, "measured")
			to.gauge(r.Wait.Predicted/1e9, "predicted")
		},
	},
}
