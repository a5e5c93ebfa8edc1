package admin

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mcmw/internal/model"
	"mcmw/internal/stats"
)

// typicalQuantile is the quantile of a server's call times that the model takes as typical: see model.Server.TypicalTime.
const typicalQuantile = 0.25

// fastestRank returns the rank, among n times, of the one taken as a call's time without queueing. The very shortest are
// useless: a worker that is interrupted between sending and looking at the clock sees a reply at once.
func fastestRank(n uint64) uint64 { return max(3, n/1000) }

// modelWindow returns the model's input for the window w, which ends at the cumulative snapshot total.
func modelWindow(w, total *stats.Snapshot) *model.Window {
	all := w.All()
	of := func(s stats.Stage) float64 { return seconds(w.Stages[s].Sum()) }
	m := &model.Window{
		Seconds:        float64(w.Uptime) / float64(time.Second),
		Answered:       float64(all.Count()),
		Arrived:        float64(w.Arrived),
		Hot:            float64(w.Hot()),
		QueueTime:      of(stats.StageQueue),
		WorkerTime:     of(stats.StageWorker),
		ServerTime:     of(stats.StageServer),
		ReplyTime:      of(stats.StageReply),
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
		calls, ever := float64(s.Times.Count()), &total.Servers[i].Times
		m.Servers = append(m.Servers, model.Server{
			Name:        s.Name,
			Calls:       calls,
			TypicalTime: calls * s.Times.Quantile(typicalQuantile) / float64(time.Second),
			Fastest:     float64(ever.Low(fastestRank(ever.Count()))) / float64(time.Second),
			Waited:      seconds(s.Waited),
		})
	}
	return m
}

// modelCollector exports the model's results for the last 10 s:
//
//	mcmw_model_utilization_ratio{part,server}                  how much of a part is in use
//	mcmw_model_part_capacity_requests_per_second{part,server}  at which rate it saturates; 0: not known
//	mcmw_model_capacity_requests_per_second                    the least of them
//	mcmw_model_bottleneck{part,server}                         1 for the part that saturates first
//	mcmw_model_useful_workers                                  how many workers can be kept busy
//	mcmw_model_requests{law,of}                                Little's law: sampled and computed
//	mcmw_model_queue_wait_seconds{of}                          the wait in the queue, and that of an M/M/m queue
type modelCollector struct {
	report func() *model.Report

	utilization, partCapacity, capacity *prometheus.Desc
	bottleneck, workers, requests, wait *prometheus.Desc
}

func newModelCollector(report func() *model.Report) *modelCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("mcmw_model_"+name, help, labels, nil)
	}
	return &modelCollector{
		report:      report,
		utilization: desc("utilization_ratio", "How much of a part (the processor, the workers, a server) is in use, 0 to 1, over the last 10 s.", "part", "server"),
		partCapacity: desc("part_capacity_requests_per_second",
			"The rate of requests at which a part saturates; 0 while it is not known.", "part", "server"),
		capacity:   desc("capacity_requests_per_second", "The rate of requests at which the first part saturates; 0 while it is not known."),
		bottleneck: desc("bottleneck", "1 for the part that saturates first; 0 for all while there is no load.", "part", "server"),
		workers:    desc("useful_workers", "How many workers can be kept busy before another part saturates; 0 while it is not known."),
		requests:   desc("requests", "Mean number of requests in the queue and in service, as sampled and by Little's law.", "law", "of"),
		wait:       desc("queue_wait_seconds", "Mean wait in the queue, as measured and of an M/M/m queue; 0 where that has no steady state.", "of"),
	}
}

// Describe sends the descriptions of all metrics.
func (c *modelCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.utilization, c.partCapacity, c.capacity, c.bottleneck, c.workers, c.requests, c.wait} {
		out <- d
	}
}

// Collect sends the values of one report.
func (c *modelCollector) Collect(out chan<- prometheus.Metric) {
	r := c.report()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for i, p := range r.Parts {
		first := 0.0
		if i == r.Bottleneck {
			first = 1
		}
		gauge(c.utilization, p.Utilization, p.Part, p.Server)
		gauge(c.partCapacity, p.Capacity, p.Part, p.Server)
		gauge(c.bottleneck, first, p.Part, p.Server)
	}
	gauge(c.capacity, r.Capacity)
	gauge(c.workers, float64(r.UsefulWorkers))
	for _, l := range r.Laws {
		gauge(c.requests, l.Measured, l.Law, "measured")
		gauge(c.requests, l.Predicted, l.Law, "predicted")
	}
	gauge(c.wait, r.Wait.Measured/1e9, "measured")
	gauge(c.wait, r.Wait.Predicted/1e9, "predicted")
}
