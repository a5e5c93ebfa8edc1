package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"mcmw/lab/capacity"
	"mcmw/lab/condition"
	"mcmw/lab/frame"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// Quality defines a quality of service, and the level above which nothing is measured.
type Quality struct {
	capacity.Rule
	// GiveUp is the number of consecutive levels that break the rule after which higher levels are not measured; 0: all
	// are measured.
	GiveUp int
}

// Of returns the experiment of a record; false if it has none, or one that this version does not read.
func Of(m record.Manifest) (*Experiment, bool) {
	e, err := Parse(m.Name, []byte(m.Experiment), slices.Contains(m.Command, "--quick"), m.Set...)
	return e, err == nil
}

// quality reads a quality of service: its condition alone, or with other keys. Earlier files have metric and below
// instead of a condition.
func (d *decoder) quality(n *yaml.Node, key string) *Quality {
	q := &Quality{Rule: capacity.DefaultRule()}
	read := func(key string, n *yaml.Node) { q.Condition = d.condition(n, key, n.Value, condition.OfClients) }
	if n.Kind == yaml.ScalarNode {
		read(key, n)
		return q
	}
	if metric, below := value(n, "metric"), value(n, "below"); metric+below != "" {
		text := cmp.Or(metric, "client.response_time_p99") + " < " + cmp.Or(below, "1ms")
		q.Condition = d.condition(n, key, text, condition.OfClients)
	}
	d.mapping(n, key, fields{
		"condition": read,
		"metric":    func(string, *yaml.Node) {},
		"below":     func(string, *yaml.Node) {},
		"over": func(key string, n *yaml.Node) {
			q.Over = d.scalar(n, key, "a setting that varies", func(s string) bool { return Find(s) != nil })
		},
		"confidence": func(key string, n *yaml.Node) { q.Confidence = d.number(n, key, 0.5, 1) },
		"give_up":    func(key string, n *yaml.Node) { q.GiveUp = d.whole(n, key, 0, maxPoints) },
	})
	return q
}

// value returns the text of a key of a mapping; "" if there is none.
func value(n *yaml.Node, key string) string {
	if n.Kind == yaml.MappingNode {
		if v := child(n, key); v != nil {
			return v.Value
		}
	}
	return ""
}

// condition reads a condition.
func (d *decoder) condition(n *yaml.Node, key, text string, scope condition.Scope) condition.Condition {
	c, err := condition.Parse(text, scope)
	if err != nil {
		d.problem(n, key, "%s", err)
	}
	return c
}

// checkQuality refuses a rule over a factor that doesn't vary. A rule without a factor and without give_up is only a
// limit.
func (d *decoder) checkQuality(e *Experiment, n *yaml.Node) {
	if len(e.Points) == 0 || slices.Contains(e.Points[0].Varied, e.Quality.Over) || n.Kind == yaml.ScalarNode ||
		child(n, "over") == nil && e.Quality.GiveUp == 0 {
		return
	}
	d.problem(n, "quality", "%s doesn't vary; expected over: one of the factors", e.Quality.Over)
}

// beyond reports whether a point is given up: the next lower measured levels of its line, GiveUp of them, break the
// rule. A level breaks it if all its repetitions so far do.
func (s *Schedule) beyond(p *Point) bool {
	q := s.e.Quality
	if q == nil || q.GiveUp == 0 {
		return false
	}
	if s.lines == nil {
		s.lines = s.e.lines()
	}
	_, most := s.e.limits()
	line := s.lines[lineOf(p.Values, q.Over)]
	at := slices.Index(line, p)
	broken := 0
	for _, below := range slices.Backward(line[:at]) {
		of := q.Condition.Term.Metric
		values := s.measured(of.Source, of.Name, below.Number, most)
		if len(values) == 0 {
			continue // not measured
		}
		if slices.ContainsFunc(values, q.Condition.Holds) {
			return false
		}
		if broken++; broken == q.GiveUp {
			return true
		}
	}
	return false
}

// lines returns the lines of points that differ only in the factor of the quality of service, each in ascending order.
func (e *Experiment) lines() map[string][]*Point {
	lines := map[string][]*Point{}
	for i := range e.Points {
		key := lineOf(e.Points[i].Values, e.Quality.Over)
		lines[key] = append(lines[key], &e.Points[i])
	}
	for _, line := range lines {
		slices.SortStableFunc(line, func(a, b *Point) int {
			return record.CompareLevels(a.Values[e.Quality.Over], b.Values[e.Quality.Over])
		})
	}
	return lines
}

// lineOf returns the key of a point's line: the values of all other settings.
func lineOf(v Values, over string) string {
	others := maps.Clone(v)
	delete(others, over)
	return fmt.Sprintf("%q", others)
}

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
