package experiment

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"mcmw/lab/condition"
	"mcmw/lab/frame"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// Stop is a stop rule: a point needs no more repetitions when one of the conditions holds, or after AtMost repetitions.
type Stop struct {
	// When has conditions on a metric: on half the width of the confidence interval of its mean, relative to the mean,
	// or on its coefficient of variation.
	When            []condition.Condition
	Confidence      float64
	AtLeast, AtMost int // repetitions
}

// stops has the conditions of stop rules.
var stops = condition.Scope{
	Source:    record.SourceClient,
	Functions: map[string]string{"half_width": "metric", "variation": "metric"},
}

// stopWhen reads a condition of a stop rule.
func (d *decoder) stopWhen(n *yaml.Node, key, text string) condition.Condition {
	c := d.condition(n, key, text, stops)
	if c.Term.Function != "" && !(c.High > 0 && c.High < 1) {
		d.problem(n, key, "%q: expected an upper bound of more than 0 and less than 1, such as < 5%%", text)
	}
	return c
}

// Satisfied reports whether the repetitions are enough, of which measured returns the values of a metric.
func (s *Stop) Satisfied(measured func(frame.Metric) []float64) bool {
	return slices.ContainsFunc(s.When, func(c condition.Condition) bool {
		m := sample.Of(measured(c.Term.Metric))
		if int(m.N) < s.AtLeast {
			return false
		}
		if c.Term.Function == "variation" {
			return c.Holds(m.Variation())
		}
		e := m.Estimate(s.Confidence)
		return e.Known() && c.Holds(e.HalfWidth()/math.Abs(m.Mean))
	})
}

// String describes the rule: "3 to 10, until half_width(client.throughput) <= 5%".
func (s *Stop) String() string {
	var conditions []string
	for _, c := range s.When {
		conditions = append(conditions, c.Text)
	}
	return fmt.Sprintf("%d to %d, until %s (confidence %.6g %%)", s.AtLeast, s.AtMost,
		strings.Join(conditions, " or "), s.Confidence*100)
}

// stop reads a stop rule: its condition alone, or with other keys. Earlier files have metric, within and variation
// instead of conditions.
func (d *decoder) stop(n *yaml.Node, key string) *Stop {
	s := &Stop{Confidence: 0.95, AtLeast: 3, AtMost: 10}
	when := func(key string, n *yaml.Node) { s.When = append(s.When, d.stopWhen(n, key, n.Value)) }
	if n.Kind == yaml.ScalarNode {
		when(key, n)
		return s
	}
	for _, earlier := range [][2]string{{"within", "half_width(%s) <= %s"}, {"variation", "variation(%s) < %s"}} {
		if bound := value(n, earlier[0]); bound != "" {
			text := fmt.Sprintf(earlier[1], cmp.Or(value(n, "metric"), "client.throughput"), bound)
			s.When = append(s.When, d.stopWhen(n, key, text))
		}
	}
	d.mapping(n, key, fields{
		"when": func(key string, n *yaml.Node) {
			if n.Kind == yaml.ScalarNode {
				when(key, n)
				return
			}
			for _, one := range d.list(n, key, "conditions, of which one must hold") {
				when(key, one)
			}
		},
		"metric":     func(string, *yaml.Node) {},
		"within":     func(string, *yaml.Node) {},
		"variation":  func(string, *yaml.Node) {},
		"confidence": func(key string, n *yaml.Node) { s.Confidence = d.number(n, key, 0, 1) },
		"at_least":   func(key string, n *yaml.Node) { s.AtLeast = d.whole(n, key, 2, maxRepetitions) },
		"at_most":    func(key string, n *yaml.Node) { s.AtMost = d.whole(n, key, 2, maxRepetitions) },
	})
	switch {
	case n.Kind != yaml.MappingNode:
	case len(s.When) == 0:
		d.problem(n, key, "no condition; expected one such as when: half_width(client.throughput) <= 5%%")
	case s.AtMost < s.AtLeast:
		d.problem(n, key, "at_most %d is less than at_least %d", s.AtMost, s.AtLeast)
	}
	return s
}
