package claim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mcmw/internal/lab/effects"
	"mcmw/internal/lab/experiment"
	"mcmw/internal/lab/factorial"
	"mcmw/internal/lab/record"
)

// Design is a full factorial design in a record, whose allocation of variation is asked for.
type Design struct {
	Selection `yaml:",inline"`
	Metric    string `yaml:"metric"`
	// Factors are settings, or their short names of package effects: S, M, W. What else varies must be held by Where.
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
		full := name
		if effects.Aliases[name] != "" {
			full = effects.Aliases[name]
		}
		if full != "connections" && experiment.Find(full) == nil {
			return fmt.Errorf("factors: %q is no setting of experiments, nor a short name of one", name)
		}
		if slices.Contains(d.Factors[:i], name) {
			return fmt.Errorf("factors: %q is given twice", name)
		}
	}
	return checkMetric(d.Metric)
}

// shares returns the part of the variation that each factor and interaction explains, by its name, and what uses up the processors.
func (d Design) shares(e *view) (shares map[string]float64, exhausted, why string) {
	runs, why := e.runs(d.Selection)
	if why != "" {
		return nil, "", why
	}
	least := len(runs)
	for _, p := range record.Points(runs) {
		least = min(least, len(p.Runs))
	}
	source, metric, _ := strings.Cut(d.Metric, ".")
	of, err := effects.FromRuns(runs, effects.Question{
		Factors: d.Factors, Response: metric, Source: source, Ignore: []string{"connections", "clients"}, Repetitions: least,
	})
	if err != nil {
		return nil, "", fmt.Sprintf("%s: %v", d.Selection, err)
	}
	analysis, err := factorial.Anova(of.Design, defaultConfidence, 0)
	if err != nil {
		return nil, "", fmt.Sprintf("%s: %v", d.Selection, err)
	}
	shares = map[string]float64{}
	for _, s := range analysis.Sources {
		if s.Variation != s.Variation { // NaN: nothing varies
			return nil, "", fmt.Sprintf("%s of %s does not vary", d.Metric, d.Selection)
		}
		shares[s.Name] = s.Variation
	}
	return shares, e.exhausted(d.Record, runs), ""
}

// Share: a factor's part of the variation is in a range.
type Share struct {
	Design `yaml:",inline"`
	Of     string `yaml:"of"`
	Range  `yaml:",inline"`
}

func (s *Share) records() []string { return []string{s.Record} }

func (s *Share) check() error {
	return first("share", s.Design.check(), s.member("of", s.Of), s.Range.check())
}

// member wants one of the factors.
func (d Design) member(key, name string) error {
	if !slices.Contains(d.Factors, name) {
		return fmt.Errorf("%s %q: expected one of the factors %s", key, name, strings.Join(d.Factors, ", "))
	}
	return nil
}

func percent(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) }

func (s *Share) decide(_ context.Context, e *view) (Verdict, string) {
	shares, exhausted, why := s.shares(e)
	if why != "" {
		return NotComparable, why
	}
	text := fmt.Sprintf("of the variation of %s, %s; expected of %s %s", s.Metric, s.list(shares), s.Of, s.words(percent))
	return judge(s.holds(shares[s.Of], shares[s.Of]), text, exhausted)
}

// list writes the shares of the factors.
func (d Design) list(shares map[string]float64) string {
	parts := make([]string, len(d.Factors))
	for i, name := range d.Factors {
		parts[i] = name + " explains " + percent(shares[name])
	}
	return strings.Join(parts, ", ")
}

// Order: one factor explains more of the variation than each of others.
type Order struct {
	Design  `yaml:",inline"`
	Greater string   `yaml:"greater"`
	Than    []string `yaml:"than"`
}

func (o *Order) records() []string { return []string{o.Record} }

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

func (o *Order) decide(_ context.Context, e *view) (Verdict, string) {
	shares, exhausted, why := o.shares(e)
	if why != "" {
		return NotComparable, why
	}
	holds := !slices.ContainsFunc(o.Than, func(name string) bool { return shares[name] >= shares[o.Greater] })
	text := fmt.Sprintf("of the variation of %s, %s; expected more of %s than of %s", o.Metric, o.list(shares), o.Greater, strings.Join(o.Than, ", "))
	return judge(holds, text, exhausted)
}
