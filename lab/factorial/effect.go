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
