package foreign

import (
	"fmt"
	"math"
	"strings"

	"mcmw/lab/memtier"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// Summary is the summary of a tree of experiments according to the conventions of their report, with its names and its
// units, milliseconds and operations per second.
type Summary struct {
	Configurations []ConfigurationSummary `json:"configurations"`
}

// ConfigurationSummary is a combination of settings.
type ConfigurationSummary struct {
	Dir       string               `json:"dir"`
	Params    map[string]string    `json:"params"`
	Clients   int                  `json:"clients"`
	Aggregate map[string]Spread    `json:"aggregate"`
	Reps      []RepetitionSummary  `json:"reps"`
	values    map[string][]float64 // of Aggregate, by repetition
}

// Spread is a mean over repetitions with the standard deviations of the sample and of the population.
type Spread struct {
	N            int     `json:"n"`
	Mean         float64 `json:"mean"`
	SDSample     float64 `json:"sd_sample"`
	SDPopulation float64 `json:"sd_population"`
}

// RepetitionSummary is the summary of a run, with the names of the report.
type RepetitionSummary struct {
	Rep         int            `json:"rep"`
	ClientFiles int            `json:"client_files"`
	Middlewares int            `json:"mw_files"`
	Client      map[string]any `json:"client"`
	Trimmed     map[string]any `json:"mw_trim_5_5"`
	Whole       map[string]any `json:"mw_trim_0_0"`
	// Failed is the reason why the run doesn't count. It then has no numbers and is not in the aggregate.
	Failed string `json:"failed,omitempty"`
}

// ms is the number of milliseconds in a second.
const ms = 1e3

// Summarize computes the summary of a tree.
func Summarize(configurations []Configuration) Summary {
	var s Summary
	for _, c := range configurations {
		out := ConfigurationSummary{
			Dir: c.Dir, Params: c.Params, Aggregate: map[string]Spread{},
			values: map[string][]float64{},
		}
		for _, r := range c.Repetitions {
			if why := c.failure(r); why != "" {
				out.Reps = append(out.Reps, RepetitionSummary{
					Rep: r.Number, ClientFiles: len(r.Clients),
					Middlewares: len(r.Middlewares), Failed: why,
				})
				continue
			}
			out.Clients = r.connections()
			out.Reps = append(out.Reps, out.repetition(r))
		}
		for key, values := range out.values {
			mean, variance := stat.PopMeanVariance(values, nil)
			s := Spread{N: len(values), Mean: mean, SDPopulation: math.Sqrt(variance)}
			if s.N > 1 {
				s.SDSample = stat.StdDev(values, nil)
			}
			out.Aggregate[key] = s
		}
		s.Configurations = append(s.Configurations, out)
	}
	return s
}

// keep adds a value of a repetition to the aggregate, and returns it.
func (c *ConfigurationSummary) keep(key string, value float64) float64 {
	c.values[key] = append(c.values[key], value)
	return value
}

// percentilesOf returns the wanted percentiles by name, in milliseconds.
func percentilesOf(percentiles map[float64]float64, which ...float64) map[string]float64 {
	named := map[string]float64{}
	for _, q := range which {
		if v, ok := percentiles[q]; ok {
			named[percentileKey(q)] = ms * v
		}
	}
	return named
}

func percentileKey(q float64) string { return fmt.Sprintf("p%.0f", 100*q) }

// repetition summarizes a run.
func (c *ConfigurationSummary) repetition(r Repetition) RepetitionSummary {
	out := RepetitionSummary{
		Rep: r.Number, ClientFiles: len(r.Clients), Middlewares: len(r.Middlewares),
		Client: map[string]any{"clients": r.connections()},
	}
	total, _ := clientKind(r.Clients, "Totals")
	kilobytes := 0.0
	for _, client := range r.Clients {
		if row, ok := client.Overall().Row("Totals"); ok {
			kilobytes += row.Bytes / 1024
		}
	}
	out.Client["total"] = map[string]any{
		"throughput":    c.keep("client_throughput", total.Throughput),
		"response_ms":   c.keep("client_response_ms", ms*total.Response),
		"throughput_kb": kilobytes,
	}
	law := ms * float64(r.connections()) / total.Throughput
	out.Client["interactive_law_R_ms"], out.Client["interactive_law_error_ms"] = law, ms*total.Response-law
	for _, kind := range []struct{ name, row string }{{"set", "Sets"}, {"get", "Gets"}} {
		k, ok := clientKind(r.Clients, kind.row)
		if !ok {
			continue
		}
		nearest := map[float64]float64{}
		cdfs, _ := distributionsOf(r.Clients, kind.row)
		for _, q := range []float64{0.25, 0.5, 0.75, 0.9, 0.99} {
			if len(cdfs) > 0 {
				nearest[q] = nearestPercentile(cdfs, q)
			}
		}
		out.Client[kind.name] = map[string]any{
			"throughput":                c.keep("client_"+kind.name+"_throughput", k.Throughput),
			"response_ms":               c.keep("client_"+kind.name+"_response_ms", ms*k.Response),
			"percentiles_merged_ms":     percentilesOf(k.Percentiles, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99),
			"percentiles_repo_style_ms": percentilesOf(nearest, 0.25, 0.5, 0.75, 0.9, 0.99),
		}
		for name, v := range percentilesOf(k.Percentiles, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99) {
			c.keep("client_"+kind.name+"_"+name+"_ms", v)
		}
	}
	if len(r.Middlewares) > 0 {
		out.Trimmed = c.trimmed(r)
		out.Whole = map[string]any{
			"rows_used": rowsOf(r, 0), "qlen_mean_of_mws": stat.Mean(queueLengths(r.Middlewares, 0), nil),
			"throughput_total": throughputOf(r.Middlewares, 0),
		}
	}
	return out
}

// trimmed summarizes the middlewares of a run without warm-up and cool-down.
func (c *ConfigurationSummary) trimmed(r Repetition) map[string]any {
	lengths := queueLengths(r.Middlewares, trim)
	histograms := map[string]any{}
	var servers []uint64
	for _, mw := range r.Middlewares {
		servers = addCounts(servers, mw.PerServer)
	}
	out := map[string]any{
		"rows_used": rowsOf(r, trim), "rows_total": rowsOf(r, 0),
		"throughput_total":    c.keep("mw_throughput", throughputOf(r.Middlewares, trim)),
		"qlen_mean_of_mws":    c.keep("mw_queue_length_mean_of_mws", stat.Mean(lengths, nil)),
		"qlen_sum_of_mws":     c.keep("mw_queue_length_sum_of_mws", floats.Sum(lengths)),
		"hist":                histograms,
		"requests_per_server": servers,
	}
	for _, kind := range kinds {
		name := map[string]string{"set": "set", "get": "get", "multiget": "mget"}[kind.name]
		k, ok := middlewareKind(r.Middlewares, kind.name)
		histograms[strings.ToUpper(name)] = nil
		if len(k.Histogram) > 0 {
			h := map[string]any{"count": uint64(k.Histogram.Total()), "mean_ms_midpoint": ms * k.Histogram.Mean()}
			for _, q := range []float64{0.25, 0.5, 0.75, 0.9, 0.95, 0.99} {
				h[percentileKey(q)+"_ms_upper"] = ms * k.Histogram.UpperQuantile(q)
			}
			histograms[strings.ToUpper(name)] = h
		}
		if !ok {
			continue
		}
		key := "mw_" + name + "_"
		out[name] = map[string]any{
			"throughput":                  c.keep(key+"throughput", k.Throughput),
			"queue_ms":                    c.keep(key+"queue_ms", ms*k.Queue),
			"service_ms":                  c.keep(key+"service_ms", ms*k.Service),
			"response_ms":                 c.keep(key+"response_ms", ms*(k.Queue+k.Service)),
			"queue_ms_request_weighted":   c.keep(key+"queue_ms_request_weighted", ms*k.QueueWeighted),
			"service_ms_request_weighted": c.keep(key+"service_ms_request_weighted", ms*k.ServiceWeighted),
			"response_ms_request_weighted": c.keep(key+"response_ms_request_weighted",
				ms*(k.QueueWeighted+k.ServiceWeighted)),
		}
	}
	return out
}

// rowsOf returns the number of rows of each middleware without n rows at either end.
func rowsOf(r Repetition, n int) []int {
	rows := make([]int, len(r.Middlewares))
	for i, mw := range r.Middlewares {
		rows[i] = len(cut(mw.Rows, n))
	}
	return rows
}

// nearestPercentile returns the mean over the distributions of the first edge with the share nearest to q.
func nearestPercentile(cdfs [][]memtier.Quantile, q float64) float64 {
	sum := 0.0
	for _, cdf := range cdfs {
		nearest := cdf[0]
		for _, step := range cdf {
			if math.Abs(step.Share-q) < math.Abs(nearest.Share-q)-1e-12 {
				nearest = step
			}
		}
		sum += nearest.Seconds
	}
	return sum / float64(len(cdfs))
}
