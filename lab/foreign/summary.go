package foreign

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"mcmw/lab/memtier"
	"mcmw/lab/sample"
)

// trim is the number of rows that the report leaves out at either end of a middleware's output, as warm-up and
// cool-down.
const trim = 5

// ClientKind has the clients' measurements of one kind of request, or of all requests, according to the conventions of
// the report.
type ClientKind struct {
	Throughput float64 // sum over the clients
	Response   float64 // mean, weighted by throughput, in seconds
	// Percentiles are those of the distributions of all clients, merged with their throughput as weight: the smallest
	// edge up to which the share of requests is reached, in seconds.
	Percentiles map[float64]float64
}

// MiddlewareKind has the middlewares' measurements of one kind of request.
type MiddlewareKind struct {
	Throughput float64
	// Queue and Service are means over the seconds, weighted over the middlewares by throughput, as in the report.
	// QueueWeighted and ServiceWeighted are means over the requests.
	Queue, Service, QueueWeighted, ServiceWeighted float64
	// Histogram has the response times of the whole output, in seconds.
	Histogram sample.Histogram
}

// distributionOf maps the rows of one kind of request to their distributions.
var distributionOf = map[string]string{"Sets": "SET", "Gets": "GET"}

// clientKind summarizes the clients' rows with a name and their distributions. The row of all requests, Totals, has
// those of all kinds.
func clientKind(outputs []*memtier.Output, row string) (ClientKind, bool) {
	k := ClientKind{Percentiles: map[float64]float64{}}
	for _, out := range outputs {
		if r, ok := out.Overall().Row(row); ok && r.Throughput > 0 {
			k.Throughput += r.Throughput
			k.Response += r.Throughput * r.Mean
		}
	}
	if k.Throughput == 0 {
		return k, false
	}
	k.Response /= k.Throughput
	cdfs, weights := distributions(outputs, row)
	for _, q := range []float64{0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999} {
		if len(cdfs) > 0 {
			k.Percentiles[q] = mergedPercentile(cdfs, weights, q)
		}
	}
	return k, true
}

// distributions returns the clients' distributions for a row, and their throughputs.
func distributions(outputs []*memtier.Output, row string) (cdfs [][]memtier.Quantile, weights []float64) {
	for _, out := range outputs {
		for name, of := range distributionOf {
			part, ok := out.Overall().Row(name)
			cdf := out.Overall().Distributions[of]
			if (name == row || row == "Totals") && ok && part.Throughput > 0 && len(cdf) > 0 {
				cdfs, weights = append(cdfs, cdf), append(weights, part.Throughput)
			}
		}
	}
	return cdfs, weights
}

// shareUpTo returns the share of requests in a distribution up to a time.
func shareUpTo(cdf []memtier.Quantile, seconds float64) float64 {
	share := 0.0
	for _, q := range cdf {
		if q.Seconds > seconds {
			break
		}
		share = q.Share
	}
	return share
}

// mergedPercentile returns the smallest edge of the distributions up to which the share of all requests is at least q.
func mergedPercentile(cdfs [][]memtier.Quantile, weights []float64, q float64) float64 {
	var edges []float64
	total := floats.Sum(weights)
	for _, cdf := range cdfs {
		for _, step := range cdf {
			edges = append(edges, step.Seconds)
		}
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	at, _ := slices.BinarySearchFunc(edges, q, func(edge, q float64) int {
		share := 0.0
		for i, cdf := range cdfs {
			share += weights[i] * shareUpTo(cdf, edge)
		}
		// The tolerance is for rounding.
		if share/total >= q-1e-12 {
			return 1
		}
		return -1
	})
	return edges[min(at, len(edges)-1)]
}

// cut returns rows without the first and the last n.
func cut(rows []MiddlewareRow, n int) []MiddlewareRow {
	if len(rows) <= 2*n {
		return nil
	}
	return rows[n : len(rows)-n]
}

// meanOver returns the mean of a value over rows, without those in which it is NaN; NaN for no rows.
func meanOver[Row any](rows []Row, value func(Row) float64) float64 {
	var values []float64
	for _, row := range rows {
		if v := value(row); !math.IsNaN(v) {
			values = append(values, v)
		}
	}
	return stat.Mean(values, nil)
}

// throughputOf returns the sum of the middlewares' mean throughputs without n rows at either end.
func throughputOf(outputs []*MiddlewareOutput, n int) float64 {
	sum := 0.0
	for _, out := range outputs {
		sum += meanOver(cut(out.Rows, n), func(r MiddlewareRow) float64 { return r.Throughput })
	}
	return sum
}

// queueLengths returns the mean length of each middleware's queue without n rows at either end.
func queueLengths(outputs []*MiddlewareOutput, n int) []float64 {
	lengths := make([]float64, len(outputs))
	for i, out := range outputs {
		lengths[i] = meanOver(cut(out.Rows, n), func(r MiddlewareRow) float64 { return r.QueueLength })
	}
	return lengths
}

// addCounts adds counts by index to a sum, which may become longer.
func addCounts(sum, counts []uint64) []uint64 {
	for i, n := range counts {
		if i == len(sum) {
			sum = append(sum, 0)
		}
		sum[i] += n
	}
	return sum
}

// middlewareKind summarizes a kind of request over the middlewares, without trim rows at either end.
func middlewareKind(outputs []*MiddlewareOutput, kind string) (MiddlewareKind, bool) {
	var k MiddlewareKind
	requests := 0.0
	for _, out := range outputs {
		rows := cut(out.Rows, trim)
		throughput := meanOver(rows, func(r MiddlewareRow) float64 { return r.Kinds[kind].Count })
		if !(throughput > 0) {
			continue
		}
		k.Throughput += throughput
		k.Queue += throughput * meanOver(rows, func(r MiddlewareRow) float64 { return r.Kinds[kind].Queue })
		k.Service += throughput * meanOver(rows, func(r MiddlewareRow) float64 { return r.Kinds[kind].Service })
		for _, row := range rows {
			if v := row.Kinds[kind]; v.Count > 0 {
				n := v.Count * row.Seconds
				requests += n
				k.QueueWeighted += n * v.Queue
				k.ServiceWeighted += n * v.Service
			}
		}
	}
	var classes []uint64
	for _, out := range outputs {
		classes = addCounts(classes, out.Histograms[kind])
	}
	for i, count := range classes {
		if count > 0 {
			k.Histogram = append(k.Histogram,
				sample.Bin{
					Lower: float64(i) * histogramWidth, Upper: float64(i+1) * histogramWidth,
					Count: float64(count),
				})
		}
	}
	if k.Throughput == 0 {
		return k, false
	}
	k.Queue /= k.Throughput
	k.Service /= k.Throughput
	k.QueueWeighted /= requests
	k.ServiceWeighted /= requests
	return k, true
}
