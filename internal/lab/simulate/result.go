package simulate

import (
	"context"
	"fmt"
	"math"

	"mcmw/internal/lab/sample"
)

// Defaults of Options.
const (
	DefaultPasses     = 200_000
	DefaultBatches    = 30
	DefaultConfidence = 0.95
)

// Options say how long to simulate. The zero value is of use.
type Options struct {
	Seed    uint64
	Passes  int // through the system, all classes together, after the warm-up; 0: DefaultPasses
	WarmUp  int // passes before; 0: a fifth of Passes
	Batches int // 2 or more; 0: DefaultBatches
	// Confidence is that of the intervals, such as 0.95; 0: DefaultConfidence.
	Confidence float64
}

// Estimate is a mean over the batches with its confidence interval.
type Estimate struct {
	Mean     float64
	Interval sample.Interval
}

// Result is what a simulation came to.
type Result struct {
	Events   int     // in all
	Time     float64 // that was simulated, without the warm-up
	X        Estimate
	R        Estimate // response time of a pass, all classes together, without think times
	Classes  []ClassResult
	Stations []StationResult
	Pools    []StationResult
}

// ClassResult is what a simulation came to for a class. Classes that made no passes have zeros.
type ClassResult struct {
	Name               string
	X, R               Estimate
	P50, P90, P95, P99 Estimate // percentiles of R, to half a percent
}

// StationResult is what a simulation came to at a station or pool.
type StationResult struct {
	Name string
	X    Estimate // visits per unit of time
	U    Estimate // busy servers per server; of a delay the mean number present
	Q    Estimate // mean number, waiting and in service
	R    Estimate // response time of a visit
	Lost Estimate // visits per unit of time that found it full
}

// tally counts what happens at a station or pool, since the batch began.
type tally struct {
	last          float64 // when it changed
	present, busy float64 // integrals over time
	visits        int
	time          float64 // of the visits together
	lost          int
}

// step adds the time since the last change, in which so many were present and busy.
func (t *tally) step(now float64, present, busy int) {
	d := now - t.last
	t.present += d * float64(present)
	t.busy += d * float64(busy)
	t.last = now
}

// left counts a visit.
func (t *tally) left(time float64) {
	t.visits++
	t.time += time
}

// passes counts the passes of a class, since the batch began.
type passes struct {
	count int
	sum   float64
	times times
}

func (p *passes) add(time float64) {
	p.count++
	p.sum += time
	p.times.add(time)
}

// times counts times by the exponent and the first seven bits of their mantissa: in steps of less than a percent, from 2^-40 to
// 2^40.
type times struct{ counts []int32 }

const (
	timeBits  = 7
	timeShift = 52 - timeBits
	leastTime = (1023 - 40) << timeBits
	manyTimes = 80 << timeBits
)

func newTimes() times { return times{make([]int32, manyTimes)} }

func (t times) add(v float64) {
	t.counts[max(0, min(int(math.Float64bits(v)>>timeShift)-leastTime, manyTimes-1))]++
}

// percentile returns the time that a share p of count does not exceed, the middle of its step.
func (t times) percentile(p float64, count int) float64 {
	rank := int(math.Ceil(p * float64(count)))
	seen := 0
	for i, c := range t.counts {
		if seen += int(c); seen >= rank && c > 0 {
			low := math.Float64frombits(uint64(i+leastTime) << timeShift)
			high := math.Float64frombits(uint64(i+1+leastTime) << timeShift)
			return (low + high) / 2
		}
	}
	return 0
}

// Run simulates the system. It can be interrupted by ctx.
func Run(ctx context.Context, s System, o Options) (Result, error) {
	if err := o.complete(); err != nil {
		return Result{}, fmt.Errorf("simulation: %w", err)
	}
	e, err := newEngine(&s, o.Seed)
	if err != nil {
		return Result{}, fmt.Errorf("simulation: %w", err)
	}
	if err := e.until(ctx, o.WarmUp); err != nil {
		return Result{}, fmt.Errorf("simulation: %w", err)
	}
	c := newCollector(e)
	c.reset()
	began := e.now
	for b := range o.Batches {
		if err := e.until(ctx, o.WarmUp+o.Passes*(b+1)/o.Batches); err != nil {
			return Result{}, fmt.Errorf("simulation: %w", err)
		}
		if !(e.now > c.began) {
			return Result{}, fmt.Errorf("simulation: no time passes: expected service or think times above 0")
		}
		c.collect()
		c.reset()
	}
	return c.result(o.Confidence, e.now-began), nil
}

// complete fills in the defaults.
func (o *Options) complete() error {
	if o.Passes == 0 {
		o.Passes = DefaultPasses
	}
	if o.Batches == 0 {
		o.Batches = DefaultBatches
	}
	if o.WarmUp == 0 {
		o.WarmUp = o.Passes / 5
	}
	if o.Confidence == 0 {
		o.Confidence = DefaultConfidence
	}
	switch {
	case o.Batches < 2:
		return fmt.Errorf("%d batches: expected 2 at least", o.Batches)
	case o.Passes < o.Batches:
		return fmt.Errorf("%d passes: expected at least as many as the %d batches", o.Passes, o.Batches)
	case o.WarmUp < 0:
		return fmt.Errorf("a warm-up of %d passes: expected 0 or more", o.WarmUp)
	case !(o.Confidence > 0 && o.Confidence < 1):
		return fmt.Errorf("a confidence of %v: expected a number between 0 and 1", o.Confidence)
	}
	return nil
}

// collector takes the means of batches.
type collector struct {
	engine   *engine
	began    float64
	x, r     []float64
	classes  []classSamples
	stations []stationSamples // stations, then pools
}

type classSamples struct{ x, r, p50, p90, p95, p99 []float64 }

type stationSamples struct{ x, u, q, r, lost []float64 }

func newCollector(e *engine) *collector {
	return &collector{engine: e, classes: make([]classSamples, len(e.passes)), stations: make([]stationSamples, len(e.stations)+len(e.pools))}
}

// reset begins a batch.
func (c *collector) reset() {
	e := c.engine
	c.began = e.now
	for i := range e.stations {
		e.stations[i].tally = tally{last: e.now}
	}
	for i := range e.pools {
		e.pools[i].tally = tally{last: e.now}
	}
	for i := range e.passes {
		clear(e.passes[i].times.counts)
		e.passes[i] = passes{times: e.passes[i].times}
	}
}

// collect takes the means of the batch that ends.
func (c *collector) collect() {
	e := c.engine
	length := e.now - c.began
	var count int
	var sum float64
	for i := range e.passes {
		p, s := &e.passes[i], &c.classes[i]
		count, sum = count+p.count, sum+p.sum
		s.x = append(s.x, float64(p.count)/length)
		if p.count > 0 {
			s.r = append(s.r, p.sum/float64(p.count))
			s.p50 = append(s.p50, p.times.percentile(0.50, p.count))
			s.p90 = append(s.p90, p.times.percentile(0.90, p.count))
			s.p95 = append(s.p95, p.times.percentile(0.95, p.count))
			s.p99 = append(s.p99, p.times.percentile(0.99, p.count))
		}
	}
	c.x, c.r = append(c.x, float64(count)/length), append(c.r, sum/float64(count))
	for i := range e.stations {
		s := &e.stations[i]
		s.tally.step(e.now, s.present, s.busy)
		c.stations[i].add(&s.tally, length, max(1, e.system.Stations[i].Servers))
	}
	for i := range e.pools {
		p := &e.pools[i]
		p.tally.step(e.now, p.present, p.busy)
		c.stations[len(e.stations)+i].add(&p.tally, length, e.system.Pools[i].Workers)
	}
}

func (s *stationSamples) add(t *tally, length float64, servers int) {
	s.x = append(s.x, float64(t.visits)/length)
	s.u = append(s.u, t.busy/length/float64(servers))
	s.q = append(s.q, t.present/length)
	s.lost = append(s.lost, float64(t.lost)/length)
	if t.visits > 0 {
		s.r = append(s.r, t.time/float64(t.visits))
	}
}

// result returns what the batches came to.
func (c *collector) result(confidence, length float64) Result {
	estimate := func(values []float64) Estimate {
		if len(values) == 0 {
			return Estimate{}
		}
		m := sample.Of(values)
		return Estimate{Mean: m.Mean, Interval: sample.MeanInterval(m, confidence)}
	}
	e := c.engine
	r := Result{Events: e.count, Time: length, X: estimate(c.x), R: estimate(c.r)}
	for i, s := range c.classes {
		r.Classes = append(r.Classes, ClassResult{
			Name: e.system.Classes[i].Name, X: estimate(s.x), R: estimate(s.r),
			P50: estimate(s.p50), P90: estimate(s.p90), P95: estimate(s.p95), P99: estimate(s.p99),
		})
	}
	for i, s := range c.stations {
		station := StationResult{X: estimate(s.x), U: estimate(s.u), Q: estimate(s.q), R: estimate(s.r), Lost: estimate(s.lost)}
		if i < len(e.stations) {
			station.Name = e.system.Stations[i].Name
			r.Stations = append(r.Stations, station)
		} else {
			station.Name = e.system.Pools[i-len(e.stations)].Name
			r.Pools = append(r.Pools, station)
		}
	}
	return r
}
