package admin

import (
	"log/slog"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/stats"
)

func TestAStartingServerAnswersWithTheReasonAndHandsItsSocketOver(t *testing.T) {
	starting, err := Start("127.0.0.1:0", "there are no servers yet", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	url := "http://" + starting.Addr().String()
	for path, want := range map[string]struct {
		code int
		body string
	}{
		"/livez":   {http.StatusOK, "ok\n"},
		"/readyz":  {http.StatusServiceUnavailable, "not ready: there are no servers yet\n"},
		"/metrics": {http.StatusServiceUnavailable, "not ready: there are no servers yet\n"},
		"/":        {http.StatusServiceUnavailable, "not ready: there are no servers yet\n"},
	} {
		code, _, body := get(t, http.MethodGet, url+path)
		require.Equal(t, want.code, code, path)
		require.Equal(t, want.body, body, path)
	}
	_, err = Start(starting.Addr().String(), "", slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "admin address \""+starting.Addr().String()+"\"")

	l, err := starting.Stop()
	require.NoError(t, err)
	early, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err, "the socket is bound although nothing accepts")
	defer early.Close()

	_, url = serve(t, Options{Listener: l, Control: new(stats.Control)})
	_, _, body := get(t, http.MethodGet, url+"/metrics")
	require.Contains(t, body, "mcmw_config_info{")
}
