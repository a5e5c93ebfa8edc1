package behaviour_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
)

// casless are requests whose replies show no cas. No number gets shorter, because it depends on memcached's threads
// whether it pads such a number in place. K stands for a key, L for the length of a value, which then follows.
var casless = []string{
	"set K 3 0 L", "add K 4 0 L", "replace K 5 0 L", "append K 0 0 L", "prepend K 0 0 L", "cas K 6 0 L 9999999999",
	"incr K 7", "incr K 95", "decr K 0",
	"touch K 0", "gat 0 K K", "get K K K", "delete K", "ms K L F7", "ms K L ME", "ms K L MR", "ms K L MA",
	"ms K L MP k O5", "ms K L MA N0", "ma K v",
	"ma K N0 J9 v k", "ma K MD D0 v", "mg K v f s k", "mg K", "md K k O1",
}

// No reply shows replicas and their versions, even with several writers.
func TestRepliesOfSeveralReplicasEqualThoseOfOneMemcached(t *testing.T) {
	t.Parallel()
	seed := mctest.Seed(t)
	commands := 500
	if mctest.Long() {
		commands = 50_000
	}
	m := mwtest.Start(t, middleware.Options{
		Servers: mwtest.Servers(mctest.StartNewMemcacheds(t, 3)...),
		Writers: middleware.WritersSeveral,
	})
	through, direct := m.Dial(t), mctest.MustDial(t, mctest.StartNewMemcached(t).Addr())
	defer direct.Close()
	r := rand.New(rand.NewPCG(seed, 0))
	var script []string
	for range commands {
		value := []string{
			"9", "98", "995", "x", "", "99999999999999999999",
			strings.Repeat("y", r.IntN(3000)),
		}[r.IntN(7)]
		var words []string
		data := ""
		for word := range strings.FieldsSeq(casless[r.IntN(len(casless))]) {
			switch word {
			case "K":
				word = fmt.Sprintf("k%d", r.IntN(5))
			case "L":
				word, data = fmt.Sprint(len(value)), value+"\r\n"
			}
			words = append(words, word)
		}
		request := strings.Join(words, " ") + "\r\n" + data
		script = append(script, request)
		require.Equal(t, direct.MustDo(t, request), through.MustDo(t, request), "after %.200q", script)
	}
}
