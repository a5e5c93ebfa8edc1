package factorial

import (
	"cmp"
	"fmt"
	"math"

	"mcmw/internal/lab/sample"
)

// Model says how the effects of factors combine to a response.
type Model string

const (
	// Additive: y = q_0 + q_A x_A + q_B x_B + q_AB x_A x_B + e.
	Additive Model = "additive"
	// Multiplicative: the logarithms of the responses are additive, the effects multiply (Jain, section 18.8).
	Multiplicative Model = "multiplicative"
)

// Options say how a design is analysed. The zero value is an additive model with every interaction at a confidence
// level of 0.95.
type Options struct {
	Model Model
	// Confidence is the level of the intervals, between 0 and 1.
	Confidence float64
	// LogBase is the base of the logarithm of the multiplicative model, 0 for e.
	LogBase float64
	// MaxOrder is the most factors of an interaction in the model; the variation of others counts as error. 0 means no limit.
	MaxOrder int
}

// Term is one effect of an analysis.
type Term struct {
	Effect Effect
	Name   string
	// Q is the effect, in the unit of the response; of its logarithm in a multiplicative model.
	Q float64
	// SS is the sum of squares N q^2 over the N = 2^(k-p) r responses, and Variation its share of SST; NaN for the mean,
	// and when nothing varies.
	SS, Variation float64
	// Interval is Q's, and Significant whether it is without 0. Both are empty when the analysis has no degrees of
	// freedom for errors.
	Interval    sample.Interval
	Significant bool
	// Multiplier is base^q in a multiplicative model: by what the level +1 multiplies the mean; 0 in an additive one.
	Multiplier float64
	// Aliases are the effects confounded with this one in a fractional design.
	Aliases []Word
	// Pooled: the term is not in the model, and its variation counts as error.
	Pooled bool
}

// Residual is a response and the model's prediction; both are logarithms in a multiplicative model.
type Residual struct {
	Cell, Repetition int // numbers from 0; the cell as in Analysis.Cells
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
	// Cells are those of the design in standard order, with the responses as they were measured.
	Cells []Cell
	// Words are the defining relation of a fractional design, and Resolution the length of its shortest word; none and 0
	// for a full design.
	Words      []Word
	Resolution int

	// Terms are I, the main effects, and the interactions, by order.
	Terms []Term
	// SSY = SS0 + SST, and SST is the sum over the terms and SSE. SSE is the variation between the repetitions of a cell, and
	// the pooled terms.
	SSY, SS0, SST, SSE float64
	// VariationError is SSE's share of SST, NaN when nothing varies.
	VariationError float64
	// CellMeans are the means of the cells, of logarithms in a multiplicative model; GeometricMeans the same as responses
	// there, else nil.
	CellMeans, GeometricMeans []float64
	Residuals                 []Residual

	// DOF are the degrees of freedom of the errors: N minus the terms of the model, 2^k (r-1) for a full one. With 0 the
	// fields below are NaN and there are no intervals.
	DOF int
	// T is t[1-alpha/2; DOF]; SE the standard deviation of errors, sqrt(SSE/DOF); SQ that of effects, s_e/sqrt(N);
	// HalfWidth is t s_q.
	T, SE, SQ, HalfWidth float64
	// CellHalfWidth is that of the interval of a predicted cell mean, t s_e/sqrt(n_eff), n_eff = N / terms of the model
	// (Jain, section 18.5); sqrt(r) where all are kept.
	CellHalfWidth float64
}

// Analyze computes the effects of a two-level design, full or fractional, by the sign table (Jain, chapters 17 to 19).
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
	if err := checkConfidence(a.Confidence); err != nil {
		return nil, err
	}
	if o.MaxOrder < 0 {
		return nil, fmt.Errorf("interactions of at most %d factors: expected 1 or more, or 0 for all", o.MaxOrder)
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

// transform returns d with the responses that the model adds up: themselves, or their logarithms.
func (a *Analysis) transform(d Design, base float64) (Design, error) {
	switch a.Model {
	case Additive:
		return d, nil
	case Multiplicative:
	default:
		return d, fmt.Errorf("model %q: expected %s or %s", a.Model, Additive, Multiplicative)
	}
	a.LogBase = math.E
	if base != 0 {
		a.LogBase = base
	}
	if !(a.LogBase > 1) || math.IsInf(a.LogBase, 0) {
		return d, fmt.Errorf("logarithms to the base %v: expected more than 1", base)
	}
	logs := Design{Factors: d.Factors, Cells: make([]Cell, len(d.Cells))}
	for i, cell := range d.Cells {
		logs.Cells[i].Levels = cell.Levels
		for _, y := range cell.Y {
			if y <= 0 {
				return d, fmt.Errorf("cell %s has the response %v: a multiplicative model needs responses above 0", d.where(cell), y)
			}
			logs.Cells[i].Y = append(logs.Cells[i].Y, math.Log(y)/math.Log(a.LogBase))
		}
	}
	return logs, nil
}

// estimate fills the terms: the effects and their sums of squares.
func (a *Analysis) estimate(d Design, maxOrder int) {
	cells, n := len(d.Cells), float64(len(d.Cells)*a.R)
	for _, cell := range d.Cells {
		a.CellMeans = append(a.CellMeans, shiftedMean(cell.Y))
	}
	floor := roundingFloor(d)
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
		// The mean of the first cell is taken off, so that the effects of responses that are all equal are exactly 0.
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
	if a.Model == Multiplicative {
		for _, mean := range a.CellMeans {
			a.GeometricMeans = append(a.GeometricMeans, math.Pow(a.LogBase, mean))
		}
	}
}

// predict fills the residuals.
func (a *Analysis) predict(d Design) {
	for i, cell := range d.Cells {
		predicted := a.CellMeans[i]
		for _, term := range a.Terms {
			if term.Pooled {
				predicted -= float64(Sign(cell, term.Effect)) * term.Q
			}
		}
		for j, y := range cell.Y {
			a.Residuals = append(a.Residuals, Residual{Cell: i, Repetition: j, Y: y, Predicted: predicted, Error: y - predicted})
		}
	}
}

// infer fills the intervals.
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

// Term returns the term called name, or one confounded with it.
func (a *Analysis) Term(name string) (Term, bool) {
	for _, term := range a.Terms {
		if term.Name == name {
			return term, true
		}
		for _, alias := range term.Aliases {
			if alias.Effect.name(a.Factors) == name {
				return term, true
			}
		}
	}
	return Term{}, false
}

// AliasNames returns the names of the effects confounded with the term, with a minus for the opposite sign.
func (a *Analysis) AliasNames(t Term) []string { return wordNames(t.Aliases, a.Factors) }

// Relation returns the defining relation, such as ABCD, without I; nothing for a full design.
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
