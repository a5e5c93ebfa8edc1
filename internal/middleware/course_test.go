package middleware

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mcmw/internal/route"
)

// If another list is wanted while servers that gain keys are cleaned, other servers may gain keys. These are cleaned,
// too, before they are read.
func TestAPhaseThatBeginsAgainForAnotherListAwaitsItsOwnCleaning(t *testing.T) {
	first, second := make(chan struct{}), make(chan struct{})
	c := &course{due: time.Now(), cleaned: first}
	assert.Positive(t, c.lasts(nil))
	c.cleaned = second
	close(first)
	assert.Positive(t, c.lasts(nil), "the servers of the second list are not clean")
	close(second)
	assert.LessOrEqual(t, c.lasts(nil), time.Duration(0))
	c.due = time.Now().Add(time.Hour)
	assert.Positive(t, c.lasts(nil))
}

func TestAPhaseEndsForLaterPhasesAndLastsForEarlierOnesOfOthers(t *testing.T) {
	announced := func(phases []route.Phase, key notice) bool {
		return slices.ContainsFunc(phases, func(p route.Phase) bool {
			return slices.Contains(courseRows[p].announces, key)
		})
	}
	order := []route.Phase{route.DeleteNew, route.Copy, route.HandOver, route.ReadNew, route.Late}
	for at, phase := range order {
		row := courseRows[phase]
		for _, key := range row.endsFor {
			assert.True(t, announced(order[at+1:], key), "%s, %d", phase, key)
		}
		for _, key := range row.waits {
			assert.True(t, announced(order[:at], key), "%s, %d", phase, key)
		}
		for _, key := range slices.Concat(row.endsFor, row.waits) {
			assert.NotContains(t, row.announces, key, "sightings lack the own key")
		}
	}
}
