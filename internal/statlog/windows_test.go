package statlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// decode returns the lines of a log: the start, the windows and the summary.
func decode(t *testing.T, log string) (first Start, windows []Window, summary Window) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(log), "\n")
	require.GreaterOrEqual(t, len(lines), 3, log)
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
	for i, line := range lines[1:] {
		var w Window
		require.NoError(t, json.Unmarshal([]byte(line), &w))
		if i == len(lines)-2 {
			require.Equal(t, "summary", w.Type)
			return first, windows, w
		}
		require.Equal(t, "window", w.Type)
		require.Equal(t, i+1, w.Number)
		windows = append(windows, w)
	}
	return first, windows, summary
}

// recordOne records a request whose stages took random times of very different sizes, and returns its response time.
func recordOne(w *stats.Worker, random *rand.Rand) int64 {
	t := stats.Times{Created: stats.Now()}
	part := func() int64 { return random.Int64N(1 << (10 + random.IntN(16))) }
	t.Enqueued = t.Created + part()
	t.Dequeued = t.Enqueued + part()
	t.Sent = t.Dequeued + part()
	t.Received = t.Sent + part()
	t.Replied = t.Received + part()
	commands := []protocol.Command{protocol.Get, protocol.Set, protocol.Delete}
	w.Request(commands[random.IntN(len(commands))], stats.ResultOK, 1, 1, &t)
	w.Server(random.IntN(2), t.Of(stats.StageServer))
	w.Flush()
	return t.Response()
}

func TestTheWindowsMergeExactlyToTheSummary(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	r := stats.New(stats.Options{Servers: []string{"a", "b"}, Workers: 3, Depth: 7})
	recordOne(r.Worker(0), random) // before the log begins
	var out bytes.Buffer
	log, err := NewWindows(&out, r, time.Second, "v1.2.3")
	require.NoError(t, err)
	var responses []float64
	for range 10 {
		for range random.IntN(300) {
			responses = append(responses, float64(recordOne(r.Worker(random.IntN(3)), random)))
		}
		r.Sample()
		require.NoError(t, log.window())
	}
	require.NoError(t, log.end())

	first, windows, summary := decode(t, out.String())
	require.Equal(t, "v1.2.3", first.Version)
	require.Equal(t, []string{"a", "b"}, first.Servers)
	require.Equal(t, []int{3, 7, runtime.GOMAXPROCS(0)}, []int{first.Workers, first.Depth, first.Processors})
	require.Len(t, windows, 11)
	require.Equal(t, 11, summary.Number)
	require.Equal(t, windows[0].From, summary.From)
	require.Equal(t, windows[10].Until, summary.Until)

	mean, m2 := 0.0, 0.0
	for _, x := range responses {
		mean += x / float64(len(responses))
	}
	for _, x := range responses {
		m2 += (x - mean) * (x - mean)
	}
	require.EqualValues(t, len(responses), summary.Times["response"].N)
	require.InEpsilon(t, mean, summary.Times["response"].Mean, 1e-12)
	require.InEpsilon(t, m2, summary.Times["response"].M2, 1e-12)
	require.EqualValues(t, 10, summary.Queue.Samples)

	merged := map[string]Times{}
	counts := map[uint64]uint64{}
	distributed := map[string]uint64{} // by class
	var requests, beyond uint64
	for i, w := range windows {
		if i > 0 {
			require.Equal(t, windows[i-1].Until, w.From)
		}
		requests += w.Requests
		beyond += w.Histogram.Beyond
		for _, c := range w.Histogram.Counts {
			counts[c[0]] += c[1]
		}
		for class, bins := range w.Distributions {
			for _, b := range bins {
				require.Less(t, b[0], b[1])
				distributed[class] += uint64(b[2])
			}
		}
		for name, part := range w.Times {
			sum := merged[name]
			if sum.Squares == nil {
				sum.Squares = new(big.Int)
			}
			sum.N, sum.Sum = sum.N+part.N, sum.Sum+part.Sum
			sum.Squares.Add(sum.Squares, part.Squares)
			// T. F. Chan, G. H. Golub and R. J. LeVeque, "Updating formulae and a pairwise algorithm .." (1979)
			apart, share := part.Mean-sum.Mean, float64(part.N)/float64(sum.N)
			sum.M2 += part.M2 + apart*apart*share*float64(sum.N-part.N)
			sum.Mean += apart * share
			merged[name] = sum
		}
	}
	require.Equal(t, requests, summary.Requests)
	require.Equal(t, beyond, summary.Histogram.Beyond)
	require.Len(t, summary.Histogram.Counts, len(counts))
	for _, c := range summary.Histogram.Counts {
		require.Equal(t, counts[c[0]], c[1], "step %d", c[0])
	}
	require.Len(t, merged, len(summary.Times))
	require.Contains(t, merged, "response:delete")
	require.Contains(t, merged, "queue")
	require.Contains(t, merged, "server:b")
	require.Len(t, distributed, 3)
	for class, n := range distributed {
		require.Equal(t, merged["response:"+class].N, n, class)
	}
	var stages uint64
	for name, want := range summary.Times {
		require.Equal(t, want.N, merged[name].N, name)
		require.Equal(t, want.Sum, merged[name].Sum, name)
		require.Equal(t, want.Squares.String(), merged[name].Squares.String(), name)
		require.InEpsilon(t, want.Mean, merged[name].Mean, 1e-12, name)
		require.InEpsilon(t, want.M2, merged[name].M2, 1e-9, name)
	}
	for s := range stats.NumStages {
		stages += summary.Times[s.String()].Sum
	}
	require.Equal(t, summary.Times["response"].Sum, stages, "the stages add up to the response times")
}

func TestARunWritesItsLastWindowAndTheSummaryWhenItEnds(t *testing.T) {
	r := stats.New(stats.Options{Workers: 1})
	var out bytes.Buffer
	log, err := NewWindows(&out, r, time.Hour, "v1")
	require.NoError(t, err)
	r.Worker(0).Request(protocol.Get, stats.ResultServerError, 3, 0, &stats.Times{Replied: 1e6})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, log.Run(ctx))
	_, windows, summary := decode(t, out.String())
	require.Len(t, windows, 1)
	require.EqualValues(t, 1, windows[0].ServerErrors)
	require.Equal(t, windows[0].Times, summary.Times)
	require.Equal(t, Histogram{Step: 100_000, Counts: [][2]uint64{{10, 1}}}, summary.Histogram)
	require.Equal(t, map[string][][3]int64{"multi_get": {{1_000_000, 1_010_000, 1}}}, summary.Distributions)
}

func TestATimeBeyondAllBucketsHasNoUpperBound(t *testing.T) {
	r := stats.New(stats.Options{Workers: 1})
	var out bytes.Buffer
	log, err := NewWindows(&out, r, time.Hour, "v1")
	require.NoError(t, err)
	r.Worker(0).Request(protocol.Set, stats.ResultOK, 1, 0, &stats.Times{Replied: int64(time.Hour)})
	require.NoError(t, log.end())
	_, windows, _ := decode(t, out.String())
	require.Equal(t, map[string][][3]int64{"set": {{102_400_000_000, Unbounded, 1}}}, windows[0].Distributions)
}

func TestAnIdleWindowHasNoTimes(t *testing.T) {
	var out bytes.Buffer
	log, err := NewWindows(&out, stats.New(stats.Options{Workers: 1}), time.Hour, "v1")
	require.NoError(t, err)
	require.NoError(t, log.end())
	_, windows, _ := decode(t, out.String())
	require.Empty(t, windows[0].Times)
	require.NotContains(t, out.String(), "null")
}

// full is a disk that has room for a number of bytes.
type full struct{ room int }

func (f *full) Write(p []byte) (int, error) {
	f.room -= len(p)
	if f.room < 0 {
		return 0, errors.New("no space left")
	}
	return len(p), nil
}

func TestALogThatCannotBeWrittenEndsWithTheReason(t *testing.T) {
	r := stats.New(stats.Options{Workers: 1})
	_, err := NewWindows(&full{}, r, time.Hour, "v1")
	require.ErrorContains(t, err, "no space left")
	log, err := NewWindows(&full{room: 1000}, r, time.Microsecond, "v1")
	require.NoError(t, err)
	require.ErrorContains(t, log.Run(t.Context()), "no space left")

	tap := stats.NewTap(1, 0, false)
	r = stats.New(stats.Options{Workers: 1, Tap: tap})
	r.Worker(0).Log(stats.Event{}, nil)
	require.ErrorContains(t, WriteRequests(t.Context(), tap, &full{}), "no space left")
}
