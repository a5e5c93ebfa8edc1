package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"mcmw/lab/frame"
	"mcmw/lab/plot"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// responseTimes is the metric of the histograms of response times.
const responseTimes = "response_time"

// check keeps the first error.
func (a *artist) check(err error) {
	if a.err == nil {
		a.err = err
	}
}

// histograms returns the response times of each repetition of a point at a source, without empty ones.
func (a *artist) histograms(p frame.Point, source string) (all []sample.Histogram) {
	for _, r := range p.Runs {
		h, err := a.d.distribution(r.ID, source, responseTimes, a.v.Command)
		if err != nil {
			a.check(fmt.Errorf("run %d: %w", r.ID, err))
		}
		if h.Total() > 0 {
			all = append(all, h)
		}
	}
	return all
}

// merged returns the response times of all repetitions of a point at the clients.
func (a *artist) merged(p frame.Point) sample.Histogram {
	h, err := sample.MergeHistograms(a.histograms(p, record.SourceClient)...)
	a.check(err)
	return h
}

// percentile returns a percentile of the response times: from the histograms, or as it was recorded.
func (a *artist) percentile(p frame.Point, percent float64) sample.Estimate {
	return p.Derive(func(r record.Run) (float64, bool) {
		h, err := a.d.distribution(r.ID, record.SourceClient, responseTimes, a.v.Command)
		if err == nil && h.Total() > 0 {
			return h.Quantile(percent / 100), true
		}
		return r.Value(record.SourceClient,
			a.v.metric("response_time_p"+strings.ReplaceAll(fmt.Sprint(percent), ".", "")))
	})
}

func (a *artist) percentiles() []plot.Chart {
	y := plot.Axis{Label: "response time", Unit: plot.Seconds, Log: true}
	return a.eachLine(a.xAxis(), y, func(l Line) (marks []plot.Mark) {
		add := func(name string, f func(frame.Point) sample.Estimate) {
			drawn := a.line(l, f)
			drawn.Name, drawn.Series = name, len(marks)
			if known(drawn) {
				marks = append(marks, drawn)
			}
		}
		for _, percent := range []float64{25, 50, 75, 90, 99} {
			add(fmt.Sprintf("%.0f %%", percent), func(p frame.Point) sample.Estimate {
				return a.percentile(p, percent)
			})
		}
		if len(marks) > 0 {
			add("mean", a.client("response_time_mean"))
		}
		return marks
	})
}

func (a *artist) spread() (charts []plot.Chart) {
	for _, panel := range a.panels {
		c := plot.Chart{
			Title: panel.Name, X: a.categories(),
			Y: plot.Axis{Label: "response time", Unit: plot.Seconds, Log: true},
		}
		any := false
		for i, l := range panel.Lines {
			boxes := plot.Boxes{Name: l.Name, Series: l.Number, Slot: i, Slots: len(panel.Lines)}
			for _, level := range c.X.Categories {
				var h sample.Histogram
				if p, ok := a.at(l, level); ok {
					h = a.merged(p)
				}
				any = any || h.Total() > 0 // the quantiles of an empty histogram are NaN
				boxes.Values = append(boxes.Values, plot.Percentiles{
					Low: h.Quantile(0.05), P25: h.Quantile(0.25), P50: h.Quantile(0.5), P75: h.Quantile(0.75),
					High: h.Quantile(0.95), Mean: h.Mean(),
				})
			}
			c.Marks = append(c.Marks, boxes)
		}
		if any {
			charts = append(charts, c)
		}
	}
	return charts
}

// shown is the share of the requests that histograms show. The slowest requests would press the others to the left.
const shown = 0.995

func (a *artist) histogram() []plot.Chart {
	x := plot.Axis{Label: "response time", Unit: plot.Seconds}
	return a.atSaturation(x, plot.Axis{Label: "requests", FromZero: true}, func(p frame.Point) (marks []plot.Mark) {
		for i, source := range []string{record.SourceClient, record.SourceMiddleware} {
			if bins := a.bins(p, source); len(bins) > 0 {
				marks = append(marks, plot.Histogram{Name: source, Bins: bins, Series: i})
			}
		}
		return marks
	})
}

// bins returns the bins of the response times of a point at a source up to shown: their means over the repetitions with
// confidence intervals.
func (a *artist) bins(p frame.Point, source string) (bins []plot.Bin) {
	repetitions := a.histograms(p, source)
	if len(repetitions) == 0 {
		return nil
	}
	all, err := sample.MergeHistograms(repetitions...)
	a.check(err)
	width := all.Width()
	moments := map[float64]sample.Moments{}
	merged, err := all.Rebin(width)
	a.check(err)
	for _, h := range repetitions {
		h, err := h.Rebin(width)
		a.check(err)
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
	for _, b := range merged {
		if b.Lower >= all.UpperQuantile(shown) || math.IsInf(b.Upper, 1) {
			break
		}
		mean := moments[b.Lower].Estimate(a.d.Confidence)
		bins = append(bins, plot.Bin{
			Lower: b.Lower, Upper: b.Upper, Count: b.Count / float64(len(repetitions)),
			Low: max(0, mean.Low), High: mean.High,
		})
	}
	return bins
}

func (a *artist) cdf() (charts []plot.Chart) {
	for _, panel := range a.panels {
		c := plot.Chart{
			Title: panel.Name, X: plot.Axis{Label: "response time", Unit: plot.Seconds, Log: true},
			Y: plot.Axis{Label: "requests answered", Unit: plot.Ratio, FromZero: true, Min: 0, Max: 1},
		}
		for _, l := range panel.Lines {
			for _, p := range a.sameLoad(panel, l) {
				var bins []plot.Bin
				for _, b := range a.merged(p) {
					if b.Count > 0 && !math.IsInf(b.Upper, 1) {
						bins = append(bins, plot.Bin{Lower: b.Lower, Upper: b.Upper, Count: b.Count})
					}
				}
				if points := plot.CDF(bins); len(points) > 0 {
					c.Marks = append(c.Marks, plot.Line{
						Name:   join(l.Name, levelName(a.v.X, p.Levels[a.v.X])),
						Points: points, Look: plot.Trace, Series: l.Number,
					})
				}
			}
		}
		charts = withMarks(charts, c)
	}
	return charts
}

// sameLoad returns the point of a line at the least load at which a line of its panel saturates. If the line has no
// such point it returns the line's point of saturation, if any.
func (a *artist) sameLoad(panel Panel, l Line) []frame.Point {
	var all []frame.Point
	for _, other := range panel.Lines {
		all = append(all, other.saturated()...)
	}
	if len(all) == 0 {
		return nil
	}
	least := slices.MinFunc(all, func(p, q frame.Point) int {
		return cmp.Compare(a.d.place(a.v, p), a.d.place(a.v, q))
	})
	if p, ok := a.at(l, least.Levels[a.v.X]); ok {
		return []frame.Point{p}
	}
	return l.saturated()
}

// trace draws a metric over the time of every repetition: of the clients, or of the middlewares if the clients did not
// measure it.
func (a *artist) trace(metric, label string, unit plot.Unit) []plot.Chart {
	y := plot.Axis{Label: label, Unit: unit, FromZero: true}
	return a.atSaturation(plot.Axis{Label: "time", Unit: plot.Seconds}, y, func(p frame.Point) (marks []plot.Mark) {
		for i, r := range p.Runs {
			windows, err := a.d.store.Windows(r.ID)
			if err != nil {
				a.check(fmt.Errorf("run %d: %w", r.ID, err))
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
		return marks
	})
}
