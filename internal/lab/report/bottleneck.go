package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"mcmw/internal/lab/plot"
	"mcmw/internal/lab/record"
)

// Busy is the utilization from which a component counts as saturated. Queues in front of a component that is busy nine tenths of
// the time are already nine requests long in the mean (M/M/1: rho/(1 - rho)).
const Busy = 0.9

// Impossible is the utilization above which a component can't be the limit: its assumed capacity was wrong. Measuring a path and
// counting its bytes differ by the bytes of headers and acknowledgements, a few per cent.
const Impossible = 1.15

// Component is a part of the system that can saturate.
type Component struct {
	Name string
	// Utilization is 0..1.
	Utilization Estimate
	// rank orders causes: what comes first makes what comes after it look busy. Without a processor workers wait for it, without
	// bandwidth servers seem slow.
	rank int
}

// Bottleneck is the component that limits a point.
type Bottleneck struct {
	// Name of the component; "" if none is at least Busy.
	Name       string
	Components []Component // all that are known
	Words      string
}

// components returns the utilization of what was measured at a point.
func (d *Data) components(p Point) []Component {
	var all []Component
	add := func(rank int, name string, f func(record.Run) (float64, bool)) {
		if e := p.derive(f); e.OK() {
			all = append(all, Component{Name: name, Utilization: e, rank: rank})
		}
	}
	if e := p.Estimate(record.SourceClient, "saturated"); e.Mean > 0 {
		all = append(all, Component{Name: "load generator", Utilization: e, rank: 0})
	}
	add(1, "bandwidth of the path", func(r record.Run) (float64, bool) {
		limit, ok := d.pathLimit(r)
		x, okX := r.Value(record.SourceClient, "throughput")
		return x / limit, ok && okX
	})
	for _, way := range directions {
		add(1, way.name, func(r record.Run) (float64, bool) { return d.full(r, way) })
	}
	add(2, "processor of the host", func(r record.Run) (float64, bool) {
		idle, ok := d.hostMean(r, "cpu_idle")
		return 1 - idle, ok
	})
	for _, s := range sources([]Point{p}, record.SourceServer, "seconds_cpu") {
		add(3, "processor of "+strings.TrimPrefix(s, record.SourceServer), func(r record.Run) (float64, bool) {
			threads, ok := levelNumber(r.Factors["server_threads"])
			cpu, okC := r.Value(s, "seconds_cpu")
			return cpu / r.Seconds / threads, ok && okC && threads > 0 && r.Seconds > 0
		})
	}
	add(4, "workers", func(r record.Run) (float64, bool) {
		busy, ok := r.Value(record.SourceMiddleware, "busy_workers_mean")
		workers, okW := levelNumber(r.Factors["workers"])
		if middlewares, known := levelNumber(r.Factors["middlewares"]); known && middlewares > 0 {
			workers *= middlewares
		}
		return busy / workers, ok && okW && workers > 0
	})
	return all
}

// hostMean returns the mean of a host's samples over a run: as a result where it is one, else over the samples.
func (d *Data) hostMean(r record.Run, metric string) (float64, bool) {
	if v, ok := r.Value(record.SourceHost, metric); ok {
		return v, true
	}
	return d.sampled(r, record.SourceHost, metric)
}

// sampled returns the mean of a host's samples over a run.
func (d *Data) sampled(r record.Run, source, metric string) (float64, bool) {
	samples, err := d.samples(r.ID)
	sum, seconds := 0.0, 0.0
	for _, s := range samples {
		if s.Source == source && s.Metric == metric {
			sum += s.Value * s.Seconds
			seconds += s.Seconds
		}
	}
	return sum / seconds, err == nil && seconds > 0
}

// limit finds what limits a point: of the components that are at least Busy the one that explains the others.
func (d *Data) limit(p Point) Bottleneck {
	b := Bottleneck{Components: d.components(p)}
	if len(b.Components) == 0 {
		b.Words = "what limits it was not measured"
		return b
	}
	byCause := slices.SortedStableFunc(slices.Values(b.Components), func(x, y Component) int { return cmp.Compare(x.rank, y.rank) })
	var busy []Component
	for _, c := range byCause {
		if c.Utilization.Mean >= Busy && c.Utilization.Mean <= Impossible {
			busy = append(busy, c)
		}
	}
	if len(busy) > 0 {
		b.Name = busy[0].Name
	}
	share := func(c Component) string { return fmt.Sprintf("%s, %s", c.Name, plot.Ratio.Format(c.Utilization.Mean)) }
	if b.Name == "" {
		most := slices.MaxFunc(b.Components, func(x, y Component) int { return cmp.Compare(x.Utilization.Mean, y.Utilization.Mean) })
		b.Words = fmt.Sprintf("no component is in use for %.0f %% of the time; most used: %s", 100*Busy, share(most)) + doubts(byCause)
		return b
	}
	var parts []string
	for _, c := range busy {
		parts = append(parts, share(c))
	}
	b.Words = "limited by the " + strings.Join(parts, "; with it the ")
	if b.Name == "load generator" {
		b.Words = "limited by the load generator, not by what was measured"
	}
	if b.Name == "workers" {
		if part := p.derive(waitingShare); part.OK() {
			b.Words += fmt.Sprintf("; of their time %s is waiting for servers", plot.Ratio.Format(part.Mean))
		}
	}
	b.Words += doubts(byCause)
	return b
}

// Limit finds the bottleneck of a point of a record, which must stay open meanwhile.
func Limit(r *record.Record, p record.Point, confidence float64) Bottleneck {
	d := &Data{Manifest: r.Manifest(), Dir: r.Dir(), Confidence: confidence, store: r, hosts: map[int64][]record.Window{}, histograms: map[int64][]record.Bin{}}
	return d.limit(Point{Levels: p.Factors, Runs: p.Runs, confidence: confidence})
}

// doubts names the components whose utilization is impossible.
func doubts(all []Component) (text string) {
	for _, c := range all {
		if c.Utilization.Mean > Impossible {
			text += fmt.Sprintf("; the %s comes to %s, so how much there is of it was not measured right, and it is left out", c.Name, plot.Ratio.Format(c.Utilization.Mean))
		}
	}
	return text
}

// waitingShare returns the part of a worker's time that it waits for servers.
func waitingShare(r record.Run) (float64, bool) {
	total := 0.0
	for _, stage := range []string{"stage_worker_mean", "stage_server_mean", "stage_reply_mean"} {
		v, ok := r.Value(record.SourceMiddleware, stage)
		if !ok {
			return 0, false
		}
		total += v
	}
	server, _ := r.Value(record.SourceMiddleware, "stage_server_mean")
	return server / total, total > 0
}

// Analysis is the saturation of every line of every panel.
type Analysis struct {
	Panels []Panel
	// Saturations has those of each panel's lines.
	Saturations [][]Saturation
}

// Analyse finds where the lines of the view saturate, and why.
func (d *Data) Analyse(v View) Analysis {
	a := Analysis{Panels: d.Panels(v)}
	for _, panel := range a.Panels {
		var of []Saturation
		for _, line := range panel.Lines {
			s := saturate(line, v.throughputSource(line.Points[0]), v.metric("throughput"))
			if s.Highest >= 0 {
				s.Bottleneck = d.limit(line.Points[s.Highest])
			}
			of = append(of, s)
		}
		a.Saturations = append(a.Saturations, of)
	}
	return a
}
