package factorial

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"strings"
)

// Word is a product of factors that is the same in every cell of a fractional design: I = Sign * product of Effect. All
// words together, including I, are the defining relation (Jain, section 19.2).
type Word struct {
	Effect Effect
	Sign   int // +1 or -1
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

// definingRelation returns the words of a two-level design; none for a full design. Cells that form neither a full nor
// a regular fractional design are an error.
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
				return nil,
					fmt.Errorf("factor %s has a level number %d: expected two levels (more levels need an analysis "+
						"of variance)", factor, cell.Levels[i]+1)
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
		return nil,
			fmt.Errorf("%d cells of %d factors: expected all %d combinations of levels, or a regular fraction of them",
				n, k, 1<<k)
	}
	return words, nil
}

// aliasesOf returns the effects that are confounded with e (Jain, section 19.3): the products of e and each word.
func aliasesOf(e Effect, words []Word) []Word {
	aliases := make([]Word, len(words))
	for i, word := range words {
		aliases[i] = Word{Effect: e ^ word.Effect, Sign: word.Sign}
	}
	slices.SortFunc(aliases, func(a, b Word) int { return compareEffects(a.Effect, b.Effect) })
	return aliases
}

// resolution returns the length of the shortest word; 0 for a full design (Jain, section 19.4).
func resolution(words []Word) int {
	if len(words) == 0 {
		return 0
	}
	return slices.MinFunc(words, func(a, b Word) int { return a.Effect.Order() - b.Effect.Order() }).Effect.Order()
}

// Effect is a product of factors: bit i stands for factor i. The empty product is the mean.
type Effect uint32

// Mean is the effect of the empty product, I.
const Mean Effect = 0

// Order returns the number of factors of e: 1 for a main effect, 2 or more for an interaction.
func (e Effect) Order() int { return bits.OnesCount32(uint32(e)) }

// name returns the names of the factors: letters without a separator, or longer names joined by colons. The mean is
// "I".
func (e Effect) name(factors []string) string {
	if e == Mean {
		return "I"
	}
	var parts []string
	separator := ""
	for i, factor := range factors {
		if e&(1<<i) != 0 {
			parts = append(parts, factor)
		}
		if len(factor) > 1 {
			separator = ":"
		}
	}
	return strings.Join(parts, separator)
}

// compareEffects orders I, main effects, pairs and so on; effects of the same order by their factors: AB, AC, BC.
func compareEffects(a, b Effect) int {
	// Of two effects of the same order the one with the first factor in which they differ comes first.
	return cmp.Or(cmp.Compare(a.Order(), b.Order()), cmp.Compare(bits.Reverse32(uint32(b)), bits.Reverse32(uint32(a))))
}

// allEffects returns the 2^k effects of k factors in order, the mean first.
func allEffects(k int) []Effect {
	effects := make([]Effect, 1<<k)
	for i := range effects {
		effects[i] = Effect(i)
	}
	slices.SortFunc(effects, compareEffects)
	return effects
}
