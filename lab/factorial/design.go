package factorial

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// maxFactors limits the sign table, which has 4^k entries.
const maxFactors = 12

// Cell is one combination of levels and its measurements.
type Cell struct {
	// Levels has the index of each factor's level: 0 for its first level, 1 for its second and so on. In a two-level
	// design these are the levels -1 and +1.
	Levels []int
	// Y has the responses of the repetitions.
	Y []float64
}

// Design is an experiment in which every combination of levels was measured equally often.
type Design struct {
	Factors []string
	Cells   []Cell
}

// sorted returns d with its cells in standard (Yates) order, the first factor varying fastest.
func (d Design) sorted() Design {
	cells := slices.Clone(d.Cells)
	slices.SortStableFunc(cells, func(a, b Cell) int {
		for i := len(d.Factors) - 1; i >= 0; i-- {
			if a.Levels[i] != b.Levels[i] {
				return a.Levels[i] - b.Levels[i]
			}
		}
		return 0
	})
	return Design{Factors: d.Factors, Cells: cells}
}

// check returns an error if d can't be analysed.
func (d Design) check() error {
	switch k := len(d.Factors); {
	case k == 0:
		return errors.New("the design has no factors: expected at least one")
	case k > maxFactors:
		return fmt.Errorf("the design has %d factors: expected at most %d", k, maxFactors)
	case len(d.Cells) == 0:
		return errors.New("the design has no responses")
	}
	for i, factor := range d.Factors {
		if factor == "" {
			return fmt.Errorf("factor %d has no name", i+1)
		}
		if slices.Contains(d.Factors[:i], factor) {
			return fmt.Errorf("factor %s occurs twice in the design", factor)
		}
	}
	seen := make(map[string]bool, len(d.Cells))
	for _, cell := range d.Cells {
		if len(cell.Levels) != len(d.Factors) {
			return fmt.Errorf("a cell has %d levels: expected one for each of the %d factors", len(cell.Levels),
				len(d.Factors))
		}
		name := fmt.Sprint(cell.Levels)
		switch {
		case seen[name]:
			return fmt.Errorf("cell %s occurs twice in the design: expected its repetitions together", d.label(cell))
		case len(cell.Y) == 0:
			return fmt.Errorf("cell %s has no response", d.label(cell))
		case len(cell.Y) != len(d.Cells[0].Y):
			return fmt.Errorf("cell %s has %d repetitions and %s has %d: expected the same number in every cell",
				d.label(cell), len(cell.Y), d.label(d.Cells[0]), len(d.Cells[0].Y))
		}
		seen[name] = true
		for _, y := range cell.Y {
			if math.IsNaN(y) || math.IsInf(y, 0) {
				return fmt.Errorf("cell %s has the response %v: expected a finite number", d.label(cell), y)
			}
		}
		for i, level := range cell.Levels {
			if level < 0 {
				return fmt.Errorf("level %d of factor %s: expected 0 or more", level, d.Factors[i])
			}
		}
	}
	return nil
}

// label names a cell: "servers=#1 workers=#2".
func (d Design) label(c Cell) string {
	parts := make([]string, len(c.Levels))
	for i, level := range c.Levels {
		parts[i] = fmt.Sprintf("%s=#%d", d.Factors[i], level+1)
	}
	return strings.Join(parts, " ")
}

// shiftedMean returns the mean of y. The mean of equal values is exactly that value, which the sum divided by the
// number need not be.
func shiftedMean(y []float64) float64 {
	sum := 0.0
	for _, v := range y[1:] {
		sum += v - y[0]
	}
	return y[0] + sum/float64(len(y))
}

// means returns the means of the cells.
func (d Design) means() (means []float64) {
	for _, cell := range d.Cells {
		means = append(means, shiftedMean(cell.Y))
	}
	return means
}

// Largest returns the largest absolute value of the responses.
func (d Design) Largest() (largest float64) {
	for _, cell := range d.Cells {
		for _, y := range cell.Y {
			largest = max(largest, math.Abs(y))
		}
	}
	return largest
}

// roundingFloor returns the limit below which an effect is only rounding and counts as 0.
func (d Design) roundingFloor() float64 {
	const epsilon = 0x1p-52
	return 4 * epsilon * d.Largest()
}
