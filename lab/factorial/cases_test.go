package factorial

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The cache comparison of Jain, section 21.3: three choices of caches, five workloads; the expected values are printed
// there.
func TestAnovaOfTwoFactorsWithoutRepetitionsMatchesAComputationByHand(t *testing.T) {
	d := Design{Factors: []string{"cache", "workload"}}
	for w, row := range [][]float64{{54, 55, 106}, {60, 60, 123}, {43, 43, 120}, {49, 52, 111}, {49, 50, 108}} {
		for c, y := range row {
			d.Cells = append(d.Cells, Cell{Levels: []int{c, w}, Y: []float64{y}})
		}
	}
	v, err := Anova(d, 0.9, 0)
	require.NoError(t, err)
	assert.InDelta(t, 72.2, v.Mean, 1e-12)
	assert.InDelta(t, 12857.2, v.Sources[0].SS, 1e-9)
	assert.InDelta(t, 308.4, v.Sources[1].SS, 1e-9)
	assert.InDelta(t, 236.8, v.SSE, 1e-9)
	assert.Equal(t, 8, v.DOF)
	assert.InDelta(t, 217.2, v.Sources[0].F, 0.05)
	assert.InDelta(t, 2.6, v.Sources[1].F, 0.05)
	assert.True(t, v.Sources[0].Significant)
	assert.False(t, v.Sources[1].Significant)
	assert.True(t, v.Sources[2].Pooled)
	for i, want := range []float64{-21.2, -20.2, 41.4} {
		assert.InDelta(t, want, v.Sources[0].Effects[i].Effect, 1e-9)
	}
}

func TestAnovaWithRepetitionsTestsInteractions(t *testing.T) {
	d := Design{Factors: []string{"A", "B"}}
	for i, y := range [][]float64{{10, 12}, {20, 18}, {31, 29}, {11, 9}, {25, 27}, {52, 48}} {
		d.Cells = append(d.Cells, Cell{Levels: []int{i % 3, i / 3}, Y: y})
	}
	v, err := Anova(d, 0.95, 0)
	require.NoError(t, err)
	// Means: cells 11 19 30 / 10 26 50; rows 20 and 86/3; columns 10.5, 22.5, 40; all 73/3.
	assert.Equal(t, []int{2, 1, 2, 6}, []int{v.Sources[0].DOF, v.Sources[1].DOF, v.Sources[2].DOF, v.DOF})
	grand := 73.0 / 3
	assert.InDelta(t, 4*(sq(10.5-grand)+sq(22.5-grand)+sq(40-grand)), v.Sources[0].SS, 1e-9)
	assert.InDelta(t, 6*(sq(20-grand)+sq(86.0/3-grand)), v.Sources[1].SS, 1e-9)
	assert.InDelta(t, 2+2+2+2+2+8, v.SSE, 1e-9)
	assert.True(t, v.Sources[2].Significant)
	assert.InDelta(t, v.Sources[0].SS/2/(18.0/6), v.Sources[0].F, 1e-9)
	assert.Less(t, v.Sources[0].P, 1e-4)
	assert.Positive(t, v.Sources[0].P)
	assert.InDelta(t, 5.143252849784718, v.Sources[0].Quantile, 1e-9, "F[0.95; 2, 6]")
}

func sq(x float64) float64 { return x * x }

// Jain, section 19.3: a 2^(4-1) design with D=ABC has AB confounded with CD, and resolution IV.
func TestConfoundingOfAHalfFractionIsListed(t *testing.T) {
	d := fraction([]string{"A", "B", "C", "D"}, []string{"D=ABC"})
	require.Len(t, d.Cells, 8)
	for i := range d.Cells {
		d.Cells[i].Y = []float64{float64(i), float64(i) + 1}
	}
	a := analyze(t, d, Options{})
	assert.Equal(t, []string{"ABCD"}, a.Relation())
	assert.Equal(t, 4, a.Resolution)
	ab, ok := a.Term("CD")
	require.True(t, ok)
	assert.Equal(t, "AB", ab.Name)
	assert.Equal(t, []string{"CD"}, a.AliasNames(ab))
	assert.Equal(t, 8, a.DOF)
}

func TestPooledInteractionsBecomeErrors(t *testing.T) {
	d := fraction([]string{"A", "B", "C"}, nil)
	for i, y := range []float64{6, 10, 7, 12, 20, 31, 23, 34} {
		d.Cells[i].Y = []float64{y}
	}
	full := analyze(t, d, Options{})
	assert.Zero(t, full.DOF)
	assert.True(t, math.IsNaN(full.HalfWidth))
	main := analyze(t, d, Options{MaxOrder: 1})
	assert.Equal(t, 4, main.DOF)
	interactions := 0.0
	for _, term := range full.Terms {
		if term.Effect.Order() > 1 {
			interactions += term.SS
		}
	}
	assert.InDelta(t, interactions, main.SSE, 1e-9)
	residuals := 0.0
	for _, residual := range main.Residuals {
		residuals += residual.Error * residual.Error
	}
	assert.InDelta(t, interactions, residuals, 1e-9)
	assert.InDelta(t, math.Sqrt(interactions/4), main.SE, 1e-9)
}

func TestEqualResponsesHaveNoEffects(t *testing.T) {
	for _, y := range []float64{0.1, 1e-300, 1e300, 1.0 / 3, -7e9 / 3} {
		d := fraction([]string{"A", "B"}, nil)
		for i := range d.Cells {
			d.Cells[i].Y = []float64{y, y, y}
		}
		a := analyze(t, d, Options{})
		assert.Zero(t, a.SST)
		for _, term := range a.Terms[1:] {
			assert.Zero(t, term.Q)
			assert.False(t, term.Significant)
			assert.True(t, math.IsNaN(term.Variation))
		}
		v, err := Anova(d, 0.9, 0)
		require.NoError(t, err)
		assert.Zero(t, v.SST)
		assert.False(t, v.Sources[0].Significant)
	}
}

func TestRoundingErrorsAreNoEffects(t *testing.T) {
	d := fraction([]string{"A", "B"}, nil)
	for i, y := range []float64{0.1, 0.2, 0.3, 0.4} {
		d.Cells[i].Y = []float64{y, y}
	}
	a := analyze(t, d, Options{})
	ab, _ := a.Term("AB")
	assert.Zero(t, ab.Q)
	assert.False(t, ab.Significant)
}

func TestTheModelThatGeneratesTheResponsesIsPreferred(t *testing.T) {
	noise := []float64{-0.03, 0.01, 0.02}
	additive := fraction([]string{"A", "B", "C"}, nil)
	multiplicative := fraction([]string{"A", "B", "C"}, nil)
	for i, cell := range additive.Cells {
		for _, e := range noise {
			x := func(factor Effect) float64 { return float64(Sign(cell, factor)) }
			additive.Cells[i].Y = append(additive.Cells[i].Y, 100+40*x(1)+30*x(2)+20*x(4)+50*e*x(7))
			multiplicative.Cells[i].Y = append(multiplicative.Cells[i].Y, math.Exp(4+x(1)+0.5*x(2)+0.3*x(4)+e*x(7)))
		}
	}
	c, err := Compare(additive, Options{})
	require.NoError(t, err)
	assert.Equal(t, Additive, c.Preferred)
	assert.True(t, c.Decisive)
	assert.InDelta(t, 0, c.SpreadSlope, 1e-9)
	assert.Less(t, c.InteractionsAdditive, c.InteractionsMultiplicative)

	c, err = Compare(multiplicative, Options{})
	require.NoError(t, err)
	assert.Equal(t, Multiplicative, c.Preferred)
	assert.True(t, c.Decisive)
	assert.InDelta(t, 1, c.SpreadSlope, 0.01)
	assert.Less(t, c.InteractionsMultiplicative, c.InteractionsAdditive)
	assert.Contains(t, c.Reasons[0], "multiplicative")
}

func TestResponsesOfZeroExcludeTheMultiplicativeModel(t *testing.T) {
	d := Design{
		Factors: []string{"A"},
		Cells:   []Cell{{Levels: []int{0}, Y: []float64{0}}, {Levels: []int{1}, Y: []float64{2}}},
	}
	c, err := Compare(d, Options{})
	require.NoError(t, err)
	assert.Equal(t, Additive, c.Preferred)
	assert.Nil(t, c.Multiplicative)
	_, err = Analyze(d, Options{Model: Multiplicative})
	assert.ErrorContains(t, err, "above 0")
}

func TestExactModelsAreFound(t *testing.T) {
	d := fraction([]string{"A", "B"}, nil)
	for i, y := range []float64{1, 3, 10, 30} {
		d.Cells[i].Y = []float64{y}
	}
	c, err := Compare(d, Options{})
	require.NoError(t, err)
	assert.Equal(t, Multiplicative, c.Preferred)
	assert.True(t, math.IsInf(c.LogLikelihoodRatio, 1))

	for i := range d.Cells {
		d.Cells[i].Y = []float64{5}
	}
	c, err = Compare(d, Options{})
	require.NoError(t, err)
	assert.Equal(t, Additive, c.Preferred)
	assert.False(t, c.Decisive)
}

func TestQQOfNormalQuantilesIsALine(t *testing.T) {
	var residuals []Residual
	quantiles, _ := QQ(make([]Residual, 11))
	for _, q := range quantiles {
		residuals = append([]Residual{{Error: 3*q + 1}}, residuals...)
	}
	x, y := QQ(residuals)
	assert.InDelta(t, 1, Straightness(x, y), 1e-12)
	assert.InDelta(t, 0, x[5], 1e-15)
	assert.InDelta(t, 1, y[5], 1e-12)
	assert.True(t, math.IsNaN(Straightness(QQ(make([]Residual, 5)))))
}

func TestInvalidDesignsAreRefused(t *testing.T) {
	full := func() Design {
		d := fraction([]string{"A", "B"}, nil)
		for i := range d.Cells {
			d.Cells[i].Y = []float64{float64(i), float64(i * i)}
		}
		return d
	}
	for name, c := range map[string]struct {
		change func(*Design)
		want   string
	}{
		"no factors":            {func(d *Design) { d.Factors = nil }, "has no factors"},
		"many factors":          {func(d *Design) { d.Factors = make([]string, 13) }, "at most 12"},
		"a factor without name": {func(d *Design) { d.Factors[1] = "" }, "factor 2 has no name"},
		"a factor twice":        {func(d *Design) { d.Factors[1] = "A" }, "factor A occurs twice"},
		"no cells":              {func(d *Design) { d.Cells = nil }, "has no responses"},
		"missing levels":        {func(d *Design) { d.Cells[2].Levels = []int{1} }, "has 1 levels"},
		"a negative level":      {func(d *Design) { d.Cells[2].Levels[0] = -1 }, "0 or more"},
		"a cell twice":          {func(d *Design) { d.Cells[1].Levels[0] = 0 }, "cell A=#1 B=#1 occurs twice"},
		"an empty cell":         {func(d *Design) { d.Cells[1].Y = nil }, "cell A=#2 B=#1 has no response"},
		"unequal repetitions": {
			func(d *Design) { d.Cells[3].Y = d.Cells[3].Y[:1] },
			"cell A=#2 B=#2 has 1 repetitions and A=#1 B=#1 has 2",
		},
		"not a number": {func(d *Design) { d.Cells[3].Y[0] = math.NaN() }, "finite"},
		"three levels": {func(d *Design) { d.Cells[3].Levels[0] = 2 }, "two levels"},
		"one level": {
			func(d *Design) { d.Cells = []Cell{d.Cells[0], d.Cells[2]} },
			"factor A has one level",
		},
		"a missing cell": {func(d *Design) { d.Cells = d.Cells[:3] }, "3 cells of 2 factors"},
	} {
		d := full()
		c.change(&d)
		_, err := Analyze(d, Options{})
		assert.ErrorContains(t, err, c.want, name)
	}
	_, err := Analyze(full(), Options{Confidence: 1})
	assert.ErrorContains(t, err, "confidence")
	_, err = Analyze(full(), Options{Model: "square"})
	assert.ErrorContains(t, err, `model "square"`)
	_, err = Analyze(full(), Options{MaxOrder: -1})
	assert.ErrorContains(t, err, "at most -1")
	_, err = Analyze(full(), Options{Model: Multiplicative, LogBase: 0.5})
	assert.ErrorContains(t, err, "base")
	missing := full()
	missing.Cells = missing.Cells[:3]
	_, err = Anova(missing, 0.9, 0)
	assert.ErrorContains(t, err, "expected all 4 combinations")
}
