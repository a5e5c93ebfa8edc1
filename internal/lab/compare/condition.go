package compare

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mcmw/internal/lab/record"
	"mcmw/internal/lab/sample"
)

// Condition is a statement about one metric of every point, such as "throughput < -5%" or "errors > 0".
type Condition struct {
	Text      string
	Metric    string
	Above     bool    // > or >=; else < or <=
	OrEqual   bool    // <= or >=
	Threshold float64 // a ratio if Relative, else in the metric's unit
	Relative  bool    // about the change from A to B, else about B alone
}

var conditionForm = regexp.MustCompile(`^\s*((?:[a-z][^\s<>=]*\.)?[a-z][a-z0-9_]*)\s*(<=|>=|<|>)\s*([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*(%|s|ms|us)?\s*$`)

// ParseCondition reads METRIC OPERATOR NUMBER, where the number is a change with a percent sign, or else a value of B in
// the metric's unit; times may have s, ms or us.
func ParseCondition(text string) (Condition, error) {
	parts := conditionForm.FindStringSubmatch(text)
	if parts == nil {
		return Condition{}, fmt.Errorf("%q: expected METRIC, <, <=, > or >=, and a number: with %% a change, such as 'throughput < -5%%', "+
			"without it a value of the second record, such as 'errors > 0' or 'response_time_p99 > 2ms'", text)
	}
	_, name := split(parts[1], "")
	metric, known := record.Describe(name)
	if !known {
		return Condition{}, fmt.Errorf("%q: metric %q is not known", text, parts[1])
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
		return Condition{}, fmt.Errorf("%q: %s is in %s, not a time", text, metric.Name, metric.Unit)
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

// Verdict is the outcome of a condition.
type Verdict struct {
	// Met says at which points the condition is met, Open at which that can't be told, both with the numbers.
	Met, Open []string
}

// Judge finds out where conditions are met, a verdict for each.
//
// A change meets its condition if the estimate does and the change is told from chance: Welch's probability, adjusted by Holm for all the
// changes that the conditions ask of, is below 1 - confidence. So equal records fail some condition with that probability at most, however
// many points and metrics there are. Where repetitions are too few for a probability it is open whether it is met, as it is
// where a record doesn't have the metric or the point. A value of B meets its condition if the mean does. Of several comparisons that are judged
// together each has its part of what the confidence leaves over.
func (c *Comparison) Judge(conditions []Condition, together int) []Verdict {
	chance := c.family(conditions)
	verdicts := make([]Verdict, len(conditions))
	for i, condition := range conditions {
		verdicts[i] = c.judge(condition, chance, (1-c.Confidence)/float64(together))
	}
	return verdicts
}

type asked struct {
	point  int
	metric string
}

func (p Point) metric(name string) (Metric, bool) {
	i := slices.IndexFunc(p.Metrics, func(m Metric) bool { return m.Name == name })
	if i < 0 {
		return Metric{}, false
	}
	return p.Metrics[i], true
}

// family returns the adjusted probabilities of the changes that conditions ask of. Two conditions about the same change are one.
func (c *Comparison) family(conditions []Condition) map[asked]float64 {
	chance := map[asked]float64{}
	var order []asked
	var p []float64
	for i, point := range c.Points {
		for _, condition := range conditions {
			key := asked{i, condition.Metric}
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

func (c *Comparison) judge(condition Condition, chance map[asked]float64, most float64) Verdict {
	var v Verdict
	for i, p := range c.Points {
		m, ok := p.metric(condition.Metric)
		if !ok {
			v.Open = append(v.Open, fmt.Sprintf("%s: neither record has %s of %s", name(p.Label), condition.Metric, c.Source))
			continue
		}
		x := float64(m.B.Mean)
		text := "mean " + number(m.Name, m.B.Mean)
		if condition.Relative {
			x = float64(m.Change)
			text = "change " + change(m)
		}
		text = name(p.Label) + ": " + text
		probability := chance[asked{i, condition.Metric}]
		switch {
		case math.IsNaN(x):
			v.Open = append(v.Open, text)
		case !condition.holds(x):
		case !condition.Relative || probability < most:
			v.Met = append(v.Met, text)
		case math.IsNaN(probability):
			v.Open = append(v.Open, text+": too few repetitions to tell it from chance")
		}
	}
	for _, label := range slices.Concat(c.OnlyA, c.OnlyB) {
		v.Open = append(v.Open, name(label)+": only one of the records has this point")
	}
	return v
}
