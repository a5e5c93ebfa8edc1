package report_test

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/frame"
	"mcmw/lab/plot"
	"mcmw/lab/record"
	"mcmw/lab/report"
	"mcmw/lab/table"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// newRecord returns a record with a manifest and runs.
func newRecord(t testing.TB, m record.Manifest, runs ...record.Run) *record.Record {
	r, err := record.Create(filepath.Join(t.TempDir(), "r"), m)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	for _, run := range runs {
		require.NoError(t, r.Add(run))
	}
	return r
}

// small returns a record that has measurements for every figure and table.
func small(t testing.TB) *record.Record {
	return synthetic{
		clients: []int{6, 24, 96}, workers: []int{8, 32}, ratios: []string{"1:0"}, repetitions: 3,
		second: 4, warn: true,
	}.write(t)
}

// read returns the data of a record and the default view.
func read(t testing.TB, r *record.Record, wanted map[string]string) (*report.Data, report.View) {
	d, err := report.Read(context.Background(), r, 0.95, wanted)
	require.NoError(t, err)
	d.Dir = "results/sweep"
	v, err := d.Choose(report.View{})
	require.NoError(t, err)
	return d, v
}

func TestAReportEqualsItsGoldenFiles(t *testing.T) {
	d, v := read(t, small(t), nil)
	r, err := d.Report(v)
	require.NoError(t, err)
	for format, name := range map[string]string{"markdown": "report.md", "latex": "tables.tex"} {
		var got bytes.Buffer
		require.NoError(t, r.Write(&got, format))
		golden := filepath.Join("testdata", name)
		if *update {
			require.NoError(t, os.WriteFile(golden, got.Bytes(), 0o644))
		}
		want, err := os.ReadFile(golden)
		require.NoError(t, err)
		require.Equal(t, string(want), got.String(), "-update rewrites it; then read it")
	}
}

func TestThePageIsSelfContainedAndWellFormed(t *testing.T) {
	d, v := read(t, small(t), nil)
	r, err := d.Report(v)
	require.NoError(t, err)
	var page bytes.Buffer
	require.NoError(t, r.WriteHTML(&page))
	text := page.String()
	require.Empty(t, regexp.MustCompile(`(src|href)="[^#]`).FindAllString(text, -1), "nothing is loaded")
	require.NotContains(t, text, "@import")
	require.NotContains(t, text, "url(")
	require.NotContains(t, text, "ZgotmplZ", "html/template refused nothing")
	require.NotContains(t, text, "NaN")
	for _, name := range report.FigureNames() {
		require.Contains(t, text, ` id="`+name+`">`, "the record has the measurements for every figure")
		require.Contains(t, text, "mcmwlab report results/sweep --figure "+name)
	}
	// Its middlewares were not profiled.
	tables := slices.DeleteFunc(report.TableNames(), func(name string) bool { return name == "profile" })
	for _, name := range tables {
		require.Contains(t, text, `<details id="`+report.Anchor(name)+`">`)
	}
	first, _, _ := strings.Cut(text, "<h2 class=\"part\">")
	require.Equal(t, 6, strings.Count(first, "<h2 id="), "six figures are unfolded")
	require.Less(t, strings.Index(first, `class="findings"`), strings.Index(first, "<h2 id="), "after the findings")
	require.NotContains(t, first, "<nav", "no table of contents comes before them")
	require.Equal(t, len(report.FigureNames())+len(tables)-6+1, strings.Count(text, "<details"),
		"the other figures, the tables and the rule are folded")
	require.Equal(t, 1, strings.Count(text, `class="warn"`), "one warning for all")
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(text, -1) {
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for {
			_, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
		}
	}
}

func TestFactorsAreAssignedToAxisLinesAndPanels(t *testing.T) {
	r := synthetic{
		clients: []int{6, 24}, workers: []int{8, 32}, ratios: []string{"1:0", "0:1"}, repetitions: 1,
		second: 1,
	}.write(t)
	d, v := read(t, r, nil)
	require.Equal(t, report.View{X: "clients", Series: "workers", Panels: []string{"ratio"}}, v,
		"clients and connections always change together")
	panels := d.Panels(v)
	require.Len(t, panels, 2)
	require.Equal(t, "SET:GET 0:1", panels[0].Name)
	require.Equal(t, "32 workers", panels[0].Lines[1].Name)
	require.Equal(t, "24", panels[0].Lines[1].Points[1].Levels["clients"])

	chosen, err := d.Choose(report.View{X: "workers", Series: "ratio"})
	require.NoError(t, err)
	require.Equal(t, []string{"clients"}, chosen.Panels)
	require.Equal(t, "6 clients", d.Panels(chosen)[0].Name)
	figures, err := d.Figures(chosen, []string{"throughput"})
	require.NoError(t, err)
	require.Equal(t, "mcmwlab report results/sweep --figure throughput --x workers --series ratio", figures[0].Command)

	_, err = d.Choose(report.View{X: "worker"})
	require.ErrorContains(t, err, `there is no factor "worker": expected one of clients, middlewares,`)
}

// The case determines the number of clients and the size of values; the system determines the number of middlewares.
func TestAFactorThatOthersDetermineSplitsNoFigure(t *testing.T) {
	d := &report.Data{}
	for _, of := range []map[string]string{
		{"case": "small", "clients": "64", "value_size": "64"},
		{"case": "large", "clients": "64", "value_size": "4096"},
		{"case": "few", "clients": "1", "value_size": "64"},
	} {
		for system, middlewares := range map[string]string{"direct": "0", "mcmw": "1", "proxy": "1"} {
			levels := maps.Clone(of)
			levels["system"], levels["middlewares"] = system, middlewares
			d.Points = append(d.Points, frame.Point{Levels: levels, Runs: []record.Run{{Factors: levels}}})
		}
	}
	v, err := d.Choose(report.View{})
	require.NoError(t, err)
	require.Equal(t, report.View{X: "case", Series: "system"}, v)
	v, err = d.Choose(report.View{X: "clients"})
	require.NoError(t, err)
	require.Equal(t, report.View{X: "clients", Series: "system", Panels: []string{"case"}}, v)
}

func TestWarningsAreShownWithTheFiguresOfTheirRuns(t *testing.T) {
	r := small(t)
	require.NoError(t, r.SetWarnings(0, []record.Warning{{Code: "repetitions_vary", Message: "by 30 %"}}))
	require.NoError(t, r.Add(record.Run{
		Point: 99, State: record.Failed, Error: "memcached died",
		Factors: map[string]string{"workers": "8"},
	}))
	d, v := read(t, r, nil)
	want := "3 of the 18 runs behind it violate checks: interactive_law (3); the set violates repetitions_vary"
	rep, err := d.Report(v)
	require.NoError(t, err)
	require.Equal(t, want+", 1 runs failed and are not used", rep.Warnings)
	for _, f := range rep.Figures {
		if f.Name == "trace" {
			require.Equal(t,
				"3 of the 6 runs behind it violate checks: interactive_law (3); the set violates repetitions_vary",
				f.Warnings, "only of the points that it shows")
		} else if !strings.Contains("histogram cdf trace-response-time", f.Name) {
			require.Equal(t, want, f.Warnings, f.Name)
		}
	}
	var page bytes.Buffer
	require.NoError(t, rep.WriteHTML(&page))
	require.Contains(t, page.String(), "memcached died (not used)")
	require.Contains(t, page.String(), "24 ⚠", "tables mark the point")

	clean, v := read(t, r, map[string]string{"clients": "6"})
	figures, err := clean.Figures(v, []string{"throughput"})
	require.NoError(t, err)
	require.Equal(t, "the set violates repetitions_vary", figures[0].Warnings,
		"runs that are not selected do not count")
	require.Contains(t, figures[0].Command, "--where clients=6")
}

func TestTheLoadOfOtherProgramsIsTheFirstWarning(t *testing.T) {
	r := newRecord(t, record.Manifest{Name: "disturbed", Host: record.Host{Cores: 2}})
	for repetition, share := range []float64{0.5, 0.9} {
		run := record.Run{
			Repetition: repetition, State: record.Complete, Seconds: 10, Factors: map[string]string{"clients": "8"},
			Results: []record.Value{
				{Source: "client", Metric: "throughput", Value: 1000},
				{Source: "client", Metric: "seconds_cpu", Value: 4.5},
				{Source: "server:a", Metric: "seconds_cpu", Value: 4.5},
			},
			Warnings: []record.Warning{{Code: "generator_saturated", Message: "it was"}},
		}
		for metric, v := range map[string]float64{"cpu_user": share, "cpu_idle": 1 - share} {
			run.HostSamples = append(run.HostSamples,
				record.Window{Source: "host", Seconds: 10, Metric: metric, Value: v})
		}
		require.NoError(t, r.Add(run))
	}
	d, v := read(t, r, nil)
	rep, err := d.Report(v)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(rep.Warnings,
		"programs outside the experiment, or other virtual machines on the same hardware, used up to 50.0 % of the "+
			"used processor time in 1 of 2 runs, 2 of the 2 runs behind it violate checks"), rep.Warnings)
}

func TestSelectionsWithoutRunsNameTheFactorsAndLevels(t *testing.T) {
	r := small(t)
	for _, tc := range []struct{ factor, level, want string }{
		{"worker", "8", `there is no factor "worker": expected one of`},
		{"workers", "9", `factor workers has no level "9": expected one of 8, 32`},
	} {
		_, err := report.Read(context.Background(), r, 0.95, map[string]string{tc.factor: tc.level})
		require.ErrorContains(t, err, tc.want)
	}
}

func TestARecordWithoutCompleteRunsIsAnError(t *testing.T) {
	r := newRecord(t, record.Manifest{Name: "none"})
	_, err := report.Read(context.Background(), r, 0.95, nil)
	require.ErrorContains(t, err, "the record has no runs")
	require.NoError(t, r.Add(record.Run{State: record.Failed, Error: "no memcached"}))
	_, err = report.Read(context.Background(), r, 0.95, nil)
	require.ErrorContains(t, err, "the first error of the 1 failed runs: no memcached")
}

func TestARecordWithFewMeasurementsHasAReport(t *testing.T) {
	for name, run := range map[string]record.Run{
		"nothing": {State: record.Complete},
		"no factors": {
			State: record.Complete, Seconds: 1,
			Results: []record.Value{{Source: "client", Metric: "throughput", Value: 5}},
		},
		"middleware only": {
			State: record.Complete, Seconds: 1, Factors: map[string]string{"workers": "8"},
			Results: []record.Value{{Source: "middleware", Metric: "throughput", Value: 5}},
		},
		"zeros": {
			State: record.Complete, Factors: map[string]string{"clients": "0"},
			Results: []record.Value{
				{Source: "client", Metric: "throughput"},
				{Source: "client", Metric: "response_time_mean"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, v := read(t, newRecord(t, record.Manifest{Name: name}, run), nil)
			rep, err := d.Report(v)
			require.NoError(t, err)
			for _, format := range table.Formats {
				var out bytes.Buffer
				require.NoError(t, rep.Write(&out, format))
				require.NotContains(t, out.String(), "NaN")
			}
		})
	}
}

// lambda are the arrival rates by workers and clients that the 2018 report measured: section 7, table 5. The last
// column is mu, the highest throughput with that number of workers, at a higher load.
var lambda = map[int][]float64{
	8:  {2357, 4520, 5562, 6262, 6244, 6173, 6320, 6385},
	16: {2367, 4335, 5699, 7664, 8103, 8201, 8266, 8313},
	32: {2397, 4456, 5708, 7975, 9267, 10155, 10420, 10504},
	64: {2405, 4312, 5738, 8027, 9339, 10300, 11210, 11848},
}

func TestSaturationFindsThePointsThatWereChosenByEye(t *testing.T) {
	r := newRecord(t, record.Manifest{Name: "2018"})
	clients := []int{6, 12, 24, 48, 72, 96, 144, 192}
	for workers, row := range lambda {
		for i, x := range row {
			require.NoError(t, r.Add(record.Run{
				Point: workers*100 + i, State: record.Complete, Seconds: 60,
				Factors: map[string]string{"workers": fmt.Sprint(workers), "clients": fmt.Sprint(clients[i])},
				Results: []record.Value{{Source: "client", Metric: "throughput", Value: x}},
			}))
		}
	}
	d, v := read(t, r, nil)
	lines := d.Panels(v)[0].Lines
	for i, want := range []string{"48", "72", "96", "144"} { // section 4.2 of that report
		require.Equal(t, want, lines[i].Points[lines[i].Index].Levels["clients"], lines[i].Name)
		require.False(t, lines[i].Growing)
		require.Contains(t, lines[i].Words(v), "saturated at clients = "+want)
	}
}

func TestTailsAndWideIntervalsDoNotFlattenOtherLines(t *testing.T) {
	r := newRecord(t, record.Manifest{Name: "noisy"})
	for clients := 1; clients <= 2; clients++ {
		for repetition, busy := range []float64{2, 9, 10} {
			require.NoError(t, r.Add(record.Run{
				Point: clients, Repetition: repetition, State: record.Complete, Seconds: 10,
				Factors: map[string]string{"clients": fmt.Sprint(clients), "workers": "10"},
				Results: []record.Value{
					{Source: "client", Metric: "throughput", Value: 1000},
					{Source: "client", Metric: "response_time_p50", Value: 1e-4},
					{Source: "client", Metric: "response_time_p99", Value: 0.1},
					{Source: "middleware", Metric: "busy_workers_mean", Value: busy},
				},
			}))
		}
	}
	d, v := read(t, r, nil)
	figures, err := d.Figures(v, []string{"utilization", "percentiles"})
	require.NoError(t, err)
	require.Len(t, figures, 2)
	for _, p := range figures[0].Panels[0].Marks[0].(plot.Line).Points {
		require.InDelta(t, 1, p.High, 1e-9, "a utilization is at most 1")
		require.Less(t, p.Low, p.Y)
	}
	require.True(t, figures[1].Panels[0].Y.Log)
	require.Len(t, figures[1].Panels[0].Marks, 2)
}

func TestALevelThatRunsDontHaveIsNoLevel(t *testing.T) {
	run := func(point int, factors map[string]string) record.Run {
		return record.Run{Point: point, State: record.Complete, Seconds: 1, Factors: factors}
	}
	r := newRecord(t, record.Manifest{Name: "imported"}, run(0, map[string]string{"clients": "1", "workers": "8"}),
		run(1, map[string]string{"clients": "1"}))
	for _, level := range []string{"9", ""} {
		_, err := report.Read(t.Context(), r, 0.95, map[string]string{"workers": level})
		require.EqualError(t, err, fmt.Sprintf("factor workers has no level %q: expected one of 8", level))
	}
}

func TestTheCommandOfAFigureDrawsItsPanels(t *testing.T) {
	d, _ := read(t, small(t), nil)
	for panels, want := range map[string]string{"workers": "mcmwlab report results/sweep --figure throughput " +
		"--panels workers", "": "mcmwlab report results/sweep --figure throughput"} {
		var wanted report.View
		if panels != "" {
			wanted.Panels = []string{panels}
		}
		v, err := d.Choose(wanted)
		require.NoError(t, err)
		require.Equal(t, want, d.Command(v, "figure", "throughput"))
	}
}

func TestTheLawOfClosedLoopsIsNotAppliedToASchedule(t *testing.T) {
	for rate, rows := range map[string]int{"0": 1, "5000": 0, "ramp:1000-2000/30s": 0} {
		run := record.Run{
			State: record.Complete, Seconds: 1,
			Factors: map[string]string{"clients": "8", "rate": rate}, Results: []record.Value{
				{Source: record.SourceClient, Metric: "throughput", Value: 1000},
				{Source: record.SourceClient, Metric: "response_time_mean", Value: 1e-3},
			},
		}
		d, v := read(t, newRecord(t, record.Manifest{Name: "load"}, run), nil)
		tables := d.Tables(v, []string{"law"})
		require.Len(t, tables[0].Rows, rows, rate)
	}
}

func TestOnlyTheRunsThatACumulativeDistributionShowsAreWarnedOf(t *testing.T) {
	d, v := read(t, synthetic{
		clients: []int{6, 24, 96}, workers: []int{8, 32}, ratios: []string{"1:0"}, repetitions: 3,
		second: 4,
	}.write(t), nil)
	saturates := map[string]string{}
	for _, l := range d.Panels(v)[0].Lines {
		saturates[l.Name] = l.Points[l.Index].Levels[v.X]
	}
	require.Equal(t, map[string]string{"8 workers": "24", "32 workers": "96"}, saturates)
	warnings := func(name string) string {
		figures, err := d.Figures(v, []string{name})
		require.NoError(t, err)
		return figures[0].Warnings
	}
	// both lines are drawn at 24 clients
	for clients, want := range map[string]string{"24": "3 of the 6 runs behind it violate checks", "96": ""} {
		for _, p := range d.Points {
			for i := range p.Runs {
				p.Runs[i].Warnings = nil
				if p.Levels["workers"] == "32" && p.Levels["clients"] == clients {
					p.Runs[i].Warnings = []record.Warning{{Code: "misses"}}
				}
			}
		}
		require.True(t, strings.HasPrefix(warnings("cdf"), want) && (want == "") == (warnings("cdf") == ""),
			"%s clients: %q", clients, warnings("cdf"))
		require.Contains(t, warnings("throughput"), "3 of the 18 runs")
	}
}
