package reproduce

import (
	"fmt"
	"math"
	"slices"

	"mcmw/internal/lab/claim"
	"mcmw/internal/lab/effects"
	"mcmw/internal/lab/factorial"
	"mcmw/internal/lab/record"
	"mcmw/internal/lab/report"
	"mcmw/internal/lab/sample"
)

// Ratios of SETs to GETs in the suites.
const (
	reads  = "0:1"
	writes = "1:0"
)

// kuechler returns the tables of the 2018 report.
func (s *Source) kuechler() []report.Table {
	tables := s.baseline("2.3", "2.3 summary", "kuechler-01-one-server", "kuechler-02-two-servers", [4]string{"6", "72", "8", "8"})
	return append(
		tables,
		s.middlewares("one", "kuechler-03-one-middleware-reads", "kuechler-04-one-middleware-writes", "144"),
		s.middlewares("two", "kuechler-05-two-middlewares-reads", "kuechler-06-two-middlewares-writes", "192"),
		s.fullSystem(),
		s.responses("3", "reads", "kuechler-09-factorial-reads"),
		s.variation("4", "reads", "kuechler-09-factorial-reads"),
		s.responses("1", "writes", "kuechler-10-factorial-writes"),
		s.variation("2", "writes", "kuechler-10-factorial-writes"),
		s.intensities(),
		s.laws("A.0.1", "one middleware", "kuechler-04-one-middleware-writes", "kuechler-03-one-middleware-reads"),
		s.laws("A.0.2", "two middlewares", "kuechler-06-two-middlewares-writes", "kuechler-05-two-middlewares-reads"),
		s.laws("A.0.3", "writes on the full system", "kuechler-07-writes", ""),
	)
}

// baseline is the summary of the experiments without middleware, of two reports. clients are those of the report's configuration: reads and
// writes of one server, then of one machine of load. Where they were not measured it is the highest throughput that stands there.
func (s *Source) baseline(section, name, oneServer, twoServers string, clients [4]string) []report.Table {
	t := report.Table{
		Name: "baseline", Title: "Section " + section + ": maximum throughput without middleware, ops/s",
		Columns: beside("", "reads", "writes"),
		Notes: []string{fmt.Sprintf("With the clients of the report's configuration: %s for reads and %s for writes of one server, %s and %s with one machine of load. "+
			"In brackets where these were not measured: the highest throughput of all.", clients[0], clients[1], clients[2], clients[3])},
	}
	for i, of := range []struct{ label, experiment string }{{"one memcached server", oneServer}, {"one machine of load", twoServers}} {
		row := []string{of.label}
		for j, ratio := range []string{reads, writes} {
			levels := where{"ratio": ratio, "clients": clients[2*i+j]}
			here := measured(s.estimate(of.experiment, levels, record.SourceClient, "throughput"), 1, 0)
			if here == none {
				if e := s.highest(of.experiment, where{"ratio": ratio}); e.OK() {
					here = "(" + measured(e, 1, 0) + ")"
				}
			}
			row = append(row, shown(s.Report.Number(name, i, j), 0), here)
		}
		t.Rows = append(t.Rows, row)
	}
	return []report.Table{t}
}

// highest returns the highest throughput of a record at some levels.
func (s *Source) highest(experiment string, levels where) (best report.Estimate) {
	for _, d := range s.data {
		if d.Manifest.Name != experiment {
			continue
		}
		for _, p := range d.Points {
			fits := true
			for name, level := range levels {
				fits = fits && p.Levels[name] == level
			}
			if e := p.Estimate(record.SourceClient, "throughput"); fits && e.OK() && e.Mean > best.Mean {
				best = e
			}
		}
	}
	return best
}

// middlewares is a summary of section 3.3: reads with 6 clients, writes with 64 workers.
func (s *Source) middlewares(many, ofReads, ofWrites, clients string) report.Table {
	name := "3.3 summary " + many + " middleware"
	if many != "one" {
		name += "s"
	}
	t := report.Table{
		Name: "middlewares-" + many, Title: "Section 3.3: maximum throughput, " + name[len("3.3 summary "):],
		Columns: beside("", "throughput, ops/s", "response time, ms", "time in queue, ms", "miss rate"),
		Notes:   []string{fmt.Sprintf("Reads with 6 clients and 8 workers, writes with %s clients and 64 workers, the report's configurations.", clients)},
	}
	for i, row := range []struct {
		label, source, experiment string
		levels                    where
	}{
		{"reads, at the middleware", record.SourceMiddleware, ofReads, where{"clients": "6", "workers": "8"}},
		{"reads, at the clients", record.SourceClient, ofReads, where{"clients": "6", "workers": "8"}},
		{"writes, at the middleware", record.SourceMiddleware, ofWrites, where{"clients": clients, "workers": "64"}},
		{"writes, at the clients", record.SourceClient, ofWrites, where{"clients": clients, "workers": "64"}},
	} {
		of := func(metric string) report.Estimate { return s.estimate(row.experiment, row.levels, row.source, metric) }
		number := func(column int) float64 { return s.Report.Number(name, i, column) }
		missed := none
		if hits, misses := of("hits"), of("misses"); hits.OK() && misses.OK() && hits.Mean+misses.Mean > 0 {
			missed = shown(misses.Mean/(hits.Mean+misses.Mean), 4)
		}
		t.Rows = append(t.Rows, []string{
			row.label, shown(number(0), 0), measured(of("throughput"), 1, 0), shown(number(1), 1), measured(of("response_time_mean"), milli, 2),
			shown(number(2), 1), measured(of("stage_queue_mean"), milli, 2), shown(number(3), 1), missed,
		})
	}
	return t
}

// fullWorkers and fullClients are the columns of the summary of section 4.2, and the clients at which each has its maximum.
var (
	fullWorkers = []string{"8", "16", "32", "64"}
	fullClients = []string{"48", "72", "96", "144"}
)

// fullSystem is the summary of section 4.2.
func (s *Source) fullSystem() report.Table {
	const name, experiment = "4.2 summary", "kuechler-07-writes"
	var columns []string
	for _, w := range fullWorkers {
		columns = append(columns, w+" workers")
	}
	t := report.Table{
		Name: "full-system", Title: "Section 4.2: maximum throughput of writes, full system", Columns: beside("", columns...),
		Notes: []string{"With 48, 72, 96 and 144 clients, as in the report. The queue is that of one of the two middlewares. The throughput derived from the response time of the middlewares is N/(R + Z), Z being the round-trip time without load."},
	}
	for i, row := range []struct {
		label          string
		source, metric string
		times          float64
		decimals       int
	}{
		{"throughput of the middlewares, ops/s", record.SourceMiddleware, "throughput", 1, 0},
		{"throughput derived from their response time, ops/s", "", "", 1, 0},
		{"throughput of the clients, ops/s", record.SourceClient, "throughput", 1, 0},
		{"time in queue, ms", record.SourceMiddleware, "stage_queue_mean", milli, 2},
		{"length of queue", record.SourceMiddleware, "queue_length_mean", 0.5, 1},
		{"time waiting for memcached, ms", record.SourceMiddleware, "stage_server_mean", milli, 2},
	} {
		cells := []string{row.label}
		for j, workers := range fullWorkers {
			levels := where{"workers": workers, "clients": fullClients[j]}
			e := s.estimate(experiment, levels, row.source, row.metric)
			if row.source == "" {
				e = s.derived(experiment, levels)
			}
			digits := 0
			if row.decimals > 0 {
				digits = 1
			}
			cells = append(cells, shown(s.Report.Number(name, i, j), digits), measured(e, row.times, row.decimals))
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// derived returns N/(R + Z) of a point, R being the middlewares' response time and Z the round-trip time of the path.
func (s *Source) derived(experiment string, levels where) report.Estimate {
	for _, d := range s.data {
		if d.Manifest.Name != experiment {
			continue
		}
		z, ok := record.Find(d.Manifest.Path, record.SourcePath, "round_trip_time_mean")
		p, there := s.at(experiment, levels)
		n, known := p.Number("clients")
		if !ok || !there || !known {
			break
		}
		var values []float64
		for _, run := range p.Runs {
			if r, ok := run.Value(record.SourceMiddleware, "response_time_mean"); ok && r+z > 0 {
				values = append(values, n/(r+z))
			}
		}
		m := sample.Of(values)
		return report.Estimate{Moments: m, Interval: sample.MeanInterval(m, Confidence)}
	}
	return report.Estimate{}
}

// design are the levels of the 2^3 design in the report's order: the first factor changes fastest.
func design() (rows []where) {
	for _, workers := range []string{"8", "32"} {
		for _, middlewares := range []string{"1", "2"} {
			for _, servers := range []string{"1", "3"} {
				rows = append(rows, where{"servers": servers, "middlewares": middlewares, "workers": workers})
			}
		}
	}
	return rows
}

// responses is table 1 or 3: the means of the 2^3 design.
func (s *Source) responses(name, what, experiment string) report.Table {
	t := report.Table{
		Name: "table-" + name, Title: "Table " + name + ": the 2^3 design of " + what,
		Columns: append([]report.Column{{Name: "S, M, W", Text: true}}, beside("", "throughput, ops/s", "response time, ms")[1:]...),
		Notes:   []string{"S servers, M middlewares, W workers of each middleware; 192 clients."},
	}
	for i, levels := range design() {
		t.Rows = append(t.Rows, []string{
			levels["servers"] + ", " + levels["middlewares"] + ", " + levels["workers"],
			shown(s.Report.Number(name, i, 9), 0), measured(s.estimate(experiment, levels, record.SourceClient, "throughput"), 1, 0),
			shown(s.Report.Number(name, i, 11), 1), measured(s.estimate(experiment, levels, record.SourceClient, "response_time_mean"), milli, 1),
		})
	}
	return t
}

// variation is table 2 or 4: effects and allocation of variation.
func (s *Source) variation(name, what, experiment string) report.Table {
	t := report.Table{
		Name: "table-" + name, Title: "Table " + name + ": effects and allocation of variation, " + what,
		Columns: beside("factor", "effect, ops/s", "variation of throughput, %", "effect, ms", "variation of response time, %"),
		Notes:   []string{"In brackets: the effect is not significant, as its 90 % confidence interval contains 0."},
	}
	throughput, errX := s.analyse(experiment, "throughput")
	response, errR := s.analyse(experiment, "response_time_mean")
	for i, term := range []string{"I", "S", "M", "W", "SM", "SW", "MW", "SMW", "Error"} {
		row := []string{term}
		for j, of := range []struct {
			analysis *factorial.Analysis
			err      error
			times    float64
			decimals int
		}{{throughput, errX, 1, 0}, {response, errR, milli, 1}} {
			q, share := none, none
			if of.err == nil && of.analysis != nil {
				q, share = effect(of.analysis, term, of.times, of.decimals)
			}
			row = append(row, shown(s.Report.Number(name, i, 4*j), of.decimals), q, shown(s.Report.Number(name, i, 4*j+2), 1), share)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// effect returns a term's effect and its part of the variation in per cent.
func effect(a *factorial.Analysis, name string, times float64, decimals int) (q, share string) {
	if name == "Error" {
		return none, shown(100*a.VariationError, 1)
	}
	term, ok := a.Term(name)
	if !ok {
		return none, none
	}
	q = shown(term.Q*times, decimals)
	if !term.Significant {
		q = "(" + q + ")"
	}
	return q, shown(100*term.Variation, 1)
}

// analyse returns the analysis of a 2^3 design in a record; nil without one.
func (s *Source) analyse(experiment, metric string) (*factorial.Analysis, error) {
	runs := s.runs[experiment]
	if len(runs) == 0 {
		return nil, nil
	}
	least := len(runs)
	for _, p := range record.Points(runs) {
		least = min(least, len(p.Runs))
	}
	e, err := effects.FromRuns(runs, effects.Question{Factors: []string{"S", "M", "W"}, Response: metric, Source: record.SourceClient, Repetitions: least})
	if err != nil {
		return nil, err
	}
	return factorial.Analyze(e.Design, factorial.Options{Confidence: 0.9})
}

// intensityClients are the columns of table 5.
var intensityClients = []string{"6", "12", "24", "48", "72", "96", "144"}

// intensities is table 5: arrival rates of writes on the full system.
func (s *Source) intensities() report.Table {
	t := report.Table{
		Name: "table-5", Title: "Table 5: arrival rates of writes on the full system, ops/s",
		Columns: []report.Column{{Name: "workers", Text: true}, {Name: "clients"}, {Name: "λ: here"}, {Name: "λ: report"}, {Name: "ρ: here"}, {Name: "ρ: report"}},
		Notes:   []string{"λ is the throughput of the middlewares, ρ its part of the highest with as many workers. mcmwlab model RECORD holds the models of section 7 against it."},
	}
	for i, workers := range fullWorkers {
		most := math.NaN()
		for _, d := range s.data {
			for _, p := range d.Points {
				if e := p.Estimate(record.SourceMiddleware, "throughput"); d.Manifest.Name == "kuechler-07-writes" && p.Levels["workers"] == workers && e.OK() && !(e.Mean < most) {
					most = e.Mean
				}
			}
		}
		for j, clients := range intensityClients {
			e := s.estimate("kuechler-07-writes", where{"workers": workers, "clients": clients}, record.SourceMiddleware, "throughput")
			if e.OK() {
				t.Rows = append(t.Rows, []string{
					workers, clients, measured(e, 1, 0), shown(s.Report.Number("5", 2*i, j), 0), shown(e.Mean/most, 2), shown(s.Report.Number("5", 2*i+1, j), 2),
				})
			}
		}
	}
	return t
}

// laws is a table of appendix A: by how much the response time of the clients is off the interactive law, ms.
func (s *Source) laws(name, what, ofWrites, ofReads string) report.Table {
	t := report.Table{
		Name: "law-" + name, Title: "Table " + name + ": error of the interactive law, " + what + ", ms",
		Columns: []report.Column{{Name: "workers", Text: true}, {Name: "clients"}, {Name: "writes: here"}, {Name: "writes: report"}},
		Notes:   []string{"R - N/X with the response time of the clients and the throughput of the middlewares, mean over the repetitions."},
	}
	if ofReads != "" {
		t.Columns = append(t.Columns, report.Column{Name: "reads: here"}, report.Column{Name: "reads: report"})
	}
	clients := []string{"6", "12", "24", "48", "72", "96", "144", "192", "288", "384"}
	readsFrom := 10 // the column where reads begin
	if name == "A.0.1" {
		clients, readsFrom = clients[:9], 9
	}
	for i, workers := range fullWorkers {
		for j, n := range clients {
			row := []string{workers, n, s.lawError(ofWrites, workers, n), shown(s.Report.Number(name, i, j), 1)}
			if ofReads != "" {
				printed := math.NaN()
				if j < len(intensityClients) {
					printed = s.Report.Number(name, i, readsFrom+j)
				}
				row = append(row, s.lawError(ofReads, workers, n), shown(printed, 1))
			}
			if slices.ContainsFunc([]int{2, 4}, func(k int) bool { return k < len(row) && row[k] != none }) {
				t.Rows = append(t.Rows, row)
			}
		}
	}
	return t
}

// lawError returns the mean error of the interactive law at a point, ms.
func (s *Source) lawError(experiment, workers, clients string) string {
	p, ok := s.at(experiment, where{"workers": workers, "clients": clients})
	if !ok {
		return none
	}
	var errors []float64
	for _, run := range p.Runs {
		relative, ok := claim.Interactive(run, record.SourceMiddleware)
		r, okR := run.Value(record.SourceClient, "response_time_mean")
		if ok && okR {
			errors = append(errors, relative*r)
		}
	}
	if len(errors) == 0 {
		return none
	}
	return shown(milli*sample.Of(errors).Mean, 2)
}
