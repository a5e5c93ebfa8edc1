package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheFigureOfStaleReadsNamesEveryProxy(t *testing.T) {
	runs := func(stale ...int) (all []StaleRun) {
		for _, n := range stale {
			all = append(all, StaleRun{Reads: 100, Stale: n})
		}
		return all
	}
	svg := string(staleFigure([][]StaleRun{runs(0, 0), runs(33, 34), runs(20, 40)}).SVG())
	for _, name := range StaleProxies {
		require.Contains(t, svg, name[:4])
	}
}
