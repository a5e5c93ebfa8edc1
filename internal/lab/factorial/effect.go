package factorial

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// Effect is a product of factors: bit i stands for factor i. The empty product is the mean.
type Effect uint32

// Mean is the effect of the empty product, I.
const Mean Effect = 0

// Order returns the number of factors in e: 1 for a main effect, 2 or more for an interaction.
func (e Effect) Order() int { return bits.OnesCount32(uint32(e)) }

// name returns the letters of the factors in a row, or joined by colons where a factor's name is longer; "I" for the mean.
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

// compareEffects orders I, main effects, pairs and so on, and those of an order by their factors: AB, AC, BC.
func compareEffects(a, b Effect) int {
	if c := cmp.Compare(a.Order(), b.Order()); c != 0 {
		return c
	}
	// The effect that has the first factor in which they differ comes first.
	return cmp.Compare(bits.Reverse32(uint32(b)), bits.Reverse32(uint32(a)))
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
