package statlog

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/protocol"
	"mcmw/internal/stats"
)

// logged records requests with these response times, and returns the lines of the request log.
func logged(t *testing.T, tap *stats.Tap, responses ...time.Duration) []request {
	t.Helper()
	w := stats.New(stats.Options{Workers: 3, Tap: tap}).Worker(2)
	for _, d := range responses {
		times := stats.Times{Created: stats.Now()}
		times.Enqueued, times.Dequeued, times.Sent = times.Created+1, times.Created+3, times.Created+6
		times.Received, times.Replied = times.Created+10, times.Created+int64(d)
		if w.Count(protocol.Gets, stats.ResultPartial, 2, 1, &times) {
			w.Log(stats.Event{
				Times: times, Command: protocol.Gets, Result: stats.ResultPartial, Keys: 2, Hits: 1,
				Bytes: 9, Calls: 1, Server: "a",
			}, []byte("secret"))
		}
		w.Flush()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // waiting requests are still written
	var out bytes.Buffer
	require.NoError(t, WriteRequests(ctx, tap, &out))
	var lines []request
	for line := range strings.Lines(out.String()) {
		var r request
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		lines = append(lines, r)
	}
	return lines
}

func TestEveryNthRequestIsLoggedWithAllItsTimes(t *testing.T) {
	before := time.Now().Add(-time.Second).UnixMicro()
	lines := logged(t, stats.NewTap(3, 0, false), 20, 21, 22, 23, 24, 25, 26, 27)
	require.Len(t, lines, 2)
	require.Greater(t, lines[0].Created, before)
	require.LessOrEqual(t, lines[0].Created, time.Now().UnixMicro())
	lines[0].Created = 0
	require.Equal(t, request{
		Type: "request", Why: "sample", Enqueued: 1, Dequeued: 3, Sent: 6, Received: 10, Replied: 22,
		Command: "gets", Class: "multi_get", Result: "partial", Keys: 2, Hits: 1, Bytes: 9, Worker: 2, Calls: 1,
		Server: "a",
	}, lines[0], "without keys")
	require.EqualValues(t, 25, lines[1].Replied)
}

func TestSlowRequestsAreLogged(t *testing.T) {
	lines := logged(t, stats.NewTap(0, time.Millisecond, true), 20, time.Millisecond, time.Millisecond-1, time.Second)
	require.Len(t, lines, 2)
	require.Equal(t, "slow", lines[0].Why)
	require.Equal(t, "secret", lines[0].Key)
	require.EqualValues(t, time.Second, lines[1].Replied)
}

func TestWithoutAFileRequestsGoToTheLog(t *testing.T) {
	tap := stats.NewTap(1, 0, true)
	r := stats.New(stats.Options{Workers: 1, Tap: tap})
	r.Worker(0).Log(stats.Event{Times: stats.Times{Replied: 5e6}, Command: protocol.Get, Server: "a"}, []byte("k"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	require.NoError(t, LogRequests(ctx, tap, slog.New(slog.NewTextHandler(&out, nil))))
	require.Contains(t, out.String(), "msg=request why=sample command=get result=ok response_us=5000 server=a")
	require.Contains(t, out.String(), "reply_us=5000 key=k\n")
}

func TestALongKeyIsCut(t *testing.T) {
	tap := stats.NewTap(1, 0, true)
	stats.New(stats.Options{Workers: 1, Tap: tap}).Worker(0).Log(stats.Event{}, bytes.Repeat([]byte("k"), 1000))
	e := <-tap.Events()
	require.Len(t, e.Key(), 250)
}
