package backend_test

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/keylock"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/route"
	"mcmw/internal/stats"
)

// newSweep returns a sweep over memcacheds that were started with args.
func newSweep(t *testing.T, n, replicas int, args ...string) (*backend.Sweep, []*mctest.Server) {
	t.Helper()
	servers := mctest.StartMemcacheds(t, n, args...)
	named := mwtest.Servers(servers...)
	router, err := route.New(named, route.Options{Replicas: replicas})
	require.NoError(t, err)
	w := &backend.Sweep{Router: router, Locks: keylock.New(), Owner: 1, Counts: new(stats.Sweep), Log: slog.New(slog.DiscardHandler)}
	for _, s := range named {
		w.Servers = append(w.Servers, newServer(s.Addr, backend.Options{}))
	}
	return w, servers
}

func TestASweepDeletesWhatDiffersFromTheFirstServerThatHoldsTheKey(t *testing.T) {
	w, servers := newSweep(t, 3, 0)
	var clients []*mctest.Client
	for _, s := range servers {
		clients = append(clients, mctest.MustDial(t, s.Addr()))
	}
	odd := base64.StdEncoding.EncodeToString([]byte("an odd key"))
	set := func(s int, key, flags, value string) {
		c := clients[s]
		if key == odd {
			require.Equal(t, "HD\r\n", c.MustDo(t, fmt.Sprintf("ms %s %d b F%s\r\n%s\r\n", odd, len(value), flags, value)))
			return
		}
		require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set %s %s 0 %d\r\n%s\r\n", key, flags, len(value), value)))
	}
	holds := func(s int, key string) bool {
		c := clients[s]
		if key == odd {
			return c.MustDo(t, "mg "+odd+" b\r\n") == "HD\r\n"
		}
		return c.MustDo(t, "mg "+key+"\r\n") == "HD\r\n"
	}
	large := strings.Repeat("x", 900_000)
	long := strings.Repeat("k", 250)
	for n := range 1000 {
		for s := range 3 {
			set(s, fmt.Sprint("same-", n), "7", "v")
		}
	}
	for _, tc := range []struct {
		key    string
		values [3]string // "": none; flags 0
	}{
		{"value", [3]string{"1", "1", "2"}},
		{long, [3]string{"1", "2", "1"}},
		{odd, [3]string{"1", "1", "2"}},
		{"large", [3]string{large + "1", large + "2", large + "1"}},
	} {
		for s, v := range tc.values {
			set(s, tc.key, "0", v)
		}
	}
	set(0, "flags", "1", "v")
	set(1, "flags", "2", "v")
	set(1, "missing", "0", "v")
	first := w.Router.Replicas([]byte("first"), nil)
	set(first[1], "first", "0", "1")
	set(first[2], "first", "0", "2")
	require.NoError(t, w.Run(t.Context()))
	c := w.Counts.Snapshot()
	assert.EqualValues(t, 6, c.Disagreements)
	assert.InDelta(t, 3*1000+4*3+2+1+2, c.Keys, 6, "but for copies that were deleted before their server listed them")
	assert.True(t, holds(1, "missing"), "a copy that others lack is no disagreement")
	assert.True(t, holds(first[1], "first"))
	assert.False(t, holds(first[2], "first"))
	for _, key := range []string{"value", long, odd, "large"} {
		holder := w.Router.Replicas([]byte(key), nil)[0]
		if key == odd {
			holder = w.Router.Replicas([]byte("an odd key"), nil)[0]
		}
		assert.True(t, holds(holder, key), "the first server keeps %.20s", key)
	}
	for s := range 3 {
		assert.True(t, holds(s, "same-1"))
	}
	require.NoError(t, w.Run(t.Context()))
	assert.EqualValues(t, 6, w.Counts.Snapshot().Disagreements, "nothing is left")
}

func TestOneSweepsAtATime(t *testing.T) {
	w, servers := newSweep(t, 3, 0)
	claim := base64.StdEncoding.EncodeToString([]byte("mcmw sweep"))
	c := mctest.MustDial(t, servers[0].Addr())
	require.Equal(t, "HD\r\n", c.MustDo(t, "ms "+claim+" 0 b ME T15\r\n\r\n"))
	require.ErrorIs(t, w.Run(t.Context()), backend.ErrClaimed)
	require.Equal(t, "HD\r\n", c.MustDo(t, "md "+claim+" b\r\n"))
	require.NoError(t, w.Run(t.Context()))
	require.Equal(t, "EN\r\n", c.MustDo(t, "mg "+claim+" b\r\n"), "the claim is given back")
}

func TestASweepSaysWhatItCouldNotCompare(t *testing.T) {
	w, servers := newSweep(t, 3, 2, "-o", "no_lru_crawler")
	require.Equal(t, "STORED\r\n", mctest.MustDial(t, servers[0].Addr()).MustDo(t, "set k 0 0 1\r\nv\r\n"))
	require.ErrorIs(t, w.Run(t.Context()), backend.ErrNoList)

	w, servers = newSweep(t, 3, 2)
	servers[1].Stop()
	require.Error(t, w.Servers[1].Reach(t.Context()))
	require.ErrorContains(t, w.Run(t.Context()), "not up")
}
