package main

import (
	"encoding/base64"
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
}
