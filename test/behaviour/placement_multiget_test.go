package behaviour_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/middleware"
)

func TestAShardedMultiGetIsSplitEvenly(t *testing.T) {
	for _, servers := range []int{2, 3, 5} {
		t.Run(fmt.Sprintf("%d servers", servers), func(t *testing.T) {
			t.Parallel()
			m := startPlaced(t, topology{"", servers, 0, true}, middleware.Options{Workers: 2})
			c := m.Dial(t)
			require.Equal(t, "STORED\r\n", c.MustDo(t, "set 1-key 0 0 1\r\nx\r\n"))
			for _, keys := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 50, 99, 100, 101, 1000} {
				before := m.cmdGets()
				c.MustDo(t, "get "+strings.Join(numbered(keys), " ")+"\r\n")
				asked := m.askedSince(before)
				require.EqualValues(t, keys, sum(asked), "every key is asked for once: %v", asked)
				require.LessOrEqual(t, slices.Max(asked)-slices.Min(asked), int64(1), "%d keys: %v", keys, asked)
			}
		})
	}
}

func TestAMultiGetThatIsNotShardedGoesToOneServer(t *testing.T) {
	m := startPlaced(t, topology{"", 3, 0, false}, middleware.Options{Workers: 2})
	c := m.Dial(t)
	total := make([]int64, len(m.servers))
	for range 12 {
		before := m.cmdGets()
		c.MustDo(t, "get a b c d e\r\n")
		asked := m.askedSince(before)
		require.ElementsMatch(t, []int64{5, 0, 0}, asked)
		for s, n := range asked {
			total[s] += n
		}
	}
	require.NotContains(t, total, int64(0), "the servers take turns: %v", total)
}

func TestAMultiGetOfKeysOnOneReplicaAsksEachPrimary(t *testing.T) {
	for _, sharded := range []bool{false, true} {
		m := startPlaced(t, topology{"", 3, 1, sharded}, middleware.Options{Workers: 2})
		c := m.Dial(t)
		keys := numbered(200)
		m.spread(t, keys)
		request := "get " + strings.Join(keys, " ")
		want := make([]int64, len(m.servers))
		for _, key := range keys {
			want[m.router.Primary([]byte(key))]++
		}
		before := m.cmdGets()
		c.MustDo(t, request+"\r\n")
		require.Equal(t, want, m.askedSince(before))
	}
}
