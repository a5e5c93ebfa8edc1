package factorial

import (
	"slices"
	"strings"
)

// fraction returns the cells of a 2^(k-p) design, without responses: all combinations of the factors without a
// generator, with the levels of the other factors from their generators, such as "D=ABC" or "E=-AB".
func fraction(factors, generators []string) Design {
	d := Design{Factors: factors}
	generated := map[int]Word{}
	for _, text := range generators {
		left, right, _ := strings.Cut(text, "=")
		word := Word{Sign: 1}
		for _, letter := range right {
			if letter == '-' {
				word.Sign = -1
			} else {
				word.Effect |= 1 << slices.Index(factors, string(letter))
			}
		}
		generated[slices.Index(factors, left)] = word
	}
	for levels := range 1 << (len(factors) - len(generated)) {
		cell := Cell{Levels: make([]int, len(factors))}
		for factor := range factors {
			if _, ok := generated[factor]; !ok {
				cell.Levels[factor] = levels & 1
				levels >>= 1
			}
		}
		for factor, word := range generated {
			cell.Levels[factor] = (1 + word.Sign*Sign(cell, word.Effect)) / 2
		}
		d.Cells = append(d.Cells, cell)
	}
	return d
}
