package factorial

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// vector is a case computed by another program with 60 digits; see the meta object of the files.
type vector struct {
	ID      string   `json:"id"`
	Model   Model    `json:"model"`
	R       int      `json:"r"`
	Factors []string `json:"factors"`
	LogBase string   `json:"log_base"`
	Runs    []struct {
		Levels map[string]int `json:"levels"`
		Y      []float64      `json:"y"`
	} `json:"runs"`
	Expected struct {
		CellMeans           []float64             `json:"cell_means"`
		Effects             map[string]float64    `json:"effects"`
		SumOfSquares        map[string]float64    `json:"sum_of_squares"`
		SSY                 float64               `json:"SSY"`
		SS0                 float64               `json:"SS0"`
		SST                 float64               `json:"SST"`
		SSE                 float64               `json:"SSE"`
		Percent             map[string]*float64   `json:"percent_of_variation"`
		PercentError        *float64              `json:"percent_error"`
		Errors              [][]float64           `json:"errors"`
		DOF                 int                   `json:"error_dof"`
		Confidence          float64               `json:"confidence"`
		T                   *float64              `json:"t"`
		SE                  *float64              `json:"s_e"`
		SQ                  *float64              `json:"s_q"`
		HalfWidth           *float64              `json:"half_width"`
		ConfidenceIntervals map[string][2]float64 `json:"confidence_intervals"`
		Significant         map[string]bool       `json:"significant"`
		CellMeanHalfWidth   *float64              `json:"cell_mean_half_width"`
		Multipliers         map[string]float64    `json:"multipliers"`
		GeometricCellMeans  []float64             `json:"geometric_cell_means"`
	} `json:"expected"`
}

// design returns the case's responses.
func (v vector) design() Design {
	d := Design{Factors: v.Factors}
	for _, run := range v.Runs {
		cell := Cell{Y: run.Y}
		for _, factor := range v.Factors {
			cell.Levels = append(cell.Levels, (run.Levels[factor]+1)/2)
		}
		d.Cells = append(d.Cells, cell)
	}
	return d
}

// vectors reads the cases of all files of vectors in testdata.
func vectors(t *testing.T) []vector {
	paths, err := filepath.Glob("testdata/*vectors*.json")
	require.NoError(t, err)
	var all []vector
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		var file struct {
			Cases []vector `json:"cases"`
		}
		require.NoError(t, json.Unmarshal(text, &file))
		all = append(all, file.Cases...)
	}
	require.NotEmpty(t, all)
	return all
}

// analyze returns the analysis of a valid design.
func analyze(t require.TestingT, d Design, o Options) *Analysis {
	a, err := Analyze(d, o)
	require.NoError(t, err)
	return a
}

// near requires a relative error of at most 1e-9, or an absolute one if want is 0.
func near(t *testing.T, want, got float64, what string) {
	t.Helper()
	const tolerance = 1e-9
	if math.Abs(want) < 1e-30 {
		assert.InDelta(t, 0, got, tolerance, what)
		return
	}
	assert.LessOrEqual(t, math.Abs(got-want), tolerance*math.Abs(want), "%s: expected %v, got %v", what, want, got)
}

// nearOrNone is near for a value that is null if it doesn't exist.
func nearOrNone(t *testing.T, want *float64, got float64, what string) {
	t.Helper()
	if want == nil {
		assert.True(t, math.IsNaN(got), "%s: expected none, got %v", what, got)
		return
	}
	near(t, *want, got, what)
}

func TestEveryFieldOfTheReferenceCasesIsReproduced(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.ID, func(t *testing.T) {
			o := Options{Model: v.Model, Confidence: v.Expected.Confidence}
			if base, err := strconv.ParseFloat(v.LogBase, 64); err == nil {
				o.LogBase = base
			}
			a := analyze(t, v.design(), o)
			want := v.Expected
			require.Len(t, a.Terms, len(want.Effects))
			for name, q := range want.Effects {
				term, ok := a.Term(name)
				require.True(t, ok, name)
				near(t, q, term.Q, "q_"+name)
				if name == "I" {
					assert.True(t, math.IsNaN(term.Variation))
				} else {
					near(t, want.SumOfSquares[name], term.SS, "SS_"+name)
					nearOrNone(t, want.Percent[name], 100*term.Variation, "variation of "+name)
				}
				if want.ConfidenceIntervals == nil {
					assert.False(t, term.Significant)
					assert.Zero(t, term.Interval)
				} else {
					near(t, want.ConfidenceIntervals[name][0], term.Interval.Low, "interval of "+name)
					near(t, want.ConfidenceIntervals[name][1], term.Interval.High, "interval of "+name)
					assert.Equal(t, want.Significant[name], term.Significant, name)
				}
				near(t, want.Multipliers[name], term.Multiplier, "multiplier of "+name)
			}
			near(t, want.SSY, a.SSY, "SSY")
			near(t, want.SS0, a.SS0, "SS0")
			near(t, want.SST, a.SST, "SST")
			near(t, want.SSE, a.SSE, "SSE")
			nearOrNone(t, want.PercentError, 100*a.VariationError, "variation of the errors")
			assert.Equal(t, want.DOF, a.DOF)
			nearOrNone(t, want.T, a.T, "t")
			nearOrNone(t, want.SE, a.SE, "s_e")
			nearOrNone(t, want.SQ, a.SQ, "s_q")
			nearOrNone(t, want.HalfWidth, a.HalfWidth, "half width")
			nearOrNone(t, want.CellMeanHalfWidth, a.CellHalfWidth, "half width of a cell mean")
			require.Len(t, a.CellMeans, len(want.CellMeans))
			for i, mean := range want.CellMeans {
				near(t, mean, a.CellMeans[i], "cell mean")
			}
			for i, mean := range want.GeometricCellMeans {
				near(t, mean, math.Pow(a.LogBase, a.CellMeans[i]), "geometric cell mean")
			}
			require.Len(t, a.Residuals, v.R*len(v.Runs))
			for _, residual := range a.Residuals {
				near(t, want.Errors[residual.Cell][residual.Repetition], residual.Error, "error")
			}
		})
	}
}
