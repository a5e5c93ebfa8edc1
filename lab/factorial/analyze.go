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

// Residual is a response and the model's prediction; both are logarithms in a multiplicative model.
type Residual struct {
	Cell, Repetition int // indices; the cell's is that in Analysis.Cells
	Y, Predicted     float64
	Error            float64 // Y - Predicted
}

// Analysis is the analysis of a two-level design.
type Analysis struct {
	Factors    []string
	Model      Model
	LogBase    float64 // of a multiplicative model, else 0
	Confidence float64
	// R is the number of repetitions of each cell.
	R int
	// Cells are the cells of the design in standard order, with the unchanged responses.
	Cells []Cell
	// Words is the defining relation of a fractional design, and Resolution the length of its shortest word; a full
	// design has no words and the resolution 0.
	Words      []Word
	Resolution int

	// Terms are I, the main effects, and the interactions, by order.
	Terms []Term
	// SSY = SS0 + SST. SST is the sum over the terms, without the pooled ones, and SSE. SSE is the variation between
	// the repetitions of each cell plus that of the pooled terms.
	SSY, SS0, SST, SSE float64
	// VariationError is the share of SSE in SST, NaN if nothing varies.
	VariationError float64
	// CellMeans are the means of the cells, or of their logarithms in a multiplicative model.
	CellMeans []float64
	Residuals []Residual

	// DOF are the degrees of freedom of the errors: N minus the terms of the model, which is 2^k (r-1) if no term is
	// pooled. If DOF is 0, the fields below are NaN and there are no intervals.
	DOF int
	// T is t[1-alpha/2; DOF]. SE is the standard deviation of the errors, sqrt(SSE/DOF), SQ that of the effects,
	// s_e/sqrt(N). HalfWidth is t s_q.
	T, SE, SQ, HalfWidth float64
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
		Factors: d.Factors, Model: o.Model, Confidence: o.Confidence, R: len(d.Cells[0].Y), Cells: d.Cells,
		Words: words, Resolution: resolution(words),
	}
	a.Model = cmp.Or(a.Model, Additive)
	a.Confidence = cmp.Or(a.Confidence, 0.95)
	if err := checkOptions(a.Confidence, o.MaxOrder); err != nil {
		return nil, err
	}
	transformed, err := a.transform(d, o.LogBase)
	if err != nil {
		return nil, err
	}
	a.estimate(transformed, o.MaxOrder)
	a.predict(transformed)
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
	for _, cell := range d.Cells {
		a.CellMeans = append(a.CellMeans, shiftedMean(cell.Y))
	}
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
	for i, cell := range d.Cells {
		for _, y := range cell.Y {
			a.SSY += y * y
			a.SSE += (y - a.CellMeans[i]) * (y - a.CellMeans[i])
		}
	}
	a.SST = a.SSE
	for _, term := range a.Terms[1:] {
		a.SST += term.SS
		if term.Pooled {
			a.SSE += term.SS
		}
	}
	a.Terms[0].Variation = math.NaN()
	for i := range a.Terms[1:] {
		a.Terms[i+1].Variation = ratio(a.Terms[i+1].SS, a.SST)
	}
	a.VariationError = ratio(a.SSE, a.SST)
}

// predict computes the residuals.
func (a *Analysis) predict(d Design) {
	for i, cell := range d.Cells {
		predicted := a.CellMeans[i]
		for _, term := range a.Terms {
			if term.Pooled {
				predicted -= float64(Sign(cell, term.Effect)) * term.Q
			}
		}
		for j, y := range cell.Y {
			a.Residuals = append(a.Residuals,
				Residual{Cell: i, Repetition: j, Y: y, Predicted: predicted, Error: y - predicted})
		}
	}
}

// infer computes the intervals.
func (a *Analysis) infer() {
	n := len(a.Residuals)
	kept := 0
	for _, term := range a.Terms {
		if !term.Pooled {
			kept++
		}
	}
	a.DOF = n - kept
	if a.DOF == 0 {
		a.T, a.SE, a.SQ, a.HalfWidth, a.CellHalfWidth = math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()
		return
	}
	a.T = sample.StudentQuantile((1+a.Confidence)/2, float64(a.DOF))
	a.SE = math.Sqrt(a.SSE / float64(a.DOF))
	a.SQ = a.SE / math.Sqrt(float64(n))
	a.HalfWidth = a.T * a.SQ
	a.CellHalfWidth = a.T * a.SE * math.Sqrt(float64(kept)/float64(n))
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
