package experiment

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"mcmw/lab/condition"
	"mcmw/lab/frame"
)

// slots returns all slots of an experiment, as "point/repetition".
func slots(t require.TestingT, e *Experiment, measured func(point, before int) []float64) (all []string) {
	s := e.Schedule(func(_, _ string, point, before int) []float64 { return measured(point, before) })
	for {
		slot, ok := s.Next()
		if !ok {
			_, again := s.Next()
			require.False(t, again)
			return all
		}
		require.Equal(t, len(all), slot.Position)
		all = append(all, fmt.Sprintf("%d/%d", slot.Point.Number, slot.Repetition))
	}
}

// ofPoints returns an experiment of n points.
func ofPoints(n int, order Order, repetitions int, seed uint64) *Experiment {
	e := &Experiment{Order: order, Repetitions: repetitions, Seed: seed}
	for i := range n {
		e.Points = append(e.Points, Point{Number: i})
	}
	return e
}

func TestEveryOrderHasEveryRepetitionOfEveryPointOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		order := rapid.SampledFrom([]Order{Interleaved, Random, Listed}).Draw(t, "order")
		points, repetitions := rapid.IntRange(1, 20).Draw(t, "points"), rapid.IntRange(1, 8).Draw(t, "repetitions")
		e := ofPoints(points, order, repetitions, rapid.Uint64().Draw(t, "seed"))
		all := slots(t, e, nil)
		require.Equal(t, all, slots(t, e, nil), "the order depends only on the experiment")
		want := map[string]bool{}
		for p := range points {
			for r := range repetitions {
				want[fmt.Sprintf("%d/%d", p, r)] = true
			}
		}
		require.Len(t, all, len(want))
		got := map[string]bool{}
		for _, slot := range all {
			got[slot] = true
		}
		require.True(t, maps.Equal(want, got))
		if order == Interleaved {
			for round := range slices.Chunk(all, points) {
				for _, slot := range round {
					require.Equal(t, round[0][len(round[0])-2:], slot[len(slot)-2:],
						"a round has one repetition of each point")
				}
			}
		}
	})
}

func TestRoundsHaveDifferentOrdersThatDependOnTheSeed(t *testing.T) {
	e := ofPoints(8, Interleaved, 2, 1)
	all := slots(t, e, nil)
	var rounds [2][]string
	for i, slot := range all {
		rounds[i/8] = append(rounds[i/8], slot[:1])
	}
	assert.NotEqual(t, rounds[0], rounds[1])
	e.Seed = 2
	assert.NotEqual(t, all, slots(t, e, nil))
	assert.Equal(t, []string{"0/0", "0/1", "1/0", "1/1"}, slots(t, ofPoints(2, Listed, 2, 9), nil))
}

// until reads a condition of a stop rule.
func until(t *testing.T, text string) condition.Condition {
	c, err := condition.Parse(text, stops)
	require.NoError(t, err)
	return c
}

func TestAStopRuleEndsPointsThatAreKnownPreciselyEnough(t *testing.T) {
	for _, order := range []Order{Interleaved, Listed} {
		e := ofPoints(3, order, 0, 1)
		e.Stop = &Stop{
			When: []condition.Condition{until(t, "half_width(throughput) <= 5%")}, Confidence: 0.95,
			AtLeast: 3, AtMost: 6,
		}
		values := [][]float64{
			{100, 101, 100, 101, 100, 101}, // at once
			{100, 200, 100, 200, 100, 200}, // never
			{100, 110, 99, 101, 102, 101},  // not by the interval, but by the variation after four
		}
		got := slots(t, e, func(point, before int) []float64 { return values[point][:before] })
		count := map[string]int{}
		for _, slot := range got {
			count[slot[:1]]++
		}
		assert.Equal(t, 3, count["0"])
		assert.Equal(t, 6, count["1"])
		assert.Equal(t, 6, count["2"])
		e.Stop.When = append(e.Stop.When, until(t, "variation(throughput) < 5%"))
		got = slots(t, e, func(point, before int) []float64 { return values[point][:before] })
		count = map[string]int{}
		for _, slot := range got {
			count[slot[:1]]++
		}
		assert.Equal(t, map[string]int{"0": 3, "1": 6, "2": 4}, count)
	}
}

func TestTheStopRuleUsesStudentsInterval(t *testing.T) {
	// n = 4, mean 100, s = 2.582; t[0.975; 3] = 3.182: the half width is 4.108.
	satisfied := func(text string, values ...float64) bool {
		s := &Stop{When: []condition.Condition{until(t, text)}, Confidence: 0.95, AtLeast: 2, AtMost: 9}
		return s.Satisfied(func(frame.Metric) []float64 { return values })
	}
	assert.True(t, satisfied("half_width(throughput) <= 4.12%", 97, 99, 101, 103))
	assert.False(t, satisfied("half_width(throughput) <= 4.1%", 97, 99, 101, 103))
	assert.False(t, satisfied("half_width(throughput) <= 4.1%", 97), "one value has no interval")
	assert.True(t, satisfied("variation(throughput) < 2.59%", 97, 99, 101, 103))
	assert.False(t, satisfied("variation(throughput) < 2.58%", 97, 99, 101, 103))
}

func TestAFractionHasTheCombinationsOfItsEquations(t *testing.T) {
	// The 2^(4-1) design of Jain, chapter 19, with D = ABC: its sign table, row by row.
	e := parse(t, `
name: fraction
factors: {workers: [1, 2], depth: [1, 2], pipeline: [1, 2], keys_per_get: [1, 2]}
fraction: {keys_per_get: [workers, depth, pipeline]}
`)
	require.Len(t, e.Points, 8)
	products := map[string]int{}
	for _, p := range e.Points {
		sign := func(name string) int { return 2*p.Values.Int(name) - 3 }
		assert.Equal(t, sign(Workers)*sign(Depth)*sign(Pipeline), sign(KeysPerGet), p)
		for _, a := range []string{Workers, Depth, Pipeline, KeysPerGet} {
			products[a] += sign(a)
			for _, b := range []string{Workers, Depth, Pipeline, KeysPerGet} {
				if a != b {
					products[a+b] += sign(a) * sign(b)
				}
			}
		}
	}
	for name, sum := range products {
		assert.Zero(t, sum, "%s: the columns are balanced and orthogonal", name)
	}
}

func TestPairedPointsTakeTurns(t *testing.T) {
	e,
		err := Parse("exp.yaml",
		[]byte("name: a\norder: paired\nrepetitions: 3\nfactors: {clients: [1, 2], system: [direct, mcmw, "+
			"twemproxy]}\n"), false)
	require.NoError(t, err)
	require.Equal(t, []string{
		"0/0", "1/0", "2/0", "3/0", "4/0", "5/0", // as in the file
		"1/1", "2/1", "0/1", "4/1", "5/1", "3/1",
		"2/2", "0/2", "1/2", "5/2", "3/2", "4/2",
	}, slots(t, e, nil))
}
