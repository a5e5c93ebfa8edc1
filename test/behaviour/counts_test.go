package behaviour_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/worker"
)

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
