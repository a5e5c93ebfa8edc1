package factorial

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Comparison is the result of comparing the two models of a design.
type Comparison struct {
	Additive *Analysis
	// Multiplicative is nil if a response is 0 or less.
	Multiplicative *Analysis
	// Preferred is the model that describes the responses better. Decisive means that the difference is significant at
	// the confidence level; otherwise the additive model is preferred because it is simpler.
	Preferred Model
	Decisive  bool
	// LogLikelihoodRatio is the logarithm of the ratio of the likelihoods of the responses, multiplicative model to
	// additive model, both with only main effects and normal errors (Box and Cox, An Analysis of Transformations, J.
	// Royal Statistical Society B 26, 1964). It is infinite if one model is exact, NaN if both are or if there is no
	// multiplicative model.
	LogLikelihoodRatio float64
	// Range is the ratio of the largest response to the smallest, NaN if a response is 0 or less. If it is small, the
	// logarithm is nearly linear and the models hardly differ.
	Range float64
	// InteractionsAdditive and InteractionsMultiplicative are the shares of the interactions in the variation.
	InteractionsAdditive, InteractionsMultiplicative float64
	// SpreadSlope is the slope of the logarithm of the cells' standard deviations over that of their means: about 0 if
	// all errors have the same size (additive), about 1 if they grow with the response (multiplicative). It is NaN with
	// fewer than three cells that vary.
	SpreadSlope float64
	// Reasons are clauses that explain the preference, the decisive one first.
	Reasons []string
}

// Compare analyses d with both models and prefers the one under which main effects alone make the responses likelier.
// Jain (section 18.8) names the signs of a multiplicative model: a large range of the responses, errors that grow with
// them, and interactions that the logarithm removes.
func Compare(d Design, o Options) (*Comparison, error) {
	c := &Comparison{
		Preferred: Additive, LogLikelihoodRatio: math.NaN(), Range: math.NaN(),
		InteractionsMultiplicative: math.NaN(),
	}
	var err error
	o.Model = Additive
	if c.Additive, err = Analyze(d, o); err != nil {
		return nil, err
	}
	c.InteractionsAdditive = c.Additive.interactions()
	c.SpreadSlope = spreadSlope(c.Additive)
	smallest, largest := math.Inf(1), math.Inf(-1)
	for _, cell := range d.Cells {
		for _, y := range cell.Y {
			smallest, largest = min(smallest, y), max(largest, y)
		}
	}
	if smallest <= 0 {
		c.Decisive = true
		c.Reasons = []string{fmt.Sprintf("the smallest response is %v: a multiplicative model needs responses above 0",
			smallest)}
		return c, nil
	}
	o.Model = Multiplicative
	if c.Multiplicative, err = Analyze(d, o); err != nil {
		return nil, err
	}
	c.InteractionsMultiplicative = c.Multiplicative.interactions()
	c.Range = largest / smallest
	c.LogLikelihoodRatio = c.Multiplicative.mainEffectsLogLikelihood() - c.Additive.mainEffectsLogLikelihood()
	c.judge(o.Confidence)
	return c, nil
}

// judge sets the verdict and the reasons. It compares twice the logarithm of the likelihood ratio with the quantile of
// the chi-square distribution with one degree of freedom, that of Box and Cox's exponent.
func (c *Comparison) judge(confidence float64) {
	confidence = cmp.Or(confidence, 0.95)
	limit := distuv.ChiSquared{K: 1}.Quantile(confidence) / 2
	ratio := c.LogLikelihoodRatio
	c.Decisive = math.Abs(ratio) > limit
	switch {
	case math.IsNaN(ratio):
		c.Reasons = append(c.Reasons, "main effects alone describe the responses exactly in both models")
	case !c.Decisive:
		c.Reasons = append(c.Reasons, fmt.Sprintf(
			"the responses do not distinguish the models: with main effects alone the log-likelihoods differ by "+
				"%.3g, less than %.3g", math.Abs(ratio), limit))
	case ratio > 0:
		c.Preferred = Multiplicative
		fallthrough
	default:
		c.Reasons = append(c.Reasons, fmt.Sprintf(
			"with main effects alone the %s model makes the responses likelier: the log-likelihoods differ by %.3g, "+
				"more than %.3g", c.Preferred, math.Abs(ratio), limit))
	}
	if !math.IsNaN(c.InteractionsAdditive) {
		c.Reasons = append(c.Reasons,
			fmt.Sprintf("interactions have %.2f%% of the variation in the additive model and %.2f%% in the "+
				"multiplicative one",
				100*c.InteractionsAdditive, 100*c.InteractionsMultiplicative))
	}
	if !math.IsNaN(c.SpreadSlope) {
		c.Reasons = append(c.Reasons, fmt.Sprintf(
			"the errors of a cell grow as its mean to the power of %.2f (0 in an additive model, 1 in a "+
				"multiplicative one)", c.SpreadSlope))
	}
	c.Reasons = append(c.Reasons, fmt.Sprintf("the largest response is %.2f times the smallest", c.Range))
}

// interactions returns the share of the interactions in the variation.
func (a *Analysis) interactions() float64 {
	ss := 0.0
	for _, term := range a.Terms {
		if term.Effect.Order() > 1 {
			ss += term.SS
		}
	}
	return ratio(ss, a.SST)
}

// mainEffectsLogLikelihood returns the maximum of the log-likelihood of the responses with main effects and normal
// errors, up to a constant that is the same for both models: -N/2 log(SSE/N), plus, in a multiplicative model, the
// logarithm of the derivative of the transformation.
func (a *Analysis) mainEffectsLogLikelihood() float64 {
	sse, n := a.SSE, float64(len(a.Residuals))
	for _, term := range a.Terms {
		if term.Effect.Order() > 1 && !term.Pooled {
			sse += term.SS
		}
	}
	// Ignore rounding errors.
	if sse <= a.SST*0x1p-46 {
		sse = 0
	}
	likelihood := -n / 2 * math.Log(sse/n)
	if a.Model == Multiplicative {
		scale := math.Log(a.LogBase)
		for _, residual := range a.Residuals {
			likelihood -= residual.Y*scale + math.Log(scale)
		}
	}
	return likelihood
}

// spreadSlope returns the slope of the logarithm of the cells' standard deviation over that of their mean.
func spreadSlope(a *Analysis) float64 {
	var x, y []float64
	for i, cell := range a.Cells {
		ss := 0.0
		for _, v := range cell.Y {
			ss += (v - a.CellMeans[i]) * (v - a.CellMeans[i])
		}
		if ss > 0 && a.CellMeans[i] > 0 {
			x = append(x, math.Log(a.CellMeans[i]))
			y = append(y, math.Log(ss/float64(len(cell.Y)-1))/2)
		}
	}
	if len(x) < 3 || slices.Min(x) == slices.Max(x) {
		return math.NaN()
	}
	_, slope := stat.LinearRegression(x, y, nil, false)
	return slope
}
