package claim

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Verdict is the result of deciding a claim.
type Verdict string

// The verdicts.
const (
	Confirmed Verdict = "confirmed"
	Refuted   Verdict = "refuted"
	// ByConstruction: the rule follows from the testbed's configuration; no other result was possible.
	ByConstruction Verdict = "by construction"
	// OtherCause: the rule holds, but not for the reason given by the report.
	OtherCause Verdict = "other cause"
	// DependsOnDelay: the rule holds only with some of the measured delays.
	DependsOnDelay Verdict = "depends on the delay"
	// NotComparable: the records can't decide the claim; the text has the reason.
	NotComparable Verdict = "not comparable"
	// Undecided: the intervals are too wide, or levels are missing.
	Undecided Verdict = "undecided"
)

// Verdicts lists all verdicts, in the order in which they are shown.
var Verdicts = []Verdict{Confirmed, Refuted, ByConstruction, OtherCause, DependsOnDelay, NotComparable, Undecided}

// holds reports whether the rule of a claim with this verdict holds.
func (v Verdict) holds() bool { return v == Confirmed || v == ByConstruction || v == OtherCause }

// Claim is a key finding of a report, and the rule that decides it.
type Claim struct {
	ID      string `yaml:"id"`
	Report  string `yaml:"report"`  // its name in package paper
	Section string `yaml:"section"` // of the report
	Text    string `yaml:"text"`
	// Machines: the claim depends on the report's bandwidths, so records of the testbed local don't decide it.
	Machines bool `yaml:"machines"`
	// Delay: the claim depends on the time for which workers wait for the network. Only records with the delay Travel decide it. In
	// addition it is decided separately with each other delay of the records.
	Delay bool `yaml:"delay"`
	// Construction names the testbed's settings from which the rule follows; empty: it doesn't follow from them.
	Construction string `yaml:"construction"`
	// Cause is the reason given by the report, as a rule; nil: it isn't checked.
	Cause *Rule `yaml:"cause"`
	Rule  Rule  `yaml:"rule"`

	// Travel is the one-way delay of packets in all suites of the report, seconds; 0: not given.
	Travel float64 `yaml:"-"`
}

// Finding is the verdict on a claim.
type Finding struct {
	Claim
	Verdict Verdict
	// Why has the numbers for the verdict, or the reason that there are none.
	Why string
	// Over has a verdict for each delay for which all needed records exist, by ascending delay; only for claims with Delay.
	Over []At
}

// At is the verdict on a claim with one delay.
type At struct {
	Delay   float64 // seconds, one way
	Verdict Verdict
	Why     string
	// Shares of the variation by factor, and of all interactions together ("interactions"), for rules about the variation; else nil.
	Shares map[string]float64
}

// Rule has exactly one field that isn't nil.
type Rule struct {
	// All is confirmed if all its rules are.
	All       []Rule     `yaml:"all"`
	Converges *Converges `yaml:"converges"`
	Saturates *Saturates `yaml:"saturates"`
	Compare   *Compare   `yaml:"compare"`
	Share     *Share     `yaml:"share"`
	Order     *Order     `yaml:"order"`
	Model     *Model     `yaml:"model"`
	Law       *Law       `yaml:"law"`
	Limited   *Limited   `yaml:"limited"`
}

// ruler is one kind of rule.
type ruler interface {
	// check returns an error if the rule is invalid.
	check() error
	// records returns the names of the experiments that the rule needs; none: all experiments of its report that have records.
	records() []string
	// decide returns the verdict and its text.
	decide(e *view) (Verdict, string)
}

// kinds returns the fields of the rule that are set.
func (r Rule) kinds() []ruler {
	all := []ruler{every(r.All), r.Converges, r.Saturates, r.Compare, r.Share, r.Order, r.Model, r.Law, r.Limited}
	return slices.DeleteFunc(all, func(kind ruler) bool { return reflect.ValueOf(kind).IsNil() })
}

// kind returns the only field that is set.
func (r Rule) kind() ruler { return r.kinds()[0] }

// Needs returns the names of the experiments whose records the claim needs; none: all experiments of its report that have records.
func (c Claim) Needs() []string {
	names := slices.Clone(c.Rule.kind().records())
	if c.Cause != nil {
		names = append(names, c.Cause.kind().records()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Decide decides claims from records.
func Decide(claims []Claim, e *Evidence) []Finding {
	findings := make([]Finding, len(claims))
	for i, c := range claims {
		findings[i] = decide(c, e)
	}
	return findings
}

func decide(c Claim, e *Evidence) Finding {
	f := Finding{Claim: c}
	at := func(delay float64) At {
		v := &view{Evidence: e, claim: c, delay: delay}
		verdict, why := c.decide(v)
		return At{Delay: delay, Verdict: verdict, Why: why, Shares: v.shares}
	}
	own := at(c.Travel)
	f.Verdict, f.Why = own.Verdict, own.Why
	if !c.Delay || c.Travel == 0 {
		return f
	}
	var holds, fails []string
	for _, delay := range e.delays(c.Needs()) {
		one := at(delay)
		f.Over = append(f.Over, one)
		switch {
		case one.Verdict.holds():
			holds = append(holds, milliseconds(delay))
		case one.Verdict == Refuted:
			fails = append(fails, milliseconds(delay))
		}
	}
	if holds != nil && fails != nil {
		f.Verdict = DependsOnDelay
		f.Why = fmt.Sprintf("it holds with a delay of %s, not of %s; with %s: %s", strings.Join(holds, ", "), strings.Join(fails, ", "), milliseconds(c.Travel), own.Why)
	}
	return f
}

func milliseconds(seconds float64) string { return fmt.Sprintf("%.3g ms", 1e3*seconds) }

// decide decides a claim from the records of one delay.
func (c Claim) decide(v *view) (Verdict, string) {
	verdict, why := c.Rule.kind().decide(v)
	if verdict != Confirmed {
		return verdict, why
	}
	if c.Construction != "" {
		return ByConstruction, why + "; follows from the testbed: " + c.Construction
	}
	if c.Cause == nil {
		return verdict, why
	}
	switch cause, because := c.Cause.kind().decide(v); cause {
	case Confirmed:
		return Confirmed, why + "; " + because
	case Refuted:
		return OtherCause, why + "; " + because
	default:
		return Undecided, why + "; its cause: " + because
	}
}

// every is several rules that must all be confirmed.
type every []Rule

func (rules every) records() (names []string) {
	for _, r := range rules {
		names = append(names, r.kind().records()...)
	}
	return names
}

// weight orders verdicts: several rules together have the verdict with the greatest weight.
var weight = map[Verdict]int{Confirmed: 0, Undecided: 1, NotComparable: 2, Refuted: 3}

// weightier returns the verdict of two parts together.
func weightier(a, b Verdict) Verdict {
	if weight[b] > weight[a] {
		return b
	}
	return a
}

func (rules every) decide(e *view) (Verdict, string) {
	verdict := Confirmed
	var texts []string
	for _, r := range rules {
		v, why := r.kind().decide(e)
		verdict = weightier(verdict, v)
		texts = append(texts, why)
	}
	return verdict, strings.Join(texts, "; ")
}
