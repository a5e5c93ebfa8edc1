package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mcmw/internal/lab/load"
	"mcmw/internal/lab/plot"
)

// Curve is how systems behave as one quantity changes.
type Curve struct {
	Name  string `json:"name"` // for the command line
	Title string `json:"title"`
	X     string `json:"x"` // the quantity, in words
	// Each is one of the quantity, in words, for what is said of growth; "" if nothing is to be said.
	Each string `json:"each,omitempty"`
	// linear: its axis has equal steps rather than equal ratios.
	linear bool
	// counts: the quantity is a number of things, without a unit.
	counts bool
	unit   plot.Unit
	// lines are the systems; nil: those of the benchmark.
	lines []system
	// points are those of the curve; what was measured before may decide.
	points func(before []Measurement) []point
}

// point is one value of the quantity, and the workload there.
type point struct {
	x        float64
	workload Workload
}

// fixed are points that nothing decides.
func fixed[T int | float64](workload func(x T) Workload, xs ...T) func([]Measurement) []point {
	return func([]Measurement) []point {
		var points []point
		for _, x := range xs {
			points = append(points, point{x: float64(x), workload: workload(x)})
		}
		return points
	}
}

// offeredSteps are the rates of the open loop, as shares of what the baseline does in a closed one.
var offeredSteps = []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1}

// comparing are the curves that compare mcmw with others.
func comparing() []Curve {
	return []Curve{
		{
			Name: "connections", Title: "SET:GET 1:9, 64 B, sharded", X: "connections", counts: true,
			points: fixed(connected, 1, 2, 4, 8, 16, 32, 64, 128, 256, 400),
		},
		{
			Name: "offered-load", Title: "SET:GET 1:9, 64 B, sharded, Poisson arrivals over 64 connections", X: "offered load", unit: plot.OpsPerSecond,
			linear: true,
			points: func(before []Measurement) []point {
				most := saturation(before)
				var points []point
				for _, share := range offeredSteps {
					w := connected(64)
					w.load.Pipeline = 0
					w.load.Schedule = &load.Schedule{Pieces: []load.Piece{{Length: 1e9, From: share * most, To: share * most}}, Repeat: true, Poisson: true}
					points = append(points, point{x: share * most, workload: w})
				}
				return points
			},
		},
	}
}

// saturation is the median throughput of twemproxy, or of whatever was measured, over the rounds of the curve of connections at 64.
func saturation(before []Measurement) float64 {
	var theirs, all []float64
	for _, m := range before {
		if m.Workload != "connections" || m.X != 64 || m.System == Direct {
			continue
		}
		all = append(all, m.OpsPerSec)
		if m.System == Twemproxy {
			theirs = append(theirs, m.OpsPerSec)
		}
	}
	if len(theirs) > 0 {
		return median(theirs)
	}
	return median(all)
}

// connected is the usual mix over n connections.
func connected(n int) Workload {
	return Workload{Replicas: "1", load: load.Options{Sets: 1, Gets: 9, ValueSize: 64, Connections: n, Pipeline: 1}}
}

// mostStored bounds what the keys of a workload take, bytes.
const mostStored = 64 << 20

// scaling are the curves of what mcmw costs, as what it serves grows.
func scaling(mcmw string) []Curve {
	with := func(name string, args ...string) system {
		return system{name: name, kind: kindMcmw, path: mcmw, args: args}
	}
	alone := []system{with(Mcmw)}
	flag := func(name string) func(int) Workload {
		return func(n int) Workload {
			w := connected(64)
			w.args = []string{fmt.Sprintf("--%s=%d", name, n)}
			return w
		}
	}
	return []Curve{
		{
			Name: "many-connections", Title: "SET:GET 1:9, 64 B, sharded", X: "connections", counts: true, Each: "connection", lines: alone,
			points: fixed(connected, 1, 4, 16, 64, 256, 1000, 4000, 10_000),
		},
		{
			Name: "value-size", Title: "GET, 64 connections, sharded", X: "value size", unit: plot.Bytes, Each: "byte", lines: alone,
			points: fixed(func(size int) Workload {
				return Workload{Replicas: "1", args: []string{"--max-value=2m"}, load: load.Options{
					Gets: 1, ValueSize: size, Connections: 64, Pipeline: 1, KeyMin: 1, KeyMax: uint64(min(load.DefaultKeys, mostStored/size)),
				}}
			}, 16, 64, 256, 1<<10, 4<<10, 16<<10, 64<<10, 256<<10, 1<<20),
		},
		{
			Name: "keys-per-get", Title: "multi-get, 64 B, 16 connections, sharded", X: "keys", counts: true, Each: "key", lines: alone,
			points: fixed(func(keys int) Workload {
				return Workload{Replicas: "1", load: load.Options{Gets: 1, ValueSize: 64, Connections: 16, Pipeline: 1, KeysPerGet: keys}}
			}, 1, 3, 10, 30, 100, 300, 1000),
		},
		{
			Name: "servers", Title: "SET:GET 1:9, 64 B, 64 connections", X: "servers", counts: true, Each: "server", linear: true,
			lines: []system{with("sharded", "--replicas=1"), with("replicas all", "--replicas=all")},
			points: fixed(func(n int) Workload {
				w := connected(64)
				w.servers = n
				return w
			}, 1, 2, 4, 8, 16),
		},
		{
			Name: "workers", Title: "SET:GET 1:9, 64 B, 64 connections, sharded", X: "workers", counts: true,
			lines:  []system{with("depth 1", "--depth=1"), with("depth 8", "--depth=8"), with("depth 32", "--depth=32"), with("depth 128", "--depth=128")},
			points: fixed(flag("workers"), 1, 2, 4, 8, 16, 64, 256),
		},
		{
			Name: "procs", Title: "SET:GET 1:9, 64 B, 64 connections, sharded", X: "procs", counts: true, linear: true, lines: alone,
			points: fixed(flag("procs"), 1, 2),
		},
	}
}

// Curves returns the names of the curves that compare mcmw with others, and of those of what it costs.
func Curves() (compared, scaled []string) {
	for _, c := range comparing() {
		compared = append(compared, c.Name)
	}
	for _, c := range scaling("") {
		scaled = append(scaled, c.Name)
	}
	return compared, scaled
}

// selectCurves returns those named, in the order of the pages.
func selectCurves(names []string, mcmw string) ([]Curve, error) {
	all := append(comparing(), scaling(mcmw)...)
	var known []string
	for _, c := range all {
		known = append(known, c.Name)
	}
	var problems []error
	for _, name := range names {
		if !slices.Contains(known, name) {
			problems = append(problems, fmt.Errorf("curve %q: expected one of %s", name, strings.Join(known, ", ")))
		}
	}
	if slices.Contains(names, "offered-load") && !slices.Contains(names, "connections") {
		problems = append(problems, errors.New("curve offered-load: it needs the curve connections, which tells where saturation is"))
	}
	return slices.DeleteFunc(all, func(c Curve) bool { return !slices.Contains(names, c.Name) }), errors.Join(problems...)
}

// linesOf returns what is measured at every point of c.
func (b *Benchmark) linesOf(c Curve) []system {
	if c.lines != nil {
		return c.lines
	}
	return b.systems
}

// mostServers returns how many servers the benchmark needs.
func (b *Benchmark) mostServers() int {
	n := serverCount
	for _, c := range b.curves {
		for _, p := range c.points(nil) {
			n = max(n, p.workload.servers)
		}
	}
	return n
}

// mostCurveRounds is how often a curve is measured at most: its points support each other.
const mostCurveRounds = 3

func (b *Benchmark) curveRounds() int { return min(b.Rounds, mostCurveRounds) }

// curve measures a curve: in every round every point, and at every point every system, each time beginning with another one.
func (r *runner) curve(ctx context.Context, c Curve, report *Report, pace *pace) error {
	lines := r.linesOf(c)
	points := c.points(report.Measurements)
	rounds := r.curveRounds()
	for round := 1; round <= rounds; round++ {
		for _, p := range points {
			for i := range lines {
				s := lines[(i+round-1)%len(lines)]
				w := p.workload
				w.Name = c.Name
				pace.next(fmt.Sprintf("round %d of %d, %s at %s, %s", round, rounds, c.Name, c.at(p.x), s.name))
				m, err := r.measure(ctx, w, s, round)
				if err != nil {
					return fmt.Errorf("round %d, %s at %s, %s: %w", round, c.Name, c.at(p.x), s.name, err)
				}
				m.X = p.x
				report.Measurements = append(report.Measurements, m)
				pace.done(&m)
			}
		}
	}
	return nil
}

// at formats a value of the quantity.
func (c Curve) at(x float64) string {
	if c.counts {
		return number(x)
	}
	return c.unit.Format(x)
}

// CurveSummary is a curve as it was measured.
type CurveSummary struct {
	Curve Curve       `json:"curve"`
	Lines []CurveLine `json:"lines"`
}

// CurveLine is what one system did along a curve.
type CurveLine struct {
	System string       `json:"system"`
	Points []CurvePoint `json:"points"`
	// Growth says in words how the CPU per request grows.
	Growth string `json:"growth,omitempty"`
}

// CurvePoint holds medians over rounds, in base units: operations per second, seconds.
type CurvePoint struct {
	X             float64 `json:"x"`
	OpsPerSec     Spread  `json:"ops_per_s"`
	CPUPerRequest Spread  `json:"cpu_per_request_s"`
	P50           Spread  `json:"p50_s"`
	P99           Spread  `json:"p99_s"`
	PeakMemory    Spread  `json:"peak_memory_bytes"`
	Rounds        int     `json:"rounds"`
	// GeneratorLimited is the number of rounds in which the load generator was the limit.
	GeneratorLimited int `json:"generator_limited"`
}

// summariseCurve puts the measurements of a curve together.
func summariseCurve(c Curve, lines []system, all []Measurement) CurveSummary {
	summary := CurveSummary{Curve: c}
	for _, s := range lines {
		of := make(map[float64][]Measurement)
		var xs []float64
		for _, m := range all {
			if m.Workload != c.Name || m.System != s.name {
				continue
			}
			if of[m.X] == nil {
				xs = append(xs, m.X)
			}
			of[m.X] = append(of[m.X], m)
		}
		if len(xs) == 0 {
			continue
		}
		slices.Sort(xs)
		line := CurveLine{System: s.name}
		for _, x := range xs {
			line.Points = append(line.Points, curvePoint(x, of[x]))
		}
		if c.Each != "" {
			line.Growth = growth(c.Each, line.Points)
		}
		summary.Lines = append(summary.Lines, line)
	}
	return summary
}

func curvePoint(x float64, rounds []Measurement) CurvePoint {
	of := func(value func(m Measurement) float64) Spread {
		var values []float64
		for _, m := range rounds {
			values = append(values, value(m))
		}
		return spreadOf(values)
	}
	p := CurvePoint{
		X: x, Rounds: len(rounds),
		OpsPerSec:     of(func(m Measurement) float64 { return m.OpsPerSec }),
		CPUPerRequest: of(func(m Measurement) float64 { return m.CPUPerRequest.Seconds() }),
		P50:           of(func(m Measurement) float64 { return m.Latency.P50.Seconds() }),
		P99:           of(func(m Measurement) float64 { return m.Latency.P99.Seconds() }),
		PeakMemory:    of(func(m Measurement) float64 { return float64(m.PeakMemory) }),
	}
	for _, m := range rounds {
		if m.Generator.Limit == load.LimitGenerator {
			p.GeneratorLimited++
		}
	}
	return p
}
