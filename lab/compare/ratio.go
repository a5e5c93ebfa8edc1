package compare

import (
	"fmt"
	"slices"

	"mcmw/lab/sample"
	"mcmw/lab/table"
)

// Ratios returns two tables of comparisons with the same side A: the ratios of the pairs, and the medians of all sides.
// names has the name of A, then those of the comparisons' sides B.
func Ratios(comparisons []*Comparison, names []string) []table.Block {
	metrics := comparisons[0].metrics()
	ratios := table.Table{
		Caption: "Ratios to " + names[0], Columns: append([]string{"", "point"}, metrics...), Left: []int{1},
		Notes: []string{fmt.Sprintf("Geometric means of the ratios of runs of one repetition, with their %.0f %% "+
			"confidence intervals.", 100*comparisons[0].Confidence)},
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
				row = append(row, ratioText(m))
			}
			ratios.Rows = append(ratios.Rows, row)
			add(names[i+1], c.Points[at], func(m Metric) Sample { return m.B })
		}
	}
	return []table.Block{ratios, medians}
}

func ratioText(m Metric) string {
	if m.Ratio == nil {
		return "-"
	}
	return m.Ratio.RatioText()
}

// median returns the median of values of a metric as text.
func median(metric string, values []float64) string {
	if len(values) == 0 {
		return "-"
	}
	return number(metric, sample.Number(sample.Quantile(slices.Sorted(slices.Values(values)), 0.5)))
}
