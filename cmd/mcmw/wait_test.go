package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/marker"
	"mcmw/internal/mctest"
)

func TestWaitRefilledWaitsForEveryServer(t *testing.T) {
	servers := mctest.StartMemcacheds(t, 2)
	list := servers[0].Addr() + "," + servers[1].Addr()
	refilled := func(s *mctest.Server) {
		key := base64.StdEncoding.EncodeToString([]byte(marker.RefilledKey))
		require.Equal(t, "HD\r\n", mctest.MustDial(t, s.Addr()).MustDo(t, "ms "+key+" 1 b\r\nx\r\n"))
	}
	refilled(servers[0])
	code, _, stderr := execute(t, "wait", "--refilled", "--for", "1s", "--servers", list)
	require.Equal(t, exitFailed, code)
	require.Equal(t, "waiting for "+servers[1].Addr()+"\nmcmw: not refilled in time: "+servers[1].Addr()+"\n", stderr)

	refilled(servers[1])
	code, stdout, stderr := execute(t, "wait", "--refilled", "--servers", list)
	require.Equal(t, exitOK, code, stderr)
	require.Equal(t, "all servers are refilled\n", stdout)

	servers[0].Stop()
	code, _, stderr = execute(t, "wait", "--refilled", "--for", "1s", "--servers", list)
	require.Equal(t, exitFailed, code)
	require.Contains(t, stderr, "not refilled in time: "+servers[0].Addr())

	code, _, stderr = execute(t, "wait", "--servers", list)
	require.NotEqual(t, exitOK, code)
	require.Contains(t, stderr, "accepted: --refilled")

	code, _, stderr = execute(t, "wait", "--refilled", "--for=-1s", "--servers", list)
	require.Equal(t, exitFailed, code)
	require.Equal(t, "mcmw: --for -1s; accepted: more than 0s\n", stderr)
}

func TestWaitRefilledDoesNotWaitForServersThatAreNeverRefilled(t *testing.T) {
	for flags, want := range map[string]string{
		"--replicas 1":    "no server is refilled, because each key is on one server; expected replicas above 1",
		"--refill-rate 0": "no server is refilled, because refill-rate is 0",
	} {
		args := append(strings.Fields("wait --refilled --for 1s --servers 127.0.0.1:1,127.0.0.1:2"),
			strings.Fields(flags)...)
		code, _, stderr := execute(t, args...)
		require.Equal(t, exitFailed, code, flags)
		require.Equal(t, "mcmw: "+want+"\n", stderr)
	}
	full := mctest.StartMemcacheds(t, 2)
	key := base64.StdEncoding.EncodeToString([]byte(marker.RefilledKey))
	for _, s := range full {
		require.Equal(t, "HD\r\n", mctest.MustDial(t, s.Addr()).MustDo(t, "ms "+key+" 1 b\r\nx\r\n"))
	}
	file := filepath.Join(t.TempDir(), "mcmw.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil,
		"pools:\n  a: {servers: [%q, %q]}\n  single: {servers: [\"127.0.0.1:1\"]}\n"+
			"routes: [{prefix: x, pool: single}, {default: a}]\n",
		full[0].Addr(), full[1].Addr()), 0o600))
	code, stdout, stderr := execute(t, "wait", "--refilled", "--for", "1s", "--config", file)
	require.Equal(t, exitOK, code, stderr)
	require.Equal(t, "all servers are refilled\n", stdout)
}
