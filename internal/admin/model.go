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

// The families of the model's metrics.
var (
	overallModel = whole[*model.Report]()
	perPart      = listed(func(r *model.Report) []model.Part { return r.Parts },
		func(p *model.Part) []string { return []string{p.Part, p.Server} }, "part", "server")
	perLaw = listed(func(r *model.Report) []model.Law { return r.Laws },
		func(l *model.Law) []string { return []string{l.Law} }, "law")
)

// modelMetrics are the model's results for the last 10 s.
var modelMetrics = []metric[*model.Report]{
	perPart.value("model_utilization_ratio",
		"Utilization of the part (the processor, the workers, a server) over the last 10 s, 0 to 1.",
		func(p *model.Part) any { return p.Utilization }),
	perPart.value("model_part_capacity_requests_per_second",
		"Rate of requests at which the part saturates; 0 while it is not known.",
		func(p *model.Part) any { return p.Capacity }),
	overallModel.value("model_capacity_requests_per_second",
		"Rate of requests at which the first part saturates; 0 while it is not known.",
		func(r *model.Report) any { return r.Capacity }),
	{
		"model_bottleneck", "1 for the part that saturates first, else 0; 0 for all parts while there is no load.",
		[]string{"part", "server"},
		func(r *model.Report, to sink) {
			for i, p := range r.Parts {
				to.send(i == r.Bottleneck, p.Part, p.Server)
			}
		},
	},
	overallModel.value("model_useful_workers",
		"Number of workers that can be kept busy before another part saturates; 0 while it is not known.",
		func(r *model.Report) any { return r.UsefulWorkers }),
	perLaw.by("of", "model_requests",
		"Mean number of requests in the queue and in service: measured by samples, and predicted by Little's law.",
		func(l *model.Law) values { return values{"measured": l.Measured, "predicted": l.Predicted} }),
	overallModel.by("of", "model_queue_wait_seconds",
		"Mean wait in the queue: measured, and predicted for an M/M/m queue (0 if that has no steady state).",
		func(r *model.Report) values {
			return values{"measured": r.Wait.Measured / 1e9, "predicted": r.Wait.Predicted / 1e9}
		}),
}
