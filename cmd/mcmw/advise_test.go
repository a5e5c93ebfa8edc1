package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/model"
)

func TestAdviseReportsWhatARunningMiddlewareMeasured(t *testing.T) {
	s := start(t, "serve", "-p", "0", "-m", mctest.StartMemcached(t).Addr(), "--admin", "127.0.0.1:0")
	client := mctest.MustDial(t, awaitEntry(t, s.stderr, "ready").Listen[0])
	admin := awaitEntry(t, s.stderr, "admin server listens").Address
	var text string
	require.Eventually(t, func() bool {
		if _, err := client.Do("get k\r\n"); err != nil {
			return false
		}
		var code int
		code, text, _ = execute(t, "advise", admin)
		return code == exitOK && !strings.HasPrefix(text, "No requests")
	}, mctest.Patience, 50*time.Millisecond, "the request is in no window")
	for _, want := range []string{"the processor ", "the workers ", "server 127.0.0.1:", "requests in queue", "M/M/m"} {
		require.Contains(t, text, want)
	}
	code, text, _ := execute(t, "advise", "http://"+admin+"/", "-o", "json")
	require.Equal(t, exitOK, code)
	var report model.Report
	require.NoError(t, json.Unmarshal([]byte(text), &report))
	require.Len(t, report.Parts, 3)
	s.stop()
	require.Equal(t, exitOK, s.exitCode(t))

	code, _, stderr := execute(t, "advise", admin)
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "connection refused")
}

func TestAdviseRefusesAnotherServersAnswer(t *testing.T) {
	for body, want := range map[string]string{
		"{}":       "does not answer as mcmw's admin server does",
		"<html>":   "does not answer as mcmw's admin server does",
		"\x00gone": "404 Not Found",
	} {
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(body, "\x00") {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write([]byte(body))
		}))
		code, _, stderr := execute(t, "advise", other.URL)
		other.Close()
		require.Equal(t, exitFailed, code)
		require.Contains(t, stderr, want)
	}
}
