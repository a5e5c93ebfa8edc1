package sweep_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/marker"
	"mcmw/internal/mctest"
	"mcmw/internal/sweep"
)

func TestAServerIsRefilledOnlyWhileTheOtherHoldersOfItsKeysAreReadAndOneIsFull(t *testing.T) {
	lost := errors.New("it has lost what it held")
	for name, of := range map[string]struct {
		servers, replicas int
		full, unread      []int
		source            sweep.Source
		err               error
	}{
		"two servers":                        {2, 2, []int{1}, nil, sweep.SourceReady, nil},
		"the only holder is not read":        {2, 2, []int{1}, []int{1}, sweep.SourceSoon, sweep.ErrSource},
		"the only holder is not full":        {2, 2, nil, nil, sweep.SourceNone, sweep.ErrSource},
		"one of two other holders is read":   {3, 3, []int{1, 2}, []int{1}, sweep.SourceReady, nil},
		"keys whose other holder isn't read": {3, 2, []int{1, 2}, []int{1}, sweep.SourceSoon, sweep.ErrSource},
	} {
		t.Run(name, func(t *testing.T) {
			w, servers := newSweep(t, mctest.StartNewMemcached, of.servers, of.replicas)
			f := &sweep.Refiller{
				Router: w.Router, Servers: w.Servers, Owner: "a", Rate: w.Rate, Replicas: of.replicas,
				Current: func() bool { return true }, Settle: mctest.Patience, Log: w.Log,
			}
			defer f.Close()
			f.Look(context.Background())
			for _, s := range of.full {
				require.NoError(t, f.Declare(context.Background(), s))
			}
			w.Servers[0].MissedAll(lost)
			for _, s := range of.unread {
				w.Servers[s].MissedAll(lost)
			}
			require.Equal(t, of.source, f.Source(0, f.Look(context.Background())))
			for range 2 { // the claim does not stay
				require.ErrorIs(t, f.Run(context.Background(), 0), of.err)
			}
			c := mctest.MustDial(t, servers[0].Addr())
			held := c.MustDo(t, "mg "+base64.StdEncoding.EncodeToString([]byte(marker.RefilledKey))+" b\r\n")
			require.Equal(t, of.err == nil, held == "HD\r\n", "the server says that it is refilled")
		})
	}
}

func TestARefillThatFailsTakesItsUncheckedCopiesBack(t *testing.T) {
	for name, of := range map[string]struct {
		during  func(t *testing.T, target *mctest.Proxy) (current bool)
		err     string
		flushes uint64
		again   error // of the next refill, if the server need not be flushed first
	}{
		"the placement has changed": {
			during: func(*testing.T, *mctest.Proxy) bool { return false },
			err:    sweep.ErrReplaced.Error(),
		},
		"the server is emptied, and another middleware refills it": {
			during: func(t *testing.T, target *mctest.Proxy) bool {
				c := mctest.MustDial(t, target.Addr())
				require.Equal(t, "OK\r\n", c.MustDo(t, "flush_all\r\n"))
				claim := base64.StdEncoding.EncodeToString([]byte(marker.RefillKey))
				require.Equal(t, "HD\r\n", c.MustDo(t, "ms "+claim+" 13 b\r\n{\"owner\":\"b\"}\r\n"))
				return true
			},
			err: "was emptied", again: sweep.ErrClaimed,
		},
		"the connection that copies were sent on is lost": {
			during: func(_ *testing.T, target *mctest.Proxy) bool {
				target.Inject(mctest.Fault{Cut: 1})
				return true
			},
			err: "server-1", flushes: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, target := mctest.StartNewMemcached(t), mctest.StartNewMemcached(t)
			path := mctest.StartProxy(t, target.Addr())
			w := over(t, 2, path.Addr(), source.Addr())
			windows := 0
			f := &sweep.Refiller{
				Router: w.Router, Servers: w.Servers, Owner: "a", Rate: w.Rate, Replicas: 2, Log: w.Log,
				Settle: mctest.Patience, Current: func() bool { windows++; return windows < 2 || of.during(t, path) },
			}
			defer f.Close()
			const keys = 300 // more than a window, fewer than two
			c, at := mctest.MustDial(t, source.Addr()), mctest.MustDial(t, target.Addr())
			for i := range keys {
				require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set k%d 0 0 1\r\nv\r\n", i)))
			}
			f.Look(context.Background())
			require.NoError(t, f.Declare(context.Background(), 1))
			w.Servers[0].Refill()
			require.ErrorContains(t, f.Run(context.Background(), 0), of.err)
			require.Equal(t, 2, windows)
			held := func() (n int) {
				for i := range keys {
					n += strings.Count(at.MustDo(t, fmt.Sprintf("mg k%d\r\n", i)), "HD")
				}
				return n
			}
			if of.flushes == 0 {
				require.Zero(t, held())
				windows, f.Settle = -keys, 0
				require.ErrorIs(t, f.Run(context.Background(), 0), of.again)
				if of.again == nil {
					require.Equal(t, keys, held())
				}
			}
			path.Inject(mctest.Fault{})
			ctx, cancel := context.WithCancel(context.Background())
			probed := make(chan struct{})
			go func() { defer close(probed); w.Servers[0].Probe(ctx) }()
			require.Eventually(t, w.Servers[0].Readable, mctest.Patience, mctest.Tick)
			cancel()
			<-probed
			require.Equal(t, of.flushes, w.Servers[0].Health().Flushes)
		})
	}
}

func TestASweepHasAServerRefilledThatLacksAnyCopyForTheSecondTime(t *testing.T) {
	w, servers := newSweep(t, mctest.StartNewMemcached, 2, 0)
	asked := 0
	w.Fills = func() bool { asked++; return false }
	a, b := mctest.MustDial(t, servers[0].Addr()), mctest.MustDial(t, servers[1].Addr())
	set := func(c *mctest.Client, key string) {
		require.Equal(t, "STORED\r\n", c.MustDo(t, "set "+key+" 0 0 1\r\nv\r\n"))
	}
	for i := range 1000 {
		set(a, fmt.Sprint("k", i))
		set(b, fmt.Sprint("k", i))
	}
	// Only keys that were used since the last sweep are compared.
	sweeps := func(used *mctest.Client, key string, want int) {
		set(used, key)
		var err error
		require.Eventually(t, func() bool {
			err = w.Run(context.Background(), time.Second)
			_, early := errors.AsType[sweep.NotDue](err)
			return !early
		}, mctest.Patience, mctest.Tick)
		require.NoError(t, err)
		require.Equal(t, want, asked)
	}
	sweeps(a, "k1", 0)
	require.Equal(t, "DELETED\r\n", b.MustDo(t, "delete k1\r\n"))
	sweeps(a, "k1", 0)
	require.NoError(t, w.Run(context.Background(), 0)) // at a start
	require.Zero(t, asked)
	sweeps(a, "k1", 1)
	sweeps(b, "k1", 1)
	require.Equal(t, "DELETED\r\n", a.MustDo(t, "delete k2\r\n"))
	sweeps(b, "k2", 1)
	sweeps(b, "k2", 2)
}

func TestASweepHasAServerRefilledThatLacksManyCopiesAndHasNotEvictedThem(t *testing.T) {
	for name, of := range map[string]struct {
		lacks, evicts int
		asks          bool
	}{
		"none":                    {0, 0, false},
		"a few":                   {5, 0, false},
		"a fifth":                 {200, 0, true},
		"a fifth, and it evicted": {200, 400, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, servers := newSweep(t, mctest.StartNewMemcached, 2, 0, "-m", "2")
			asked := false
			w.Fills = func() bool { asked = true; return false }
			for s, server := range servers {
				c := mctest.MustDial(t, server.Addr())
				for i := range 1000 {
					if s == 0 || i >= of.lacks {
						require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set k%d 0 0 1\r\nv\r\n", i)))
					}
				}
				for i := range s * of.evicts {
					c.MustDo(t, fmt.Sprintf("set large%d 0 0 100000\r\n%100000d\r\n", i, i))
				}
			}
			require.NoError(t, w.Run(context.Background(), 0))
			require.Equal(t, of.asks, asked)
		})
	}
}
