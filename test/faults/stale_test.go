package main

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

func TestOfThreeProxiesOnlyMcmwReadsNothingOldAfterAServersReturn(t *testing.T) {
	if !mctest.Long() {
		t.Skip("it stores and reads 10,000 keys through three proxies: MCMW_LONG=1 runs it")
	}
	twemproxy, err := exec.LookPath("nutcracker")
	require.NoError(t, err)
	s := Stale{
		Mcmw: mctest.Build(t, "mcmw/cmd/mcmw"), Twemproxy: twemproxy, Memcached: mctest.NewMemcachedPath(t),
		Runs: 1,
	}
	results, err := s.Run(t.Context(), progress(t))
	require.NoError(t, err)
	require.Len(t, results, len(StaleProxies))
	for i, runs := range results {
		require.Equal(t, staleRounds*staleKeys, runs[0].Reads, "all writes are acknowledged: %s", StaleProxies[i])
		require.Zero(t, runs[0].Failed, StaleProxies[i])
		require.Equal(t, i == 0, runs[0].Stale == 0, StaleProxies[i])
	}
}
