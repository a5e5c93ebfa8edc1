package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestHalfOfTheProcessorsAreUsedUnlessToldOtherwise(t *testing.T) {
	for _, tc := range []struct {
		asked, available int
		inEnvironment    bool
		want             int
	}{
		{0, 1, false, 1},
		{0, 2, false, 1},
		{0, 3, false, 2},
		{0, 8, false, 4},
		{0, 8, true, 8},
		{3, 8, false, 3},
		{3, 2, true, 3},
	} {
		assert.Equal(t, tc.want, procs(tc.asked, tc.available, tc.inEnvironment), "%+v", tc)
	}
}
