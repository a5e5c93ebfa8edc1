package experiment

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/lab/capacity"
)

const raised = `
name: raised
constants: {middlewares: 0}
factors:
  server: [memcached, redis]
  clients: [1, 2, 4, 8, 16]
repetitions: 2
`

func TestAQualityOfServiceIsRead(t *testing.T) {
	e := parse(t, raised+"quality: {}")
	assert.Equal(t, &Quality{Rule: capacity.DefaultRule()}, e.Quality)
	e = parse(t,
		raised+"quality: {metric: server:s1.process_cpu, below: 0.9, over: clients, confidence: 0.9, give_up: 2}")
	short := parse(t,
		raised+"quality: {condition: 'server:s1.process_cpu < 0.9', over: clients, confidence: 0.9, give_up: 2}")
	assert.Equal(t, short.Quality, e.Quality, "the earlier spelling, which records have")
	assert.Equal(t, "server:s1.process_cpu < 0.9", e.Quality.Condition.Text)
	assert.Equal(t, capacity.DefaultRule(), parse(t, raised+"quality: client.response_time_p99 < 1ms").Quality.Rule)
	least, most := e.Runs()
	assert.Equal(t, [2]int{8, 20}, [2]int{least, most}, "at least two levels of each server")
	assert.InDelta(t, 0.002, parse(t, raised+"quality: {below: 2ms}").Quality.Condition.High, 0)

	for quality, want := range map[string]string{
		"p97 < 1ms":                        `exp.yaml:7: quality: "p97 < 1ms", character 1: expected a metric such as throughput or p99, not "p97"`,
		"{condition: p99 < soon}":          `quality.condition: "p99 < soon", character 7: expected a number with a unit: ns, us, ms, s, m, h, not "soon"`,
		"{below: 1}":                       `quality: "client.response_time_p99 < 1", character 28: expected a number with a unit`,
		"{metric: client.errors, below: }": "quality.below: the value is missing",
		"{over: load}":                     `quality.over: "load"; expected a setting that varies`,
		"{over: workers}":                  "quality: workers doesn't vary; expected over: one of the factors",
		"{confidence: 0.4}":                `quality.confidence: "0.4"; expected a number more than 0.5 and less than 1`,
		"{give_up: 1}\norder: random":      "quality.give_up: the order random schedules all runs before the first",
	} {
		_, err := Parse("exp.yaml", []byte(raised[1:]+"quality: "+quality), false)
		assert.ErrorContains(t, err, want, quality)
	}
}

func TestLevelsAboveTwoThatBreakTheQualityAreNotMeasured(t *testing.T) {
	e := parse(t, raised+"order: listed\nquality: {give_up: 2}")
	// The 99th percentiles by point, s: memcached breaks at 4 clients once in two runs, and from 8 on; Redis from 2 on.
	tail := [][]float64{
		{2e-4, 2e-4},
		{5e-4, 5e-4},
		{1.5e-3, 9e-4},
		{2e-3, 2e-3},
		{3e-3, 3e-3},
		{2e-4, 2e-4},
		{1e-3, 1.2e-3},
		{2e-3, 3e-3},
		nil, nil,
	}
	assert.Equal(t, []string{
		"0/0", "0/1", "1/0", "1/1", "2/0", "2/1", "3/0", "3/1", "4/0", "4/1", "5/0", "5/1", "6/0",
		"6/1", "7/0", "7/1",
	},
		slots(t, e, func(point, before int) []float64 {
			require.Equal(t, 2, before)
			return tail[point]
		}))
	e.Quality.GiveUp = 1
	got := slots(t, e, func(point, _ int) []float64 { return tail[point] })
	assert.NotContains(t, got, "7/0")
	assert.NotContains(t, got, "4/0")
	assert.Contains(t, got, "3/0", "at 4 clients one of two runs was good enough")
}
