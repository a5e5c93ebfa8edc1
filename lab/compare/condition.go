package compare

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mcmw/lab/frame"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// Condition is a condition on one metric of every point, such as "throughput < -5%" or "errors > 0".
type Condition struct {
	Text      string
	Metric    string
	Above     bool    // > or >=; else < or <=
	OrEqual   bool    // <= or >=
	Threshold float64 // a ratio if Relative, else in the metric's unit
	Relative  bool    // on the change from A to B, else on B's mean
}

var conditionForm = regexp.MustCompile(`^\s*((?:[a-z][^\s<>=]*\.)?[a-z][a-z0-9_]*)\s*(<=|>=|<|>)\s*([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*(%|s|ms|us)?\s*$`)

// ParseCondition reads METRIC OPERATOR NUMBER. A number with a percent sign is a change. Other numbers are values of B in the metric's
// unit; times can have the unit s, ms or us.
func ParseCondition(text string) (Condition, error) {
	parts := conditionForm.FindStringSubmatch(text)
	if parts == nil {
		return Condition{}, fmt.Errorf("%q: expected METRIC, <, <=, > or >=, and a number: with %% a change, such as 'throughput < -5%%', "+
			"without it a value of the second record, such as 'errors > 0' or 'response_time_p99 > 2ms'", text)
	}
	of, _ := frame.ParseMetric(parts[1], "")
	metric, known := record.Describe(of.Name)
	if !known {
		return Condition{}, fmt.Errorf("%q: unknown metric %q", text, parts[1])
	}
	number, err := strconv.ParseFloat(parts[3], 64)
	if err != nil {
		return Condition{}, fmt.Errorf("%q: number %q: expected one such as -5 or 0.01", text, parts[3])
	}
	c := Condition{Text: strings.TrimSpace(text), Metric: parts[1], Above: parts[2][0] == '>', OrEqual: strings.HasSuffix(parts[2], "="), Threshold: number}
	switch unit := parts[4]; {
	case unit == "%":
		c.Relative = true
		c.Threshold /= 100
	case unit != "" && metric.Unit != record.Seconds:
		return Condition{}, fmt.Errorf("%q: %s is not a time, its unit is %s", text, metric.Name, metric.Unit)
	case unit == "ms":
		c.Threshold /= 1e3
	case unit == "us":
		c.Threshold /= 1e6
	}
	return c, nil
}

func (c Condition) holds(x float64) bool {
	switch {
	case c.OrEqual && x == c.Threshold:
		return true
	case c.Above:
		return x > c.Threshold
	}
	return x < c.Threshold
}

// Verdict is the result of a condition.
type Verdict struct {
	// Met has the points at which the condition is met, Open those at which it is undecided, both with the numbers.
	Met, Open []string
}

// Judge returns a verdict for each condition.
//
// A change meets its condition if its estimate does and the change is significant: Welch's probability, adjusted by Holm for all changes that
// the conditions test, is below 1 - confidence. So the probability that equal records meet any condition is at most 1 - confidence, for any
// number of points and metrics. The condition is undecided if there are too few repetitions for a probability, or if a record doesn't
// have the metric or the point. A value of B meets its condition if the mean does. comparisons is the number of comparisons that are judged
// together; the probability 1 - confidence is divided among them.
func (c *Comparison) Judge(conditions []Condition, comparisons int) []Verdict {
	chance := c.chances(conditions)
	verdicts := make([]Verdict, len(conditions))
	for i, condition := range conditions {
		verdicts[i] = c.judge(condition, chance, (1-c.Confidence)/float64(comparisons))
	}
	return verdicts
}

// tested identifies a change that is tested.
type tested struct {
	point  int // index
	metric string
}

func (p Point) metric(name string) (Metric, bool) {
	i := slices.IndexFunc(p.Metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		return Metric{}, false
	}
	return p.Metrics[i], true
}

// chances returns the adjusted probabilities of the changes that conditions test. Two conditions on the same change count as one.
func (c *Comparison) chances(conditions []Condition) map[tested]float64 {
	chance := map[tested]float64{}
	var order []tested
	var p []float64
	for i, point := range c.Points {
		for _, condition := range conditions {
			key := tested{i, condition.Metric}
			m, ok := point.metric(condition.Metric)
			if _, twice := chance[key]; twice || !ok || !condition.Relative {
				continue
			}
			chance[key] = math.NaN()
			order, p = append(order, key), append(p, float64(m.WelchP))
		}
	}
	for i, adjusted := range sample.Holm(p) {
		chance[order[i]] = adjusted
	}
	return chance
}

// judge judges one condition. Changes are significant if their probability in chance is below limit.
func (c *Comparison) judge(condition Condition, chance map[tested]float64, limit float64) Verdict {
	var v Verdict
	for i, p := range c.Points {
		m, ok := p.metric(condition.Metric)
		if !ok {
			v.Open = append(v.Open, fmt.Sprintf("%s: neither record has %s of %s", name(p.Label), condition.Metric, c.Source))
			continue
		}
		x := float64(m.B.mean())
		text := "mean " + number(m.Name, m.B.mean())
		if condition.Relative {
			x = float64(m.Change)
			text = "change " + change(m)
		}
		text = name(p.Label) + ": " + text
		probability := chance[tested{i, condition.Metric}]
		switch {
		case math.IsNaN(x):
			v.Open = append(v.Open, text)
		case !condition.holds(x):
		case !condition.Relative || probability < limit:
			v.Met = append(v.Met, text)
		case math.IsNaN(probability):
			v.Open = append(v.Open, text+": too few repetitions for a test of significance")
		}
	}
	for _, label := range slices.Concat(c.OnlyA, c.OnlyB) {
		v.Open = append(v.Open, name(label)+": only one of the records has this point")
	}
	return v
}
