// Package condition is the language of all conditions on measurements: objectives of a load, failures of a comparison,
// qualities of service, stop rules and the findings of reports.
//
//	CONDITION = TERM ( "<" | "<=" | ">" | ">=" ) VALUE | TERM "in" VALUE ".." VALUE | TERM "is" NAME { "or" NAME }
//	TERM      = METRIC | FUNCTION "(" ARGUMENT { "," ARGUMENT } ")"
//	METRIC    = [ SOURCE "." ] NAME [ RUNS ]
//	RUNS      = "[" EXPERIMENT { "," FACTOR "=" LEVEL } [ "," "highest" ] "]"
//
// such as "client.response_time_p99 < 1ms", "change(throughput) < -5%", or "ratio(client.throughput[sweep, workers=64,
// highest], [sweep, workers=8, highest]) in 1.5..2.2". A NAME of a response time can be short: mean, p50, p90, p95,
// p99, p99.9, max. A value of a time has a unit (ns, us, ms, s, m, h), others can have one (/s, KiB, MiB, GiB; % of a
// ratio). Both ends of a range belong to it. "highest" stands for the point with the most throughput of the clients,
// EXPERIMENT for the name of its record.
//
// The package reads conditions and judges values by them. What a term is worth is computed where its runs are.
package condition

import (
	"encoding"
	"math"
	"slices"

	"mcmw/lab/frame"
	"mcmw/lab/sample"
)

// Condition is a requirement on something that is measured.
type Condition struct {
	Text string
	Term Term
	// Low and High are the bounds of the values that fulfil it, in the base unit; infinite: there is none. Strict: not
	// the bounds themselves.
	Low, High float64
	Strict    bool
	Names     []string // after "is"
}

// Term is something that is measured.
type Term struct {
	Function string // its name; "": the mean of the metric
	Metric   frame.Metric
	Runs     []Runs          // those in brackets
	Words    []string        // the other arguments
	Range    sample.Interval // an argument LOW..HIGH
}

// Runs selects the runs of an experiment's record that have some levels.
type Runs struct {
	Record  string
	Where   map[string]string
	Highest bool // only the point with the highest throughput of the clients
}

var _ encoding.TextMarshaler = Condition{}

// MarshalText returns the condition as it was written.
func (c Condition) MarshalText() ([]byte, error) { return []byte(c.Text), nil }

// Verdict is the result of judging a condition.
type Verdict string

// The verdicts.
const (
	Holds   Verdict = "holds"
	Broken  Verdict = "broken"
	Unknown Verdict = "unknown" // the interval reaches over a bound, or is not known
)

// Holds reports whether a value fulfils the condition.
func (c Condition) Holds(v float64) bool {
	if c.Strict {
		return v > c.Low && v < c.High
	}
	return v >= c.Low && v <= c.High
}

// Judge judges all values of a confidence interval: the condition holds if each of them fulfils it, and is broken if
// none does.
func (c Condition) Judge(i sample.Interval) Verdict {
	switch {
	case !i.Known():
		return Unknown
	case c.Holds(i.Low) && c.Holds(i.High):
		return Holds
	case i.High < c.Low || i.Low > c.High || c.Strict && (i.High == c.Low || i.Low == c.High):
		return Broken
	}
	return Unknown
}

// Of returns the verdict of something that is certain.
func Of(holds bool) Verdict {
	if holds {
		return Holds
	}
	return Broken
}

// weights orders the verdicts: several together have that of the greatest weight.
var weights = []Verdict{Holds, Unknown, Broken}

// All returns the verdict of several conditions that must all hold.
func All(verdicts ...Verdict) Verdict {
	most := 0
	for _, v := range verdicts {
		most = max(most, slices.Index(weights, v))
	}
	return weights[most]
}

// Bound returns the bound of a condition that has one, and whether values must be above it.
func (c Condition) Bound() (v float64, above bool) {
	if math.IsInf(c.High, 1) {
		return c.Low, true
	}
	return c.High, false
}

// Expected describes the values that fulfil the condition, formatted by show: "less than 1 ms", "0.95 to 1.05".
func (c Condition) Expected(show func(float64) string) string {
	switch bound, above := c.Bound(); {
	case !math.IsInf(c.Low, 0) && !math.IsInf(c.High, 0):
		return show(c.Low) + " to " + show(c.High)
	case above && c.Strict:
		return "more than " + show(bound)
	case above:
		return "at least " + show(bound)
	case c.Strict:
		return "less than " + show(bound)
	default:
		return "at most " + show(bound)
	}
}
