package report

import (
	"fmt"
	"math"
	"strings"

	"mcmw/internal/lab/plot"
	"mcmw/internal/lab/record"
	"mcmw/internal/lab/sample"
)

// responseTimes is the metric whose histograms are those of response times.
const responseTimes = "response_time"

func ratio(e, base Estimate, confidence float64) Estimate {
	if !e.OK() || !base.OK() || base.Mean == 0 {
		return Estimate{}
	}
	r := Estimate{Moments: sample.Moments{N: min(e.N, base.N), Mean: e.Mean / base.Mean}, Interval: sample.RatioInterval(base.Moments, e.Moments, confidence)}
	if e.Moments == base.Moments {
		r.Interval = sample.Interval{Low: 1, High: 1}
	}
	return r
}

// merged returns the response times of all repetitions of a point at a source.
func (d *Data) merged(p Point, source, command string) (sample.Histogram, error) {
	var parts []sample.Histogram
	for _, r := range p.Runs {
		h, err := d.distribution(r.ID, source, responseTimes, command)
		if err != nil {
			return nil, fmt.Errorf("run %d: %w", r.ID, err)
		}
		if h.Total() > 0 {
			parts = append(parts, h)
		}
	}
	return sample.MergeHistograms(parts...)
}

// percentile returns a percentile of the response times: from the histograms, or as it was recorded.
func (a *artist) percentile(p Point, percent float64) Estimate {
	return p.derive(func(r record.Run) (float64, bool) {
		h, err := a.d.distribution(r.ID, record.SourceClient, responseTimes, a.v.Command)
		if err == nil && h.Total() > 0 {
			return h.Quantile(percent / 100), true
		}
		return r.Value(record.SourceClient, a.v.metric("response_time_p"+strings.ReplaceAll(fmt.Sprint(percent), ".", "")))
	})
}

func (a *artist) percentiles() ([]plot.Chart, error) {
	y := plot.Axis{Label: "response time", Unit: plot.Seconds, Log: true}
	return a.eachLine(a.xAxis(), y, func(l Line) (marks []plot.Mark, err error) {
		add := func(name string, f func(Point) Estimate) {
			drawn := a.line(l, f)
			drawn.Name, drawn.Series = name, len(marks)
			if some(drawn) {
				marks = append(marks, drawn)
			}
		}
		for _, percent := range []float64{25, 50, 75, 90, 99} {
			add(fmt.Sprintf("%.0f %%", percent), func(p Point) Estimate { return a.percentile(p, percent) })
		}
		if len(marks) > 0 {
			add("mean", a.client("response_time_mean"))
		}
		return marks, nil
	})
}

func (a *artist) spread() ([]plot.Chart, error) {
	var charts []plot.Chart
	all := levels(a.d.Points, a.v.X)
	for _, panel := range a.analysis.Panels {
		c := plot.Chart{Title: panel.Name, X: a.categories(), Y: plot.Axis{Label: "response time", Unit: plot.Seconds, Log: true}}
		any := false
		for i, l := range panel.Lines {
			boxes := plot.Boxes{Name: l.Name, Series: l.Number, Slot: i, Slots: len(panel.Lines)}
			for _, level := range all {
				box := plot.Percentiles{Low: math.NaN(), P25: math.NaN(), P50: math.NaN(), P75: math.NaN(), High: math.NaN(), Mean: math.NaN()}
				if p, ok := a.at(l, level); ok {
					h, err := a.d.merged(p, record.SourceClient, a.v.Command)
					if err != nil {
						return nil, err
					}
					if h.Total() > 0 {
						any = true
						box = plot.Percentiles{Low: h.Quantile(0.05), P25: h.Quantile(0.25), P50: h.Quantile(0.5), P75: h.Quantile(0.75), High: h.Quantile(0.95), Mean: h.Mean()}
					}
				}
				boxes.Values = append(boxes.Values, box)
			}
			c.Marks = append(c.Marks, boxes)
		}
		if any {
			charts = append(charts, c)
		}
	}
	return charts, nil
}

// atSaturation draws a chart for the point of saturation of every line.
func (a *artist) atSaturation(x, y plot.Axis, marks func(Point) ([]plot.Mark, error)) ([]plot.Chart, error) {
	var charts []plot.Chart
	for i, panel := range a.analysis.Panels {
		for j, l := range panel.Lines {
			p, ok := a.analysis.Saturations[i][j].Point()
			if !ok {
				continue
			}
			drawn, err := marks(p)
			if err != nil {
				return nil, err
			}
			if len(drawn) > 0 {
				charts = append(charts, plot.Chart{Title: join(panel.Name, l.Name, levelName(a.v.X, p.Levels[a.v.X])), X: x, Y: y, Marks: drawn})
			}
		}
	}
	return charts, nil
}

// shown is the part of the requests that histograms show: the slowest ones would press the others to the left.
const shown = 0.995

func (a *artist) histogram() ([]plot.Chart, error) {
	x := plot.Axis{Label: "response time", Unit: plot.Seconds}
	return a.atSaturation(x, plot.Axis{Label: "requests", FromZero: true}, func(p Point) (marks []plot.Mark, err error) {
		for i, source := range []string{record.SourceClient, record.SourceMiddleware} {
			all, err := a.d.merged(p, source, a.v.Command)
			if err != nil {
				return nil, err
			}
			if all.Total() == 0 {
				continue
			}
			bins, err := a.bins(p, source, all)
			if err != nil {
				return nil, err
			}
			marks = append(marks, plot.Histogram{Name: source, Bins: bins, Series: i})
		}
		return marks, nil
	})
}

// bins returns the bins of the response times of a point: the mean over the repetitions with its interval. What is beyond
// shown is left out.
func (a *artist) bins(p Point, source string, all sample.Histogram) ([]plot.Bin, error) {
	width := all.Width()
	end := all.UpperQuantile(shown)
	moments := map[float64]sample.Moments{}
	merged, err := all.Rebin(width)
	if err != nil {
		return nil, err
	}
	repetitions := 0.0
	for _, r := range p.Runs {
		h, err := a.d.distribution(r.ID, source, responseTimes, a.v.Command)
		if err != nil {
			return nil, err
		}
		if h.Total() == 0 {
			continue
		}
		repetitions++
		if h, err = h.Rebin(width); err != nil {
			return nil, err
		}
		counts := map[float64]float64{}
		for _, b := range h {
			counts[b.Lower] = b.Count
		}
		for _, b := range merged {
			m := moments[b.Lower]
			m.Add(counts[b.Lower])
			moments[b.Lower] = m
		}
	}
	var bins []plot.Bin
	for _, b := range merged {
		if b.Lower >= end || math.IsInf(b.Upper, 1) {
			break
		}
		m := moments[b.Lower]
		interval := sample.MeanInterval(m, a.d.Confidence)
		bins = append(bins, plot.Bin{Lower: b.Lower, Upper: b.Upper, Count: b.Count / repetitions, Low: max(0, interval.Low), High: interval.High})
	}
	return bins, nil
}

func (a *artist) cdf() ([]plot.Chart, error) {
	var charts []plot.Chart
	for i, panel := range a.analysis.Panels {
		c := plot.Chart{Title: panel.Name, X: plot.Axis{Label: "response time", Unit: plot.Seconds, Log: true}, Y: plot.Axis{Label: "requests answered", Unit: plot.Ratio, FromZero: true, Min: 0, Max: 1}}
		for j, l := range panel.Lines {
			p, ok := a.likeLoad(i, j)
			if !ok {
				continue
			}
			h, err := a.d.merged(p, record.SourceClient, a.v.Command)
			if err != nil {
				return nil, err
			}
			var bins []plot.Bin
			for _, b := range h {
				if b.Count > 0 && !math.IsInf(b.Upper, 1) {
					bins = append(bins, plot.Bin{Lower: b.Lower, Upper: b.Upper, Count: b.Count})
				}
			}
			if points := plot.CDF(bins); len(points) > 0 {
				c.Marks = append(c.Marks, plot.Line{Name: join(l.Name, levelName(a.v.X, p.Levels[a.v.X])), Points: points, Look: plot.Trace, Series: l.Number})
			}
		}
		if len(c.Marks) > 0 {
			charts = append(charts, c)
		}
	}
	return charts, nil
}

// likeLoad returns the point of a line at the least load at which a line of its panel saturates, or its own point of saturation where it was
// not measured at that load.
func (a *artist) likeLoad(panel, line int) (Point, bool) {
	own, ok := a.analysis.Saturations[panel][line].Point()
	least := own
	for _, s := range a.analysis.Saturations[panel] {
		p, saturates := s.Point()
		if saturates && (!ok || a.d.place(a.v, p) < a.d.place(a.v, least)) {
			least, ok = p, true
		}
	}
	if !ok {
		return own, false
	}
	for _, p := range a.analysis.Panels[panel].Lines[line].Points {
		if p.Levels[a.v.X] == least.Levels[a.v.X] {
			return p, true
		}
	}
	return a.analysis.Saturations[panel][line].Point()
}

func (a *artist) traceThroughput() ([]plot.Chart, error) {
	return a.trace("throughput", plot.Axis{Label: "throughput", Unit: plot.OpsPerSecond, FromZero: true})
}

func (a *artist) traceResponseTime() ([]plot.Chart, error) {
	return a.trace("response_time_mean", plot.Axis{Label: "response time", Unit: plot.Seconds, FromZero: true})
}

// trace draws a metric of the clients, or else of the middlewares, over the time of every repetition.
func (a *artist) trace(metric string, y plot.Axis) ([]plot.Chart, error) {
	return a.atSaturation(plot.Axis{Label: "time", Unit: plot.Seconds}, y, func(p Point) (marks []plot.Mark, err error) {
		for i, r := range p.Runs {
			windows, err := a.d.store.Windows(r.ID)
			if err != nil {
				return nil, fmt.Errorf("run %d: %w", r.ID, err)
			}
			for _, source := range []string{record.SourceClient, record.SourceMiddleware} {
				l := plot.Line{Name: fmt.Sprintf("repetition %d", r.Repetition+1), Look: plot.Trace, Series: i}
				for _, w := range windows {
					if w.Source == source && w.Metric == a.v.metric(metric) {
						l.Points = append(l.Points, plot.At(w.Start+w.Seconds/2, w.Value))
					}
				}
				if len(l.Points) > 0 {
					marks = append(marks, l)
					break
				}
			}
		}
		return marks, nil
	})
}
