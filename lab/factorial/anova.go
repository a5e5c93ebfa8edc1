package factorial

import (
	"fmt"
	"math"

	"mcmw/lab/sample"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// Source is a line of an analysis of variance: a factor or an interaction.
type Source struct {
	Effect Effect
	Name   string
	// SS is the sum of squares, DOF its degrees of freedom, MS = SS/DOF.
	SS, MS float64
	DOF    int
	// Variation is the share of SST, NaN if nothing varies.
	Variation float64
	// F is MS/MSE, Quantile is F[1-alpha; DOF, DOF of the errors], and P is the probability of an F at least this large
	// without an effect. They are NaN if the errors have no degrees of freedom; F is infinite if there are no errors.
	F, Quantile, P float64
	Significant    bool
	// Pooled: the source is not in the model, and its variation counts as error.
	Pooled bool
	// Effects has the effect of each combination of the levels of these factors, without the effects of fewer of them.
	// The sum over the levels of any factor is 0.
	Effects []LevelEffect
}

// LevelEffect is the effect of a level, or of a combination of levels, on the response.
type LevelEffect struct {
	// Levels are the indices of the levels of the source's factors, in order.
	Levels []int
	Effect float64
	// Interval is the confidence interval; zero if the errors have no degrees of freedom.
	Interval sample.Interval
}

// Variance is an analysis of variance.
type Variance struct {
	Allocation
	Levels  []int // the number of levels of each factor
	Mean    float64
	Sources []Source
	MSE     float64 // SSE/DOF; NaN without degrees of freedom
}

// Anova analyses a full factorial design with any number of levels (Jain, chapters 20 to 23): the mean, the effects of
// the levels of each factor and interaction, and F-tests. Interactions of more than maxOrder factors count as errors.
// If it is 0, all interactions are kept, except that of all factors if there are no repetitions.
func Anova(d Design, confidence float64, maxOrder int) (*Variance, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	if err := checkOptions(confidence, maxOrder); err != nil {
		return nil, err
	}
	d = d.sorted()
	v := &Variance{
		Allocation: Allocation{Factors: d.Factors, R: len(d.Cells[0].Y), Confidence: confidence, Cells: d.Cells},
		Levels:     make([]int, len(d.Factors)),
	}
	combinations := 1
	for i, factor := range d.Factors {
		for _, cell := range d.Cells {
			v.Levels[i] = max(v.Levels[i], cell.Levels[i]+1)
		}
		if v.Levels[i] < 2 {
			return nil, fmt.Errorf("factor %s has one level in all cells: expected at least two", factor)
		}
		if combinations *= v.Levels[i]; combinations > 1<<20 {
			return nil, fmt.Errorf("the design has too many cells: expected at most %d", 1<<20)
		}
	}
	if combinations != len(d.Cells) {
		return nil, fmt.Errorf("%d cells: expected all %d combinations of levels", len(d.Cells), combinations)
	}
	if maxOrder == 0 && v.R == 1 && len(d.Factors) > 1 {
		maxOrder = len(d.Factors) - 1
	}
	v.decompose(maxOrder)
	v.infer()
	return v, nil
}

// decompose computes mean, sources and residuals.
func (v *Variance) decompose(maxOrder int) {
	d := Design{Cells: v.Cells}
	means, floor := d.means(), d.roundingFloor()
	v.CellMeans = means
	var parts []part
	n := float64(len(v.Cells) * v.R)
	v.Mean = shiftedMean(means)
	v.SS0 = n * v.Mean * v.Mean
	// rest is the cells' means minus the effects of fewer factors; the means of rest are the next effects.
	rest, predicted := make([]float64, len(means)), make([]float64, len(means))
	for i := range means {
		rest[i], predicted[i] = means[i]-v.Mean, v.Mean
	}
	for _, e := range allEffects(len(v.Factors))[1:] {
		s := Source{Effect: e, Name: e.name(v.Factors), DOF: 1, Pooled: maxOrder > 0 && e.Order() > maxOrder}
		count := 1
		for i, levels := range v.Levels {
			if e&(1<<i) != 0 {
				s.DOF *= levels - 1
				count *= levels
			}
		}
		s.Effects = make([]LevelEffect, count)
		at := make([]int, len(v.Cells))
		for i, cell := range v.Cells {
			number, levels := v.combination(cell, e)
			at[i] = number
			s.Effects[number].Levels = levels
			s.Effects[number].Effect += rest[i] * float64(count) / float64(len(v.Cells))
		}
		for i := range s.Effects {
			if math.Abs(s.Effects[i].Effect) <= floor {
				s.Effects[i].Effect = 0
			}
			s.SS += n / float64(count) * s.Effects[i].Effect * s.Effects[i].Effect
		}
		for i := range rest {
			rest[i] -= s.Effects[at[i]].Effect
			if !s.Pooled {
				predicted[i] += s.Effects[at[i]].Effect
			}
		}
		s.MS = s.SS / float64(s.DOF)
		v.Sources = append(v.Sources, s)
		parts = append(parts, part{s.SS, s.DOF, s.Pooled})
	}
	v.allocate(d, predicted, parts)
}

// combination returns the levels of the factors of e in a cell, and the index of this combination.
func (v *Variance) combination(c Cell, e Effect) (number int, levels []int) {
	scale := 1
	for i, level := range c.Levels {
		if e&(1<<i) != 0 {
			number += scale * level
			scale *= v.Levels[i]
			levels = append(levels, level)
		}
	}
	return number, levels
}

// infer computes shares, F-tests and intervals. The variance of a combination's effect is s_e^2/N times the product of
// the numbers of levels minus one (Jain, table 22.4 for two factors).
func (v *Variance) infer() {
	v.MSE = ratio(v.SSE, float64(v.DOF))
	n := float64(len(v.Residuals))
	t := math.NaN()
	if v.DOF > 0 {
		t = sample.StudentQuantile((1+v.Confidence)/2, float64(v.DOF))
	}
	for i := range v.Sources {
		s := &v.Sources[i]
		s.Variation = ratio(s.SS, v.SST)
		s.F, s.Quantile, s.P = math.NaN(), math.NaN(), math.NaN()
		if v.DOF == 0 || s.Pooled {
			continue
		}
		f := distuv.F{D1: float64(s.DOF), D2: float64(v.DOF)}
		s.Quantile = f.Quantile(v.Confidence)
		switch {
		case s.SS == 0:
			s.F, s.P = 0, 1
		case v.MSE == 0:
			s.F, s.P = math.Inf(1), 0
		default:
			s.F = s.MS / v.MSE
			// The complement of F's distribution function; 1 - CDF would lose digits if it is small.
			s.P = mathext.RegIncBeta(f.D2/2, f.D1/2, f.D2/(f.D2+f.D1*s.F))
		}
		s.Significant = s.F > s.Quantile
		for j := range s.Effects {
			s.Effects[j].Interval = sample.Around(s.Effects[j].Effect, t*v.SE*math.Sqrt(float64(s.DOF)/n))
		}
	}
}
