package report_test

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/lab/plot"
	"mcmw/lab/record"
	"mcmw/lab/report"
)

// servers returns a record of two servers with values of several sizes. The second server has half the throughput and
// twice the 99th percentile of the first.
func servers(t *testing.T, experiment string) *record.Record {
	r := newRecord(t, record.Manifest{Name: "servers", Experiment: experiment})
	point := 0
	for factor, server := range []string{"memcached", "redis"} {
		for i, size := range []int{2, 512, 524288} {
			for repetition, noise := range []float64{0.99, 1, 1.01} {
				require.NoError(t, r.Add(record.Run{
					Point: point, Repetition: repetition, State: record.Complete, Seconds: 1,
					Factors: map[string]string{"server": server, "value_size": strconv.Itoa(size), "clients": "8"},
					Results: []record.Value{
						{Source: "client", Metric: "throughput", Value: noise * 1000 / float64(factor+1)},
						{
							Source: "client", Metric: "response_time_p99",
							Value: noise * 0.0003 * float64((factor+1)*(i+1)),
						},
					},
				}))
			}
			point++
		}
	}
	return r
}

func TestTwoServersAreComparedWithIntervals(t *testing.T) {
	d,
		v := read(t,
		servers(t,
			"name: servers\nfactors: {value_size: [2, 512]}\nconstants: {middlewares: 0}\nquality: {below: 1ms}\n"),
		nil)
	require.Equal(t, report.View{X: "value_size", Series: "server"}, v)
	tables := d.Tables(v, []string{"head-to-head"})
	require.Len(t, tables[0].Rows, 3)
	row := fmt.Sprint(tables[0].Rows[0])
	require.Contains(t, row, "1.00\u00a0kops/s")
	require.Contains(t, row, "500\u00a0ops/s")
	require.Regexp(t, `0.50.\[0.4\d,.0.51\]`, row)
	require.Regexp(t, `2.00.\[1.9\d,.2.0\d\]`, row)
	figures, err := d.Figures(v, []string{"head-to-head", "service"})
	require.NoError(t, err)
	require.True(t, figures[0].Panels[0].X.Log, "sizes of several orders of magnitude have a logarithmic axis")
	require.Equal(t, "redis / memcached", figures[1].Panels[0].Y.Label)
	require.Contains(t, string(figures[0].SVG()), ">limit<")

	tables = d.Tables(v, nil)
	for _, table := range tables {
		require.NotEqual(t, "capacity", table.Label, "the quality has no load")
	}
}

func TestTheLoadOfTheQualityIsTheAxisAndAFinding(t *testing.T) {
	d,
		v := read(t,
		servers(t,
			"name: servers\nfactors: {value_size: [2, 512]}\nconstants: {middlewares: 0}\nquality: {below: 1ms, "+
				"over: value_size}\n"), nil)
	require.Equal(t, "value_size", v.X)
	r, err := d.Report(v)
	require.NoError(t, err)
	findings := strings.Join(r.Findings, "\n")
	require.Contains(t, findings,
		"Highest load with client.response_time_p99 < 1ms: server=memcached: up to 524288 value_size")
	require.Contains(t, findings,
		"server=redis: up to 2 value_size, 500/s ± 1.7 %; 512 value_size break it (1.20 ms ± 1.7 %).")
	tables := d.Tables(v, []string{"capacity"})
	require.Equal(t, []string{
		"redis", "2", "500/s ± 1.7 %", "600 µs ± 1.7 %",
		"512 value_size break it (1.20 ms ± 1.7 %)",
	}, tables[0].Rows[1])
}

func TestWithoutAQualityThe99thPercentileHasNoLimit(t *testing.T) {
	d, v := read(t, servers(t, ""), nil)
	figures, err := d.Figures(v, []string{"service"})
	require.NoError(t, err)
	require.NotContains(t, string(figures[0].SVG()), ">limit<")
	require.Equal(t, "99th percentile of the response times", figures[0].Panels[0].Y.Label)
	_, err = report.Read(context.Background(), servers(t, ""), 0.95, map[string]string{"server": "valkey"})
	require.Error(t, err)
}

func TestARatioWithoutABoundedIntervalIsMarked(t *testing.T) {
	r := newRecord(t, record.Manifest{Name: "unsure"})
	for point, of := range []struct {
		server string
		values []float64
	}{{"memcached", []float64{10, 100, 1000}}, {"redis", []float64{500, 510, 490}}} {
		for repetition, x := range of.values {
			for clients, times := range map[string]float64{"8": 1, "16": 2} {
				require.NoError(t, r.Add(record.Run{
					Point: point*100 + len(clients), Repetition: repetition, State: record.Complete, Seconds: 1,
					Factors: map[string]string{"server": of.server, "clients": clients},
					Results: []record.Value{{Source: "client", Metric: "throughput", Value: x * times}},
				}))
			}
		}
	}
	d, v := read(t, r, nil)
	tables := d.Tables(v, []string{"head-to-head"})
	require.Contains(t, fmt.Sprint(tables[0].Rows[0]), "1.35\u00a0[unbounded]")
	figures, err := d.Figures(v, []string{"head-to-head"})
	require.NoError(t, err)
	bars := figures[0].Panels[0].Marks[1].(plot.Line).Points
	require.True(t, math.IsInf(bars[0].High, 1), "the error bar reaches to the end of the axis: %v", bars)
}
