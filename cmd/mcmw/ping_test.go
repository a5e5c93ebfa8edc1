package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

func TestPingSetsGetsAndDeletesThroughAServer(t *testing.T) {
	server := mctest.StartMemcached(t)
	code, stdout, stderr := execute(t, "ping", server.Addr())
	require.Equal(t, exitOK, code, stderr)
	require.Regexp(t, `^\S+: set, got and deleted a value in .*s\n$`, stdout)
	for _, command := range []string{"cmd_set", "get_hits", "delete_hits"} {
		require.EqualValues(t, 1, server.Stat(command), command)
	}
	require.Zero(t, server.Stat("curr_items"))
}

func TestPingUsesTLSAndAuthenticates(t *testing.T) {
	user := filepath.Join(t.TempDir(), "user")
	require.NoError(t, os.WriteFile(user, []byte("me:secret\n"), 0o600))
	ca := mctest.NewCA(t)
	server := mctest.StartMemcachedTLS(t, ca)
	code, stdout, stderr := execute(t, "ping", server.Addr(), "--tls-ca", ca.File, "--auth-file", user)
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, "set, got and deleted")

	code, _, stderr = execute(t, "ping", server.Addr(), "--tls")
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "TLS: failed to verify certificate")
}

func TestPingRetriesForTheGivenTime(t *testing.T) {
	replies := make(chan string, 2)
	replies <- "SERVER_ERROR not yet\r\n"
	replies <- "STORED\r\n"
	script := mctest.StartScript(t, func(p *mctest.Peer) {
		p.Line()
		value, _ := p.Line()
		p.Send(<-replies)
		if get, ok := p.Line(); ok {
			p.Send("VALUE " + get[len("get "):] + " 0 26\r\n" + value + "\r\nEND\r\n")
			p.Line()
			p.Send("DELETED\r\n")
		}
	})
	code, stdout, stderr := execute(t, "ping", script.Addr(), "--for", "1m")
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, "set, got and deleted")
}

func TestPingSaysWhatItExpected(t *testing.T) {
	script := mctest.StartScript(t, func(p *mctest.Peer) {
		p.Line()
		p.Line()
		p.Send("SERVER_ERROR cache1: down\r\n")
	})
	for _, tc := range []struct {
		args    []string
		code    int
		message string
	}{
		{
			[]string{script.Addr()},
			exitFailed,
			`unexpected reply to set: "SERVER_ERROR cache1: down"; expected "STORED"`,
		},
		{[]string{"127.0.0.1:1"}, exitFailed, "connection refused"},
		{[]string{"127.0.0.1:1", "--tls-ca", "nowhere"}, exitFailed, "nowhere"},
		{[]string{"127.0.0.1:1", "--auth-file", "nowhere"}, exitFailed, "nowhere"},
		{nil, exitUsage, "accepts 1 arg(s)"},
	} {
		code, stdout, stderr := execute(t, append([]string{"ping"}, tc.args...)...)
		require.Equal(t, tc.code, code, stderr)
		require.Empty(t, stdout)
		require.Contains(t, stderr, tc.message)
	}
}
