package reproduce

import (
	"fmt"
	"math"

	"mcmw/internal/lab/record"
	"mcmw/internal/lab/report"
)

// pungas returns the tables of the 2016 report on throughput and replication.
func (s *Source) pungas() []report.Table {
	const experiment = "pungas-01-maximum"
	maximum := report.Table{Name: "maximum", Title: "Section 1.4.1: throughput, ops/s", Columns: beside("configuration", "throughput")}
	for _, at := range []struct{ name, clients, workers string }{
		{"max throughput T=64 C=720", "720", "64"}, {"T=64 C=648", "648", "64"}, {"T=32 C=432", "432", "32"}, {"chosen optimum C=180 T=32", "180", "32"},
	} {
		maximum.Rows = append(maximum.Rows, []string{
			at.clients + " clients, " + at.workers + " threads", shown(s.Report.Text(at.name), 0),
			measured(s.estimate(experiment, where{"clients": at.clients, "workers": at.workers}, record.SourceClient, "throughput"), 1, 0),
		})
	}
	stages := report.Table{
		Name: "stages", Title: "Figure 5: where the time of a GET goes in the middleware, ms", Columns: beside("stage", "mean"),
		Notes: []string{"180 clients, 32 threads."},
	}
	names := []string{"tLoadBalancer: net", "tQueue: queue", "tWorker: worker", "tMemcached: server", "tReturn: reply"}
	for i, metric := range record.Stages {
		stages.Rows = append(stages.Rows, []string{
			names[i], shown(s.Report.Number("Figure 5", i, 2), 4),
			measured(s.estimate(experiment, where{"clients": "180", "workers": "32"}, record.SourceMiddleware, metric), milli, 4),
		})
	}
	return []report.Table{maximum, stages}
}

// ribeiro returns the tables of the 2016 report on queueing models.
func (s *Source) ribeiro() []report.Table {
	responses := report.Table{
		Name: "table-8", Title: "Table 8: the 2^3 design of replication, servers and writes", Columns: beside("replication, servers, writes", "throughput, ops/s"),
	}
	row := 0
	for _, ratio := range []string{"1:99", "10:90"} {
		for _, servers := range []string{"3", "7"} {
			for _, replicas := range []string{"1", "all"} {
				responses.Rows = append(responses.Rows, []string{
					replicas + ", " + servers + ", " + ratio, shown(s.Report.Number("8", row, 8), 1),
					measured(s.estimate("ribeiro-04-factorial", where{"ratio": ratio, "servers": servers, "replicas": replicas}, record.SourceClient, "throughput"), 1, 1),
				})
				row++
			}
		}
	}
	law := report.Table{
		Name: "table-13", Title: "Table 13: the interactive law, 198 clients",
		Columns: beside("servers, replicas", "throughput, ops/s", "response time, ms", "predicted, ms", "error, %"),
		Notes:   []string{"Predicted: 198/X, X being the throughput of the clients."},
	}
	for i, at := range []struct{ servers, replicas int }{{3, 1}, {3, 2}, {3, 3}, {5, 1}, {5, 3}, {5, 5}, {7, 1}, {7, 4}, {7, 7}} {
		levels := where{"servers": fmt.Sprint(at.servers), "replicas": fmt.Sprint(at.replicas)}
		x := s.estimate("ribeiro-03-interactive-law", levels, record.SourceClient, "throughput")
		r := s.estimate("ribeiro-03-interactive-law", levels, record.SourceClient, "response_time_mean")
		predicted := math.NaN()
		if x.OK() && r.OK() {
			predicted = 198 / x.Mean
		}
		number := func(column int) float64 { return s.Report.Number("13", i, column) }
		law.Rows = append(law.Rows, []string{
			fmt.Sprintf("%d, %d", at.servers, at.replicas), shown(number(0), 0), measured(x, 1, 0), shown(number(1), 3), measured(r, milli, 3),
			shown(number(2), 3), shown(milli*predicted, 3), shown(number(3), 3), shown(100*(r.Mean-predicted)/r.Mean, 3),
		})
	}
	return []report.Table{responses, law}
}
