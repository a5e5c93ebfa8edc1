package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"

	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// seriesIn returns the number of series in a metrics page.
func seriesIn(page string) (n int) {
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n
}

// distributionOf returns the decoded answer of /debug/histogram.
func distributionOf(t *testing.T, url string) (d distribution) {
	t.Helper()
	status, header, body := get(t, "GET", url)
	require.Equal(t, http.StatusOK, status, body)
	require.NoError(t, json.Unmarshal([]byte(body), &d))
	require.Equal(t, d.ID, header.Get(snapshotHeader))
	return d
}

func TestAHistogramCountsTheTimesSinceAnEarlierOne(t *testing.T) {
	registry := stats.New(stats.Options{Servers: []string{"a"}, Workers: 1})
	_, url := serve(t, Options{Registry: registry})
	url += "/debug/histogram"
	record := func(d time.Duration) {
		registry.Worker(0).Request(protocol.Set, stats.ResultOK, 1, 0,
			&stats.Times{Enqueued: 1000, Dequeued: 1000, Sent: 1000, Received: 1000, Replied: int64(d)})
		registry.Worker(0).Server(0, int64(time.Millisecond))
		registry.Worker(0).Flush()
	}
	record(250 * time.Microsecond)
	first := distributionOf(t, url)
	require.Equal(t, []uint64{0, 0, 1}, first.Counts)
	require.EqualValues(t, 250_000, first.Sum)
	require.Empty(t, first.Since)

	empty := distributionOf(t, url+"?since="+first.ID)
	require.Zero(t, empty.Count)
	require.Equal(t, []uint64{}, empty.Counts)
	record(99_999)
	record(150 * time.Millisecond)
	record(time.Second)
	second := distributionOf(t, url+"?since="+first.ID+"&step=50ms")
	require.Equal(t, []uint64{1, 0, 0, 1}, second.Counts)
	require.EqualValues(t, 1, second.Beyond)
	require.EqualValues(t, 3, second.Count)
	require.Equal(t, first.ID, second.Since)
	require.Equal(t, first.Until, second.From)
	require.EqualValues(t, 4, distributionOf(t, url).Count, "since the start")

	for of, want := range map[string]uint64{
		"response": 3, "command:set": 3, "command:get": 0, "stage:net": 3,
		"server:a": 3,
	} {
		d := distributionOf(t, url+"?since="+first.ID+"&of="+of)
		require.Equal(t, want, d.Count, of)
		require.Equal(t, of, d.Of)
	}
	require.Equal(t, []uint64{3}, distributionOf(t, url+"?since="+first.ID+"&of=stage:net").Counts)

	_, header, csv := get(t, "GET", url+"?since="+first.ID+"&step=60ms&format=csv")
	require.Equal(t, "lower_us,upper_us,count\n0,60000,1\n60000,120000,0\n120000,180000,1\n180000,inf,1\n", csv)
	require.NotEmpty(t, header.Get(snapshotHeader))
}

func TestAHistogramAsPercentilesEqualsThatOfHdrHistogram(t *testing.T) {
	registry := stats.New(stats.Options{Workers: 1})
	_, url := serve(t, Options{Registry: registry})
	reference := hdrhistogram.New(1, int64(time.Minute/time.Microsecond), 3)
	for i := range 1000 {
		d := time.Duration(i) * 50 * time.Microsecond
		require.NoError(t, reference.RecordValue(int64(d/time.Microsecond)))
		registry.Worker(0).Request(protocol.Get, stats.ResultOK, 1, 1, &stats.Times{Replied: int64(d)})
	}
	_, _, text := get(t, "GET", url+"/debug/histogram?format=hgrm")
	lines := strings.Split(text, "\n")
	require.Equal(t, []string{"Value", "Percentile", "TotalCount", "1/(1-Percentile)"}, strings.Fields(lines[0]))
	rows := 0
	for _, line := range lines[2:] {
		var value, percentile float64
		var count uint64
		if n, _ := fmt.Sscan(line, &value, &percentile, &count); n < 3 {
			break
		}
		rows++
		require.InDelta(t, float64(reference.ValueAtQuantile(percentile*100))/1e3, value, 0.11, line)
	}
	require.Greater(t, rows, 500)
	require.Contains(t, text, "Total count    =         1000]")
	require.Contains(t, text, fmt.Sprintf("#[Mean    = %12.4f,", 24.975))
}

func TestAnImpossibleHistogramIsRefusedWithTheReason(t *testing.T) {
	_, url := serve(t, Options{})
	for query, want := range map[string]struct {
		status int
		text   string
	}{
		"step=x":      {http.StatusBadRequest, `step="x": want a duration`},
		"step=150us":  {http.StatusBadRequest, "want a multiple of 100µs up to 200ms"},
		"step=-100us": {http.StatusBadRequest, "want a multiple of 100µs up to 200ms"},
		"format=xml":  {http.StatusBadRequest, `format="xml": want json, csv or hgrm`},
		"of=server:c": {http.StatusBadRequest, `of="server:c": want response,`},
		"of=x":        {http.StatusBadRequest, `of="x": want response,`},
		"since=old-1": {http.StatusGone, `since="old-1": no such snapshot`},
	} {
		status, _, body := get(t, "GET", url+"/debug/histogram?"+query)
		require.Equal(t, want.status, status, query)
		require.Contains(t, body, want.text, query)
	}
}

func TestOnlyTheNewestSnapshotsAreKept(t *testing.T) {
	_, url := serve(t, Options{})
	url += "/debug/histogram"
	ids := make([]string, keptSnapshots+1)
	for i := range ids {
		ids[i] = distributionOf(t, url).ID
	}
	status, _, _ := get(t, "GET", url+"?since="+ids[0])
	require.Equal(t, http.StatusGone, status)
	distributionOf(t, url+"?since="+ids[2])
}
