package behaviour_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
)

func TestMissesFillAColdPoolBehindTwoMiddlewaresOneOfWhichIsRestarted(t *testing.T) {
	const kept = 300
	warm, cold := mctest.StartNewMemcached(t), mctest.StartNewMemcached(t)
	o := middleware.Options{ChangeStep: time.Hour, Routes: route.Routes{Default: "warm"}, SweepRate: 1_000_000}
	o.Pools = []middleware.PoolOptions{
		pooled("warm", route.Options{Replicas: 1}, warm),
		pooled("cold", route.Options{Replicas: 1}, cold),
	}
	for i := range o.Pools {
		o.Pools[i].Writers = middleware.WritersSeveral
	}
	// The warm-up began before these middlewares started, as after a restart.
	o.Migrations = []middleware.Migration{{
		From: "warm", To: "cold",
		Start: time.Now().Add(-3 * time.Hour / 2).UTC().Truncate(time.Second), Missed: true, Within: 0.5,
	}}
	direct, coldly := mctest.MustDial(t, warm.Addr()), mctest.MustDial(t, cold.Addr())
	for i := range kept {
		require.Equal(t, "STORED\r\n",
			direct.MustDo(t, fmt.Sprintf("set kept-%d %d %d 4\r\n%04d\r\n", i, i, 1900*(i%2), i)))
	}
	fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
	require.Equal(t, "warm-up", fleet[0].Stats().Snapshot().Migrations[0].Phase)
	keys := func(first, last int) (get, values string) {
		get = "get"
		for i := first; i < last; i++ {
			get += fmt.Sprintf(" kept-%d", i)
			values += fmt.Sprintf("VALUE kept-%d %d 4\r\n%04d\r\n", i, i, i)
		}
		return get + "\r\n", values + "END\r\n"
	}
	fill := func(m *mwtest.MW, first, last int) {
		t.Helper()
		get, values := keys(first, last)
		require.Equal(t, values, m.Dial(t).MustDo(t, get))
		require.Eventually(t, func() bool { return coldly.MustDo(t, get) == values }, mctest.Patience,
			5*time.Millisecond)
	}
	fill(fleet[0], 0, kept/3)
	fill(fleet[1], kept/3, 2*kept/3)
	for _, m := range fleet {
		require.Eventually(t, func() bool {
			g := m.Stats().Snapshot().Migrations[0]
			return g.Here == kept/3 && g.Read.Old == kept/3
		}, mctest.Patience, mctest.Tick, "each copies the keys that its own clients missed")
	}
	require.NoError(t, fleet[0].Stop())
	fleet[0] = mwtest.Start(t, o)
	fill(fleet[0], 2*kept/3, kept)
	for i := range kept {
		want := fmt.Sprintf("VA 4 f%d t-1\r\n%04d\r\n", i, i)
		if i%2 == 1 {
			want = fmt.Sprintf("VA 4 f%d t1", i)
		}
		reply := coldly.MustDo(t, fmt.Sprintf("mg kept-%d v f t\r\n", i))
		require.True(t, strings.HasPrefix(reply, want), "%d: %q", i, reply)
	}

	// Clients' writes go to both pools, and a copy never replaces a value written after the copy was read.
	a, b := fleet[0].Dial(t), fleet[1].Dial(t)
	require.Equal(t, "STORED\r\n", a.MustDo(t, "set kept-0 0 0 4\r\nnew0\r\n"))
	require.Equal(t, "DELETED\r\n", b.MustDo(t, "delete kept-1\r\n"))
	require.Equal(t, "NOT_STORED\r\n", b.MustDo(t, "add kept-2 0 0 4\r\nnew2\r\n"))
	require.Equal(t, "STORED\r\n", a.MustDo(t, "add kept-1 0 0 4\r\nnew1\r\n"))
	require.Equal(t, "4\r\n", b.MustDo(t, "incr kept-3 1\r\n"))
	// Servers do not shorten numbers that are incremented.
	const after = "VALUE kept-0 0 4\r\nnew0\r\nVALUE kept-1 0 4\r\nnew1\r\nVALUE kept-2 2 4\r\n0002\r\nVALUE kept-3 " +
		"3 4\r\n4   \r\nEND\r\n"
	for _, c := range []*mctest.Client{a, b, direct, coldly} {
		require.Equal(t, after, c.MustDo(t, "get kept-0 kept-1 kept-2 kept-3\r\n"))
	}
	const raced = 200
	for i := range raced {
		require.Equal(t, "STORED\r\n", direct.MustDo(t, fmt.Sprintf("set raced-%d 0 0 3\r\nold\r\n", i)))
	}
	for i := range raced {
		text := fmt.Sprintf("get raced-%d\r\nset raced-%d 0 0 3\r\nnew\r\n", i, i)
		if i%2 == 1 {
			text = fmt.Sprintf("get raced-%d\r\ndelete raced-%d\r\n", i, i)
		}
		require.NoError(t, b.Send([]byte(text)))
		require.Contains(t, b.MustReply(t), "\r\nold\r\n")
		require.Contains(t, []string{"STORED\r\n", "DELETED\r\n"}, b.MustReply(t))
		want := fmt.Sprintf("VALUE raced-%d 0 3\r\nnew\r\nEND\r\n", i)
		if i%2 == 1 {
			want = "END\r\n"
		}
		require.Equal(t, want, a.MustDo(t, fmt.Sprintf("get raced-%d\r\n", i)))
	}
	// This key is copied after all of those.
	require.Equal(t, "STORED\r\n", direct.MustDo(t, "set last 0 0 1\r\n1\r\n"))
	require.Equal(t, "VALUE last 0 1\r\n1\r\nEND\r\n", b.MustDo(t, "get last\r\n"))
	require.Eventually(t, func() bool { _, there := cold.Get("last"); return there }, mctest.Patience, mctest.Tick)
	for i := range raced {
		get := fmt.Sprintf("get raced-%d\r\n", i)
		require.Equal(t, direct.MustDo(t, get), coldly.MustDo(t, get))
	}

	get, _ := keys(4, kept)
	want := a.MustDo(t, get)
	warm.Stop()
	for _, c := range []*mctest.Client{a, b} {
		require.Equal(t, want, c.MustDo(t, get), "the warm pool is not needed for copied keys")
		require.Equal(t, "END\r\n", c.MustDo(t, "get absent\r\n"))
	}
}
