package factorial

import (
	"cmp"
	"fmt"
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Comparison says which of the two models describes a design better.
type Comparison struct {
	Additive *Analysis
	// Multiplicative is nil when a response is 0 or less.
	Multiplicative *Analysis
	// Preferred is the model that describes the responses better. Decisive means that chance doesn't explain the
	// difference at the confidence level; without it, the additive model is preferred for being simpler to read.
	Preferred Model
	Decisive  bool
	// LogLikelihoodRatio is the logarithm of the likelihood of the responses under the multiplicative model over that
	// under the additive one, both with main effects alone and normal errors (Box and Cox, An Analysis of Transformations,
	// J. Royal Statistical Society B 26, 1964). Infinite where one model is exact, NaN where both are or there is no
	// multiplicative one.
	LogLikelihoodRatio float64
	// Range is the largest response over the smallest, NaN with responses of 0 or less. Where it is small the
	// logarithm is nearly a line and the models hardly differ.
	Range float64
	// InteractionsAdditive and InteractionsMultiplicative are the interactions' shares of the variation.
	InteractionsAdditive, InteractionsMultiplicative float64
	// SpreadSlope is the slope of the logarithm of the cells' standard deviations over that of their means: about 0 where
	// errors are of one size (additive), about 1 where they grow with the response (multiplicative). NaN with fewer than
	// three cells that vary.
	SpreadSlope float64
	// Reasons are sentences that explain the preference, the decisive one first.
	Reasons []string
}

// Compare analyses d by both models and says which describes it better: the one under which main effects alone make the
// responses likelier. Jain (section 18.8) names the signs: a large range of the responses, errors that grow with them,
// interactions that the logarithm removes.
func Compare(d Design, o Options) (*Comparison, error) {
	c := &Comparison{Preferred: Additive, LogLikelihoodRatio: math.NaN(), Range: math.NaN(), InteractionsMultiplicative: math.NaN()}
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
		c.Reasons = []string{fmt.Sprintf("the smallest response is %v: a multiplicative model needs responses above 0", smallest)}
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

// judge fills the verdict and the reasons. Twice the logarithm of the likelihood ratio is compared with the quantile of
// the chi-square distribution with one degree of freedom, that of the exponent of Box and Cox.
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
			"the responses do not tell the models apart: with main effects alone the log-likelihoods differ by %.3g, less than %.3g", math.Abs(ratio), limit))
	case ratio > 0:
		c.Preferred = Multiplicative
		fallthrough
	default:
		c.Reasons = append(c.Reasons, fmt.Sprintf(
			"with main effects alone the %s model makes the responses likelier: the log-likelihoods differ by %.3g, more than %.3g", c.Preferred, math.Abs(ratio), limit))
	}
	if !math.IsNaN(c.InteractionsAdditive) {
		c.Reasons = append(c.Reasons, fmt.Sprintf("interactions have %.2f%% of the variation in the additive model and %.2f%% in the multiplicative one",
			100*c.InteractionsAdditive, 100*c.InteractionsMultiplicative))
	}
	if !math.IsNaN(c.SpreadSlope) {
		c.Reasons = append(c.Reasons, fmt.Sprintf(
			"the errors of a cell grow as its mean to the power of %.2f (0 in an additive model, 1 in a multiplicative one)", c.SpreadSlope))
	}
	c.Reasons = append(c.Reasons, fmt.Sprintf("the largest response is %.2f times the smallest", c.Range))
}

func (a *Analysis) interactions() float64 {
	ss := 0.0
	for _, term := range a.Terms {
		if term.Effect.Order() > 1 {
			ss += term.SS
		}
	}
	return ratio(ss, a.SST)
}

// mainEffectsLogLikelihood returns the largest logarithm of the likelihood of the responses, up to a constant that both
// models share, with main effects and normal errors: -N/2 log(SSE/N), plus in a multiplicative model the logarithm of the
// derivative of the transformation.
func (a *Analysis) mainEffectsLogLikelihood() float64 {
	sse, n := a.SSE, float64(len(a.Residuals))
	for _, term := range a.Terms {
		if term.Effect.Order() > 1 && !term.Pooled {
			sse += term.SS
		}
	}
	// What is left of rounding is no error.
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

// spreadSlope fits a line through the logarithms of standard deviation and mean of the cells.
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
	if len(x) < 3 {
		return math.NaN()
	}
	meanX, meanY := shiftedMean(x), shiftedMean(y)
	sxx, sxy := 0.0, 0.0
	for i := range x {
		sxx += (x[i] - meanX) * (x[i] - meanX)
		sxy += (x[i] - meanX) * (y[i] - meanY)
	}
	return ratio(sxy, sxx)
}
