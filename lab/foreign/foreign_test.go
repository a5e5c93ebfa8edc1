package foreign

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/lab/record"
)

// requireRefused requires that a parser refuses texts with errors.
func requireRefused[Output any](t *testing.T, parse func(io.Reader) (Output, error), errors map[string]string) {
	t.Helper()
	for text, want := range errors {
		_, err := parse(strings.NewReader(text))
		assert.ErrorContains(t, err, want, text)
	}
}

// clientText is an output of an instance of an old release of memtier.
func clientText(throughput, latency float64) string {
	return fmt.Sprintf(`1         Threads
32        Connections per thread
70        Seconds


ALL STATS
========================================================================
Type        Ops/sec     Hits/sec   Misses/sec      Latency       KB/sec
------------------------------------------------------------------------
Sets         %.2f          ---          ---     %.5f      2048.00
Gets           0.00         0.00         0.00      0.00000         0.00
Totals       %.2f         0.00         0.00     %.5f      2048.00


Request Latency Distribution
Type     <= msec         Percent
------------------------------------------------------------------------
SET      10.000        40.00
SET      20.000        90.00
SET      30.000       100.00
---
---
`, throughput, latency, throughput, latency)
}

const dstatText = "\x1b[7l----total-cpu-usage---- -dsk/total- -net/total- ---paging-- ---system--\n" +
	"usr sys idl wai hiq siq| read  writ| recv  send|  in   out | int   csw \n" +
	"  6   3  90   0   0   1|  44k  520k|   0     0 |   0     0 |1326  4100 \n" +
	" 47  13  35   0   0   4|   0   8192B|  13M   35M|   0     0 |2765    10k\n" +
	" 22  12  63   0   0   4|   0     0 |  15M   41M|   0     0 |3529    12k\n"

func TestRunsBecomeARecordWithTheirOutputs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "workers=8", "client.out")
	require.NoError(t, os.Mkdir(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(clientText(100, 20)), 0o644))
	runs, _, err := ParseFile([]byte(clientText(100, 20)), "auto", PathFactors(path))
	require.NoError(t, err)
	found := []Found{{Run: runs[0], Path: path}, {Run: runs[0], Path: path}}
	Place(found)
	dir := filepath.Join(t.TempDir(), "record")
	require.NoError(t, Write(t.Context(), dir, record.Manifest{Name: "memtier"}, found))
	r, err := record.Open(dir)
	require.NoError(t, err)
	defer r.Close()
	written, err := r.Runs(t.Context())
	require.NoError(t, err)
	require.Len(t, written, 2)
	assert.Equal(t, map[string]string{"load_threads": "1", "clients": "32", "workers": "8"}, written[0].Factors)
	assert.Equal(t, 1, written[1].Repetition)
	for metric, want := range map[string]float64{
		"throughput": 100, "response_time_mean_set": 0.020, "response_time_p90": 0.020, "response_time_p99": 0.030,
	} {
		got, ok := written[0].Value("client", metric)
		assert.True(t, ok, metric)
		assert.InDelta(t, want, got, 1e-12, metric)
	}
	raw, err := r.Raw(written[1].ID, "client.out")
	require.NoError(t, err)
	assert.Equal(t, clientText(100, 20), string(raw))
	assert.Error(t, Write(t.Context(), dir, record.Manifest{}, nil), "nothing is replaced")
}

func TestDstatIsRead(t *testing.T) {
	samples, err := ParseDstat(strings.NewReader(dstatText))
	require.NoError(t, err)
	require.Len(t, samples, 2, "the average since the machine started is left out")
	assert.InDelta(t, 0.47, samples[0]["cpu usr"], 1e-12)
	assert.InDelta(t, 8192, samples[0]["dsk writ"], 0)
	assert.InDelta(t, 35*1<<20, samples[0]["net send"], 0)
	assert.InDelta(t, 12*1024, samples[1]["system csw"], 0)
	run := DstatRun(samples, map[string]string{"workers": "8"})
	user, ok := run.Value("host", "cpu_user")
	require.True(t, ok)
	assert.InDelta(t, 0.345, user, 1e-12)

	samples,
		err = ParseDstat(strings.NewReader("----cpu0-usage---- -dsk/total-\nusr sys idl wai|read writ\n1 2 97 0|0 " +
		"0\n1 2 97 0|0 0\n"))
	require.NoError(t, err)
	assert.NotContains(t, samples[0], "cpu usr", "it is that of one processor")
	samples, err = ParseDstat(strings.NewReader(`"Dstat 0.7.3 CSV output"
"Author:","Dag Wieers",,,,"URL:","http://dag.wieers.com"
"Host:","mw1",,,,"User:","me"

"total cpu usage",,,,,,"net/total",
"usr","sys","idl","wai","hiq","siq","recv","send"
1.0,2.0,97.0,0.0,0.0,0.0,0.0,0.0
25.5,10.0,64.5,0.0,0.0,0.0,1024.0,2048.0
`))
	require.NoError(t, err)
	require.Len(t, samples, 1)
	assert.InDelta(t, 0.255, samples[0]["cpu usr"], 1e-12)
	assert.InDelta(t, 2048, samples[0]["net send"], 0)

	requireRefused(t, ParseDstat, map[string]string{
		"":        "no sample of dstat",
		"hello\n": "no sample of dstat",
		"----total-cpu-usage---- -net/total-\nusr sys\n":    "line 2: 1 groups of columns: expected 2",
		"----total-cpu-usage----\nusr sys\n1 2\n1\n":        "line 4: 1 values",
		"----total-cpu-usage----\nusr sys\n1 2\n1 x\n":      `line 4: "x"`,
		"\"total cpu usage\",\n\"usr\",\"sys\"\n1,2\n1,x\n": `line 4: cpu sys is "x"`,
	})
}

// testdata/memaslap.txt is an output of memcaslap of libmemcached 1.1.4: -t 3s -T 1 -c 8 -S 1s against memcached.
func TestMemaslapIsRead(t *testing.T) {
	text, err := os.ReadFile("testdata/memaslap.txt")
	require.NoError(t, err)
	m, err := ParseMemaslap(bytes.NewReader(text))
	require.NoError(t, err)
	assert.EqualValues(t, 8, m.Connections)
	assert.InDelta(t, 20860, m.Throughput, 0)
	assert.EqualValues(t, 62588, m.Requests)
	assert.EqualValues(t, 6262, m.Sets)
	assert.InDelta(t, 0.1, m.SetShare, 1e-12)
	total := m.Commands["total"]
	require.NotNil(t, total)
	assert.InDelta(t, 383e-6, total.Mean, 1e-12)
	assert.InDelta(t, 4485.05e-6, total.StdDev, 1e-12)
	require.Len(t, total.Periods, 3)
	assert.InDelta(t, 2, total.Periods[1].End, 0)
	assert.EqualValues(t, total.Requests, total.Histogram.Total())
	assert.InDelta(t, 8e-6, total.Histogram[0].Lower, 1e-15)
	assert.InDelta(t, 16e-6, total.Histogram[0].Upper, 1e-15)
	run := MemaslapRun(m, map[string]string{"servers": "1"})
	assert.Equal(t, map[string]string{"load_threads": "1", "clients": "8", "ratio": "10:90", "servers": "1"},
		run.Factors)
	mean, ok := run.Value("client", "response_time_mean_get")
	require.True(t, ok)
	assert.InDelta(t, 387e-6, mean, 1e-12)
	requireRefused(t, ParseMemaslap, map[string]string{
		"":                                    "no result of memaslap",
		"Period 1 2\n":                        "below the name of a statistic",
		"concurrency: x\n":                    `line 1: "x"`,
		"Get Statistics\nLog2 Dist:\n70: 1\n": "0 to 64",
		"Get Statistics\nLog2 Dist:\n4: 1 1 1 1\n4: 1\n": "class 4: expected the classes in ascending order",
		"Run time: 1s Ops: 1 TPS: x\n":                   `"x"`,
	})
}

func TestFormatsOfFilesAreDetected(t *testing.T) {
	memaslap, err := os.ReadFile("testdata/memaslap.txt")
	require.NoError(t, err)
	text := `{"configuration":{"ratio":"1:9","multi_key_get":9},"run information":{"Threads":2,"Connections per thread":4,"Seconds":5},
"ALL STATS":{"Runtime":{"Start time":1000,"Finish time":6000,"Time unit":"MILLISECONDS"},
"Gets":{"Count":50,"Ops/sec":10,"Latency":2,"Misses/sec":1},"Totals":{"Count":50,"Ops/sec":10,"Latency":2,"KB/sec RX":1,"Percentile Latencies":{"p50.00":1.5},"Time-Serie":{"0":{"Count":10,"Average Latency":2}}}}}`
	for _, c := range []struct{ text, format string }{
		{clientText(1, 1), "memtier"},
		{text, "memtier"},
		{string(memaslap), "memaslap"},
		{dstatText, "dstat"},
	} {
		_, format, err := ParseFile([]byte(c.text), "auto", nil)
		require.NoError(t, err)
		assert.Equal(t, c.format, format)
	}
	runs, _, err := ParseFile([]byte(text), "memtier", nil)
	require.NoError(t, err)
	require.Len(t, runs, 1)
	run := runs[0]
	assert.Equal(t, "9", run.Factors["keys_per_get"])
	assert.Equal(t, "1:1", run.Factors["ratio"], "memtier's ratio counts keys, that of mcmwlab requests")
	assert.InDelta(t, 5, run.Seconds, 0)
	for metric, want := range map[string]float64{
		"throughput_multiget": 10, "response_time_mean": 0.002,
		"response_time_p50": 0.0015, "bytes_read": 5 * 1024, "requests": 50,
	} {
		got, ok := run.Value("client", metric)
		assert.True(t, ok, metric)
		assert.InDelta(t, want, got, 1e-12, metric)
	}
	_, _, err = ParseFile([]byte("hello"), "auto", nil)
	for _, format := range Formats {
		assert.ErrorContains(t, err, "as "+format+": no ")
	}
	_, _, err = ParseFile(nil, "word", nil)
	assert.ErrorContains(t, err, "expected one of auto, mcmwlab, memtier")
}

func TestTheAverageOfMemtiersRunsHasPercentilesInJSONAsInText(t *testing.T) {
	for _, name := range []string{"mixed-3runs.json", "mixed-3runs.txt"} {
		text, err := os.ReadFile("../memtier/testdata/" + name)
		require.NoError(t, err)
		runs, _, err := ParseFile(text, "memtier", nil)
		require.NoError(t, err)
		require.Len(t, runs, 1)
		for metric, want := range map[string]float64{"p50": 0.127e-3, "p99": 0.375e-3, "p999": 2.079e-3} {
			got, ok := runs[0].Value("client", "response_time_"+metric)
			assert.True(t, ok, metric)
			assert.InEpsilon(t, want, got, 0.01, "%s of %s", metric, name)
		}
		written, _ := runs[0].Value("client", "bytes_written")
		assert.False(t, written > 1e12, "%v bytes: a sum that memtier did not compute is not a number", written)
	}
}

func TestASecondAfterTheEndIsNoWindow(t *testing.T) {
	text, err := os.ReadFile("../memtier/testdata/get.json")
	require.NoError(t, err)
	runs, _, err := ParseFile(text, "memtier", nil)
	require.NoError(t, err)
	var rates []float64
	for _, w := range runs[0].Windows {
		if w.Metric == "throughput" {
			rates = append(rates, w.Value)
		}
	}
	assert.Equal(t, []float64{72305, 68758, 72013, 68988, 71288}, rates,
		"the last replies, after 5 s, are no sixth second")
}

func TestFactorsComeFromFolders(t *testing.T) {
	assert.Equal(t, map[string]string{"workers": "8", "ratio": "1:9", "middlewares": "2"},
		PathFactors("a/nmw=2/workers=8/wrkld=1-9/mgsize=NA/run.json"))
}

func FuzzParseDstat(f *testing.F) {
	f.Add([]byte(dstatText))
	f.Add([]byte("\"total cpu usage\",\n\"usr\",\"sys\"\n1,2\n1,3\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		samples, err := ParseDstat(bytes.NewReader(text))
		if err == nil {
			require.NotEmpty(t, samples)
			DstatRun(samples, nil)
		}
	})
}

func FuzzParseMemaslap(f *testing.F) {
	text, err := fs.ReadFile(os.DirFS("testdata"), "memaslap.txt")
	require.NoError(f, err)
	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ParseMemaslap(bytes.NewReader(text))
		if err != nil {
			return
		}
		for _, command := range m.Commands {
			for _, bin := range command.Histogram {
				require.Less(t, bin.Lower, bin.Upper)
			}
		}
		MemaslapRun(m, nil)
	})
}

func TestARatioOfKeysBecomesOneOfRequests(t *testing.T) {
	for _, c := range []struct{ ratio, keys, want, wantKeys string }{
		{"1:9", "9", "1:1", "9"},
		{"1:10", "9", "1:2", "9"}, // nine keys, then one
		{"1:3", "9", "1:1", "3"},  // a GET has no more keys than the ratio
		{"0:1", "9", "0:1", "1"},
		{"0:18", "9", "0:1", "9"},
		{"1:9", "1", "1:9", "1"},
		{"1:0", "9", "1:0", "9"},
		{"", "9", "", "9"},
	} {
		factors := map[string]string{"ratio": c.ratio, "keys_per_get": c.keys}
		inRequests(factors)
		assert.Equal(t, map[string]string{"ratio": c.want, "keys_per_get": c.wantKeys}, factors, c)
	}
}

func TestRunsOfOneOutputStayRuns(t *testing.T) {
	row := func(title string, start, count int) string {
		return fmt.Sprintf(`"%s":{"Runtime":{"Start time":%d,"Finish time":%d,"Time unit":"MILLISECONDS"},"Totals":{"Count":%d,"Ops/sec":%d,"Latency":2}}`,
			title, start, start+5000, count, count/5)
	}
	head := `{"configuration":{"ratio":"1:9"},"run information":{"Threads":2,"Connections per thread":4,"Seconds":5},`
	average := `"AGGREGATED AVERAGE RESULTS (3 runs)":{"Totals":{"Count":600,"Ops/sec":40,"Latency":2}}`
	all := head + row("BEST RUN RESULTS", 1000, 250) + "," + average + "," + row("RUN #2 RESULTS", 7000, 250) + "," +
		row("RUN #1 RESULTS", 1000, 200) + "," +
		row("RUN #3 RESULTS", 13000, 150) + "," + row("WORST RUN RESULTS", 13000, 150) + "}"
	runs, _, err := ParseFile([]byte(all), "auto", nil)
	require.NoError(t, err)
	require.Len(t, runs, 3)
	for i, want := range []float64{200, 250, 150} {
		got, _ := runs[i].Value("client", "requests")
		assert.InDelta(t, want, got, 0)
		_, averaged := runs[i].Value("client", "runs_averaged")
		assert.False(t, averaged)
	}
	runs, _, err = ParseFile([]byte(head+row("BEST RUN RESULTS", 1, 250)+","+average+"}"), "auto", nil)
	require.NoError(t, err)
	require.Len(t, runs, 1)
	n, _ := runs[0].Value("client", "runs_averaged")
	assert.InDelta(t, 3, n, 0)
	requests, _ := runs[0].Value("client", "requests")
	assert.InDelta(t, 200, requests, 0, "of one run")
}

func TestARunWithoutRequestsFails(t *testing.T) {
	runs, _, err := ParseFile([]byte(clientText(0, 0)), "auto", nil)
	require.NoError(t, err)
	assert.Equal(t, record.Failed, runs[0].State)
	assert.Equal(t, "memtier measured no request", runs[0].Error)
}
