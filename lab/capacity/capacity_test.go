package capacity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"mcmw/lab/condition"
	"mcmw/lab/record"
	"mcmw/lab/table"
)

// runs returns runs of a server with so many clients, one for each 99th percentile (ms).
func runs(server string, clients int, tails ...float64) (all []record.Run) {
	for i, tail := range tails {
		all = append(all, record.Run{
			State: record.Complete, Repetition: i, Point: clients,
			Factors: map[string]string{
				"server": server, "clients": strconv.Itoa(clients), "keys": "50",
			},
			Results: []record.Value{
				{Source: "client", Metric: "response_time_p99", Value: tail / 1e3},
				{Source: "client", Metric: "throughput", Value: float64(1000*clients + i)},
				{Source: "client", Metric: "errors"},
			},
		})
	}
	return all
}

// example has a server that holds up to 10 clients, one that holds at all levels, one that never holds, and one that is
// undecided at 2 clients.
func example() []record.Run {
	return slices.Concat(
		runs("a", 10, 0.5, 0.51, 0.52), runs("a", 2, 0.2, 0.21, 0.2), runs("a", 100, 1.2, 1.21, 1.2),
		runs("a", 200, 0.3, 0.3, 0.3),
		runs("b", 2, 0.2, 0.2, 0.2), runs("b", 10, 0.9, 0.91, 0.9),
		runs("c", 2, 3, 3.1, 3),
		runs("d", 2, 0.8, 1.1, 0.7),
	)
}

func find(t require.TestingT, all []record.Run) *Capacity {
	c, err := Find(all, DefaultRule(), nil)
	require.NoError(t, err)
	return c
}

func TestTheHighestLoadIsTheLastBeforeTheFirstThatDoesNotHold(t *testing.T) {
	c := find(t, example())
	assert.Equal(t, []string{"server"}, c.By, "connections follow clients, keys don't vary")
	require.Len(t, c.Lines, 4)
	want := []string{
		"server=a: up to 10 clients, 10,001/s ± 0.0 %; 100 clients break it (1.20 ms ± 0.8 %)",
		"server=b: up to 10 clients, 10,001/s ± 0.0 %; all measured levels hold, higher ones may, too",
		"server=c: no measured load holds; 2 clients break it (3.03 ms ± 3.2 %)",
		"server=d: no measured load holds; at 2 clients it is undecided (867 µs, bounds 516 µs to 1.22 ms)",
	}
	for i, l := range c.Lines {
		assert.Equal(t, want[i], c.Words(l))
	}
	top, ok := c.Lines[0].Top()
	require.True(t, ok)
	assert.Equal(t, "10", top.Level)
	// t[0.95; 2] = 2.920, s = 0.01: 0.51 +- 0.016859.
	assert.InDelta(t, 0.000510+0.000016859, float64(top.Value.High), 1e-9)
	assert.InDelta(t, 0.000510-0.000016859, float64(top.Value.Low), 1e-9)
	assert.Equal(t, condition.Holds, c.Lines[0].Levels[3].Verdict, "a level above one that breaks doesn't count")
}

func TestLevelsThatAreDurationsAreRaisedInTheOrderOfTheirSize(t *testing.T) {
	all := slices.Concat(runs("a", 1, 0.2, 0.2), runs("a", 2, 0.3, 0.3), runs("a", 3, 1.2, 1.21))
	for i := range all {
		all[i].Factors = map[string]string{"clients": map[string]string{
			"1": "500us", "2": "5ms",
			"3": "10ms",
		}[all[i].Factors["clients"]]}
	}
	require.Contains(t, find(t, all).Words(find(t, all).Lines[0]), "up to 5ms clients")
}

func TestALevelWithFailuresOrWithoutRepetitionsDoesNotHold(t *testing.T) {
	failed := runs("a", 4, 0.2, 0.2, 0.2)
	failed[1].Results[2].Value = 3
	failed[1].Warnings = []record.Warning{{Code: "errors"}}
	lost := runs("b", 4, 0.2)
	lost[0].State = record.Failed
	broken := runs("d", 4, 0.2, 0.2)
	for i := range broken {
		broken[i].State, broken[i].Results = record.Failed, nil
	}
	unknown := runs("c", 4, 0.2, 0.2)
	for i := range unknown {
		unknown[i].Results = unknown[i].Results[1:]
	}
	c := find(t, slices.Concat(runs("a", 2, 0.2, 0.2), failed, runs("b", 2, 0.2), lost, runs("c", 2, 0.2, 0.2),
		unknown, runs("d", 2, 0.2, 0.2), broken, runs("d", 8, 0.2, 0.2)))
	assert.Equal(t, "server=a: up to 2 clients, 2,000/s ± 0.2 %; at 4 clients 3 requests failed", c.Words(c.Lines[0]))
	assert.Equal(t,
		"server=b: no measured load holds; at 2 clients there is only one run (200 µs), which decides nothing",
		c.Words(c.Lines[1]))
	assert.Equal(t, "server=c: up to 2 clients, 2,000/s ± 0.2 %; at 4 clients response_time_p99 was not measured",
		c.Words(c.Lines[2]))
	assert.Equal(t, "server=d: up to 2 clients, 2,000/s ± 0.2 %; at 4 clients all runs failed", c.Words(c.Lines[3]))
	var text bytes.Buffer
	for _, one := range c.Tables(true) {
		require.NoError(t, one.Write(&text, table.Markdown))
	}
	assert.Contains(t, text.String(), "4 ⚠")
	assert.Contains(t, text.String(), "mcmwlab show says which")
}

func TestRecordsWithoutTheNeededRunsAreRefused(t *testing.T) {
	all := example()
	rule := DefaultRule()
	refused := func(want string, all []record.Run, rule Rule, by ...string) {
		t.Helper()
		_, err := Find(all, rule, by)
		assert.ErrorContains(t, err, want)
	}
	refused("there are no complete runs", nil, rule)
	rule.Over = "keys"
	refused(`factor "keys" doesn't vary: expected one of clients, server`, all, rule)
	rule = DefaultRule()
	rule.Condition.Term.Metric.Name = "response_time_p999"
	refused("no run has the metric response_time_p999 of the source client", all, rule)
	refused(`factor "keys" doesn't vary: expected some of server`, all, DefaultRule(), "keys")
	refused("factor server varies, too: add it to the factors of the lines (none), or select one of its levels", all,
		DefaultRule(), []string{}...)
	refused("confidence 0.5: expected more than 0.5", all, Rule{Confidence: 0.5})
	refused("the raised factor is missing", all, Rule{})
}

func TestUnknownNumbersOfACapacityAreNullInJSON(t *testing.T) {
	text, err := json.Marshal(find(t, slices.Concat(runs("a", 1, 0.2), runs("a", 2, 0.3, 0.3))))
	require.NoError(t, err)
	assert.Contains(t, string(text), `"value":{"mean":0.0002,"low":null,"high":null,"known":false}`)
	assert.Contains(t, string(text), `"highest":-1`)
}

func TestAllLevelsUpToTheHighestHoldAndTheNextDoesNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []record.Run
		for clients := range rapid.IntRange(2, 6).Draw(t, "levels") {
			tails := rapid.SliceOfN(rapid.Float64Range(0.5, 1.3), 1, 4).Draw(t, fmt.Sprint("tails", clients))
			all = append(all, runs("a", clients+1, tails...)...)
		}
		l := find(t, all).Lines[0]
		for i, level := range l.Levels {
			if i <= l.Highest {
				require.Equal(t, condition.Holds, level.Verdict)
				require.Less(t, level.Value.Mean, 1e-3)
			}
		}
		if next, ok := l.Above(); ok {
			require.NotEqual(t, condition.Holds, next.Verdict)
		}
	})
}
