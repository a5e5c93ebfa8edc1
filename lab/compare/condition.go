package compare

import (
	"fmt"
	"math"
	"slices"

	"mcmw/lab/condition"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// Conditions are those on B's mean of a metric, on the change of the mean from A to B, and on its ratio, 1 + the
// change.
var Conditions = condition.Scope{
	Source: record.SourceClient, Functions: map[string]string{"": "", "change": "metric", "ratio": "metric"},
}

// NameOf returns the name of a condition's metric in a comparison.
func NameOf(c condition.Condition) string {
	if m := c.Term.Metric; m.Source != record.SourceClient {
		return m.Source + "." + m.Name
	}
	return c.Term.Metric.Name
}

// Verdict is the result of a condition.
type Verdict struct {
	// Met has the points at which the condition is met, Open those at which it is undecided, both with the numbers.
	Met, Open []string
}

// Judge returns a verdict for each condition.
//
// A change, or a ratio, meets its condition if its estimate does and the change is significant: Welch's probability,
// adjusted by Holm for all changes that the conditions test, is below 1 - confidence. So the probability that equal
// records meet any condition is at most 1 - confidence, for any number of points and metrics. The condition is
// undecided if there are too few repetitions for a probability, or if a record doesn't have the metric or the point. A
// value of B meets its condition if the mean does. comparisons is the number of comparisons that are judged together;
// the probability 1 - confidence is divided among them.
func (c *Comparison) Judge(conditions []condition.Condition, comparisons int) []Verdict {
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

// chances returns the adjusted probabilities of the changes that conditions test. Two conditions on the same change
// count as one.
func (c *Comparison) chances(conditions []condition.Condition) map[tested]float64 {
	chance := map[tested]float64{}
	var order []tested
	var p []float64
	for i, point := range c.Points {
		for _, condition := range conditions {
			key := tested{i, NameOf(condition)}
			m, ok := point.metric(key.metric)
			if _, twice := chance[key]; twice || !ok || condition.Term.Function == "" {
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
func (c *Comparison) judge(condition condition.Condition, chance map[tested]float64, limit float64) Verdict {
	var v Verdict
	for i, p := range c.Points {
		key := tested{i, NameOf(condition)}
		m, ok := p.metric(key.metric)
		if !ok {
			v.Open = append(v.Open, fmt.Sprintf("%s: neither record has %s of %s", name(p.Label),
				condition.Term.Metric.Name, condition.Term.Metric.Source))
			continue
		}
		x, text := float64(m.Change), "change "+change(m)
		relative := true
		switch condition.Term.Function {
		case "":
			x, text, relative = float64(m.B.mean()), "mean "+number(m.Name, m.B.mean()), false
		case "ratio":
			x++
		}
		text = name(p.Label) + ": " + text
		switch probability := chance[key]; {
		case math.IsNaN(x):
			v.Open = append(v.Open, text)
		case !condition.Holds(x):
		case !relative || probability < limit:
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
