package effects

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/lab/factorial"
	"mcmw/lab/record"
	"mcmw/lab/table"
)

var update = flag.Bool("update", false, "write the golden files")

// writeOnly are the write-only throughputs of the 2018 report, table 1: servers 1 and 3, middlewares 1 and 2, workers 8
// and 32.
var writeOnly = [][]float64{
	{6620, 6258, 6285},
	{4389, 4455, 4457},
	{9328, 9493, 9610},
	{6327, 6216, 6388},
	{10359, 10445, 10434},
	{7579, 7566, 7505},
	{12872, 12690, 12735},
	{10416, 10480, 10265},
}

// runs returns writeOnly as runs of a record, in another order.
func runs() []record.Run {
	var all []record.Run
	for repetition := range 3 {
		for i := range writeOnly {
			at := 7 - i
			all = append(all, record.Run{
				ID: int64(len(all) + 1), Point: at, Repetition: repetition, State: record.Complete,
				Factors: map[string]string{
					"servers": []string{"1", "3"}[at&1], "middlewares": []string{"1", "2"}[at>>1&1],
					"workers": []string{"8", "32"}[at>>2&1], "ratio": "1:0",
				},
				Results: []record.Value{
					{Source: "client", Metric: "throughput", Value: writeOnly[at][repetition]},
					{Source: "client", Metric: "response_time_mean", Value: 192 / writeOnly[at][repetition]},
				},
			})
		}
	}
	return all
}

var question = Question{Factors: []string{"S", "M", "W"}, Response: "throughput", Source: "client"}

func fromRuns(t *testing.T, runs []record.Run, q Question) *Experiment {
	t.Helper()
	e, err := FromRuns(runs, q)
	require.NoError(t, err)
	return e
}

func analyze(t *testing.T, d factorial.Design, o factorial.Options) *factorial.Analysis {
	t.Helper()
	a, err := factorial.Analyze(d, o)
	require.NoError(t, err)
	return a
}

// golden compares text with a file in testdata, which -update writes.
func golden(t *testing.T, name, text string) {
	path := "testdata/" + name
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), text)
}

func TestTablesAreThoseOfTheReport(t *testing.T) {
	e := fromRuns(t, runs(), question)
	e = e.Shown()
	o := factorial.Options{Confidence: 0.9}
	a := analyze(t, e.Design, o)
	c, err := factorial.Compare(e.Design, o)
	require.NoError(t, err)
	for format, name := range map[string]string{
		table.Text: "2k.txt", table.LaTeX: "2k.tex",
		table.HTML: "2k.html", table.Markdown: "2k.md",
	} {
		var b bytes.Buffer
		for _, tab := range []table.Table{e.SignTable(a), e.EffectsTable(a), ComparisonTable(c)} {
			require.NoError(t, tab.Write(&b, format))
		}
		golden(t, name, b.String())
	}
}

func TestTimesAreShownInMillisecondsAndKeptInSeconds(t *testing.T) {
	q := question
	q.Response = "response_time_mean"
	e := fromRuns(t, runs(), q)
	assert.Equal(t, "s", e.Unit)
	shown := e.Shown()
	assert.Equal(t, "ms", shown.Unit)
	assert.InEpsilon(t, 1e3*e.Design.Cells[0].Y[0], shown.Design.Cells[0].Y[0], 1e-12)
	a := analyze(t, e.Design, factorial.Options{Model: factorial.Multiplicative, LogBase: 10})
	assert.Equal(t, "multiplier", e.EffectsTable(a).Columns[6])
	assert.Contains(t, e.EffectsTable(a).Caption, "base 10")
}

func TestAliasesNamesAndConstantsAreFound(t *testing.T) {
	q := question
	q.Factors = []string{"workers", "S", "middlewares"}
	e := fromRuns(t, runs(), q)
	assert.Equal(t, []Factor{
		{"workers", "workers", []string{"8", "32"}},
		{"servers", "S", []string{"1", "3"}},
		{"middlewares", "middlewares", []string{"1", "2"}},
	}, e.Factors)
	assert.True(t, e.TwoLevel())
	a := analyze(t, e.Design, factorial.Options{})
	_, ok := a.Term("workers:S")
	assert.True(t, ok)
}

func TestOtherFactorsAreFixedOrIgnored(t *testing.T) {
	q := question
	q.Factors = []string{"S", "W"}
	_, err := FromRuns(runs(), q)
	require.EqualError(t, err,
		"factor middlewares varies, too (1, 2): add it to --factors, fix it, such as with --where middlewares=1, or "+
			"--ignore it")
	q.Where = map[string]string{"M": "2"}
	e := fromRuns(t, runs(), q)
	assert.Len(t, e.Design.Cells, 4)
	assert.Len(t, e.Design.Cells[0].Y, 3)
	q.Where, q.Ignore = nil, []string{"M"}
	e = fromRuns(t, runs(), q)
	assert.Len(t, e.Design.Cells[0].Y, 6)
}

func TestFailedRunsAreLeftOutAndMentioned(t *testing.T) {
	all := runs()
	all[3].State = record.Failed
	_, err := FromRuns(all, question)
	require.EqualError(t, err,
		"S=1, M=1, W=32 has 2 complete runs and S=3, M=2, W=32 has 3: expected the same number everywhere "+
			"(--repetitions 2 uses the first of each) (1 runs failed and don't count)")
	q := question
	q.Repetitions = 2
	e := fromRuns(t, all, q)
	for _, cell := range e.Design.Cells {
		assert.Len(t, cell.Y, 2)
	}
	q.Repetitions = 3
	_, err = FromRuns(all, q)
	assert.ErrorContains(t, err, "has 2 complete runs: expected 3")
}

func TestQuestionsWithoutAnAnswerAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Question)
		want   string
	}{
		"an unknown factor": {
			func(q *Question) { q.Factors = []string{"X"} },
			"a run has no factor X, it has middlewares, ratio, servers, workers",
		},
		"a constant factor": {func(q *Question) { q.Factors = []string{"ratio"} }, "has the level 1:0 in all runs"},
		"an unknown response": {
			func(q *Question) { q.Response = "speed" },
			"has no metric speed of the source \"client\", it has response_time_mean, throughput",
		},
		"an unknown source": {func(q *Question) { q.Source = "moon" }, "it has none"},
		"no run that fits": {
			func(q *Question) { q.Where = map[string]string{"workers": "9"} },
			"no complete runs with the selected levels",
		},
	} {
		q := question
		c.change(&q)
		_, err := FromRuns(runs(), q)
		assert.ErrorContains(t, err, c.want, name)
	}
}

func TestARunWithoutTheResponseNamesTheMetricsThatItHas(t *testing.T) {
	all := runs()
	all[3].Results = all[3].Results[1:]
	_, err := FromRuns(all, question)
	require.EqualError(t, err, `run 4 has no metric throughput of the source "client", it has response_time_mean`)
}

func TestACSVFileBecomesADesign(t *testing.T) {
	e,
		err := FromCSV(strings.NewReader("cache,load,repetition,misses\nsmall,1,1,10\nlarge,1,1,4\n"+
		"small,2,1,20\nlarge,2,1,9\nsmall,3,1,30\nlarge,3,1,14\n"),
		Question{Factors: []string{"cache", "load"}, Response: "misses"})
	require.NoError(t, err)
	assert.False(t, e.TwoLevel())
	v, err := factorial.Anova(e.Design, 0.9, 0)
	require.NoError(t, err)
	tables := e.VarianceTables(v)
	require.Len(t, tables, 2)
	assert.Equal(t, []string{"cache", "large"}, tables[1].Rows[0][:2])
	for _, c := range []struct{ text, want string }{
		{"", "has no runs"},
		{"a,b\n", "has no runs"},
		{"cache,load\n1,2\n", "has no column misses: expected one of cache, load"},
		{"cache,misses\n1,2\n2,x\n", `line 3: misses is "x"`},
		{"cache,misses\n1,2,3\n", "wrong number of fields"},
	} {
		_, err := FromCSV(strings.NewReader(c.text), Question{Factors: []string{"cache"}, Response: "misses"})
		assert.ErrorContains(t, err, c.want, c.text)
	}
}

func TestTheConfoundingOfAFractionIsShown(t *testing.T) {
	var half []record.Run
	for _, run := range runs() {
		// S M W with I = SMW.
		if run.Point == 1 || run.Point == 2 || run.Point == 4 || run.Point == 7 {
			half = append(half, run)
		}
	}
	e := fromRuns(t, half, question)
	a := analyze(t, e.Design, factorial.Options{})
	confounding, ok := e.ConfoundingTable(a)
	require.True(t, ok)
	assert.Equal(t, "Confounding: I = SMW, resolution 3", confounding.Caption)
	assert.Contains(t, confounding.Rows, []string{"S", "MW"})
}

func TestUnknownNumbersAreValidJSON(t *testing.T) {
	for _, repetitions := range []int{1, 3} {
		q := question
		q.Repetitions = repetitions
		e := fromRuns(t, runs(), q)
		a := analyze(t, e.Design, factorial.Options{})
		c, err := factorial.Compare(e.Design, factorial.Options{})
		require.NoError(t, err)
		v, err := factorial.Anova(e.Design, 0.9, 0)
		require.NoError(t, err)
		text, err := json.Marshal(e.Object(a, c, v))
		require.NoError(t, err)
		var back struct {
			Analysis struct {
				Terms []struct {
					Name   string
					Effect float64
				}
			}
		}
		require.NoError(t, json.Unmarshal(text, &back))
		assert.Equal(t, "S", back.Analysis.Terms[1].Name)
		assert.InDelta(t, a.Terms[1].Q, back.Analysis.Terms[1].Effect, 0)
	}
}

func TestFiguresShowEveryResidual(t *testing.T) {
	e := fromRuns(t, runs(), question)
	a := analyze(t, e.Design, factorial.Options{})
	figures := Figures(a.Residuals, "throughput", "ops/s")
	require.Len(t, figures, 2)
	for name, figure := range figures {
		assert.True(t, bytes.HasPrefix(bytes.TrimSpace(figure.SVG()), []byte("<")), name)
		if name == "qq" {
			assert.Equal(t, "residual [ops/s]", figure.Panels[0].Y.Label)
		}
	}
}
