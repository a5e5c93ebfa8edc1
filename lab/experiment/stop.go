package experiment

import (
	"fmt"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"

	"mcmw/lab/frame"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// Stop is a stop rule: a point needs no more repetitions when one of the conditions holds, or after AtMost repetitions.
type Stop struct {
	Source, Metric string // metric to which the conditions apply
	// Within is the largest half width of the confidence interval of the mean, relative to the mean; 0: no such condition.
	Within     float64
	Confidence float64
	// Variation is a limit of the coefficient of variation; 0: no such condition.
	Variation       float64
	AtLeast, AtMost int // repetitions
}

// Satisfied reports whether the repetitions with these values are enough.
func (s *Stop) Satisfied(values []float64) bool {
	if len(values) < s.AtLeast {
		return false
	}
	m := sample.Of(values)
	if s.Within > 0 {
		if e := m.Estimate(s.Confidence); e.Known() && e.HalfWidth() <= s.Within*math.Abs(m.Mean) {
			return true
		}
	}
	return s.Variation > 0 && m.Variation() < s.Variation
}

// String describes the rule: "3 to 10, until for client throughput the 95 % confidence interval of the mean is within 5 %".
func (s *Stop) String() string {
	var conditions []string
	if s.Within > 0 {
		conditions = append(conditions, fmt.Sprintf("the %.6g %% confidence interval of the mean is within %.6g %%", s.Confidence*100, s.Within*100))
	}
	if s.Variation > 0 {
		conditions = append(conditions, fmt.Sprintf("the coefficient of variation is below %.6g %%", s.Variation*100))
	}
	return fmt.Sprintf("%d to %d, until for %s %s %s", s.AtLeast, s.AtMost, s.Source, s.Metric, strings.Join(conditions, " or "))
}

// metric reads SOURCE.METRIC.
func (d *decoder) metric(n *yaml.Node, key, such string) (source, metric string) {
	text := d.scalar(n, key, "a source and a metric such as "+such, func(text string) bool {
		_, err := frame.ParseMetric(text, "")
		return err == nil
	})
	m, _ := frame.ParseMetric(text, "")
	return m.Source, m.Name
}

func (d *decoder) stop(n *yaml.Node, key string) *Stop {
	s := &Stop{Source: record.SourceClient, Metric: "throughput", Confidence: 0.95, AtLeast: 3, AtMost: 10}
	seen := d.mapping(n, key, fields{
		"metric": func(key string, n *yaml.Node) {
			s.Source, s.Metric = d.metric(n, key, "client.throughput or middleware.response_time_mean")
		},
		"within":     func(key string, n *yaml.Node) { s.Within = d.number(n, key, 0, 1) },
		"confidence": func(key string, n *yaml.Node) { s.Confidence = d.number(n, key, 0, 1) },
		"variation":  func(key string, n *yaml.Node) { s.Variation = d.number(n, key, 0, 1) },
		"at_least":   func(key string, n *yaml.Node) { s.AtLeast = d.whole(n, key, 2, maxRepetitions) },
		"at_most":    func(key string, n *yaml.Node) { s.AtMost = d.whole(n, key, 2, maxRepetitions) },
	})
	switch {
	case n.Kind != yaml.MappingNode:
	case !seen["within"] && !seen["variation"]:
		d.problem(n, key, "no condition; expected within, variation or both, such as within: 0.05")
	case s.AtMost < s.AtLeast:
		d.problem(n, key, "at_most %d is less than at_least %d", s.AtMost, s.AtLeast)
	case seen["confidence"] && !seen["within"]:
		d.problem(n, key, "confidence has no effect without within")
	}
	return s
}
