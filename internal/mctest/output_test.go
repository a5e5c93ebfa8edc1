package mctest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"mcmw/internal/mctest"
)

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestOutputSaysWhenATextWasWritten(t *testing.T) {
	var out mctest.Output
	whole, split, never := out.Written("ready"), out.Written("two\nlines"), out.Written("no such text")
	fmt.Fprint(&out, "read")
	assert.False(t, isClosed(whole))
	fmt.Fprint(&out, "y, two")
	assert.True(t, isClosed(whole))
	assert.False(t, isClosed(split))
	fmt.Fprint(&out, "\nlines")
	assert.True(t, isClosed(split))
	assert.False(t, isClosed(never))
	assert.True(t, isClosed(out.Written("ready, two")), "it was written before")
	assert.Equal(t, "ready, two\nlines", out.String())
}

func TestOutputKeepsNoMoreThanItsLimit(t *testing.T) {
	out := mctest.Output{Limit: 10}
	for range 3 {
		n, err := fmt.Fprint(&out, "seven b")
		assert.NoError(t, err)
		assert.Equal(t, 7, n)
	}
	assert.Equal(t, "seven bsev", out.String())
}

func TestTakeRemovesTheOutput(t *testing.T) {
	var out mctest.Output
	fmt.Fprint(&out, "first")
	assert.Equal(t, "first", out.Take())
	again := out.Written("first")
	fmt.Fprint(&out, "second")
	assert.False(t, isClosed(again))
	assert.Equal(t, "second", out.Take())
	assert.Empty(t, out.Take())
}
