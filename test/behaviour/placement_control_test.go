package behaviour_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
	"mcmw/internal/worker"
)

// ask sends command and returns the lines of its reply: a list with its last line, or a single line.
func ask(t *testing.T, c *mctest.Client, command string) []string {
	t.Helper()
	require.NoError(t, c.Send([]byte(command+"\r\n")))
	var lines []string
	for {
		line, err := c.Line()
		require.NoError(t, err, "%s, after %q", command, lines)
		lines = append(lines, line)
		switch word, _, _ := strings.Cut(line, " "); word {
		case "STAT", "ITEM", "PREFIX":
		default:
			return lines
		}
	}
}

// names returns the names in the lines, without values.
func names(lines []string) []string {
	var cut []string
	for _, line := range lines {
		words := strings.SplitN(line, " ", 3)
		cut = append(cut, strings.Join(words[:min(2, len(words))], " "))
	}
	return cut
}

// prefixed returns the combined reply for the replies of several servers.
func prefixed(answers [][]string) []string {
	var lines []string
	for i, answer := range answers {
		for _, line := range answer[:len(answer)-1] {
			word, rest, _ := strings.Cut(line, " ")
			lines = append(lines, fmt.Sprintf("%s server-%d:%s", word, i+1, rest))
		}
	}
	return append(lines, "END")
}

func TestStatsWithAnArgumentGiveEachServersLinesUnderItsName(t *testing.T) {
	servers := mctest.StartMemcacheds(t, 3)
	m := mwtest.Start(t, middleware.Options{
		Servers: mwtest.Servers(servers...), Workers: 2,
		Placement: route.Options{Replicas: 1},
	})
	c := m.Dial(t)
	var direct []*mctest.Client
	for _, s := range servers {
		direct = append(direct, mctest.MustDial(t, s.Addr()))
	}
	require.Equal(t, []string{"OK"}, ask(t, c, "stats detail on"))
	for i := range 100 {
		require.Equal(t, "STORED\r\n",
			c.MustDo(t, fmt.Sprintf("set %d:key 0 0 %d\r\n%s\r\n", i, i+1, strings.Repeat("v", i+1))))
	}
	for _, tc := range []struct {
		command string
		values  bool // the values do not change, so they are compared, too
	}{
		{"stats settings", true},
		{"stats sizes", true},
		{"stats items", false},
		{"stats slabs", false},
		{"stats conns", false},
	} {
		t.Run(tc.command, func(t *testing.T) {
			var answers [][]string
			for _, d := range direct {
				answers = append(answers, ask(t, d, tc.command))
				require.Greater(t, len(answers[len(answers)-1]), 1, "there must be something to compare")
			}
			got, want := ask(t, c, "stats servers "+strings.TrimPrefix(tc.command, "stats ")), prefixed(answers)
			if !tc.values {
				got, want = names(got), names(want)
			}
			require.Equal(t, want, got)
		})
	}
	var sets []int64
	for _, s := range servers {
		sets = append(sets, s.Stat("cmd_set"))
	}
	for _, command := range []string{"stats nonsense", "stats detail", "stats reset", "stats detail off"} {
		t.Run(command+" is answered once, because all servers agree", func(t *testing.T) {
			require.Equal(t, ask(t, direct[0], command), ask(t, c, command))
		})
	}
	for i, s := range servers {
		// mcmw may have stored one of its records meanwhile.
		require.Less(t, s.Stat("cmd_set"), sets[i], "stats reset reached server %d", i+1)
	}
	require.Equal(t, "VALUE 0:key 0 1\r\nv\r\nEND\r\n", c.MustDo(t, "get 0:key\r\n"), "the connection is in sync")
}

func TestWithOneServerStatsWithAnArgumentAreThatServers(t *testing.T) {
	m := startPlaced(t, topology{"", 1, 0, false}, middleware.Options{})
	c := m.Dial(t)
	direct := mctest.MustDial(t, m.servers[0].Addr())
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1\r\nv\r\n"))
	for _, command := range []string{
		"stats settings", "stats sizes", "stats nonsense", "stats detail on",
		"stats detail dump",
	} {
		require.Equal(t, ask(t, direct, command), ask(t, c, command), command)
	}
	for _, command := range []string{"stats items", "stats slabs"} {
		require.Equal(t, names(ask(t, direct, command)), names(ask(t, c, command)), command)
	}
}

func TestStatsAreTheMiddlewaresOwnCounters(t *testing.T) {
	for _, p := range topologies {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			m := startPlaced(t, p, middleware.Options{Workers: 3})
			c := m.Dial(t)
			own := func() map[string]string {
				lines := ask(t, c, "stats")
				require.Equal(t, "END", lines[len(lines)-1])
				values := map[string]string{}
				for _, line := range lines[:len(lines)-1] {
					words := strings.Split(line, " ")
					require.Len(t, words, 3, "%q", line)
					require.NotContains(t, values, words[1], "named twice")
					values[words[1]] = words[2]
				}
				return values
			}
			before := own()
			require.Equal(t, []string{"VERSION " + before["version"]}, ask(t, c, "version"))
			require.Equal(t, "1", before["curr_connections"])
			require.NoError(t,
				c.Send([]byte("set k 0 0 1 noreply\r\nv\r\nget k absent\r\ngets k\r\nget absent\r\ntouch k "+
					"0\r\nflush_all\r\n")))
			for range 5 {
				c.MustReply(t)
			}
			after := own()
			for name, moved := range map[string]int{
				"cmd_set":           1,
				"cmd_get":           4,
				"get_hits":          2,
				"get_misses":        2,
				"cmd_touch":         1,
				"cmd_flush":         1,
				"mcmw_requests":     8, // those six, version, and the previous stats
				"total_connections": 0,
				"curr_connections":  0,
			} {
				first, err := strconv.Atoi(before[name])
				require.NoError(t, err, name)
				second, err := strconv.Atoi(after[name])
				require.NoError(t, err, name)
				require.Equal(t, moved, second-first, name)
			}
		})
	}
}

func TestFlushAllEmptiesEveryServer(t *testing.T) {
	for _, p := range []topology{topologies[0], topologies[1], topologies[3]} { // flush_all does not depend on sharding
		for _, command := range []string{
			"flush_all", "flush_all 0", "flush_all noreply", "flush_all 1",
			"flush_all 1 noreply",
		} {
			t.Run(p.name+", "+command, func(t *testing.T) {
				t.Parallel()
				m := startPlaced(t, p, middleware.Options{Workers: 2})
				c := m.Dial(t)
				keys := numbered(30)
				m.spread(t, keys)
				for _, key := range keys {
					require.Equal(t, "STORED\r\n", c.MustDo(t, "set "+key+" 0 0 1\r\nv\r\n"))
				}
				require.NoError(t, c.Send([]byte(command+"\r\n")))
				if !strings.HasSuffix(command, "noreply") {
					require.Equal(t, "OK\r\n", c.MustReply(t))
				}
				require.True(t, strings.HasPrefix(c.MustDo(t, "version\r\n"), "VERSION "))
				for i, s := range m.servers {
					// A delay of one second ends within two ticks of the server's clock.
					require.Eventually(t, func() bool {
						for _, held := range holds(t, s, keys) {
							if held != (copyOf{}) {
								return false
							}
						}
						return true
					}, mctest.Patience, pollPause, "server %d", i+1)
				}
			})
		}
	}
}

func TestVerbosityReachesEveryServerAndVersionIsTheServers(t *testing.T) {
	m := startPlaced(t, topology{"", 3, 0, false}, middleware.Options{Workers: 2})
	c := m.Dial(t)
	require.Equal(t, mctest.MustDial(t, m.servers[0].Addr()).MustDo(t, "version\r\n"), c.MustDo(t, "version\r\n"))
	for _, level := range []string{"1", "0"} {
		require.Equal(t, "OK\r\n", c.MustDo(t, "verbosity "+level+"\r\n"))
		for i, s := range m.servers {
			require.Equal(t, level, s.Stats("settings")["verbosity"], "server %d", i+1)
		}
	}
}

// statistics returns the reply to `stats` with an argument, or without one (""), by name.
func statistics(t *testing.T, c *mctest.Client, argument string) map[string]string {
	t.Helper()
	list := map[string]string{}
	for _, line := range ask(t, c, strings.TrimSpace("stats "+argument)) {
		if rest, ok := strings.CutPrefix(line, "STAT "); ok {
			name, value, _ := strings.Cut(rest, " ")
			list[name] = value
		}
	}
	return list
}

func TestEveryCommandCountsAsInMemcached(t *testing.T) {
	counted := []string{
		"cmd_get", "cmd_set", "cmd_touch", "cmd_meta", "get_hits", "get_misses", "delete_hits", "delete_misses",
		"incr_hits", "incr_misses", "decr_hits", "decr_misses",
		"cas_hits", "cas_misses", "cas_badval", "touch_hits", "touch_misses",
	}
	m := mwtest.Start(t, middleware.Options{Servers: mwtest.Servers(mctest.StartNewMemcached(t))})
	through, direct := m.Dial(t), mctest.MustDial(t, mctest.StartNewMemcached(t).Addr())
	for _, command := range []string{
		"get k", "mg k v", "mg k v T30", "gat 0 k", "touch k 0", "delete k", "md k", "incr k 1", "decr k 1", "ma k",
		"ma k MD", "me k", "cas k 0 0 1 5\r\n5", "ms k 1 C5\r\n5",
		"replace k 0 0 1\r\n5", "ms k 1 MR\r\n5", "set k 0 0 1\r\n5", "ms k 1\r\n5", "ms k 1 ME\r\n5",
		"add k 0 0 1\r\n5", "append k 0 0 1\r\n5", "get k", "get k l", "gets k", "mg k", "mg k v",
		"mg k v T30", "mg k v R30", "gat 0 k", "gats 0 k l", "touch k 0", "incr k 1", "decr k 1", "ma k", "ma k MD",
		"me k", "cas k 0 0 1 5\r\n5", "ms k 1 C5\r\n5", "md k C5", "md k", "mg n N30 v", "delete n",
		"set k 0 0 1\r\n5", "md k I", "delete k", "mg k q\r\nmn",
	} {
		want := direct.MustDo(t, command+"\r\n")
		got := through.MustDo(t, command+"\r\n")
		// these show a cas or times
		if !strings.HasPrefix(command, "me") && !strings.HasPrefix(command, "gets") &&
			!strings.HasPrefix(command, "gats") {
			require.Equal(t, want, got, command)
		}
		m.Settled(t)
		was, is := statistics(t, direct, ""), statistics(t, through, "")
		for _, name := range counted {
			require.Equal(t, was[name], is[name], "%s after %q", name, command)
		}
	}
}

func TestStatisticsOfSeveralServersAreInMemcachedsForm(t *testing.T) {
	servers := mctest.StartNewMemcacheds(t, 3)
	m := mwtest.Start(t, middleware.Options{Servers: mwtest.Servers(servers...)})
	c := m.Dial(t)
	require.Equal(t, "STORED\r\n", c.MustDo(t, "set k 0 0 1\r\n1\r\n"))
	sum := func(name string) string {
		n := int64(0)
		for _, s := range servers {
			n += s.Stat(name)
		}
		return strconv.FormatInt(n, 10)
	}
	got, first := statistics(t, c, ""), statistics(t, mctest.MustDial(t, servers[0].Addr()), "")
	for name := range first {
		assert.Contains(t, got, name, "the first stats has all that memcached has")
	}
	for _, name := range []string{"curr_items", "bytes", "limit_maxbytes", "evictions", "total_items"} {
		assert.Eventually(t, func() bool { return statistics(t, c, "")[name] == sum(name) }, mctest.Patience,
			mctest.Tick, "the sum over the servers of %s", name)
	}
	for _, name := range []string{"version", "libevent", "pointer_size", "hash_power_level"} {
		assert.Equal(t, first[name], got[name], name)
	}

	settings := statistics(t, mctest.MustDial(t, servers[0].Addr()), "settings")
	assert.Equal(t, settings, statistics(t, c, "settings"))
	assert.Eventually(t, func() bool { // mcmw may store one of its records meanwhile
		total := 0
		for name, value := range statistics(t, c, "items") {
			require.Regexp(t, "^items:[0-9]+:", name)
			if strings.HasSuffix(name, ":number") {
				n, err := strconv.Atoi(value)
				require.NoError(t, err)
				total += n
			}
		}
		return sum("curr_items") == strconv.Itoa(total)
	}, mctest.Patience, mctest.Tick)
	slabs := statistics(t, c, "slabs")
	assert.Contains(t, slabs, "total_malloced")
	assert.Equal(t, "96", slabs["1:chunk_size"])
	assert.Contains(t, statistics(t, c, "servers items"), "server-3:items:1:number")

	c = mwtest.Start(t, middleware.Options{
		Servers:        mwtest.Servers(servers...),
		RequestOptions: worker.RequestOptions{StallAfter: hasty, Timeout: time.Second},
	}).Dial(t)
	servers[1].Freeze()
	assert.Eventually(t, func() bool { return statistics(t, c, "")["limit_maxbytes"] == strconv.Itoa(2*64<<20) },
		mctest.Patience, mctest.Tick, "stats leaves out a server that stalls")
	servers[1].Thaw()
	for _, s := range servers {
		s.Stop()
	}
	assert.Equal(t, "0", statistics(t, c, "")["cmd_get"], "without any server")
}

func TestServersAreAskedAtOnceAndThoseThatDoNotAnswerAreLeftOut(t *testing.T) {
	server, gone := mctest.StartMemcached(t), mctest.StartMemcached(t)
	stalled := mctest.StartProxy(t, server.Addr())
	m := mwtest.Start(t, middleware.Options{Servers: mwtest.Named(server.Addr(), stalled.Addr(), gone.Addr())})
	ask := func(timeout time.Duration) (names []string) {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		for name, answer := range m.AskServers(ctx) {
			require.EqualValues(t, 64<<20, answer.Limit)
			names = append(names, name)
		}
		return names
	}
	servers := m.Stats().Snapshot().Servers
	require.ElementsMatch(t, []string{servers[0].Name, servers[1].Name, servers[2].Name}, ask(mctest.Patience))
	stalled.Inject(mctest.Fault{Stall: true})
	gone.Stop()
	require.Eventually(t, func() bool {
		names := ask(100 * time.Millisecond)
		return len(names) == 1 && names[0] == servers[0].Name
	}, mctest.Patience, mctest.Tick)
	stalled.Inject(mctest.Fault{}) // so that the end does not wait for it
}
