package collect

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"mcmw/internal/statlog"
	"mcmw/lab/record"
)

// commands maps classes of the statistics log to the commands of records. Other classes have no metrics.
var commands = map[string]string{"get": "get", "multi_get": "multiget", "set": "set"}

// sum is a number of times and their sum, seconds.
type sum struct {
	n, seconds float64
}

func (s sum) mean() float64 { return s.seconds / s.n }

// counted is the sum over some windows of statistics logs. Windows can count in part, so counts can be fractional.
type counted struct {
	seconds         float64 // length of one middleware's windows
	requests        float64
	hot             float64 // requests answered from memory; requests doesn't include them
	errors          float64
	keys, misses    float64
	busy            float64 // seconds of busy workers
	waited, samples float64 // sum and number of the sampled queue lengths
	times           map[string]sum
	bins            map[string]map[[2]int64]uint64 // by class and bounds
}

func newCounted() *counted {
	return &counted{times: map[string]sum{}, bins: map[string]map[[2]int64]uint64{}}
}

// add adds the window that follows those added so far, in proportion to its share. Bins can't be divided: they count if
// the share is at least half.
func (c *counted) add(w *logged) {
	c.seconds += w.share * w.Seconds
	c.requests += w.share * float64(w.Requests)
	c.hot += w.share * float64(w.Hot)
	c.errors += w.share * float64(w.ServerErrors)
	c.keys += w.share * float64(w.Keys)
	c.misses += w.share * float64(w.Misses)
	c.busy += w.share * w.Busy * w.Seconds
	c.waited += w.share * float64(w.Queue.Sum)
	c.samples += w.share * float64(w.Queue.Samples)
	for name, t := range w.Times {
		s := c.times[name]
		c.times[name] = sum{s.n + w.share*float64(t.N), s.seconds + w.share*float64(t.Sum)/1e9}
	}
	if w.share < 0.5 {
		return
	}
	for class, bins := range w.Distributions {
		if c.bins[class] == nil {
			c.bins[class] = map[[2]int64]uint64{}
		}
		for _, b := range bins {
			if b[0] >= 0 && (b[1] > b[0] || b[1] == statlog.Unbounded) && b[2] > 0 {
				c.bins[class][[2]int64{b[0], b[1]}] += uint64(b[2])
			}
		}
	}
}

// metrics calls give with every metric of a middleware over the windows.
func (c *counted) metrics(give func(metric string, value float64)) {
	give("throughput", c.requests/c.seconds)
	if c.hot > 0 {
		give("throughput_hot", c.hot/c.seconds)
	}
	give("busy_workers_mean", c.busy/c.seconds)
	if c.samples > 0 {
		give("queue_length_mean", c.waited/c.samples)
	}
	for _, name := range slices.Sorted(maps.Keys(c.times)) {
		t, stage := c.times[name], "stage_"+name+"_mean"
		class, isClass := strings.CutPrefix(name, "response:")
		switch {
		case t.n == 0:
		case name == "response":
			give("response_time_mean", t.mean())
		case slices.Contains(record.Stages, stage):
			give(stage, t.mean())
		case isClass && commands[class] != "":
			give("throughput_"+commands[class], t.n/c.seconds)
			give("response_time_mean_"+commands[class], t.mean())
		}
	}
}

// serverMetrics calls give with the metrics of every server, as the middleware measures them.
func (c *counted) serverMetrics(give func(source, metric string, value float64)) {
	for _, name := range slices.Sorted(maps.Keys(c.times)) {
		if t := c.times[name]; strings.HasPrefix(name, record.SourceServer) && t.n > 0 {
			give(name, "throughput", t.n/c.seconds)
			give(name, "service_time_mean", t.mean())
		}
	}
}

// parallel returns the sum of middlewares that run at the same time.
func parallel(all []*counted) *counted {
	total := newCounted()
	for _, c := range all {
		if c.seconds == 0 {
			continue
		}
		// Counts that become rates are scaled to the same length, that of the first middleware.
		scale := 1.0
		if total.seconds == 0 {
			total.seconds = c.seconds
		} else {
			scale = total.seconds / c.seconds
		}
		total.requests += c.requests * scale
		total.hot += c.hot * scale
		total.errors += c.errors
		total.keys += c.keys
		total.misses += c.misses
		total.busy += c.busy * scale
		if c.samples > 0 {
			// The mean lengths of the queues add up.
			total.waited, total.samples = total.waited/max(total.samples, 1)+c.waited/c.samples, 1
		}
		for name, t := range c.times {
			s := total.times[name]
			total.times[name] = sum{s.n + t.n*scale, s.seconds + t.seconds*scale}
		}
		for class, bins := range c.bins {
			if total.bins[class] == nil {
				total.bins[class] = map[[2]int64]uint64{}
			}
			for bounds, n := range bins {
				total.bins[class][bounds] += n
			}
		}
	}
	return total
}

// middlewares adds the measurements of the middlewares from the windows of their statistics logs.
func (c *collector) middlewares(logs [][]logged) {
	var each []*counted
	for i, windows := range logs {
		total := newCounted()
		for j := range windows {
			total.add(&windows[j])
		}
		each = append(each, total)
		if len(logs) > 1 {
			c.middleware(numbered(record.SourceMiddleware, i), total)
			c.series(numbered(record.SourceMiddleware, i), logs[i:i+1])
		}
	}
	total := parallel(each)
	if total.seconds == 0 {
		return
	}
	c.middleware(record.SourceMiddleware, total)
	total.serverMetrics(c.result)
	c.series(record.SourceMiddleware, logs)
}

func (c *collector) middleware(source string, total *counted) {
	if total.seconds == 0 {
		return
	}
	total.metrics(func(metric string, value float64) { c.result(source, metric, value) })
	c.result(source, "requests", total.requests)
	c.result(source, "errors", total.errors)
	c.result(source, "misses", total.misses)
	c.result(source, "hits", max(total.keys-total.misses, 0))
	for _, class := range slices.Sorted(maps.Keys(total.bins)) {
		if commands[class] == "" {
			continue
		}
		c.histogram(source, commands[class], total.bins[class])
	}
}

// seriesLength is the length of the record's windows. The shorter ones of the statistics log are combined.
const seriesLength = time.Second

// series adds windows of about a second of middlewares that run at the same time. With all middlewares it also adds
// those of the servers.
func (c *collector) series(source string, logs [][]logged) {
	grouped := make([]map[int][]logged, len(logs)) // by second of the measured window
	present := map[int]bool{}
	for i, windows := range logs {
		grouped[i] = map[int][]logged{}
		for _, w := range windows {
			second := int(w.start / seriesLength.Seconds())
			grouped[i][second] = append(grouped[i][second], w)
			present[second] = true
		}
	}
	for _, second := range slices.Sorted(maps.Keys(present)) {
		var each []*counted
		start, complete := math.Inf(1), true
		for i := range logs {
			total := newCounted()
			for _, w := range grouped[i][second] {
				total.add(&w)
				start = min(start, w.start)
			}
			complete = complete && total.seconds > 0
			each = append(each, total)
		}
		if !complete {
			continue // a middleware that was delayed for more than a second has no window that begins in it
		}
		total := parallel(each)
		total.metrics(func(metric string, value float64) { c.window(source, start, total.seconds, metric, value) })
		if source == record.SourceMiddleware {
			total.serverMetrics(func(server, metric string, value float64) {
				c.window(server, start, total.seconds, metric, value)
			})
		}
	}
}
