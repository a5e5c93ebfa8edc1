package foreign

import (
	"fmt"
	"math"
	"strings"
)

// Summary is the summary of a tree of experiments by the conventions of their report: with its units,
// milliseconds and operations per second, and its names.
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
	keys      []string             // of aggregate, as they come
	values    map[string][]float64 // of aggregate, by repetition
}

// Spread is a mean over repetitions, with both standard deviations.
type Spread struct {
	N            int     `json:"n"`
	Mean         float64 `json:"mean"`
	SDSample     float64 `json:"sd_sample"`
	SDPopulation float64 `json:"sd_population"`
}

// RepetitionSummary is a run. Its parts have the report's names.
type RepetitionSummary struct {
	Rep         int            `json:"rep"`
	ClientFiles int            `json:"client_files"`
	Middlewares int            `json:"mw_files"`
	Client      map[string]any `json:"client"`
	Trimmed     map[string]any `json:"mw_trim_5_5"`
	Whole       map[string]any `json:"mw_trim_0_0"`
	// Failed says why the run doesn't count: it has no numbers then, and is not in the aggregate.
	Failed string `json:"failed,omitempty"`
}

// ms turns seconds into milliseconds.
const ms = 1e3

// Summarize computes a tree's summary.
func Summarize(configurations []Configuration) Summary {
	var s Summary
	for _, c := range configurations {
		out := ConfigurationSummary{Dir: c.Dir, Params: c.Params, Aggregate: map[string]Spread{}, values: map[string][]float64{}}
		for _, r := range c.Repetitions {
			if why := c.failure(r); why != "" {
				out.Reps = append(out.Reps, RepetitionSummary{Rep: r.Number, ClientFiles: len(r.Clients), Middlewares: len(r.Middlewares), Failed: why})
				continue
			}
			out.Clients = r.connections()
			out.Reps = append(out.Reps, out.repetition(r))
		}
		for _, key := range out.keys {
			out.Aggregate[key] = spreadOf(out.values[key])
		}
		s.Configurations = append(s.Configurations, out)
	}
	return s
}

// keep notes a value of a repetition for the aggregate.
func (c *ConfigurationSummary) keep(key string, value float64) float64 {
	if _, ok := c.values[key]; !ok {
		c.keys = append(c.keys, key)
	}
	c.values[key] = append(c.values[key], value)
	return value
}

// spreadOf returns mean and standard deviations of values.
func spreadOf(values []float64) Spread {
	s := Spread{N: len(values)}
	for _, v := range values {
		s.Mean += v / float64(len(values))
	}
	squares := 0.0
	for _, v := range values {
		squares += (v - s.Mean) * (v - s.Mean)
	}
	s.SDPopulation = math.Sqrt(squares / float64(len(values)))
	if len(values) > 1 {
		s.SDSample = math.Sqrt(squares / float64(len(values)-1))
	}
	return s
}

// percentilesOf names percentiles, in milliseconds.
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

// repetition sums up a run.
func (c *ConfigurationSummary) repetition(r Repetition) RepetitionSummary {
	out := RepetitionSummary{Rep: r.Number, ClientFiles: len(r.Clients), Middlewares: len(r.Middlewares), Client: map[string]any{"clients": r.connections()}}
	total, _ := clientKind(r.Clients, "Totals", "")
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
	for _, kind := range []struct{ name, row, distribution string }{{"set", "Sets", "SET"}, {"get", "Gets", "GET"}} {
		k, ok := clientKind(r.Clients, kind.row, kind.distribution)
		if !ok {
			continue
		}
		out.Client[kind.name] = map[string]any{
			"throughput":                c.keep("client_"+kind.name+"_throughput", k.Throughput),
			"response_ms":               c.keep("client_"+kind.name+"_response_ms", ms*k.Response),
			"percentiles_merged_ms":     percentilesOf(k.Percentiles, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99),
			"percentiles_repo_style_ms": percentilesOf(k.NearestPercentiles, 0.25, 0.5, 0.75, 0.9, 0.99),
		}
		for name, v := range percentilesOf(k.Percentiles, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99) {
			c.keep("client_"+kind.name+"_"+name+"_ms", v)
		}
	}
	if len(r.Middlewares) > 0 {
		out.Trimmed = c.trimmed(r)
		out.Whole = map[string]any{
			"rows_used": rowsOf(r, 0), "qlen_mean_of_mws": meanOf(queueLengths(r.Middlewares, 0)), "throughput_total": throughputOf(r.Middlewares, 0),
		}
	}
	return out
}

// trimmed sums up the middlewares of a run without warm-up and cool-down.
func (c *ConfigurationSummary) trimmed(r Repetition) map[string]any {
	lengths := queueLengths(r.Middlewares, trim)
	histograms := map[string]any{}
	var servers []uint64
	for _, mw := range r.Middlewares {
		for i, n := range mw.PerServer {
			if i == len(servers) {
				servers = append(servers, 0)
			}
			servers[i] += n
		}
	}
	out := map[string]any{
		"rows_used": rowsOf(r, trim), "rows_total": rowsOf(r, 0),
		"throughput_total":    c.keep("mw_throughput", throughputOf(r.Middlewares, trim)),
		"qlen_mean_of_mws":    c.keep("mw_queue_length_mean_of_mws", meanOf(lengths)),
		"qlen_sum_of_mws":     c.keep("mw_queue_length_sum_of_mws", meanOf(lengths)*float64(len(lengths))),
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
			"throughput":                   c.keep(key+"throughput", k.Throughput),
			"queue_ms":                     c.keep(key+"queue_ms", ms*k.Queue),
			"service_ms":                   c.keep(key+"service_ms", ms*k.Service),
			"response_ms":                  c.keep(key+"response_ms", ms*(k.Queue+k.Service)),
			"queue_ms_request_weighted":    c.keep(key+"queue_ms_request_weighted", ms*k.QueueWeighted),
			"service_ms_request_weighted":  c.keep(key+"service_ms_request_weighted", ms*k.ServiceWeighted),
			"response_ms_request_weighted": c.keep(key+"response_ms_request_weighted", ms*(k.QueueWeighted+k.ServiceWeighted)),
		}
	}
	return out
}

// rowsOf returns the number of rows of each middleware without n at either end.
func rowsOf(r Repetition, n int) []int {
	rows := make([]int, len(r.Middlewares))
	for i, mw := range r.Middlewares {
		rows[i] = len(cut(mw.Rows, n))
	}
	return rows
}

func meanOf(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
