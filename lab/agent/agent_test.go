package agent

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/lab/kernel"
)

// stopWriter calls stop after a number of writes.
type stopWriter struct {
	bytes.Buffer
	left int
	stop func()
}

func (w *stopWriter) Write(p []byte) (int, error) {
	if w.left--; w.left == 0 {
		w.stop()
	}
	return w.Buffer.Write(p)
}

func TestSamplesAreCountersOfTheHostAndTheProcesses(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := &stopWriter{left: 3, stop: cancel}
	require.NoError(t, Sample(ctx, out,
		Watched{
			Processes: map[string]string{"this": strconv.Itoa(os.Getpid()), "gone": "4194304"},
			Interval:  time.Millisecond,
		}))
	readings, err := ReadSamples(&out.Buffer)
	require.NoError(t, err)
	require.Len(t, readings, 3)
	for i, r := range readings {
		assert.Positive(t, r.CPU.Total())
		assert.Positive(t, r.Processes["this"])
		assert.Greater(t, r.Memory["this"], float64(1<<20))
		assert.Positive(t, r.Calls["this"])
		assert.NotContains(t, r.Processes, "gone")
		if i > 0 {
			assert.True(t, r.At.After(readings[i-1].At))
			assert.GreaterOrEqual(t, r.Processes["this"], readings[i-1].Processes["this"])
		}
	}
}

func TestAGroupCanBeSampledInPlaceOfTheHost(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cpu.stat"), []byte("user_usec 3000000\nsystem_usec 1000000\n"),
		0o644))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := &stopWriter{left: 2, stop: cancel}
	require.NoError(t, Sample(ctx, out, Watched{Group: []string{dir}, CPUs: 2, Interval: time.Millisecond}))
	readings, err := ReadSamples(&out.Buffer)
	require.NoError(t, err)
	require.Len(t, readings, 2)
	assert.InDelta(t, 3, readings[1].CPU.User, 1e-9)
	assert.InDelta(t, 1, readings[1].CPU.System, 1e-9)
	// The time of two processors that the group has not used.
	assert.Greater(t, readings[1].CPU.Idle, readings[0].CPU.Idle)
	require.Error(t, Sample(ctx, out, Watched{Group: []string{dir + "/none"}, CPUs: 2, Interval: time.Millisecond}))
}

func TestAnIncompleteLastSampleIsLeftOut(t *testing.T) {
	whole := `{"at":"2026-01-01T00:00:00Z","cpu":{"user":1.5}}` + "\n"
	later := strings.Replace(whole, "00Z", "01Z", 1)
	readings, err := ReadSamples(strings.NewReader(whole + later + `{"at":"2026-01-01T00:00:02Z","cp`))
	require.NoError(t, err)
	require.Len(t, readings, 2)
	assert.InDelta(t, 1.5, readings[1].CPU.User, 0)

	readings, err = ReadSamples(strings.NewReader(later + whole))
	require.NoError(t, err)
	assert.Len(t, readings, 1, "a clock that was set back causes no negative times")

	_, err = ReadSamples(strings.NewReader("nonsense\n" + whole))
	assert.ErrorContains(t, err, "samples of a host: line 1: ")
}

func FuzzSamplesOfAnyTextAreReadOrRefused(f *testing.F) {
	f.Add([]byte(`{"at":"2026-01-01T00:00:00Z","cpu":{"user":1.5},"processes":{"a":1}}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		readings, err := ReadSamples(bytes.NewReader(text))
		if err != nil {
			return
		}
		for i := 1; i < len(readings); i++ {
			require.True(t, readings[i].At.After(readings[i-1].At))
		}
	})
}

func TestAPathIsMeasuredAgainstItsServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ServePath(ctx, listener) }()
	p, err := MeasurePath(context.Background(), listener.Addr().String(), 20*time.Millisecond)
	require.NoError(t, err)
	assert.Positive(t, p.RoundTripMin)
	assert.LessOrEqual(t, p.RoundTripMin, p.RoundTripMean)
	assert.LessOrEqual(t, p.RoundTripMin, p.RoundTripP99)
	assert.Positive(t, p.Upload)
	assert.Positive(t, p.Download)
	cancel()
	require.NoError(t, <-ended)
	_, err = MeasurePath(context.Background(), listener.Addr().String(), time.Millisecond)
	assert.ErrorContains(t, err, "measuring the path to "+listener.Addr().String())
}

func TestAPathServerThatGoesAwayIsAnError(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	_, err = MeasurePath(context.Background(), listener.Addr().String(), time.Millisecond)
	assert.ErrorContains(t, err, "measuring the path to ")
}

func TestAHostIsDescribed(t *testing.T) {
	h := Describe()
	assert.Positive(t, h.Cores)
	assert.Positive(t, h.Memory)
	assert.NotEmpty(t, h.Kernel)
	assert.NotEmpty(t, h.Settings["somaxconn"])
}

func TestTheProcessorTimeOfAProcessElsewhereIsReadFromItsMetrics(t *testing.T) {
	answer := "# HELP process_cpu_seconds_total Total time.\nprocess_cpu_seconds_total 12.5\nprocess_open_fds 9\n"
	code := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	used, err := usageOf(server.URL)
	require.NoError(t, err)
	assert.Equal(t, kernel.Used{CPU: 12500 * time.Millisecond}, used)
	answer = "up 1\n"
	_, err = usageOf(server.URL)
	require.ErrorContains(t, err, "has no metric process_cpu_seconds_total")
	code = http.StatusNotFound
	_, err = usageOf(server.URL)
	require.ErrorContains(t, err, "answers with status 404")
	server.Close()
	_, err = usageOf(server.URL)
	require.Error(t, err)
}
