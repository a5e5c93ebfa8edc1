package sweep_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/marker"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/protocol"
	"mcmw/internal/route"
	"mcmw/internal/stats"
	"mcmw/internal/sweep"
)

// over returns a Sweep of the servers at addrs.
func over(t *testing.T, replicas int, addrs ...string) *sweep.Sweep {
	t.Helper()
	named := mwtest.Named(addrs...)
	o := route.Options{Replicas: replicas}
	router, err := route.New(named, o)
	require.NoError(t, err)
	w := &sweep.Sweep{
		Router: router, Placement: marker.Of(router, o), Counts: new(stats.Sweep),
		Log: slog.New(slog.DiscardHandler), Rate: 1_000_000,
	}
	for _, s := range named {
		w.Servers = append(w.Servers, backend.NewServer(s, backend.Options{
			ServerOptions: backend.ServerOptions{
				ConnectTimeout: mctest.Patience, FailureLimit: 1,
				MissedMemory: 1 << 20,
			}, Changes: new(atomic.Uint32), Log: w.Log,
		}))
	}
	return w
}

// newSweep returns a Sweep of n servers that were started with args.
func newSweep(t *testing.T, start func(t testing.TB, args ...string) *mctest.Server, n, replicas int,
	args ...string,
) (*sweep.Sweep, []*mctest.Server) {
	t.Helper()
	var servers []*mctest.Server
	var addrs []string
	for range n {
		servers = append(servers, start(t, args...))
		addrs = append(addrs, servers[len(servers)-1].Addr())
	}
	return over(t, replicas, addrs...), servers
}

func TestASweepDeletesCopiesThatDifferFromTheFirstServerThatHoldsTheKey(t *testing.T) {
	w, servers := newSweep(t, mctest.StartMemcached, 3, 0)
	var clients []*mctest.Client
	for _, s := range servers {
		clients = append(clients, mctest.MustDial(t, s.Addr()))
	}
	odd := base64.StdEncoding.EncodeToString([]byte("an odd key"))
	set := func(s int, key, flags, value string) {
		c := clients[s]
		if key == odd {
			require.Equal(t, "HD\r\n", c.MustDo(t,
				fmt.Sprintf("ms %s %d b F%s\r\n%s\r\n", odd, len(value), flags, value)))
			return
		}
		require.Equal(t, "STORED\r\n",
			c.MustDo(t, fmt.Sprintf("set %s %s 0 %d\r\n%s\r\n", key, flags, len(value), value)))
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
		values [3]string // by server
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
	require.NoError(t, w.Run(t.Context(), 0))
	c := w.Counts.Snapshot()
	assert.EqualValues(t, 6, c.Disagreements)
	assert.InDelta(t, 3*1000+4*3+2+1+2, c.Keys, 6,
		"except for copies that were deleted before their server listed them")
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
	require.NoError(t, w.Run(t.Context(), 0))
	assert.EqualValues(t, 6, w.Counts.Snapshot().Disagreements, "nothing is left")
}

func TestOnlyOneSweepRunsAtATime(t *testing.T) {
	w, servers := newSweep(t, mctest.StartMemcached, 3, 0)
	claim := base64.StdEncoding.EncodeToString([]byte("mcmw sweep"))
	c := mctest.MustDial(t, servers[0].Addr())
	require.Equal(t, "HD\r\n", c.MustDo(t, "ms "+claim+" 0 b ME T15\r\n\r\n"))
	require.ErrorIs(t, w.Run(t.Context(), 0), sweep.ErrClaimed)
	require.Equal(t, "HD\r\n", c.MustDo(t, "md "+claim+" b\r\n"))
	require.NoError(t, w.Run(t.Context(), 0))
	require.Equal(t, "EN\r\n", c.MustDo(t, "mg "+claim+" b\r\n"), "the claim is given back")
}

func TestASweepReturnsAnErrorForServersThatItCannotCompare(t *testing.T) {
	w, servers := newSweep(t, mctest.StartMemcached, 3, 2, "-o", "no_lru_crawler")
	require.Equal(t, "STORED\r\n", mctest.MustDial(t, servers[0].Addr()).MustDo(t, "set k 0 0 1\r\nv\r\n"))
	require.ErrorIs(t, w.Run(t.Context(), 0), backend.ErrNoList)

	w, servers = newSweep(t, mctest.StartMemcached, 3, 2)
	servers[1].Stop()
	require.Error(t, w.Servers[1].Reach(t.Context()))
	require.ErrorIs(t, w.Run(t.Context(), 0), sweep.ErrNotUp)
}

// version returns a version such as middlewares give.
func version(n int) uint64 { return protocol.FirstVersion + uint64(n) }

// put stores a value with a version.
func put(t *testing.T, s *mctest.Server, key string, flags int, value string, cas uint64) {
	t.Helper()
	require.Equal(t, "HD\r\n", mctest.MustDial(t, s.Addr()).MustDo(t,
		fmt.Sprintf("ms %s %d F%d E%d\r\n%s\r\n", key, len(value), flags, cas, value)))
}

// held returns the values that the servers hold under key, in the order of its holders; "-" for none.
func held(t *testing.T, w *sweep.Sweep, servers []*mctest.Server, key string) (values []string) {
	t.Helper()
	for _, s := range w.Router.Replicas([]byte(key), nil) {
		value, ok := servers[s].Get(key)
		if !ok {
			value = "-"
		}
		values = append(values, value)
	}
	return values
}

// bytesWritten returns the number of bytes that the servers have sent.
func bytesWritten(servers []*mctest.Server) (n int64) {
	for _, s := range servers {
		n += s.Stat("bytes_written")
	}
	return n
}

func TestCopiesOfOneVersionAgreeAndTheirValuesAreNotRead(t *testing.T) {
	w, servers := newSweep(t, mctest.StartNewMemcached, 3, 0)
	large := strings.Repeat("x", 500_000)
	for s := range servers {
		put(t, servers[s], "alike", 0, large, version(1))
		put(t, servers[s], "written-twice", 0, "same", version(10+s))
		put(t, servers[s], "flags", s, "same", version(20+s))
	}
	differs := w.Router.Replicas([]byte("differs"), nil)
	put(t, servers[differs[0]], "differs", 0, "new", version(31))
	put(t, servers[differs[1]], "differs", 0, "old", version(30))
	put(t, servers[differs[2]], "differs", 0, "new", version(31))
	lacking := w.Router.Replicas([]byte("lacking"), nil)
	put(t, servers[lacking[1]], "lacking", 0, "b", version(41))
	put(t, servers[lacking[2]], "lacking", 0, "c", version(42))
	before := bytesWritten(servers)
	require.NoError(t, w.Run(t.Context(), 0))
	assert.Less(t, bytesWritten(servers)-before, int64(200_000), "values with equal versions were not read")
	assert.Equal(t, []string{"new", "-", "new"}, held(t, w, servers, "differs"))
	assert.Equal(t, []string{"-", "b", "-"}, held(t, w, servers, "lacking"))
	assert.Equal(t, []string{"same", "same", "same"}, held(t, w, servers, "written-twice"),
		"the same value under two versions is no disagreement")
	assert.Equal(t, []string{"same", "-", "-"}, held(t, w, servers, "flags"))
	assert.Equal(t, []string{large, large, large}, held(t, w, servers, "alike"))
	c := w.Counts.Snapshot()
	assert.EqualValues(t, 3, c.Disagreements)
	assert.EqualValues(t, 4, c.Cut)
	assert.False(t, c.Last.IsZero())
	assert.EqualValues(t, 3, c.LastDiffer)
}

func TestASweepSkipsKeysThatWereNotUsedSinceTheLastOne(t *testing.T) {
	w, servers := newSweep(t, mctest.StartNewMemcached, 2, 0)
	const every = time.Minute
	compared := func() uint64 {
		before := w.Counts.Snapshot().Keys
		require.NoError(t, w.Run(t.Context(), every))
		return w.Counts.Snapshot().Keys - before
	}
	for _, s := range servers {
		put(t, s, "k", 0, "v", version(1))
	}
	assert.EqualValues(t, 2, compared(), "the first sweep compares all")
	// shift changes the record of the last sweep: it began so many seconds later, and ended an hour earlier, so that
	// the next one is due.
	shift := func(seconds int64) {
		key := base64.StdEncoding.EncodeToString([]byte(marker.SweptKey))
		for _, s := range servers {
			c := mctest.MustDial(t, s.Addr())
			_, reply, _ := strings.Cut(c.MustDo(t, "mg "+key+" b v\r\n"), "\r\n")
			var record map[string]any
			require.NoError(t, json.Unmarshal([]byte(reply), &record))
			record["began"] = record["began"].(float64) + float64(seconds)
			record["ended"] = record["ended"].(float64) - 3600
			text, err := json.Marshal(record)
			require.NoError(t, err)
			require.Equal(t, "HD\r\n", c.MustDo(t, fmt.Sprintf("ms %s %d b\r\n%s\r\n", key, len(text), text)))
		}
	}
	require.ErrorAs(t, w.Run(t.Context(), every), new(sweep.NotDue))
	shift(3600)
	w2 := over(t, 0, servers[0].Addr(), servers[1].Addr())
	w2.Counts = w.Counts
	require.NoError(t, w2.Run(t.Context(), every), "another middleware reads the same records")
	assert.EqualValues(t, 2, w.Counts.Snapshot().Keys, "no key is newer")
	shift(-3600)
	assert.EqualValues(t, 2, compared(), "keys that were used since are compared")
	for range 9 {
		shift(3600)
		assert.Zero(t, compared())
	}
	shift(3600)
	assert.EqualValues(t, 2, compared(), "every twelfth sweep compares all")
	shift(3600)
	other := over(t, 1, servers[0].Addr(), servers[1].Addr())
	other.Router, other.Counts = w.Router, w.Counts
	before := w.Counts.Snapshot().Keys
	require.NoError(t, other.Run(t.Context(), every))
	assert.EqualValues(t, 2, w.Counts.Snapshot().Keys-before, "keys were not compared by the other placement yet")
	servers[0].Restart()
	assert.NotZero(t, compared(), "all keys of a server that has lost its record are compared")
}

func TestALookGivesBackTheRightToRenewAStaleItem(t *testing.T) {
	w, servers := newSweep(t, mctest.StartNewMemcached, 2, 0)
	for s, server := range servers {
		put(t, server, "k", 0, "v", version(s))
		require.Equal(t, "HD\r\n", mctest.MustDial(t, server.Addr()).MustDo(t,
			fmt.Sprintf("md k I E%d\r\n", version(s))))
	}
	require.NoError(t, w.Run(t.Context(), 0))
	for s, server := range servers {
		assert.Equal(t, fmt.Sprintf("HD c%d W X\r\n", version(s)),
			strings.ReplaceAll(mctest.MustDial(t, server.Addr()).MustDo(t, "mg k c\r\n"), "X W", "W X"))
	}
}

func TestCopiesWithoutCasAreKeptAndLogged(t *testing.T) {
	w, servers := newSweep(t, mctest.StartNewMemcached, 2, 0, "-C")
	for s, server := range servers {
		put(t, server, "k", 0, fmt.Sprint(s), 0)
	}
	log := new(mctest.Output)
	w.Log = slog.New(slog.NewTextHandler(log, nil))
	require.NoError(t, w.Run(t.Context(), 0))
	assert.NotContains(t, held(t, w, servers, "k"), "-", "without a cas a deletion would be unconditional")
	assert.Contains(t, log.String(), "memcached's option -C")
	assert.EqualValues(t, 1, w.Counts.Snapshot().Disagreements)
}

func TestNoCopyThatAgreesIsDeletedWhileKeysAreWrittenEvictedAndExpire(t *testing.T) {
	w, servers := newSweep(t, mctest.StartNewMemcached, 2, 0, "-m", "4")
	stop := make(chan struct{})
	var writing sync.WaitGroup
	for i := range 2 {
		clients := []*mctest.Client{mctest.MustDial(t, servers[0].Addr()), mctest.MustDial(t, servers[1].Addr())}
		writing.Go(func() {
			value := strings.Repeat("v", 10_000)
			for n := i; ; n += 2 {
				select {
				case <-stop:
					return
				default:
				}
				for _, c := range clients {
					reply, err := c.Do(fmt.Sprintf("ms k%d %d T%d E%d\r\n%s\r\n", n%1000, len(value), n%3, version(n),
						value))
					if !assert.NoError(t, err) || !assert.Equal(t, "HD\r\n", reply) {
						return
					}
				}
			}
		})
	}
	for n := 0; n < 5 || servers[0].Stat("evictions") == 0; n++ {
		require.Less(t, n, 100_000, "nothing is evicted")
		require.NoError(t, w.Run(t.Context(), 0))
	}
	close(stop)
	writing.Wait()
	assert.Zero(t, w.Counts.Snapshot().Cut, "all writes have the same value")
}

func TestVerifyReportsDifferencesAndChangesNothing(t *testing.T) {
	w, servers := newSweep(t, mctest.StartNewMemcached, 2, 0)
	for s, server := range servers {
		put(t, server, "differs", 0, fmt.Sprint(s), version(s))
		put(t, server, "lies", 0, fmt.Sprint(s), version(5))
		put(t, server, "same", 0, "v", version(6))
	}
	verify := func() (keys []string) {
		w.Found = func(d sweep.Difference) error {
			assert.Len(t, d.Copies, 2)
			assert.ElementsMatch(t, []string{"server-1", "server-2"}, d.Servers)
			keys = append(keys, d.Key)
			return nil
		}
		p, err := w.Verify(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, len(keys), p.Differ)
		assert.EqualValues(t, 6, p.Keys)
		return keys
	}
	assert.Equal(t, []string{"differs"}, verify())
	w.Values = true
	assert.ElementsMatch(t, []string{"differs", "lies"}, verify(),
		"with Values, values are compared even if versions are equal")
	assert.NotContains(t, held(t, w, servers, "differs"), "-")
	assert.Equal(t, "EN\r\n", mctest.MustDial(t, servers[0].Addr()).MustDo(t,
		"mg "+base64.StdEncoding.EncodeToString([]byte(marker.SweptKey))+" b\r\n"))
}
