package paper_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/paper"
	"mcmw/lab/plot"
	"mcmw/lab/record"
	"mcmw/lab/table"
)

// design returns a record of the 2^3 design of reads in which only the servers have an effect.
func design(t *testing.T) *paper.Evidence {
	r, err := record.Create(filepath.Join(t.TempDir(), "r"),
		record.Manifest{Name: "kuechler-09-factorial-reads", Title: "Reads", Testbed: "vm"})
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	point := 0
	for _, servers := range []string{"1", "3"} {
		for _, middlewares := range []string{"1", "2"} {
			for _, workers := range []string{"8", "32"} {
				for repetition := range 3 {
					x := map[string]float64{"1": 3000, "3": 9000}[servers] + float64(repetition)
					require.NoError(t, r.Add(record.Run{
						Point: point, Repetition: repetition, State: record.Complete, Seconds: 3,
						Factors: map[string]string{
							"servers": servers, "middlewares": middlewares, "workers": workers,
							"clients": "192",
						},
						Results: []record.Value{
							{Source: "client", Metric: "throughput", Value: x},
							{Source: "client", Metric: "response_time_mean", Value: 192 / x},
						},
					}))
				}
				point++
			}
		}
	}
	e, err := paper.NewEvidence(t.Context(), []*record.Record{r})
	require.NoError(t, err)
	return e
}

// load returns a built-in report.
func load(t *testing.T, name string) *paper.Report {
	r, err := paper.Load(name, "")
	require.NoError(t, err)
	return r
}

func TestTablesHaveMeasurementsBesidePrintedNumbers(t *testing.T) {
	page, err := paper.Of(load(t, "kuechler"), design(t)).Page(nil)
	require.NoError(t, err)
	tables := map[string]table.Table{}
	for _, one := range page.Tables {
		tables[one.Label] = one
	}
	require.Equal(t, []string{"1, 1, 8", "2942", "3001\u00a0±\u00a02", "64.2", "64.0\u00a0±\u00a00.1"},
		tables["table-3"].Rows[0])
	require.Equal(t, []string{"3, 1, 8", "6902", "9001\u00a0±\u00a02", "26.8", "21.3\u00a0±\u00a00.0"},
		tables["table-3"].Rows[1])
	require.Equal(t, []string{"S", "2692", "3000", "95.5", "100.0", "-20.9", "-21.3", "99.1", "100.0"},
		tables["table-4"].Rows[1])
	require.Equal(t, "(0)", tables["table-4"].Rows[2][2], "an effect of 0 is in brackets")
	require.NotContains(t, tables, "table-5", "the record has no measurements for it")
	require.Len(t, page.Figures, 2)
}

func TestTheNameOfAnExperimentBeginsWithItsReport(t *testing.T) {
	for name, want := range map[string]string{
		"kuechler-07-writes": "kuechler", "cetin-01-one-server": "cetin",
		"quick": "", "nobody-1": "", "kuechler": "",
	} {
		require.Equal(t, want, paper.ReportOf(name), name)
	}
}

func TestFindingsThatDependOnTheDelayAreDrawnWithTheirThreshold(t *testing.T) {
	r, err := paper.Parse("kuechler", "c.yaml",
		[]byte("travel: 0.5ms\nfindings: [{section: '6', text: a, holds: 'share(throughput[a], servers) >= 90%'}]\n"))
	require.NoError(t, err)
	finding := paper.Finding{Claim: r.Claims[0], Verdict: paper.DependsOnDelay}
	for _, at := range []struct{ delay, s float64 }{{0.4e-3, 0.96}, {0.5e-3, 0.92}, {0.75e-3, 0.78}} {
		finding.Over = append(finding.Over,
			paper.At{Delay: at.delay, Shares: map[string]float64{
				"servers": at.s, "workers": 1 - at.s,
				paper.Interactions: 0,
			}})
	}
	page, err := paper.Of(r, &paper.Evidence{}).Page([]paper.Finding{finding, {Claim: r.Claims[0]}})
	require.NoError(t, err)
	require.Equal(t, "Of 2 findings of the report: depends on the delay 1.", page.Findings[0])
	require.Equal(t, "delay", page.Figures[0].Name)
	require.Len(t, page.Figures[0].Panels, 1, "a finding that was decided with one delay has no panel")
	panel := page.Figures[0].Panels[0]
	require.Equal(t, "section 6: depends on the delay", panel.Title)
	require.Equal(t, []plot.Point{plot.At(0.4e-3, 0.96), plot.At(0.5e-3, 0.92), plot.At(0.75e-3, 0.78)},
		panel.Marks[0].(plot.Line).Points)
	require.Contains(t, panel.Marks, plot.Mark(plot.Limit{Y: 0.9}))
	require.Contains(t, panel.Marks, plot.Mark(plot.Limit{X: 0.5e-3, Vertical: true}))
}

func TestEveryTableIsRead(t *testing.T) {
	for _, name := range paper.Names {
		s := paper.Of(load(t, name), &paper.Evidence{})
		page, err := s.Page(nil)
		require.NoError(t, err)
		require.Len(t, page.Tables, 2, "without measurements there are only findings and records")
		for _, table := range s.Report.Tables {
			require.NotEmpty(t, table.Cells, "%s, table %s", name, table.Name)
			printed := slices.ContainsFunc(table.Cells, func(c paper.Cell) bool { return c.Printed != "" })
			require.True(t, printed, "%s, table %s", name, table.Name)
		}
	}
	_, err := paper.Load("nobody", "")
	require.EqualError(t, err, `report "nobody": expected one of cetin, kuechler, pavlik, pungas, ribeiro`)
}
