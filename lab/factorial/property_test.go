package factorial

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawDesign draws a full two-level design with responses from minimum to 1e6.
func drawDesign(t *rapid.T, minimum float64) Design {
	k := rapid.IntRange(1, 4).Draw(t, "k")
	r := rapid.IntRange(1, 4).Draw(t, "r")
	full := fraction([]string{"A", "B", "C", "D"}[:k], nil)
	for i := range full.Cells {
		full.Cells[i].Y = rapid.SliceOfN(rapid.Float64Range(minimum, 1e6), r, r).Draw(t, "y")
	}
	return full
}

// roughly compares sums of squares of numbers up to 1e6.
func roughly(t require.TestingT, want, got, scale float64, what string) {
	require.InDelta(t, want, got, 1e-9*max(math.Abs(want), scale), what)
}

func TestVariationAddsUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDesign(t, -1e6)
		a := analyze(t, d, Options{})
		sst, n := 0.0, 0.0
		sum := a.SSE
		for _, cell := range d.Cells {
			for _, y := range cell.Y {
				sst += (y - a.Terms[0].Q) * (y - a.Terms[0].Q)
				n++
			}
		}
		for _, term := range a.Terms[1:] {
			sum += term.SS
		}
		roughly(t, sst, a.SST, a.SSY, "SST is the sum of the squared deviations from the mean")
		roughly(t, sum, a.SST, a.SSY, "SST is the sum of its parts")
		roughly(t, a.SSY, a.SS0+a.SST, a.SSY, "SSY = SS0 + SST")
		errors := 0.0
		for _, residual := range a.Residuals {
			errors += residual.Error * residual.Error
		}
		roughly(t, a.SSE, errors, a.SSY, "SSE is the sum of the squared residuals")
	})
}

func TestEffectsOfAGeneratedModelAreRecovered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model := rapid.SampledFrom([]Model{Additive, Multiplicative}).Draw(t, "model")
		d := drawDesign(t, 1)
		r := len(d.Cells[0].Y)
		effects := allEffects(len(d.Factors))
		q := rapid.SliceOfN(rapid.Float64Range(-2, 2), len(effects), len(effects)).Draw(t, "q")
		// Errors whose sum is 0 in every cell don't change the effects.
		noise := rapid.SliceOfN(rapid.Float64Range(-0.1, 0.1), r, r).Draw(t, "noise")
		mean := shiftedMean(noise)
		for i, cell := range d.Cells {
			for j := range cell.Y {
				y := noise[j] - mean
				for n, e := range effects {
					y += float64(Sign(cell, e)) * q[n]
				}
				if model == Multiplicative {
					y = math.Exp(y)
				}
				d.Cells[i].Y[j] = y
			}
		}
		a := analyze(t, d, Options{Model: model})
		for i, term := range a.Terms {
			require.Equal(t, effects[i], term.Effect)
			require.InDelta(t, q[i], term.Q, 1e-11, term.Name)
		}
	})
}

func TestTheOrderOfCellsChangesNothingAndSwappedLevelsChangeSigns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDesign(t, -1e6)
		before := analyze(t, d, Options{})
		swapped := rapid.IntRange(0, len(d.Factors)-1).Draw(t, "swapped")
		other := Design{Factors: d.Factors}
		for _, i := range rapid.Permutation(indices(len(d.Cells))).Draw(t, "order") {
			cell := Cell{Levels: slices.Clone(d.Cells[i].Levels), Y: d.Cells[i].Y}
			cell.Levels[swapped] = 1 - cell.Levels[swapped]
			other.Cells = append(other.Cells, cell)
		}
		after := analyze(t, other, Options{})
		for i, term := range before.Terms {
			want := term.Q
			if term.Effect&(1<<swapped) != 0 {
				want = -want
			}
			require.InDelta(t, want, after.Terms[i].Q, 1e-8, term.Name)
			roughly(t, term.SS, after.Terms[i].SS, before.SSY, term.Name)
		}
		roughly(t, before.SSE, after.SSE, before.SSY, "SSE")
	})
}

func TestAnovaOfTwoLevelsIsTheSignTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDesign(t, -1e6)
		maxOrder := rapid.IntRange(1, len(d.Factors)).Draw(t, "order")
		a := analyze(t, d, Options{MaxOrder: maxOrder, Confidence: 0.9})
		v, err := Anova(d, 0.9, maxOrder)
		require.NoError(t, err)
		require.Equal(t, a.DOF, v.DOF)
		roughly(t, a.SST, v.SST, a.SSY, "SST")
		roughly(t, a.SSE, v.SSE, a.SSY, "SSE")
		for i, s := range v.Sources {
			term := a.Terms[i+1]
			require.Equal(t, term.Name, s.Name)
			roughly(t, term.SS, s.SS, a.SSY, s.Name)
			require.InDelta(t, term.Q, s.Effects[len(s.Effects)-1].Effect, 1e-8, s.Name)
			if a.DOF > 0 && !s.Pooled {
				last := s.Effects[len(s.Effects)-1].Interval
				require.InDelta(t, term.Interval.Low, last.Low, 1e-8*(1+a.HalfWidth), s.Name)
				// F = t^2 with one degree of freedom.
				require.InDelta(t, a.T*a.T, s.Quantile, 1e-6*s.Quantile)
			}
		}
		for i, residual := range v.Residuals {
			require.InDelta(t, a.Residuals[i].Error, residual.Error, 1e-8)
		}
	})
}

func TestAFractionMixesEffectsAsItsRelationSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		factors := []string{"A", "B", "C", "D", "E"}
		generators := rapid.SampledFrom([][]string{
			{"E=ABCD"},
			{"E=-ABCD"},
			{"D=AB", "E=AC"},
			{"D=AB", "E=-BC"},
			{"C=AB", "D=-AB", "E=A"},
		}).Draw(t, "generators")
		d := fraction(factors, generators)
		effects := allEffects(len(factors))
		q := rapid.SliceOfN(rapid.Float64Range(-100, 100), len(effects), len(effects)).Draw(t, "q")
		by := make(map[Effect]float64)
		for i, e := range effects {
			by[e] = q[i]
		}
		for i, cell := range d.Cells {
			y := 0.0
			for e, effect := range by {
				y += float64(Sign(cell, e)) * effect
			}
			d.Cells[i].Y = []float64{y}
		}
		a := analyze(t, d, Options{})
		require.Len(t, a.Terms, len(d.Cells))
		known := 0
		for _, term := range a.Terms {
			sum := by[term.Effect]
			known += 1 + len(term.Aliases)
			for _, alias := range term.Aliases {
				sum += float64(alias.Sign) * by[alias.Effect]
				require.Negative(t, compareEffects(term.Effect, alias.Effect), "the simplest effect names the term")
			}
			require.InDelta(t, sum, term.Q, 1e-9)
		}
		assert.Len(t, effects, known)
	})
}

// indices returns 0 to n-1.
func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
