package plan

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"mcmw/internal/keylock"
)

func TestAStripeSetHoldsWhatWasAddedSinceItWasCleared(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var s stripeSet
		members := map[uint32]bool{}
		stripe := rapid.OneOf(rapid.Uint32Range(0, 300), rapid.Uint32Range(0, keylock.Stripes-1))
		r.Repeat(map[string]func(*rapid.T){
			"add": func(r *rapid.T) {
				added := stripe.Draw(r, "stripe")
				s.add(added)
				members[added] = true
			},
			"clear": func(*rapid.T) {
				s.clear()
				clear(members)
			},
			"": func(r *rapid.T) {
				asked := stripe.Draw(r, "asked")
				require.Equal(r, members[asked], s.has(asked), asked)
				for m := range members {
					require.True(r, s.has(m), m)
				}
			},
		})
	})
}
