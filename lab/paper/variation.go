package paper

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"mcmw/lab/condition"
	"mcmw/lab/effects"
	"mcmw/lab/experiment"
	"mcmw/lab/factorial"
	"mcmw/lab/frame"
	"mcmw/lab/record"
	"mcmw/lab/sample"
)

// Interactions stands for all interactions together.
const Interactions = "interactions"

// design is a full factorial design, the factors of which are those that vary.
type design struct {
	metric  frame.Metric
	factors []string
	parts   map[string]sample.Estimate // shares of the variation, of Interactions, too
	runs    []record.Run
}

// design allocates the variation of a condition's metric in its runs; why not, if it can't.
func (e *view) design(c condition.Condition) (d design, why string) {
	if d.runs, why = e.runs(c.Term.Runs[0]); why != "" {
		return d, why
	}
	d.metric = c.Term.Metric
	for _, name := range record.Varying(d.runs) {
		if name != experiment.Clients {
			d.factors = append(d.factors, name)
		}
	}
	least := len(d.runs)
	for _, p := range frame.Of(d.runs, confidence).Points {
		least = min(least, len(p.Runs))
	}
	of, err := effects.FromRuns(d.runs, effects.Question{
		Factors: d.factors, Response: d.metric.Name, Source: d.metric.Source, Repetitions: least,
		Ignore: []string{experiment.Clients},
	})
	if err == nil {
		d.parts, err = partsOf(of)
	}
	if err != nil {
		return d, fmt.Sprintf("%s: %v", nameOf(c.Term.Runs[0]), err)
	}
	if name := c.Term.Words[0]; name != Interactions && !slices.Contains(d.factors, name) {
		return d, fmt.Sprintf("%s is not one of the factors of %s: %s", name, nameOf(c.Term.Runs[0]),
			strings.Join(d.factors, ", "))
	}
	e.shares = map[string]float64{}
	for _, name := range append(slices.Clone(d.factors), Interactions) {
		if e.shares[name] = d.parts[name].Mean; math.IsNaN(e.shares[name]) {
			return d, fmt.Sprintf("%s.%s of %s does not vary", d.metric.Source, d.metric.Name, nameOf(c.Term.Runs[0]))
		}
	}
	return d, ""
}

// part returns a share of the variation with its confidence interval.
func part(share, low, high float64) sample.Estimate {
	return sample.Estimate{Moments: sample.Moments{Mean: share}, Interval: sample.Interval{Low: low, High: high}}
}

// partsOf allocates the variation of a design. The share of an effect q is N q^2/SST. Its bounds follow from those of
// q, with unchanged SST. For factors of more than two levels both bounds are the share.
func partsOf(of *effects.Experiment) (map[string]sample.Estimate, error) {
	parts := map[string]sample.Estimate{}
	others := sample.Estimate{}
	give := func(name string, one sample.Estimate) {
		if parts[name] = one; slices.Contains(of.Design.Factors, name) {
			return
		}
		others.Mean += one.Mean
		others.Low += one.Low
		others.High += one.High
	}
	if of.TwoLevel() {
		analysis, err := factorial.Analyze(of.Design, factorial.Options{Confidence: confidence})
		if err != nil {
			return nil, err
		}
		n := float64(analysis.R * len(analysis.Cells))
		for _, t := range analysis.Terms {
			switch half := analysis.HalfWidth; {
			case t.Name == "I":
			case analysis.DOF > 0:
				share := func(q float64) float64 { return min(1, n*q*q/analysis.SST) }
				give(t.Name, part(t.Variation, share(max(0, math.Abs(t.Q)-half)), share(math.Abs(t.Q)+half)))
			default:
				give(t.Name, part(t.Variation, math.Inf(-1), math.Inf(1)))
			}
		}
	} else {
		analysis, err := factorial.Anova(of.Design, confidence, 0)
		if err != nil {
			return nil, err
		}
		for _, s := range analysis.Sources {
			give(s.Name, part(s.Variation, s.Variation, s.Variation))
		}
	}
	parts[Interactions] = others
	return parts, nil
}

func percent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

// list describes the shares of the factors.
func (d design) list() string {
	texts := make([]string, len(d.factors))
	for i, name := range d.factors {
		texts[i] = name + " explains " + percent(d.parts[name].Mean)
	}
	return fmt.Sprintf("of the variation of %s.%s, %s", d.metric.Source, d.metric.Name,
		strings.Join(append(texts, "interactions "+percent(d.parts[Interactions].Mean)), ", "))
}

// share judges a factor's share of the variation.
func (e *view) share(c condition.Condition) (Verdict, string) {
	d, why := e.design(c)
	if why != "" {
		return NotComparable, why
	}
	of := c.Term.Words[0]
	text := fmt.Sprintf("%s; expected of %s %s", d.list(), of, c.Expected(percent))
	return judged(c.Judge(d.parts[of].Interval), text, e.exhausted(c.Term.Runs[0], d.runs))
}

// lead judges how much more of the variation one factor explains than the next.
func (e *view) lead(c condition.Condition) (Verdict, string) {
	d, why := e.design(c)
	if why != "" {
		return NotComparable, why
	}
	of := c.Term.Words[0]
	others := slices.DeleteFunc(slices.Clone(d.factors), func(name string) bool { return name == of })
	if len(others) == 0 {
		return NotComparable, nameOf(c.Term.Runs[0]) + " has no other factor"
	}
	verdict := condition.Holds
	for _, name := range others {
		a, b := d.parts[of].Interval, d.parts[name].Interval
		verdict = condition.All(verdict, c.Judge(sample.Interval{Low: a.Low - b.High, High: a.High - b.Low}))
	}
	text := fmt.Sprintf("%s; expected more of %s than of %s", d.list(), of, strings.Join(others, ", "))
	return judged(verdict, text, e.exhausted(c.Term.Runs[0], d.runs))
}

// Variation returns the bounds of the conditions on shares of the variation, and the names of the shares to draw: the
// factors', then Interactions.
func (f Finding) Variation() (bounds []float64, names []string) {
	for _, c := range f.Holds {
		for _, bound := range []float64{c.Low, c.High} {
			if c.Term.Function == "share" && !math.IsInf(bound, 0) {
				bounds = append(bounds, bound)
			}
		}
	}
	for _, at := range f.Over {
		names = slices.DeleteFunc(slices.Sorted(maps.Keys(at.Shares)),
			func(name string) bool { return name == Interactions })
	}
	return bounds, append(names, Interactions)
}
