package model_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/model"
	"mcmw/internal/mctest/strict"
)

func TestTheModelAnswersAsARealServerDoes(t *testing.T) {
	server := mctest.StartNewMemcached(t, "-o", "no_lru_maintainer,no_lru_crawler")
	client := mctest.MustDial(t, server.Addr())
	random := rand.New(rand.NewPCG(mctest.Seed(t), 1))
	var m model.Server
	var history []string
	for range 20_000 {
		command := randomCommand(random)
		history = append(history, command)
		q, err := strict.Read(bufio.NewReader(strings.NewReader(command)))
		require.NoError(t, err)
		want := client.MustDo(t, command+"mn\r\n")
		if want != "MN\r\n" {
			assert.Equal(t, "MN\r\n", client.MustReply(t))
		} else {
			want = ""
		}
		require.Equal(t, want, m.Do(&q), "after %q", history[max(0, len(history)-12):])
	}
}

// randomCommand returns a command with one of few keys, so that most commands find an item.
func randomCommand(r *rand.Rand) string {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	key := pick("a", "b", "c")
	value := pick("", "1", "9", "10", "99", "abc", "18446744073709551615")
	exptime := pick("0", "0", "0", "-1")
	cas := func() string {
		return fmt.Sprint(pick("0", "1000", "1001", "4611686018427387904", fmt.Sprint(r.IntN(40))))
	}
	// some of them, in some order.
	some := func(flags ...string) string {
		r.Shuffle(len(flags), func(i, j int) { flags[i], flags[j] = flags[j], flags[i] })
		var words strings.Builder
		for _, f := range flags[:r.IntN(len(flags)+1)] {
			words.WriteString(" " + f)
		}
		return words.String()
	}
	switch r.IntN(16) {
	case 0:
		return pick("get", "gets") + " " + pick("a", "a b", "c b a") + "\r\n"
	case 1:
		return pick("gat", "gats") + " " + exptime + " " + pick("a", "a b") + "\r\n"
	case 2, 3:
		return fmt.Sprintf("%s %s %d %s %d\r\n%s\r\n", pick("set", "add", "replace", "append", "prepend"), key,
			r.IntN(3), exptime, len(value), value)
	case 4:
		return fmt.Sprintf("cas %s 0 0 %d %s\r\n%s\r\n", key, len(value), cas(), value)
	case 5:
		return "delete " + key + "\r\n"
	case 6:
		return fmt.Sprintf("%s %s %s\r\n", pick("incr", "decr"), key, pick("1", "5", "1000"))
	case 7:
		return fmt.Sprintf("touch %s %s\r\n", key, exptime)
	case 8:
		if r.IntN(10) > 0 {
			return "gets a b c\r\n"
		}
		return "flush_all\r\n"
	case 9, 10:
		return "mg " + key + some("v", "c", "f", "s", "t", "k", "q", "O7", "N0", "T0", "C"+cas(), "E"+cas()) + "\r\n"
	case 11, 12, 13:
		return fmt.Sprintf("ms %s %d%s\r\n%s\r\n", key, len(value),
			some("c", "s", "k", "q", "O8", "I", "F3", "T"+exptime, "N0", "C"+cas(), "E"+cas(),
				"M"+pick("S", "E", "A", "P", "R")), value)
	case 14:
		return "md " + key + some("k", "q", "O9", "I", "x", "T0", "C"+cas(), "E"+cas()) + "\r\n"
	}
	return "ma " + key + some("v", "c", "k", "q", "O1", "N0", "J7", "D5", "T0", "C"+cas(), "E"+cas(),
		"M"+pick("I", "D", "+", "-")) + "\r\n"
}

func TestACloneIsIndependent(t *testing.T) {
	var a model.Server
	do := func(s *model.Server, command string) string {
		q, err := strict.Read(bufio.NewReader(strings.NewReader(command)))
		require.NoError(t, err)
		return s.Do(&q)
	}
	require.Equal(t, "STORED\r\n", do(&a, "set k 0 0 1\r\nx\r\n"))
	b := a.Clone()
	assert.Equal(t, a.AppendState(nil), b.AppendState(nil))
	require.Equal(t, "DELETED\r\n", do(b, "delete k\r\n"))
	assert.NotEqual(t, a.AppendState(nil), b.AppendState(nil))
	it, ok := a.Get("k")
	assert.True(t, ok)
	assert.Equal(t, "x", it.Value)
	assert.Empty(t, b.Keys())
	a.Evict("k")
	assert.Empty(t, a.Keys())
}
