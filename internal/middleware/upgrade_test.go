package middleware_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/replica"
	"mcmw/internal/route"
)

// binaryOfBefore names the mcmw of an earlier version; the round upgrade of .ci/test builds one.
const binaryOfBefore = "MCMW_BEFORE"

// What is written on the servers keeps its form, so during an upgrade the versions agree on servers that join, leave
// and fail.
func TestAMiddlewareOfBeforeAndOneOfNowShareAFleet(t *testing.T) {
	binary := os.Getenv(binaryOfBefore)
	if binary == "" {
		t.Skip(binaryOfBefore + " does not name the mcmw of an earlier version")
	}
	const step = 400 * time.Millisecond
	memcacheds := mctest.StartNewMemcacheds(t, 4)
	servers := mwtest.Servers(memcacheds...)
	file := filepath.Join(t.TempDir(), "mcmw.yaml")
	addr := "unix:" + filepath.Join(filepath.Dir(file), "clients")
	write := func(n int) {
		var list []string
		for _, s := range servers[:n] {
			list = append(list, fmt.Sprintf("%q", s.Name+"="+s.Addr))
		}
		text := fmt.Sprintf("servers: [%s]\nreplicas: 2\nack: quorum\nwriters: several\nchange-step: %v\nadmin: "+
			"off\nlog-format: text\nlisten: [%q]\n", strings.Join(list, ", "), step, addr)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write(3)
	var log mctest.Output
	before := exec.Command(binary, "serve", "--config", file)
	before.Stderr = &log
	ready := log.Written("msg=ready")
	require.NoError(t, before.Start())
	defer func() { _ = before.Process.Kill() }()
	await := func(written <-chan struct{}) {
		t.Helper()
		select {
		case <-written:
		case <-time.After(mctest.Patience):
			require.Fail(t, "the mcmw of before does not say what is expected", log.String())
		}
	}
	await(ready)

	o := middleware.Options{
		Servers: servers[:3:3], Placement: route.Options{Replicas: 2},
		Writers: middleware.WritersSeveral, ChangeStep: step,
	}
	// the phases follow from them
	o.Ack, o.Timeout, o.ConnectTimeout = replica.AckQuorum, middleware.DefaultTimeout, middleware.DefaultConnectTimeout
	now := mwtest.Start(t, o)
	load := (&traffic{t: t, fails: true}).start(t, []*mwtest.MW{now}, addr)
	load.more()
	for _, n := range []int{4, 3} {
		log.Take()
		settled := log.Written("phase=settled")
		write(n)
		require.NoError(t, before.Process.Signal(syscall.SIGHUP))
		o.Servers = servers[:n:n]
		require.NoError(t, now.Apply(context.Background(), o))
		await(settled)
		require.Eventually(t, func() bool { return now.Phase() == "settled" }, mctest.Patience, mctest.Tick)
		load.more()
	}
	memcacheds[0].Stop() // each of the two misses writes, and marks the server for the other
	load.more()
	memcacheds[0].Restart()
	load.more()
	require.Eventually(t, func() bool { return now.Stats().Snapshot().Servers[0].Health.State == "up" },
		mctest.Patience, mctest.Tick)
	load.stop()
	require.NoError(t, before.Process.Signal(syscall.SIGTERM))
	require.NoError(t, before.Wait())
	require.NoError(t, now.Stop())
	progress, err := middleware.Verify(context.Background(), o, middleware.Verification{Values: true})
	require.NoError(t, err)
	t.Logf("%d rounds, %d reads missed, %d copies compared", load.rounds.Load(), load.missed.Load(), progress.Keys)
	assert.Zero(t, load.stale.Load())
	assert.Zero(t, progress.Differ)
	assert.NotZero(t, progress.Keys)
}
