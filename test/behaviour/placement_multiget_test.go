package behaviour_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
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

// stock has the stored items of a test: key -> the reply bytes between "VALUE <key> " and END.
type stock struct {
	keys  []string
	flags map[string]int
	value map[string][]byte
}

// fill stores n values of different kinds, and leaves out every fourth key.
func fill(t *testing.T, c *mctest.Client, rng *rand.Rand, n int) *stock {
	t.Helper()
	s := &stock{flags: map[string]int{}, value: map[string][]byte{}}
	for i := range n {
		key := fmt.Sprintf("%d-key%s", i, strings.Repeat("-", rng.IntN(20)))
		s.keys = append(s.keys, key)
		if i%4 == 3 {
			continue
		}
		size := rng.IntN(300)
		if i%16 == 0 {
			size = 20_000 + rng.IntN(50_000)
		}
		value := make([]byte, size)
		for j := range value {
			value[j] = byte(rng.Uint32())
		}
		if i%5 == 0 {
			value = append([]byte("END\r\nVALUE k1 0 1\r\n"), value...)
		}
		s.flags[key], s.value[key] = rng.IntN(1<<16), value
		require.Equal(t, "STORED\r\n",
			c.MustDo(t, fmt.Sprintf("set %s %d 0 %d\r\n%s\r\n", key, s.flags[key], len(value), value)))
	}
	return s
}

// reply returns the reply of one server with the whole stock to a get of keys.
func (s *stock) reply(keys []string) []byte {
	var b bytes.Buffer
	for _, key := range keys {
		if value, ok := s.value[key]; ok {
			fmt.Fprintf(&b, "VALUE %s %d %d\r\n%s\r\n", key, s.flags[key], len(value), value)
		}
	}
	b.WriteString("END\r\n")
	return b.Bytes()
}

func TestAMultiGetIsAnsweredInItsOwnOrderWithDuplicatesAndMisses(t *testing.T) {
	seed := mctest.Seed(t)
	rounds := 5
	if mctest.Long() {
		rounds = 300
	}
	forEachPlacement(t, func(t *testing.T, m *placed) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := m.Dial(t)
		s := fill(t, c, rng, 200)
		m.spread(t, s.keys)
		for range rounds {
			var batch bytes.Buffer
			var asked [][]string
			var verbs []string
			for range 1 + rng.IntN(20) {
				keys := make([]string, 1+rng.IntN(40))
				for i := range keys {
					keys[i] = s.keys[rng.IntN(len(s.keys))]
					if i > 0 && rng.IntN(5) == 0 {
						keys[i] = keys[rng.IntN(i)]
					}
				}
				verb := []string{"get", "gets", "gat 0", "gats 0"}[rng.IntN(4)]
				asked, verbs = append(asked, keys), append(verbs, verb)
				batch.WriteString(verb)
				for _, key := range keys {
					batch.WriteString(strings.Repeat(" ", 1+rng.IntN(2)))
					batch.WriteString(key)
				}
				batch.WriteString("\r\n")
			}
			// The replies of a batch may not fit in the sockets, so they are read while it is written.
			sent := make(chan error, 1)
			go func() { sent <- c.Send(batch.Bytes()) }()
			for i, keys := range asked {
				reply := c.MustReply(t)
				if !strings.HasSuffix(verbs[i], "s 0") && verbs[i] != "gets" {
					if !bytes.Equal(s.reply(keys), []byte(reply)) {
						t.Fatalf("%s %v\nanswered %.2000q\nexpected %.2000q", verbs[i], keys, reply, s.reply(keys))
					}
					continue
				}
				checkGets(t, s, keys, reply)
			}
			require.NoError(t, <-sent)
		}
		// The token of a gets is valid.
		for _, key := range s.keys[:10] {
			items, err := mctest.ParseValues(c.MustDo(t, "gets "+strings.Join(s.keys[:20], " ")+"\r\n"))
			require.NoError(t, err)
			for _, it := range items {
				if it.Key == key {
					require.Equal(t, "STORED\r\n", c.MustDo(t, "cas "+key+" 0 0 1 "+it.Cas+"\r\nx\r\n"), key)
				}
			}
		}
	})
}

// checkGets compares the reply to a gets of keys, except for the tokens: equal keys must have equal tokens.
func checkGets(t *testing.T, s *stock, keys []string, reply string) {
	t.Helper()
	items, err := mctest.ParseValues(reply)
	require.NoError(t, err)
	present := slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return s.value[key] == nil })
	require.Len(t, items, len(present))
	tokens := map[string]string{}
	for i, it := range items {
		require.Equal(t, present[i], it.Key)
		require.Equal(t, fmt.Sprint(s.flags[it.Key]), it.Flags)
		require.True(t, it.Value == string(s.value[it.Key]), "%s holds another value", it.Key)
		require.NotEmpty(t, it.Cas)
		if token, ok := tokens[it.Key]; ok {
			require.Equal(t, token, it.Cas)
		}
		tokens[it.Key] = it.Cas
	}
}
