package middleware

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"mcmw/internal/route"
)

// If another list is wanted while servers that gain keys are cleaned, other servers may gain keys. These are cleaned, too, before they are read.
func TestAPhaseThatBeginsAgainForAnotherListAwaitsItsOwnCleaning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m Middleware
		rescheduled := make(chan struct{}, 1)
		var first, second sync.WaitGroup
		first.Add(1)
		second.Add(1)
		c := &course{phase: route.DeleteNew, due: time.Now(), cleaning: &first}
		steps := 0
		ended := make(chan struct{})
		go func() {
			m.follow(t.Context(), rescheduled, func() *course { return c }, func(context.Context) (more bool) { return true }, func(context.Context) (more bool) {
				steps++
				return false
			})
			close(ended)
		}()
		synctest.Wait() // for the first cleaning
		m.applying.Lock()
		c.cleaning = &second
		rescheduled <- struct{}{}
		m.applying.Unlock()
		first.Done()
		synctest.Wait()
		m.applying.Lock()
		assert.Zero(t, steps, "the servers of the second list are not clean")
		m.applying.Unlock()
		second.Done()
		<-ended
		assert.Equal(t, 1, steps)
	})
}
