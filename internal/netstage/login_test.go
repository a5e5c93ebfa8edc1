package netstage_test

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/netstage"
)

const users = "anna:secret\nbert:pass:word\n"

func passwords(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "passwords")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// login returns the set command that carries user and password.
func login(text string) string { return fmt.Sprintf("set key 0 0 %d\r\n%s\r\n", len(text), text) }

// answers sends each text once the one before it is answered, and returns all that came until the connection ended.
func answers(t *testing.T, addr string, texts ...string) string {
	t.Helper()
	c := mctest.MustDial(t, addr)
	var all strings.Builder
	for i, text := range texts {
		require.NoError(t, c.Send([]byte(text)))
		if i < len(texts)-1 {
			all.WriteString(c.MustReply(t))
		}
	}
	_ = c.CloseWrite() // it may be closed already
	rest, err := c.Rest()
	require.NoError(t, err)
	return all.String() + rest
}

// Requests are sent one by one: of refused requests that memcached reads at once, it answers only the last.
func TestAnUnauthenticatedClientIsAnsweredAsByMemcached(t *testing.T) {
	file := passwords(t, users)
	real := mctest.StartMemcached(t, "-Y", file)
	var o middleware.Options
	o.Security.AuthFile = file
	m := start(t, o)
	good := login("anna secret")
	for _, texts := range [][]string{
		{
			"version\r\n", "get key\r\n", "quit\r\n", "stats\r\n", "mn\r\n", "mg key v\r\n", "flush_all\r\n",
			"shutdown\r\n", "gibberish\r\n", "",
		},
		{"\r\n", " \r\n", "\x80\x0a", "SET k 0 0 11\r\n", "set k\x00 0 0 11\r\n", "set\x00k 0 0 11\r\n", ""},
		{
			"get " + strings.Repeat("k ", 900) + "\r\n", strings.Repeat("x", 2040) + "\r\n",
			strings.Repeat("x", 3000) + "\r\n", "",
		},
		{good, "set k 0 0 1\r\nx\r\n", "get k\r\ndelete k\r\nversion\r\nquit\r\n"},
		{good + "set k 0 0 1\r\nx\r\nget k\r\ndelete k\r\nquit\r\n"},
		{login("bert pass:word"), "mn\r\n"},
		{login("anna wrong"), login("nobody secret"), "get k\r\n", login("secret anna"), good, "get k\r\n"},
		{
			login("anna"), login(""), login(" "), login("anna\tsecret"), login("anna\x00 secret"), login("anna:secret"),
			login("Anna secret"), "mn\r\n",
		},
		{login("anna secret more"), "mn\r\n"},
		{login("  anna   secret "), "mn\r\n"},
		{login("anna secret\x00more"), "mn\r\n"},
		{good, login("anna wrong"), "get key\r\n", "delete key\r\n"},
		{"set k 0 0 11\r\nanna secretXX", "set k 0 0 11\r\nanna secret\n\n", "set k 0 0 11\nanna secret\r\n", "mn\r\n"},
		{"set k 0 0 11 noreply\r\nanna secret\r\n", "mn\r\n"},
		{"set k 0 0 11 a b c d e f g h i j k l m n o p q r s t u v w x y z\r\nanna secret\r\n", "mn\r\n"},
		{"set k junk junk 11\r\nanna secret\r\n", "mn\r\n"},
		{
			"set k 0 0\r\n", "set k 0 0 \r\n", "set k 0 0 x\r\n", "set k 0 0 -1\r\n", "set k 0 0 11x\r\n",
			"set k 0 0 18446744073709551616\r\n", "add k 0 0 11\r\n", "",
		},
		{" set  k 0 0  11\r\nanna secret\r\n", "mn\r\n"},
		{"set " + strings.Repeat("k", 1000) + " 0 0 11\r\nanna secret\r\n", "mn\r\n"},
		{"set k 0 0 11\x00\r\nanna secret\r\n", "mn\r\n"},
		{"set k 0 0 11\r\nanna sec"},
		{"set k 0 0 1"},
		{"v"},
		{"\n"},
		{strings.Repeat("x", 2049)},
		{"version\r\n", "get " + strings.Repeat("k ", 1100)},
		{login(strings.Repeat("x", 16382)), login("anna secret " + strings.Repeat("x", 16370)), "mn\r\n"},
		{login(strings.Repeat("x", 16383))},
		{login(strings.Repeat("x", 100_000))},
	} {
		assert.Equal(t, answers(t, real.Addr(), texts...), answers(t, m.Addr(), texts...), "%.200q", texts)
	}
}

// The replies do not depend on how the bytes are split over reads.
func TestALoginMayArriveInAnyPieces(t *testing.T) {
	file := passwords(t, users)
	var o middleware.Options
	o.Security.AuthFile = file
	m := start(t, o)
	text := "version\r\n" + login("anna wrong") + "\r\n" + login("anna") + login("anna secret") +
		"set k 0 0 3\r\nabc\r\nget k\r\n"
	want := answers(t, m.Addr(), text)
	require.Contains(t, want, "VALUE k 0 3\r\nabc\r\nEND\r\n")
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 20 {
		c := mctest.MustDial(t, m.Addr())
		for rest := text; rest != ""; {
			n := min(1+rnd.IntN(20), len(rest))
			require.NoError(t, c.Send([]byte(rest[:n])))
			rest = rest[n:]
		}
		require.NoError(t, c.CloseWrite())
		got, err := c.Rest()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func TestNothingOfAnUnauthenticatedClientReachesAServer(t *testing.T) {
	server := mctest.StartMemcached(t)
	o := middleware.Options{Servers: mwtest.Servers(server)}
	o.Security.AuthFile = passwords(t, users)
	m := mwtest.Start(t, o)
	assert.Equal(t,
		"CLIENT_ERROR bad authentication token format\r\nCLIENT_ERROR authentication failure\r\nCLIENT_ERROR "+
			"unauthenticated\r\nSTORED\r\n",
		answers(t, m.Addr(), "set k 0 0 1\r\nx\r\n"+login("anna wrong")+"flush_all\r\n"+login("anna secret")))
	_, stored := server.Get("k")
	assert.False(t, stored)
	assert.Zero(t, server.Stat("cmd_flush"))
	assert.EqualValues(t, 1, m.Stats().Snapshot().LoginFailures)
}

func TestWrongPasswordsAreCountedAndLoggedWithoutThem(t *testing.T) {
	var log mctest.Output
	o := middleware.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}
	o.Security.AuthFile = passwords(t, users)
	m := start(t, o)
	answers(t, m.Addr(), strings.Repeat(login("mallory guessed"), 15))
	assert.EqualValues(t, 15, m.Stats().Snapshot().LoginFailures)
	assert.Equal(t, 1, strings.Count(log.String(), "a client gave a wrong name or password"))
	for _, secret := range []string{"mallory", "guessed", "anna", "secret"} {
		assert.NotContains(t, log.String(), secret)
	}
	assert.Contains(t, answers(t, m.Addr(), login("anna secret")+"stats\r\n"), "STAT auth_errors 15\r\n")
}

// Many connections from one address guess no faster than one, and a correct password gets no other reply. Other
// addresses are served.
func TestLoginsFromAnAddressThatGuessesAreSlowed(t *testing.T) {
	t.Cleanup(netstage.SetLoginPause(time.Hour))
	var o middleware.Options
	o.Security.AuthFile = passwords(t, users)
	m := start(t, o)
	const refused = "SERVER_ERROR too many failed logins from this address\r\n"
	assert.Equal(t, strings.Repeat("CLIENT_ERROR authentication failure\r\n", 21),
		answers(t, m.Addr(), strings.Repeat(login("mallory guessed"), 21)))
	replies := make(chan string)
	for range 6 {
		c := mctest.MustDial(t, m.Addr())
		c.Timeout = 2 * time.Hour
		require.NoError(t, c.Send([]byte(login("anna secret"))))
		go func() {
			reply, _ := c.Reply()
			replies <- reply
		}()
	}
	assert.Equal(t, refused, <-replies, "five wait for their turn")

	elsewhere, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).Dial("tcp", m.Addr())
	require.NoError(t, err)
	defer elsewhere.Close()
	_, err = io.WriteString(elsewhere, login("anna secret"))
	require.NoError(t, err)
	reply := make([]byte, len("STORED\r\n"))
	_, err = io.ReadFull(elsewhere, reply)
	require.NoError(t, err)
	assert.Equal(t, "STORED\r\n", string(reply))
	assert.EqualValues(t, 21, m.Stats().Snapshot().LoginFailures)

	// A login that waits does not delay a drain.
	m.Cancel()
	for range 5 {
		assert.Equal(t, refused, <-replies)
	}
}

func TestALoginThatWaitsIsCheckedInItsTurn(t *testing.T) {
	const pause = 10 * time.Millisecond
	t.Cleanup(netstage.SetLoginPause(pause))
	var o middleware.Options
	o.Security.AuthFile = passwords(t, users)
	m := start(t, o)
	begin := time.Now()
	assert.Equal(t, strings.Repeat("CLIENT_ERROR authentication failure\r\n", 60)+"STORED\r\n",
		answers(t, m.Addr(), strings.Repeat(login("mallory guessed"), 60)+login("anna secret")))
	assert.GreaterOrEqual(t, time.Since(begin), 39*pause)
}

func TestChangedPasswordsApplyToNewLoginsAndNoConnectionIsClosed(t *testing.T) {
	file := passwords(t, users)
	var o middleware.Options
	o.Security.AuthFile = file
	m := start(t, o)
	c := mctest.MustDial(t, m.Addr())
	require.NoError(t, c.Authenticate("anna", "secret"))
	require.NoError(t, os.WriteFile(file, []byte("anna:changed\n"), 0o600))
	require.Eventually(t, func() bool { return answers(t, m.Addr(), login("anna changed")) == "STORED\r\n" },
		mctest.Patience, 10*time.Millisecond)
	assert.Equal(t, "CLIENT_ERROR authentication failure\r\n", answers(t, m.Addr(), login("anna secret")))
	assert.Equal(t, "END\r\n", c.MustDo(t, "get k\r\n"))
}

// An unauthenticated client that keeps sending and reads nothing is closed like any slow client.
func TestAnUnauthenticatedClientThatDoesNotReadIsClosed(t *testing.T) {
	o := middleware.Options{ClientOptions: netstage.ClientOptions{WriteTimeout: 50 * time.Millisecond}}
	o.Security.AuthFile = passwords(t, users)
	m := start(t, o)
	c := mctest.MustDial(t, m.Addr())
	text := []byte(strings.Repeat("mn\r\n", 1<<12))
	for c.Send(text) == nil {
	}
	require.Eventually(t, func() bool { return m.Stats().Snapshot().Open() == 0 }, mctest.Patience, mctest.Tick)
}
