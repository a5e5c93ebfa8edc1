package model

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The values for several servers are those of the published tables of Erlang's formulas; the others follow by hand.
func TestErlangsFormulasAgreeWithPublishedTables(t *testing.T) {
	for _, c := range []struct {
		a            float64
		m            int
		lost, queued float64
	}{
		{0, 1, 0, 0},
		{0.5, 1, 1.0 / 3, 0.5},
		{1, 2, 0.2, 1.0 / 3},
		{2, 3, 4.0 / 19, 4.0 / 9},
		{4, 5, 0.1991, 0.5541},
		{8, 10, 0.1217, 0.4092},
		{0, 4, 0, 0},
	} {
		require.InDelta(t, c.lost, erlangB(c.a, c.m), 5e-5, "B of a=%v m=%d", c.a, c.m)
		require.InDelta(t, c.queued, ErlangC(c.a, c.m, 1-c.a/float64(c.m)), 5e-5, "C of a=%v m=%d", c.a, c.m)
	}
	require.InDelta(t, 1, ErlangC(999.999, 1000, 1e-6), 1e-3, "no overflow")
}
