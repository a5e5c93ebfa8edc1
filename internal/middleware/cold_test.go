package middleware_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
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

// coldServer returns options with a pool of three servers and so many replicas, and the migration that fills the first
// server.
func coldServer(t *testing.T, replicas int) (middleware.Options, middleware.Migration) {
	o := newPools(t, middleware.WritersSeveral, 3, replicas, "one")
	o.ChangeStep, o.SweepRate, o.Pools[0].Options.Read = migrationStep, 1_000_000, route.ReadRoundRobin
	return o, middleware.Migration{
		From: "one", To: "one", Cold: o.Pools[0].Servers[0].Name,
		Start: time.Now().Add(2 * migrationStep).UTC().Truncate(time.Second), WarmsUp: true, Within: 0.01,
	}
}

func TestReadsFillAServerFromTheOtherReplicasUnderLoadWithoutAnErrorAnOldValueOrAMiss(t *testing.T) {
	for name, replicas := range map[string]int{"each key on two": 2, "all hold every key, a zone": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, g := coldServer(t, replicas)
			if replicas == 0 {
				g.Cold, g.Zone = "", "b"
				o.Pools[0].Servers[0].Zone = "b"
			}
			fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
			c, direct := fleet[0].Dial(t), mctest.MustDial(t, o.Pools[0].Servers[0].Addr)
			const kept = 200
			get, there := "get", 0
			for i := range kept {
				value := strings.Repeat("v", 1+i)
				require.Equal(t, "STORED\r\n",
					c.MustDo(t, fmt.Sprintf("set kept-%d %d %d %d\r\n%s\r\n", i, i, 1900*(i%2), len(value), value)))
				get += fmt.Sprintf(" kept-%d", i)
			}
			before := direct.MustDo(t, get+"\r\n")
			for i := range kept { // as if it had restarted
				if direct.MustDo(t, fmt.Sprintf("delete kept-%d\r\n", i)) == "DELETED\r\n" {
					there++
				}
			}
			require.NotZero(t, there)
			load := startTraffic(t, fleet...)
			o.Migrations = []middleware.Migration{g}
			applyAll(t, fleet, o, nil)
			advance(t, fleet, load, 2*migrationStep+migrationStep/2, "undecided")
			advance(t, fleet, load, migrationStep, "warm-up")
			lives := func() bool { // as long as the original; a copy that was not confirmed expires earlier
				for i := range kept {
					reply := direct.MustDo(t, fmt.Sprintf("mg kept-%d f t\r\n", i))
					if reply != "EN\r\n" && !strings.HasPrefix(reply,
						fmt.Sprintf("HD f%d t%s", i, map[bool]string{true: "1", false: "-1"}[i%2 == 1])) ||
						strings.HasSuffix(reply, " t10\r\n") {
						return false
					}
				}
				return true
			}
			all := c.MustDo(t, get+"\r\n")
			require.Equal(t, kept, strings.Count(all, "VALUE "), "keys that the server lacks are read from another one")
			require.Eventually(t, func() bool {
				for _, m := range fleet {
					require.Equal(t, all, m.Dial(t).MustDo(t, get+" absent\r\n"))
				}
				require.True(t, strings.HasPrefix(c.MustDo(t, "mg kept-3 k v f\r\n"), "VA 4 kkept-3 f3\r\nvvvv\r\n"))
				return direct.MustDo(t, get+"\r\n") == before && lives()
			}, mctest.Patience, 5*time.Millisecond, "the server is not filled")
			require.Eventually(t, func() bool { return of(fleet[0]).Here+of(fleet[1]).Here >= uint64(there) },
				mctest.Patience, mctest.Tick)
			require.Equal(t, []any{"one", true, g.Target()},
				[]any{of(fleet[0]).From, of(fleet[0]).Inside, of(fleet[0]).To})

			// The other servers decide the results of commands, and the server that is filled gets them. No copy
			// replaces a value that was written after the read that caused the copy.
			other := fleet[1].Dial(t)
			for i := range 20 {
				key := fmt.Sprintf("number-%d", i)
				require.Equal(t, "STORED\r\n", c.MustDo(t, "set "+key+" 0 0 1\r\n1\r\n"))
				direct.MustDo(t, "delete "+key+"\r\n")
				require.Equal(t, "2\r\n", other.MustDo(t, "incr "+key+" 1\r\n"))
				require.Equal(t, "VALUE "+key+" 0 1\r\n2\r\nEND\r\n", c.MustDo(t, "get "+key+"\r\n"))
				require.Equal(t, "NOT_STORED\r\n", c.MustDo(t, "add "+key+" 0 0 1\r\n9\r\n"))
				require.Equal(t, "TOUCHED\r\n", c.MustDo(t, "touch "+key+" 1000\r\n"))
				require.Regexp(t, "^VA 1 t(1000|9..)\r\n2\r\n", c.MustDo(t, "mg "+key+" v t\r\n"))
				require.True(t, strings.HasPrefix(c.MustDo(t, "gat 500 "+key+"\r\n"), "VALUE "+key+" 0 1\r\n2\r\n"))
				require.Regexp(t, "^HD t(500|4..)\r\n", c.MustDo(t, "mg "+key+" t\r\n"))
				direct.MustDo(t, "delete "+key+"\r\n")
				text, want := "set "+key+" 0 0 3\r\nnew\r\n", "VALUE "+key+" 0 3\r\nnew\r\nEND\r\n"
				if i%2 == 1 {
					text, want = "delete "+key+"\r\n", "END\r\n"
				}
				require.NoError(t, other.Send([]byte("get "+key+"\r\n"+text)))
				require.Equal(t, "VALUE "+key+" 0 1\r\n2\r\nEND\r\n", other.MustReply(t))
				require.Contains(t, []string{"STORED\r\n", "DELETED\r\n"}, other.MustReply(t))
				for range 3 { // on whichever server
					require.Equal(t, want, c.MustDo(t, "get "+key+"\r\n"))
				}
			}

			g.End = g.Start.Add(12 * migrationStep)
			ending := o
			ending.Migrations = []middleware.Migration{g}
			applyAll(t, fleet, ending, load)
			advance(t, fleet, load, 6*migrationStep, "warm-up")
			advance(t, fleet, load, 2*migrationStep, "copy")
			advance(t, fleet, load, 2*migrationStep, "undecided")
			advance(t, fleet, load, migrationStep, "done")
			ending.Migrations = nil
			applyAll(t, fleet, ending, load)
			load.stop()
			assert.Zero(t, load.stale.Load())
			assert.Zero(t, load.missed.Load())
			require.Equal(t, all, c.MustDo(t, get+"\r\n"))
			require.Equal(t, before, direct.MustDo(t, get+"\r\n"), "copied keys stay")
			require.True(t, lives())
			for i := range 20 {
				want := map[bool]string{
					true:  "END\r\n",
					false: fmt.Sprintf("VALUE number-%d 0 3\r\nnew\r\nEND\r\n", i),
				}[i%2 == 1]
				for range 3 {
					require.Equal(t, want, other.MustDo(t, fmt.Sprintf("get number-%d\r\n", i)))
				}
			}
		})
	}
}

func TestFillingAServerSurvivesItsRestartAndThatOfTheOthers(t *testing.T) {
	o, g := coldServer(t, 2)
	started := mctest.StartNewMemcacheds(t, 2)
	o.Pools[0].Servers = named("one", started...)
	g.Cold, o.Migrations = o.Pools[0].Servers[0].Name, []middleware.Migration{g}
	fleet := []*mwtest.MW{mwtest.Start(t, o)}
	fleet[0].Advance(4 * migrationStep)
	require.Equal(t, "warm-up", of(fleet[0]).Phase)
	c := fleet[0].Dial(t)
	restart := func(s *mctest.Server) {
		s.Stop()
		s.Restart()
		require.Eventually(t, func() bool {
			return c.MustDo(t, "set probe 0 0 1\r\n1\r\n") == "STORED\r\n" &&
				strings.HasPrefix(c.MustDo(t, "gets probe\r\n"), "VALUE ")
		}, mctest.Patience, mctest.Tick)
	}
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 7 0 1\r\n1\r\n"))
	filled := func() bool {
		require.Equal(t, "VALUE k 7 1\r\n1\r\nEND\r\n", c.MustDo(t, "get k\r\n"))
		// an unconfirmed copy has an expiry time
		return mctest.MustDial(t, started[0].Addr()).MustDo(t, "mg k v t\r\n") == "VA 1 t-1\r\n1\r\n"
	}
	for range 2 {
		restart(started[0])
		require.Eventually(t, filled, mctest.Patience, mctest.Tick)
	}
	restart(started[1])
	require.Eventually(t, func() bool { return c.MustDo(t, "get k\r\n") == "VALUE k 7 1\r\n1\r\nEND\r\n" },
		mctest.Patience, mctest.Tick, "the filled server has it")
	started[1].Stop()
	require.Eventually(t, func() bool { return c.MustDo(t, "get k none\r\n") == "VALUE k 7 1\r\n1\r\nEND\r\n" },
		mctest.Patience, mctest.Tick)
	require.Contains(t, c.MustDo(t, "set k 0 0 1\r\n2\r\n"), "SERVER_ERROR", "the other servers decide")
}

func TestWritesSucceedWhileAServerThatIsFilledIsDown(t *testing.T) {
	o, g := coldServer(t, 0)
	started := mctest.StartNewMemcacheds(t, 3)
	o.Pools[0].Servers, o.Pools[0].Ack = named("one", started...), replica.AckLive
	g.Cold, o.Migrations = o.Pools[0].Servers[0].Name, []middleware.Migration{g}
	fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
	advance(t, fleet, nil, 4*migrationStep, "warm-up")
	a, b := fleet[0].Dial(t), fleet[1].Dial(t)
	require.Equal(t, "STORED\r\n", a.MustDo(t, "set k 0 0 1\r\n1\r\n"))
	started[0].Stop()
	require.Eventually(t, func() bool { return a.MustDo(t, "set k 0 0 1\r\n2\r\n") == "STORED\r\n" }, mctest.Patience,
		mctest.Tick, "the server that is filled need not be up")
	for range 3 {
		require.Equal(t, "VALUE k 0 1\r\n2\r\nEND\r\n", b.MustDo(t, "get k\r\n"))
	}
	require.Eventually(t, func() bool {
		return b.MustDo(t, "set k 0 0 1\r\n2\r\n") == "STORED\r\n" && b.MustDo(t, "incr k 1\r\n") == "3\r\n"
	}, mctest.Patience, mctest.Tick, "once the other middleware knows that the server is down")
	started[0].Restart()
	require.Eventually(t, func() bool {
		require.Equal(t, "VALUE k 0 1\r\n3\r\nEND\r\n", a.MustDo(t, "get k\r\n"))
		value, there := started[0].Get("k")
		return there && value == "3"
	}, mctest.Patience, mctest.Tick, "it is filled again")
}

func TestServersAreNotFilledWhileTheirPoolLosesItsGutter(t *testing.T) {
	o, g := coldServer(t, 2)
	spare := poolOf("spare", named("spare", mctest.StartNewMemcacheds(t, 3)...), 2)
	spare.Writers = middleware.WritersSeveral
	o.Pools[0].Options.Gutter, o.Pools[0].Options.GutterTTL = "spare", 60
	o.Pools = append(o.Pools, spare)
	m := mwtest.Start(t, o)
	next := o
	next.Migrations = []middleware.Migration{g}
	next.Pools = slices.Clone(o.Pools)
	next.Pools[0].Options.Gutter, next.Pools[0].Options.GutterTTL = "", 0
	require.ErrorContains(t, m.Apply(context.Background(), next),
		`pool "one" had the gutter "spare" until now, and the warm-up of one-`)
}

func TestKeysWhoseServersAreAllFilledAreServedAsBefore(t *testing.T) {
	o, g := coldServer(t, 2)
	g.Cold += "," + o.Pools[0].Servers[1].Name
	o.Migrations = []middleware.Migration{g}
	fleet := []*mwtest.MW{mwtest.Start(t, o), mwtest.Start(t, o)}
	for _, phase := range []string{"undecided", "warm-up"} {
		advance(t, fleet, nil, map[string]time.Duration{
			"undecided": 2*migrationStep + migrationStep/2,
			"warm-up":   migrationStep,
		}[phase], phase)
		a, b := fleet[0].Dial(t), fleet[1].Dial(t)
		get, want := "get", ""
		for i := range 60 {
			key := fmt.Sprintf("%s-%d", phase, i)
			require.Equal(t, "STORED\r\n", a.MustDo(t, "set "+key+" 3 0 1\r\n1\r\n"))
			value := "1"
			if phase == "warm-up" {
				value = "2"
				require.Equal(t, "2\r\n", b.MustDo(t, "incr "+key+" 1\r\n"))
			}
			require.Equal(t, "NOT_STORED\r\n", b.MustDo(t, "add "+key+" 0 0 1\r\n5\r\n"))
			require.Equal(t, "VALUE "+key+" 3 1\r\n"+value+"\r\nEND\r\n", b.MustDo(t, "gat 100 "+key+"\r\n"))
			require.Equal(t, "VA 1 f3\r\n"+value+"\r\n", b.MustDo(t, "mg "+key+" v f\r\n"))
			get += " " + key + " absent-" + key
			want += "VALUE " + key + " 3 1\r\n" + value + "\r\n"
		}
		for range 3 {
			require.Equal(t, want+"END\r\n", b.MustDo(t, get+"\r\n"))
		}
		require.Equal(t, "DELETED\r\n", a.MustDo(t, "delete "+phase+"-0\r\n"))
		require.Equal(t, "END\r\n", b.MustDo(t, "get "+phase+"-0\r\n"))
	}
}

func TestAMigrationThatCannotFillAServerIsRefusedWithTheReason(t *testing.T) {
	o, g := coldServer(t, 2)
	m := mwtest.Start(t, o)
	refused := func(text string, change func(g *middleware.Migration, o *middleware.Options)) {
		t.Helper()
		next, entry := o, g
		next.Pools = []middleware.PoolOptions{o.Pools[0]}
		change(&entry, &next)
		if entry != (middleware.Migration{}) {
			next.Migrations = append(next.Migrations[:len(next.Migrations):len(next.Migrations)], entry)
		}
		require.ErrorContains(t, m.Apply(context.Background(), next), text)
	}
	refused(`pool "one" has one replica`, func(_ *middleware.Migration, o *middleware.Options) {
		o.Pools[0].Options.Replicas = 1
	})
	refused("back is set; accepted: an end", func(g *middleware.Migration, _ *middleware.Options) {
		g.Back = g.Start.Add(9 * migrationStep)
	})
	refused("starts at", func(g *middleware.Migration, _ *middleware.Options) {
		g.Start = g.Start.Add(-2 * migrationStep)
	})
	refused(`it overlaps with the warm-up of one-`, func(h *middleware.Migration, o *middleware.Options) {
		o.Migrations = []middleware.Migration{g}
		h.Cold = o.Pools[0].Servers[1].Name
	})

	o.Migrations = []middleware.Migration{g}
	require.NoError(t, m.Apply(context.Background(), o))
	m.Advance(4 * migrationStep)
	require.Equal(t, "warm-up", of(m).Phase)
	none := func(entry *middleware.Migration, o *middleware.Options) {
		*entry, o.Migrations = middleware.Migration{}, nil
	}
	refused("cannot be dropped in phase warm-up", none)
	refused("because other mcmw may still fill its servers; set end: ", none)
	refused("the list of servers of pool \"one\" cannot change during the warm-up of one-",
		func(entry *middleware.Migration, o *middleware.Options) {
			*entry = middleware.Migration{}
			o.Pools[0].Servers = o.Pools[0].Servers[:2]
		})
	refused("cannot change from none to ", func(entry *middleware.Migration, o *middleware.Options) {
		o.Migrations = nil
		entry.End = entry.Start.Add(5 * migrationStep)
	})
	ending := o
	g.End = g.Start.Add(12 * migrationStep)
	ending.Migrations = []middleware.Migration{g}
	require.NoError(t, m.Apply(context.Background(), ending))
	m.Advance(9 * migrationStep)
	require.Equal(t, "undecided", of(m).Phase)
	refused("because other mcmw may still fill its servers; drop it after its end, "+g.End.Format(time.RFC3339), none)
	m.Advance(migrationStep)
	require.Equal(t, "done", of(m).Phase)
	ending.Migrations = nil
	require.NoError(t, m.Apply(context.Background(), ending))
}
