package factorial

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Word is a product of factors that is the same in every cell of a fractional design: I = Sign * product of Effect. All
// words together, I among them, are the defining relation (Jain, section 19.2).
type Word struct {
	Effect Effect
	Sign   int // +1 or -1
}

// Fraction returns the cells of a 2^(k-p) design, without responses: all combinations of the factors that no generator
// defines, and in each the levels that the generators give the others. A generator is an equation of single-letter
// factors, such as "D=ABC" or "E=-AB".
func Fraction(factors, generators []string) (Design, error) {
	d := Design{Factors: factors}
	if len(factors) == 0 || len(factors) > maxFactors {
		return d, fmt.Errorf("a fractional design of %d factors: expected 1 to %d", len(factors), maxFactors)
	}
	generated := make(map[int]Word, len(generators))
	for _, text := range generators {
		factor, word, err := parseGenerator(factors, text)
		if err != nil {
			return d, err
		}
		if _, again := generated[factor]; again {
			return d, fmt.Errorf("generator %q: factor %s has a generator already", text, factors[factor])
		}
		generated[factor] = word
	}
	var base []int
	for i := range factors {
		if _, ok := generated[i]; !ok {
			base = append(base, i)
		}
	}
	for factor, word := range generated {
		for other := range generated {
			if word.Effect&(1<<other) != 0 {
				return d, fmt.Errorf("the generator of factor %s uses %s, which has a generator itself: expected factors without one",
					factors[factor], factors[other])
			}
		}
	}
	for run := range 1 << len(base) {
		cell := Cell{Levels: make([]int, len(factors))}
		for bit, factor := range base {
			cell.Levels[factor] = run >> bit & 1
		}
		for factor, word := range generated {
			cell.Levels[factor] = (1 + word.Sign*Sign(cell, word.Effect)) / 2
		}
		d.Cells = append(d.Cells, cell)
	}
	return d, nil
}

// parseGenerator reads "D=ABC": the number of the factor, and the word on the right.
func parseGenerator(factors []string, text string) (int, Word, error) {
	word := Word{Sign: 1}
	left, right, ok := strings.Cut(strings.ReplaceAll(text, " ", ""), "=")
	factor := slices.Index(factors, left)
	if !ok || factor < 0 {
		return 0, word, fmt.Errorf("generator %q: expected an equation of factors such as D=ABC, with one of %s on the left", text, strings.Join(factors, ", "))
	}
	if rest, negative := strings.CutPrefix(right, "-"); negative {
		right, word.Sign = rest, -1
	}
	for _, letter := range right {
		i := slices.Index(factors, string(letter))
		if i < 0 || word.Effect&(1<<i) != 0 {
			return 0, word, fmt.Errorf("generator %q: expected different factors of %s on the right", text, strings.Join(factors, ", "))
		}
		word.Effect |= 1 << i
	}
	if word.Effect == Mean {
		return 0, word, fmt.Errorf("generator %q: expected factors on the right", text)
	}
	return factor, word, nil
}

// Sign returns the entry of the sign table for e in the cell c: the product of the levels, -1 or +1.
func Sign(c Cell, e Effect) int {
	low := 0
	for i, level := range c.Levels {
		if e&(1<<i) != 0 && level == 0 {
			low++
		}
	}
	return 1 - 2*(low&1)
}

// definingRelation returns the words of a two-level design; none for a full one. Cells that form neither a full nor a
// regular fractional design are an error.
func definingRelation(d Design) ([]Word, error) {
	k := len(d.Factors)
	for i, factor := range d.Factors {
		low, high := 0, 0
		for _, cell := range d.Cells {
			switch cell.Levels[i] {
			case 0:
				low++
			case 1:
				high++
			default:
				return nil, fmt.Errorf("factor %s has a level number %d: expected two levels (more levels need an analysis of variance)", factor, cell.Levels[i]+1)
			}
		}
		if low == 0 || high == 0 {
			return nil, fmt.Errorf("factor %s has one level in all cells: expected two", factor)
		}
	}
	var words []Word
	for _, e := range allEffects(k)[1:] {
		first := Sign(d.Cells[0], e)
		if !slices.ContainsFunc(d.Cells, func(c Cell) bool { return Sign(c, e) != first }) {
			words = append(words, Word{Effect: e, Sign: first})
		}
	}
	if n := len(d.Cells); n*(len(words)+1) != 1<<k {
		return nil, fmt.Errorf("%d cells of %d factors: expected all %d combinations of levels, or a regular fraction of them", n, k, 1<<k)
	}
	return words, nil
}

// aliasesOf returns what cannot be told from e (Jain, section 19.3): with each word its product with e.
func aliasesOf(e Effect, words []Word) []Word {
	aliases := make([]Word, len(words))
	for i, word := range words {
		aliases[i] = Word{Effect: e ^ word.Effect, Sign: word.Sign}
	}
	slices.SortFunc(aliases, func(a, b Word) int { return compareEffects(a.Effect, b.Effect) })
	return aliases
}

// resolution returns the length of the shortest word, 0 of a full design (Jain, section 19.4).
func resolution(words []Word) int {
	shortest := 0
	for _, word := range words {
		if n := bits.OnesCount32(uint32(word.Effect)); shortest == 0 || n < shortest {
			shortest = n
		}
	}
	return shortest
}
