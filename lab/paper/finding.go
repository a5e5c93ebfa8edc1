package paper

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"mcmw/lab/condition"
)

// Verdict is the result of deciding a finding.
type Verdict string

// The verdicts.
const (
	Confirmed Verdict = "confirmed"
	Refuted   Verdict = "refuted"
	// ByConstruction: the finding follows from the testbed's configuration; no other result was possible.
	ByConstruction Verdict = "by construction"
	// OtherCause: the finding holds, but not for the reason given by the report.
	OtherCause Verdict = "other cause"
	// DependsOnDelay: the finding holds only with some of the measured delays.
	DependsOnDelay Verdict = "depends on the delay"
	// NotComparable: the records can't decide the finding; the text has the reason.
	NotComparable Verdict = "not comparable"
	// Undecided: the intervals are too wide, or levels are missing.
	Undecided Verdict = "undecided"
)

// Verdicts lists all verdicts, in the order in which they are shown.
var Verdicts = []Verdict{Confirmed, Refuted, ByConstruction, OtherCause, DependsOnDelay, NotComparable, Undecided}

// verdicts are those of judged conditions.
var verdicts = map[condition.Verdict]Verdict{
	condition.Holds: Confirmed, condition.Broken: Refuted, condition.Unknown: Undecided,
}

// Claim is a key finding of a report, and the conditions that decide it.
type Claim struct {
	Section string `yaml:"section"` // of the report
	Text    string `yaml:"text"`
	// Holds has the conditions, all of which must hold. Except for the interactive law they depend on the report's
	// machines, so that records of the testbed local don't decide them.
	Holds Conditions `yaml:"holds"`
	// Delay: the finding depends on the time for which workers wait for the network. Only records with the report's
	// delay decide it. In addition it is decided separately with each other delay of the records.
	Delay bool `yaml:"delay"`
	// Construction names the testbed's settings from which the finding follows; empty: it doesn't follow from them.
	Construction string `yaml:"construction"`
	// Cause is the reason given by the report; none: it isn't checked.
	Cause Conditions `yaml:"cause"`
}

// Conditions are one condition or a list of them.
type Conditions []condition.Condition

// UnmarshalYAML reads a condition, or a list of them.
func (cs *Conditions) UnmarshalYAML(n *yaml.Node) error {
	texts := []string{n.Value}
	if n.Kind == yaml.SequenceNode {
		if err := n.Decode(&texts); err != nil {
			return err
		}
	}
	for _, text := range texts {
		c, err := condition.Parse(text, scope)
		if err == nil && c.Term.Function != law && len(c.Term.Runs) == 0 {
			err = fmt.Errorf("%q: expected the runs of an experiment in brackets after the metric", text)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
		}
		*cs = append(*cs, c)
	}
	return nil
}

// Finding is the verdict on a claim.
type Finding struct {
	Claim
	Verdict Verdict
	// Why has the numbers for the verdict, or the reason that there are none.
	Why string
	// Over has a verdict for each delay for which all needed records exist, by ascending delay; only for claims with
	// Delay.
	Over []At
}

// At is the verdict on a claim with one delay.
type At struct {
	Delay   float64 // seconds, one way
	Verdict Verdict
	Why     string
	// Shares of the variation by factor, and of all interactions together ("interactions"), for conditions on these;
	// else nil.
	Shares map[string]float64
}

// Needs returns the names of the experiments whose records the claim needs; none: all experiments of its report that
// have records.
func (c Claim) Needs() (names []string) {
	for _, one := range slices.Concat(c.Holds, c.Cause) {
		for _, runs := range one.Term.Runs {
			names = append(names, runs.Record)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Decide decides the report's findings from records.
func (r *Report) Decide(e *Evidence) (findings []Finding) {
	for _, c := range r.Claims {
		findings = append(findings, r.decide(c, e))
	}
	return findings
}

func (r *Report) decide(c Claim, e *Evidence) Finding {
	f := Finding{Claim: c}
	at := func(delay float64) At {
		v := &view{Evidence: e, report: r.Name, claim: c, delay: delay}
		verdict, why := c.decide(v)
		return At{Delay: delay, Verdict: verdict, Why: why, Shares: v.shares}
	}
	own := at(r.travel)
	f.Verdict, f.Why = own.Verdict, own.Why
	if !c.Delay || r.travel == 0 {
		return f
	}
	var holds, fails []string
	for _, delay := range e.delays(c.Needs()) {
		one := at(delay)
		f.Over = append(f.Over, one)
		switch {
		case one.Verdict == Confirmed || one.Verdict == ByConstruction || one.Verdict == OtherCause:
			holds = append(holds, milliseconds(delay))
		case one.Verdict == Refuted:
			fails = append(fails, milliseconds(delay))
		}
	}
	if holds != nil && fails != nil {
		f.Verdict = DependsOnDelay
		f.Why = fmt.Sprintf("it holds with a delay of %s, not of %s; with %s: %s", strings.Join(holds, ", "),
			strings.Join(fails, ", "), milliseconds(r.travel), own.Why)
	}
	return f
}

func milliseconds(seconds float64) string { return fmt.Sprintf("%.3g ms", 1e3*seconds) }

// decide decides a claim from the records of one delay.
func (c Claim) decide(v *view) (Verdict, string) {
	verdict, why := c.Holds.decide(v)
	switch {
	case verdict != Confirmed:
		return verdict, why
	case c.Construction != "":
		return ByConstruction, why + "; follows from the testbed: " + c.Construction
	case c.Cause == nil:
		return verdict, why
	}
	switch cause, because := c.Cause.decide(v); cause {
	case Confirmed:
		return Confirmed, why + "; " + because
	case Refuted:
		return OtherCause, why + "; " + because
	default:
		return Undecided, why + "; its cause: " + because
	}
}

// weights orders verdicts: several conditions together have the verdict with the greatest weight.
var weights = []Verdict{Confirmed, Undecided, NotComparable, Refuted}

func (cs Conditions) decide(e *view) (Verdict, string) {
	verdict := Confirmed
	var texts []string
	for _, c := range cs {
		v, why := functions[c.Term.Function].judge(e, c)
		verdict = slices.MaxFunc([]Verdict{verdict, v},
			func(a, b Verdict) int { return slices.Index(weights, a) - slices.Index(weights, b) })
		texts = append(texts, why)
	}
	return verdict, strings.Join(texts, "; ")
}
