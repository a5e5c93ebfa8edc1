package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"mcmw/internal/config"
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
}

// lateContext is a context whose end a connection notices before the context does.
type lateContext struct {
	context.Context
	deadline atomic.Pointer[time.Time]
}

func (c *lateContext) Deadline() (time.Time, bool) {
	if d := c.deadline.Load(); d != nil {
		return *d, true
	}
	return time.Time{}, false
}

// written calls one of calls at each write.
type written struct {
	bytes.Buffer
	calls []func()
}

func (w *written) Write(b []byte) (int, error) {
	w.calls[0]()
	w.calls = w.calls[1:]
	return w.Buffer.Write(b)
}

func TestWaitRefilledNamesOnlyServersThatItSawLackKeys(t *testing.T) {
	servers := mctest.StartMemcacheds(t, 2)
	key := base64.StdEncoding.EncodeToString([]byte(marker.RefilledKey))
	require.Equal(t, "HD\r\n", mctest.MustDial(t, servers[0].Addr()).MustDo(t, "ms "+key+" 1 b\r\nx\r\n"))
	fs := pflag.NewFlagSet("mcmw", pflag.ContinueOnError)
	flags := config.AddFlags(fs)
	require.NoError(t, fs.Set("servers", servers[0].Addr()+","+servers[1].Addr()))
	c, err := config.Load(config.Sources{Flags: flags})
	require.NoError(t, err)
	past := time.Now()
	inner, cancel := context.WithCancel(t.Context())
	ctx := &lateContext{Context: inner}
	progress := &written{calls: []func(){func() { ctx.deadline.Store(&past) }, cancel}}
	err = waitRefilled(ctx, c, io.Discard, progress)
	require.EqualError(t, err, "not refilled in time: "+servers[1].Addr())
	require.Equal(t, "waiting for "+servers[1].Addr()+"\n", progress.String())

	err = waitRefilled(ctx, c, io.Discard, progress) // without a look
	require.EqualError(t, err, "the servers could not all be asked in time")
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
