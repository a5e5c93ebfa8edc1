package factorial

import (
	"fmt"
	"math"
)

// checkOptions returns an error if a confidence or a largest order of interactions is out of range.
func checkOptions(confidence float64, maxOrder int) error {
	if !(confidence > 0 && confidence < 1) {
		return fmt.Errorf("confidence level %v: expected a number between 0 and 1, such as 0.95", confidence)
	}
	if maxOrder < 0 {
		return fmt.Errorf("interactions of at most %d factors: expected 1 or more, or 0 for all", maxOrder)
	}
	return nil
}

// ratio returns part/whole; NaN if the whole is 0, because then there are no shares of variation.
func ratio(part, whole float64) float64 {
	if whole == 0 {
		return math.NaN()
	}
	return part / whole
}

// Allocation is the allocation of the variation of a design to the terms of a model and to errors.
type Allocation struct {
	Factors    []string
	R          int // repetitions of each cell
	Confidence float64
	// Cells are the cells of the design in standard order, with the unchanged responses. CellMeans are their means, or
	// those of their logarithms in a multiplicative model.
	Cells     []Cell
	CellMeans []float64
	// SSY = SS0 + SST. SST is the sum over the terms, without the pooled ones, and SSE. SSE is the variation between
	// the repetitions of each cell plus that of the pooled terms. VariationError is its share of SST, NaN if nothing
	// varies.
	SSY, SS0, SST, SSE, VariationError float64
	// DOF are the degrees of freedom of the errors: N minus the terms of the model, which is 2^k (r-1) of 2^k cells if
	// no term is pooled. SE is the standard deviation of the errors, sqrt(SSE/DOF); NaN without degrees of freedom.
	DOF       int
	SE        float64
	Residuals []Residual
}

// Residual is a response and the model's prediction; both are logarithms in a multiplicative model.
type Residual struct {
	Cell, Repetition int // indices; the cell's is that in Allocation.Cells
	Y, Predicted     float64
	Error            float64 // Y - Predicted
}

// part is the variation of a term other than the mean. Pooled: it counts as error.
type part struct {
	ss     float64
	dof    int
	pooled bool
}

// allocate computes the sums of squares, the degrees of freedom and the residuals from the values that the model adds
// up, its predictions of the cells, and its terms.
func (a *Allocation) allocate(d Design, predicted []float64, parts []part) {
	for i, cell := range d.Cells {
		for j, y := range cell.Y {
			a.SSY += y * y
			a.SSE += (y - a.CellMeans[i]) * (y - a.CellMeans[i])
			a.Residuals = append(a.Residuals,
				Residual{Cell: i, Repetition: j, Y: y, Predicted: predicted[i], Error: y - predicted[i]})
		}
	}
	a.DOF, a.SST = len(d.Cells)*(a.R-1), a.SSE
	for _, p := range parts {
		a.SST += p.ss
		if p.pooled {
			a.SSE += p.ss
			a.DOF += p.dof
		}
	}
	a.VariationError = ratio(a.SSE, a.SST)
	a.SE = math.Sqrt(ratio(a.SSE, float64(a.DOF)))
}
