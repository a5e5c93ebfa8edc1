package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/faults"
)

func TestTheFigureOfStaleReadsNamesEveryProxy(t *testing.T) {
	runs := func(stale ...int) (all []faults.StaleRun) {
		for _, n := range stale {
			all = append(all, faults.StaleRun{Reads: 100, Stale: n})
		}
		return all
	}
	svg := string(staleFigure([][]faults.StaleRun{runs(0, 0), runs(33, 34), runs(20, 40)}).SVG())
	for _, name := range faults.StaleProxies {
		require.Contains(t, svg, name[:4])
	}
}
