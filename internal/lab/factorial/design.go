package factorial

import (
	"fmt"
	"math"
	"slices"
)

// maxFactors bounds the sign table, which has 4^k entries.
const maxFactors = 12

// Cell is one combination of levels and its measurements.
type Cell struct {
	// Levels has a number per factor: 0 for its first level, 1 for its second and so on. In a two-level design these are
	// the levels -1 and +1.
	Levels []int
	// Y are the responses of the repetitions.
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

// check returns what keeps d from being analysed, nil if nothing does.
func (d Design) check() error {
	switch k := len(d.Factors); {
	case k == 0:
		return fmt.Errorf("a design without factors: expected at least one")
	case k > maxFactors:
		return fmt.Errorf("a design of %d factors: expected at most %d", k, maxFactors)
	case len(d.Cells) == 0:
		return fmt.Errorf("a design without responses")
	}
	for i, factor := range d.Factors {
		if factor == "" {
			return fmt.Errorf("factor %d has no name", i+1)
		}
		if slices.Contains(d.Factors[:i], factor) {
			return fmt.Errorf("factor %s stands twice in the design", factor)
		}
	}
	seen := make(map[string]bool, len(d.Cells))
	for _, cell := range d.Cells {
		if len(cell.Levels) != len(d.Factors) {
			return fmt.Errorf("a cell has %d levels: expected one for each of the %d factors", len(cell.Levels), len(d.Factors))
		}
		name := fmt.Sprint(cell.Levels)
		switch {
		case seen[name]:
			return fmt.Errorf("cell %s stands twice in the design: expected its repetitions together", d.where(cell))
		case len(cell.Y) == 0:
			return fmt.Errorf("cell %s has no response", d.where(cell))
		case len(cell.Y) != len(d.Cells[0].Y):
			return fmt.Errorf("cell %s has %d repetitions and %s has %d: expected as many in every cell",
				d.where(cell), len(cell.Y), d.where(d.Cells[0]), len(d.Cells[0].Y))
		}
		seen[name] = true
		for _, y := range cell.Y {
			if math.IsNaN(y) || math.IsInf(y, 0) {
				return fmt.Errorf("cell %s has the response %v: expected a finite number", d.where(cell), y)
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

func (d Design) where(c Cell) string {
	text := ""
	for i, level := range c.Levels {
		if i > 0 {
			text += " "
		}
		text += fmt.Sprintf("%s=#%d", d.Factors[i], level+1)
	}
	return text
}

// shiftedMean returns the mean of y. Equal values have exactly that mean, which a sum divided by their number need not
// give.
func shiftedMean(y []float64) float64 {
	sum := 0.0
	for _, v := range y[1:] {
		sum += v - y[0]
	}
	return y[0] + sum/float64(len(y))
}

// roundingFloor returns the size below which a sum of the responses y is rounding and stands for 0.
func roundingFloor(d Design) float64 {
	largest := 0.0
	for _, cell := range d.Cells {
		for _, y := range cell.Y {
			largest = max(largest, math.Abs(y))
		}
	}
	const epsilon = 0x1p-52
	return 4 * epsilon * largest
}
