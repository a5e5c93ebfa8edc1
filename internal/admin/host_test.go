package admin

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ask returns the status of a request for path with a Host header; "" sends none.
func ask(t *testing.T, addr, path, host string) int {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	request := "GET " + path + " HTTP/1.0\r\n"
	if host != "" {
		request += "Host: " + host + "\r\n"
	}
	_, err = io.WriteString(conn, request+"\r\n")
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer response.Body.Close()
	return response.StatusCode
}

func TestAnAdminServerOnLoopbackAnswersOnlyToItsOwnNames(t *testing.T) {
	s, _ := serve(t, Options{})
	addr := s.Addr().String()
	for _, path := range []string{
		"/", "/livez", "/readyz", "/metrics", "/api/stats", "/debug/histogram",
		"/debug/pprof/cmdline",
	} {
		for _, host := range []string{
			"localhost", "LocalHost:9150", "127.0.0.1", "127.0.0.1:1", "127.0.0.2", "[::1]",
			"[::1]:9150", addr, "",
		} {
			assert.Equal(t, http.StatusOK, ask(t, addr, path, host), "%s of %q", path, host)
		}
		for _, host := range []string{
			"attacker.example", "attacker.example:9150", "localhost.attacker.example",
			"127.0.0.1.attacker.example", "192.0.2.1:9150", "[2001:db8::1]:9150", "0.0.0.0",
		} {
			assert.Equal(t, http.StatusForbidden, ask(t, addr, path, host), "%s of %q", path, host)
		}
	}
}

func TestAnAdminServerAlsoAnswersToItsConfiguredName(t *testing.T) {
	var asked int
	h := ownHost(&net.TCPAddr{IP: net.IPv4(127, 0, 1, 1), Port: 9150}, "cache1:9150",
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	for _, host := range []string{"cache1", "Cache1:9150", "cache2:9150", "localhost"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		require.NoError(t, err)
		r.Host = host
		h.ServeHTTP(discard{}, r)
	}
	assert.Equal(t, 3, asked)
}

// discard is an http.ResponseWriter that discards the answer.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) WriteHeader(int)             {}

func TestAnAdminServerOnOtherAddressesAnswersToEveryName(t *testing.T) {
	_, url := serveAt(t, "0.0.0.0:0", Options{})
	assert.Equal(t, http.StatusOK, ask(t, strings.TrimPrefix(url, "http://"), "/livez", "attacker.example"))
}

func TestAStartingAdminServerChecksTheNameToo(t *testing.T) {
	starting, err := Listen("127.0.0.1:0", "no servers yet", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer starting.Close()
	assert.Equal(t, http.StatusForbidden, ask(t, starting.Addr().String(), "/livez", "attacker.example"))
	assert.Equal(t, http.StatusOK, ask(t, starting.Addr().String(), "/livez", "localhost"))
}
