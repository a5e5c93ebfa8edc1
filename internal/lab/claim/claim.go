package claim

import (
	"context"
	"slices"
)

// Verdict says what became of a claim.
type Verdict string

// The verdicts.
const (
	Confirmed    Verdict = "confirmed"
	NotConfirmed Verdict = "not confirmed"
	// NotComparable: the records can't decide it; the text says why.
	NotComparable Verdict = "not comparable here"
)

// Claim is a key finding of a report, and the rule that decides it.
type Claim struct {
	ID      string `yaml:"id"`
	Report  string `yaml:"report"`  // by the name that package paper knows it by
	Section string `yaml:"section"` // of the report
	Text    string `yaml:"text"`
	// Machines says that it is about what machines with the report's bandwidths do: records of the testbed local don't decide it.
	Machines bool `yaml:"machines"`
	// Delay says that it is about workers that wait for the network: records of testbeds whose packets travel for no time don't
	// decide it.
	Delay bool `yaml:"delay"`
	Rule  Rule `yaml:"rule"`
}

// Finding is what was found of a claim.
type Finding struct {
	Claim
	Verdict Verdict
	// Why has the numbers that decided, or why nothing could.
	Why string
	// Records are the names of the experiments whose records the claim needs.
	Records []string
}

// Rule is one of its fields; the others are nil.
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
}

// ruler is a kind of rule.
type ruler interface {
	// check returns what is wrong with the rule itself.
	check() error
	// records returns the names of the experiments that it needs; none: all there are of its report.
	records() []string
	decide(ctx context.Context, e *view) (Verdict, string)
}

// kinds returns what the rule consists of.
func (r Rule) kinds() (all []ruler) {
	if r.All != nil {
		all = append(all, every(r.All))
	}
	if r.Converges != nil {
		all = append(all, r.Converges)
	}
	if r.Saturates != nil {
		all = append(all, r.Saturates)
	}
	if r.Compare != nil {
		all = append(all, r.Compare)
	}
	if r.Share != nil {
		all = append(all, r.Share)
	}
	if r.Order != nil {
		all = append(all, r.Order)
	}
	if r.Model != nil {
		all = append(all, r.Model)
	}
	if r.Law != nil {
		all = append(all, r.Law)
	}
	return all
}

// Needs returns the names of the experiments whose records the claim needs; none: all there are of its report.
func (c Claim) Needs() []string {
	names := c.Rule.kinds()[0].records()
	slices.Sort(names)
	return slices.Compact(names)
}

// Decide holds claims against records.
func Decide(ctx context.Context, claims []Claim, e *Evidence) []Finding {
	findings := make([]Finding, len(claims))
	for i, c := range claims {
		f := Finding{Claim: c, Records: c.Needs()}
		f.Verdict, f.Why = c.Rule.kinds()[0].decide(ctx, &view{Evidence: e, claim: c})
		findings[i] = f
	}
	return findings
}

// every is several rules that must all be confirmed.
type every []Rule

func (rules every) records() (names []string) {
	for _, r := range rules {
		names = append(names, r.kinds()[0].records()...)
	}
	return names
}

func (rules every) decide(ctx context.Context, e *view) (Verdict, string) {
	verdict, text := Confirmed, ""
	for _, r := range rules {
		v, why := r.kinds()[0].decide(ctx, e)
		// What can't be compared leaves the whole open, unless another part is refuted.
		if v == NotConfirmed || v == NotComparable && verdict == Confirmed {
			verdict = v
		}
		if text != "" {
			text += "; "
		}
		text += why
	}
	return verdict, text
}
