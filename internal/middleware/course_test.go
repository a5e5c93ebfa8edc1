package middleware

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// If another list is wanted while servers that gain keys are cleaned, other servers may gain keys. These are cleaned,
// too, before they are read.
func TestAPhaseThatBeginsAgainForAnotherListAwaitsItsOwnCleaning(t *testing.T) {
	first, second := make(chan struct{}), make(chan struct{})
	c := &course{due: time.Now(), cleaned: first}
	assert.False(t, c.mayEnd())
	c.cleaned = second
	close(first)
	assert.False(t, c.mayEnd(), "the servers of the second list are not clean")
	close(second)
	assert.True(t, c.mayEnd())
	c.due = time.Now().Add(time.Hour)
	assert.False(t, c.mayEnd())
}
