package factorial

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"mcmw/lab/sample"
)

// Model defines how the effects of factors combine to a response.
type Model string

const (
	// Additive: y = q_0 + q_A x_A + q_B x_B + q_AB x_A x_B + e.
	Additive Model = "additive"
	// Multiplicative: the logarithms of the responses are additive, so the effects multiply (Jain, section 18.8).
	Multiplicative Model = "multiplicative"
)

// Options configure an analysis. The zero value is an additive model with all interactions and a confidence of 0.95.
type Options struct {
	Model Model
	// Confidence is the confidence of the intervals, between 0 and 1.
	Confidence float64
	// LogBase is the base of the logarithm of the multiplicative model; 0: e.
	LogBase float64
	// MaxOrder is the largest number of factors of an interaction in the model; the variation of larger interactions
	// counts as error. 0: no limit.
	MaxOrder int
}

// Term is one effect of an analysis.
type Term struct {
	Effect Effect
	Name   string
	// Q is the effect, in the unit of the response, or of its logarithm in a multiplicative model.
	Q float64
	// SS is the sum of squares N q^2 over the N = 2^(k-p) r responses. Variation is its share of SST; NaN for the mean,
	// and if nothing varies.
	SS, Variation float64
	// Interval is the confidence interval of Q. Significant: it doesn't contain 0. Both are zero if the errors have no
	// degrees of freedom.
	Interval    sample.Interval
	Significant bool
	// Multiplier is the factor base^q by which the level +1 multiplies the mean in a multiplicative model; 0 in an
	// additive model.
	Multiplier float64
	// Aliases are the effects that are confounded with this one in a fractional design.
	Aliases []Word
	// Pooled: the term is not in the model, and its variation counts as error.
	Pooled bool
}

// Analysis is the analysis of a two-level design.
type Analysis struct {
	Allocation
	Model   Model
	LogBase float64 // of a multiplicative model, else 0
	// Words is the defining relation of a fractional design, and Resolution the length of its shortest word; a full
	// design has no words and the resolution 0.
	Words      []Word
	Resolution int

	// Terms are I, the main effects, and the interactions, by order.
	Terms []Term
	// T is t[1-alpha/2; DOF], SQ the standard deviation of the effects, s_e/sqrt(N), and HalfWidth t s_q. If DOF is 0,
	// these and the next are NaN and there are no intervals.
	T, SQ, HalfWidth float64
	// CellHalfWidth is the half width of the interval of a predicted cell mean, t s_e/sqrt(n_eff), n_eff = N / terms of
	// the model (Jain, section 18.5), which is r if no term is pooled.
	CellHalfWidth float64
}

// Analyze computes the effects of a two-level design, full or fractional, with the sign table (Jain, chapters 17 to
// 19).
func Analyze(d Design, o Options) (*Analysis, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	d = d.sorted()
	words, err := definingRelation(d)
	if err != nil {
		return nil, err
	}
	a := &Analysis{
		Allocation: Allocation{
			Factors: d.Factors, Confidence: cmp.Or(o.Confidence, 0.95), R: len(d.Cells[0].Y), Cells: d.Cells,
		},
		Model: cmp.Or(o.Model, Additive), Words: words, Resolution: resolution(words),
	}
	if err := checkOptions(a.Confidence, o.MaxOrder); err != nil {
		return nil, err
	}
	transformed, err := a.transform(d, o.LogBase)
	if err != nil {
		return nil, err
	}
	a.estimate(transformed, o.MaxOrder)
	a.infer()
	return a, nil
}

// transform returns d with the values that the model adds up: the responses, or their logarithms.
func (a *Analysis) transform(d Design, base float64) (Design, error) {
	switch a.Model {
	case Additive:
		return d, nil
	case Multiplicative:
	default:
		return d, fmt.Errorf("model %q: expected %s or %s", a.Model, Additive, Multiplicative)
	}
	if a.LogBase = cmp.Or(base, math.E); !(a.LogBase > 1) || math.IsInf(a.LogBase, 0) {
		return d, fmt.Errorf("base %v of the logarithms: expected more than 1", base)
	}
	logs := Design{Factors: d.Factors, Cells: make([]Cell, len(d.Cells))}
	for i, cell := range d.Cells {
		logs.Cells[i].Levels = cell.Levels
		for _, y := range cell.Y {
			if y <= 0 {
				return d, fmt.Errorf("cell %s has the response %v: a multiplicative model needs responses above 0",
					d.label(cell), y)
			}
			logs.Cells[i].Y = append(logs.Cells[i].Y, math.Log(y)/math.Log(a.LogBase))
		}
	}
	return logs, nil
}

// estimate computes the terms: the effects and their sums of squares.
func (a *Analysis) estimate(d Design, maxOrder int) {
	cells, n := len(d.Cells), float64(len(d.Cells)*a.R)
	a.CellMeans = d.means()
	floor := d.roundingFloor()
	claimed := make(map[Effect]bool, cells)
	for _, e := range allEffects(len(d.Factors)) {
		if claimed[e] {
			continue
		}
		term := Term{Effect: e, Name: e.name(a.Factors), Aliases: aliasesOf(e, a.Words)}
		claimed[e] = true
		for _, alias := range term.Aliases {
			claimed[alias.Effect] = true
		}
		// Subtracting the mean of the first cell makes the effects exactly 0 if all responses are equal.
		for i, cell := range d.Cells {
			term.Q += float64(Sign(cell, e)) * (a.CellMeans[i] - a.CellMeans[0])
		}
		term.Q /= float64(cells)
		if e == Mean {
			term.Q += a.CellMeans[0]
		} else if math.Abs(term.Q) <= floor {
			term.Q = 0
		}
		term.SS = n * term.Q * term.Q
		term.Pooled = maxOrder > 0 && e.Order() > maxOrder
		if a.Model == Multiplicative {
			term.Multiplier = math.Pow(a.LogBase, term.Q)
		}
		a.Terms = append(a.Terms, term)
	}
	a.SS0 = a.Terms[0].SS
	predicted, parts := slices.Clone(a.CellMeans), []part{}
	for _, term := range a.Terms[1:] {
		parts = append(parts, part{term.SS, 1, term.Pooled})
		for i, cell := range d.Cells {
			if term.Pooled {
				predicted[i] -= float64(Sign(cell, term.Effect)) * term.Q
			}
		}
	}
	a.allocate(d, predicted, parts)
	a.Terms[0].Variation = math.NaN()
	for i := range a.Terms[1:] {
		a.Terms[i+1].Variation = ratio(a.Terms[i+1].SS, a.SST)
	}
}

// infer computes the intervals.
func (a *Analysis) infer() {
	n := float64(len(a.Residuals))
	if a.DOF == 0 {
		a.T, a.SQ, a.HalfWidth, a.CellHalfWidth = math.NaN(), math.NaN(), math.NaN(), math.NaN()
		return
	}
	a.T = sample.StudentQuantile((1+a.Confidence)/2, float64(a.DOF))
	a.SQ = a.SE / math.Sqrt(n)
	a.HalfWidth = a.T * a.SQ
	a.CellHalfWidth = a.T * a.SE * math.Sqrt((n-float64(a.DOF))/n)
	for i := range a.Terms {
		a.Terms[i].Interval = sample.Around(a.Terms[i].Q, a.HalfWidth)
		a.Terms[i].Significant = !a.Terms[i].Interval.Contains(0)
	}
}

// Term returns the term with a name, or the term that is confounded with it.
func (a *Analysis) Term(name string) (Term, bool) {
	i := slices.IndexFunc(a.Terms, func(t Term) bool {
		return t.Name == name || slices.ContainsFunc(t.Aliases,
			func(alias Word) bool { return alias.Effect.name(a.Factors) == name })
	})
	if i < 0 {
		return Term{}, false
	}
	return a.Terms[i], true
}

// AliasNames returns the names of the effects confounded with a term, with a minus if the sign is the opposite.
func (a *Analysis) AliasNames(t Term) []string { return wordNames(t.Aliases, a.Factors) }

// Relation returns the words of the defining relation, such as ABCD, without I; none for a full design.
func (a *Analysis) Relation() []string { return wordNames(a.Words, a.Factors) }

func wordNames(words []Word, factors []string) []string {
	names := make([]string, len(words))
	for i, word := range words {
		names[i] = word.Effect.name(factors)
		if word.Sign < 0 {
			names[i] = "-" + names[i]
		}
	}
	return names
}
