package foreign

import (
	"math"
	"slices"

	"mcmw/internal/lab/memtier"
	"mcmw/internal/lab/sample"
)

// trim is how many rows the report leaves out at either end of a middleware's output, as warm-up and cool-down.
const trim = 5

// ClientKind has the clients' figures of one kind of request, or of all, by the conventions of the report.
type ClientKind struct {
	Throughput float64 // sum over the clients
	Response   float64 // mean, weighted by throughput, in seconds
	// Percentiles are those of the distributions of all clients, merged with their throughput as weight: the smallest
	// edge that the share of requests does not exceed, in seconds.
	Percentiles map[float64]float64
	// NearestPercentiles are how the report computed them: of each client the edge whose share is nearest, and the mean
	// over the clients.
	NearestPercentiles map[float64]float64
}

// MiddlewareKind has the middlewares' figures of one kind of request.
type MiddlewareKind struct {
	Throughput float64
	// Queue and Service are means over the seconds, weighted over the middlewares by throughput, as the report has them;
	// QueueWeighted and ServiceWeighted are weighted by the requests of each second, as the mean of requests is.
	Queue, Service, QueueWeighted, ServiceWeighted float64
	// Histogram has the response times over the whole output, in seconds.
	Histogram sample.Histogram
}

// distributionOf are the distributions that the rows of one kind of request have.
var distributionOf = map[string]string{"Sets": "SET", "Gets": "GET"}

// clientKind sums up the clients' rows of this name and their distributions; without a distribution, those of all
// requests.
func clientKind(outputs []*memtier.Output, row, distribution string) (ClientKind, bool) {
	k := ClientKind{Percentiles: map[float64]float64{}, NearestPercentiles: map[float64]float64{}}
	var weights []float64
	var cdfs [][]memtier.Quantile
	for _, out := range outputs {
		r, ok := out.Overall().Row(row)
		if !ok || !(r.Throughput > 0) {
			continue
		}
		k.Throughput += r.Throughput
		k.Response += r.Throughput * r.Mean
		for name, of := range distributionOf {
			part, ok := out.Overall().Row(name)
			cdf := out.Overall().Distributions[of]
			if (of == distribution || distribution == "") && ok && part.Throughput > 0 && len(cdf) > 0 {
				weights, cdfs = append(weights, part.Throughput), append(cdfs, cdf)
			}
		}
	}
	if k.Throughput == 0 {
		return k, false
	}
	k.Response /= k.Throughput
	for _, q := range []float64{0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999} {
		if len(cdfs) > 0 {
			k.Percentiles[q] = mergedPercentile(cdfs, weights, q)
			k.NearestPercentiles[q] = nearestPercentile(cdfs, q)
		}
	}
	return k, true
}

// shareUpTo returns what share of requests a distribution has up to the time.
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

// mergedPercentile returns the smallest edge of the distributions up to which at least the share q of all requests lies.
func mergedPercentile(cdfs [][]memtier.Quantile, weights []float64, q float64) float64 {
	var edges []float64
	total := 0.0
	for i, cdf := range cdfs {
		total += weights[i]
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
		// What rounding takes off a share is not missing.
		if share/total >= q-1e-12 {
			return 1
		}
		return -1
	})
	return edges[min(at, len(edges)-1)]
}

// nearestPercentile returns the mean over the distributions of the edge whose share is nearest to q, the first of several.
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

// cut returns rows without the first and the last n.
func cut(rows []MiddlewareRow, n int) []MiddlewareRow {
	if len(rows) <= 2*n {
		return nil
	}
	return rows[n : len(rows)-n]
}

// meanOver returns the mean of a value over rows, without those where it is NaN; NaN for none.
func meanOver(rows []MiddlewareRow, value func(MiddlewareRow) float64) float64 {
	sum, n := 0.0, 0
	for _, row := range rows {
		if v := value(row); !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
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

// middlewareKind sums up a kind of request over the middlewares, without trim rows at either end.
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
		for i, count := range out.Histograms[kind] {
			if i == len(classes) {
				classes = append(classes, 0)
			}
			classes[i] += count
		}
	}
	for i, count := range classes {
		if count > 0 {
			k.Histogram = append(k.Histogram, sample.Bin{Lower: float64(i) * histogramWidth, Upper: float64(i+1) * histogramWidth, Count: float64(count)})
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
