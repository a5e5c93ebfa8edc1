package claim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"mcmw/lab/effects"
	"mcmw/lab/experiment"
	"mcmw/lab/factorial"
	"mcmw/lab/frame"
	"mcmw/lab/sample"
)

// Design is a full factorial design in a record whose variation is allocated to its factors.
type Design struct {
	Selection `yaml:",inline"`
	Metric    string `yaml:"metric"`
	// Factors has names of settings, or their short names in package effects: S, M, W. Where must fix all other varying settings.
	Factors []string `yaml:"factors"`
}

func (d Design) check() error {
	if err := d.Selection.check(); err != nil {
		return err
	}
	if len(d.Factors) < 2 {
		return errors.New("factors: expected at least two")
	}
	for i, name := range d.Factors {
		full := cmp.Or(effects.Aliases[name], name)
		if full != "connections" && experiment.Find(full) == nil {
			return fmt.Errorf("factors: %q is neither a setting of experiments nor a short name of one", name)
		}
		if slices.Contains(d.Factors[:i], name) {
			return fmt.Errorf("factors: %q occurs twice", name)
		}
	}
	return checkMetric(d.Metric)
}

// part returns a share of the variation with its confidence interval. For factors of more than two levels both ends are
// the share.
func part(share float64, interval sample.Interval) sample.Estimate {
	return sample.Estimate{Moments: sample.Moments{Mean: share}, Interval: interval}
}

// Interactions stands for all interactions together.
const Interactions = "interactions"

// parts returns the share of the variation that each factor explains, by name, and that of all interactions together; also a text if the runs
// exhausted the processors, and a text if the design can't be analysed.
func (d Design) parts(e *view) (parts map[string]sample.Estimate, exhausted, why string) {
	runs, why := e.runs(d.Selection)
	if why != "" {
		return nil, "", why
	}
	least := len(runs)
	for _, p := range frame.Of(runs, defaultConfidence).Points {
		least = min(least, len(p.Runs))
	}
	metric, _ := frame.ParseMetric(d.Metric, "")
	of, err := effects.FromRuns(runs, effects.Question{
		Factors: d.Factors, Response: metric.Name, Source: metric.Source, Ignore: []string{"connections", "clients"}, Repetitions: least,
	})
	if err == nil {
		parts, err = partsOf(of)
	}
	if err != nil {
		return nil, "", fmt.Sprintf("%s: %v", d.Selection, err)
	}
	e.shares = map[string]float64{}
	for name, p := range parts {
		if p.Mean != p.Mean { // NaN: nothing varies
			return nil, "", fmt.Sprintf("%s of %s does not vary", d.Metric, d.Selection)
		}
		e.shares[name] = p.Mean
	}
	return parts, e.exhausted(d.Record, runs), ""
}

// partsOf allocates the variation of a design. The share of an effect q is N q^2/SST. Its bounds follow from those of q, with unchanged SST.
func partsOf(of *effects.Experiment) (map[string]sample.Estimate, error) {
	parts := map[string]sample.Estimate{}
	others := sample.Estimate{}
	if !of.TwoLevel() {
		analysis, err := factorial.Anova(of.Design, defaultConfidence, 0)
		if err != nil {
			return nil, err
		}
		for _, s := range analysis.Sources {
			one := part(s.Variation, sample.Interval{Low: s.Variation, High: s.Variation})
			if parts[s.Name] = one; !slices.Contains(of.Design.Factors, s.Name) {
				others.Mean += s.Variation
			}
		}
		others.Interval = sample.Interval{Low: others.Mean, High: others.Mean}
		parts[Interactions] = others
		return parts, nil
	}
	analysis, err := factorial.Analyze(of.Design, factorial.Options{Confidence: defaultConfidence})
	if err != nil {
		return nil, err
	}
	n := float64(analysis.R * len(analysis.Cells))
	for _, t := range analysis.Terms {
		if t.Name == "I" {
			continue
		}
		one := part(t.Variation, sample.Interval{Low: math.Inf(-1), High: math.Inf(1)})
		if analysis.DOF > 0 {
			q, half := math.Abs(t.Q), analysis.HalfWidth
			of := func(q float64) float64 { return min(1, n*q*q/analysis.SST) }
			one.Interval = sample.Interval{Low: of(max(0, q-half)), High: of(q + half)}
		}
		if slices.Contains(of.Design.Factors, t.Name) {
			parts[t.Name] = one
			continue
		}
		others.Mean += one.Mean
		others.Low += one.Low
		others.High += one.High
	}
	parts[Interactions] = others
	return parts, nil
}

// Share requires that a factor's share of the variation is in a range.
type Share struct {
	Design `yaml:",inline"`
	Of     string `yaml:"of"`
	Range  `yaml:",inline"`
}

func (s *Share) check() error {
	var member error
	if s.Of != Interactions {
		member = s.member("of", s.Of)
	}
	return first("share", s.Design.check(), member, s.Range.check())
}

// member returns an error if a name is not one of the factors.
func (d Design) member(key, name string) error {
	if !slices.Contains(d.Factors, name) {
		return fmt.Errorf("%s %q: expected one of the factors %s", key, name, strings.Join(d.Factors, ", "))
	}
	return nil
}

func percent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

func (s *Share) decide(e *view) (Verdict, string) {
	parts, exhausted, why := s.parts(e)
	if why != "" {
		return NotComparable, why
	}
	text := fmt.Sprintf("of the variation of %s, %s; expected of %s %s", s.Metric, s.list(parts), s.Of, s.words(percent))
	return judge(s.covers(parts[s.Of].Interval), text, exhausted)
}

// list describes the shares of the factors.
func (d Design) list(parts map[string]sample.Estimate) string {
	texts := make([]string, len(d.Factors))
	for i, name := range d.Factors {
		texts[i] = name + " explains " + percent(parts[name].Mean)
	}
	return strings.Join(append(texts, "interactions "+percent(parts[Interactions].Mean)), ", ")
}

// Order requires that one factor explains more of the variation than each of some others.
type Order struct {
	Design  `yaml:",inline"`
	Greater string   `yaml:"greater"`
	Than    []string `yaml:"than"`
}

func (o *Order) check() error {
	errs := []error{o.Design.check(), o.member("greater", o.Greater)}
	if len(o.Than) == 0 {
		errs = append(errs, errors.New("than: expected at least one factor"))
	}
	for _, name := range o.Than {
		errs = append(errs, o.member("than", name))
		if name == o.Greater {
			errs = append(errs, fmt.Errorf("than: %q is compared with itself", name))
		}
	}
	return first("order", errs...)
}

func (o *Order) decide(e *view) (Verdict, string) {
	parts, exhausted, why := o.parts(e)
	if why != "" {
		return NotComparable, why
	}
	verdict := Confirmed
	greater := parts[o.Greater]
	for _, name := range o.Than {
		one := Undecided
		if than := parts[name]; !than.Overlaps(greater.Interval) {
			one = decided(greater.Mean > than.Mean)
		}
		verdict = weightier(verdict, one)
	}
	text := fmt.Sprintf("of the variation of %s, %s; expected more of %s than of %s", o.Metric, o.list(parts), o.Greater, strings.Join(o.Than, ", "))
	return judge(verdict, text, exhausted)
}
