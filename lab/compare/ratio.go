package compare

import (
	"fmt"
	"io"
	"slices"

	"mcmw/lab/frame"
	"mcmw/lab/sample"
	"mcmw/lab/table"
)

// Ratio has the median, the least and the greatest of some ratios of paired runs. A disturbance of the machine slows both runs of a pair, so
// that the ratios vary less than the runs.
type Ratio struct {
	Pairs  int     `json:"pairs"`
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"greatest"`
}

// newRatio pairs the complete runs of two points with the same repetition. It returns nil if there is no pair.
func newRatio(a, b frame.Point, of frame.Metric) *Ratio {
	var ratios []float64
	for _, first := range a.Runs {
		for _, second := range b.Runs {
			x, ok := first.Value(of.Source, of.Name)
			y, ok2 := second.Value(of.Source, of.Name)
			if first.Repetition == second.Repetition && ok && ok2 && x > 0 {
				ratios = append(ratios, y/x)
			}
		}
	}
	if len(ratios) == 0 {
		return nil
	}
	slices.Sort(ratios)
	return &Ratio{Pairs: len(ratios), Median: sample.Quantile(ratios, 0.5), Least: ratios[0], Most: ratios[len(ratios)-1]}
}

// String returns "1.08 (0.98 to 1.43)".
func (r *Ratio) String() string {
	if r == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f (%.3f to %.3f)", r.Median, r.Least, r.Most)
}

// WriteRatios writes two tables of comparisons with the same side A: the ratios of the pairs, and the medians of all sides. names has the
// name of A, then those of the comparisons' sides B.
func WriteRatios(w io.Writer, format table.Format, comparisons []*Comparison, names []string) error {
	metrics := comparisons[0].metrics()
	ratios := table.Table{
		Caption: "Ratios to " + names[0], Columns: append([]string{"", "point"}, metrics...), Left: []int{1},
		Notes: []string{"Medians of the ratios of runs of one repetition; in brackets the least and the greatest."},
	}
	medians := table.Table{Caption: "Medians", Columns: ratios.Columns, Left: ratios.Left}
	add := func(side string, p Point, of func(Metric) Sample) {
		row := []string{side, name(p.Label)}
		for _, metric := range metrics {
			m, _ := p.metric(metric)
			row = append(row, median(metric, of(m).Values))
		}
		medians.Rows = append(medians.Rows, row)
	}
	for _, p := range comparisons[0].Points {
		add(names[0], p, func(m Metric) Sample { return m.A })
		for i, c := range comparisons {
			at := slices.IndexFunc(c.Points, func(other Point) bool { return other.Label == p.Label })
			if at < 0 {
				continue
			}
			row := []string{names[i+1], name(p.Label)}
			for _, metric := range metrics {
				m, _ := c.Points[at].metric(metric)
				row = append(row, m.Ratio.String())
			}
			ratios.Rows = append(ratios.Rows, row)
			add(names[i+1], c.Points[at], func(m Metric) Sample { return m.B })
		}
	}
	if err := ratios.Write(w, format); err != nil {
		return err
	}
	return medians.Write(w, format)
}

// median returns the median of values of a metric as text.
func median(metric string, values []float64) string {
	if len(values) == 0 {
		return "-"
	}
	return number(metric, sample.Number(sample.Quantile(slices.Sorted(slices.Values(values)), 0.5)))
}
