// Package recomputed recomputes the tables of five published reports on memcached and its middlewares from their
// printed numbers or their published raw data: factorial designs, queueing models, operational laws. testdata/NAME.yaml
// has the printed tables and numbers, checks_test.go the checks, of which each recomputes one printed number. A number
// that differs has a reason.
package recomputed

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/lab/paper"
)

// checked has the checks of reports by name, for all tests.
var checked = map[string][]Check{}

// checksOf returns the checks of a report.
func checksOf(t *testing.T, name string) []Check {
	if checked[name] == nil {
		r, err := load(name)
		require.NoError(t, err)
		checksOfReports[name](r)
		checked[name] = r.checks
	}
	return checked[name]
}

func TestEveryDifferenceHasAReason(t *testing.T) {
	for _, name := range paper.Names {
		for _, k := range checksOf(t, name) {
			if k.Verdict == Differs {
				assert.NotEmpty(t, k.Why, "%s, table %s, %s: printed %v, recomputed %v", name, k.Table, k.What,
					k.Printed, k.Recomputed)
			}
		}
	}
}

// The numbers are those of the reports' own mistakes; everything else agrees.
func TestTheKnownMistakesAndNoOthersAreFound(t *testing.T) {
	want := map[string]map[string]int{
		"kuechler": {},
		"pungas":   {},
		"pavlik":   {"3.2": 19},
		"ribeiro":  {"3": 1, "4": 1, "5": 3, "7": 1, "8": 2},
		"cetin": {
			"5": 1, "2^k wo-tpt-add": 10, "2^k wo-tpt-mult": 10, "2^k wo-lat-add": 13, "2^k wo-lat-mult": 12,
			"network of queues": 4,
		},
	}
	for _, name := range paper.Names {
		got := map[string]int{}
		for _, k := range checksOf(t, name) {
			if k.Verdict == Differs {
				got[k.Table]++
			}
		}
		assert.Equal(t, want[name], got, name)
	}
}

func TestFiguresAreRecomputedToTheirDigits(t *testing.T) {
	for _, c := range []struct {
		report, table, what string
		printed, recomputed float64
		verdict             Verdict
	}{
		{"kuechler", "2", "throughput, W: effect", 1813, 1813.31875, Agrees},
		{"kuechler", "4", "response time, S: sum of squares", 10439, 10445.854, Rounding},
		{"kuechler", "5", "8 workers: ρ with 6 clients", 0.37, 0.36914644, Agrees},
		{"kuechler", "text", "2.2.1: reads that 199 MBit/s allow [ops/s]", 6062, 6072.998, Rounding},
		{"pavlik", "3.1", "percentage, 5 instances", 104.16, 104.16666667, CutOff},
		{"ribeiro", "1", "average response time", 0.363, 0.36350418, Rounding},
		{"ribeiro", "3", "sd service time", 0.054, 0.052952078, Differs},
		{"ribeiro", "3", "jobs in queue", 4.995, 4.99531507, Agrees},
		{"ribeiro", "5", "E[n] (7,7,10%)", 7.09, 7.089939, Agrees},
		{"ribeiro", "10", "sum of squares B", 76493600, 76489896.125, Rounding},
		{"ribeiro", "12", "predicted response time [ms] (5,3)", 13.527, 13.526773, Agrees},
		{"ribeiro", "section 4.3", "s_e", 267.306, 267.3055, Agrees},
		{"cetin", "2^k wo-lat-add", "share of the errors", 0.076, 0.013438837, Differs},
		{"cetin", "network of queues", "2mw-wo-64, 288 clients: throughput [ops/s]", 8065.4, 10599.1321202, Differs},
	} {
		checks := checksOf(t, c.report)
		i := slices.IndexFunc(checks, func(k Check) bool { return k.Table == c.table && k.What == c.what })
		require.GreaterOrEqual(t, i, 0, "%s: %s", c.report, c.what)
		k := checks[i]
		assert.InDelta(t, c.printed, k.Printed, 0, c.what)
		assert.InEpsilon(t, c.recomputed, k.Recomputed, 1e-6, c.what)
		assert.Equal(t, c.verdict, k.Verdict, c.what)
	}
}

func TestAChangedFigureIsFound(t *testing.T) {
	r, err := load("kuechler")
	require.NoError(t, err)
	r.find("2").Rows[1].Values[0].Value = "-1294"
	kuechler(r)
	i := slices.IndexFunc(r.checks, func(k Check) bool { return k.What == "throughput, S: effect" })
	assert.Equal(t, Differs, r.checks[i].Verdict)
}

func TestTheNumberOfChecksIsKept(t *testing.T) {
	for name, least := range map[string]int{"kuechler": 244, "pungas": 1, "pavlik": 35, "ribeiro": 190, "cetin": 164} {
		assert.GreaterOrEqual(t, len(checksOf(t, name)), least, name)
	}
}
