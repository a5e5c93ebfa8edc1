package discover_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/route"
)

// pods returns n servers like those of a StatefulSet.
func pods(n int) []route.Server {
	list := make([]route.Server, n)
	for i := range list {
		list[i] = server(fmt.Sprintf("memcached-%d", i), fmt.Sprintf("10.0.0.%d:11211", i))
	}
	return list
}

// moved returns the share of copies of keys that are on a server which did not hold the key before, and how many of
// them moved between servers that both lists have. Servers are compared by name.
func moved(t *testing.T, before, after []route.Server, replicas int) (share float64, between int) {
	t.Helper()
	const keys = 20_000
	holders := func(servers []route.Server) func(key []byte) []string {
		r, err := route.New(servers, route.Options{Replicas: replicas})
		require.NoError(t, err)
		return func(key []byte) (names []string) {
			for _, i := range r.Replicas(key, nil) {
				names = append(names, servers[i].Name)
			}
			return names
		}
	}
	old, now := holders(before), holders(after)
	has := func(list []route.Server, name string) bool {
		return slices.ContainsFunc(list, func(s route.Server) bool { return s.Name == name })
	}
	count := 0
	for i := range keys {
		// some hashes put keys with the same beginning next to each other
		sum := sha256.Sum256([]byte{byte(i >> 8), byte(i)})
		key := hex.AppendEncode(nil, sum[:8])
		from, to := old(key), now(key)
		for _, name := range to {
			if slices.Contains(from, name) {
				continue
			}
			count++
			removed := slices.ContainsFunc(from, func(n string) bool { return !has(after, n) })
			if has(before, name) && !removed {
				between++
			}
		}
	}
	return float64(count) / keys / float64(replicas), between
}

// changesOfLists are the rows of the table in docs/servers.md.
var changesOfLists = []struct {
	what          string
	before, after []route.Server
}{
	{"a fourth is added", pods(3), pods(4)},
	{"the third is removed", pods(3), pods(2)},
	{"the third is renamed", pods(3), append(pods(2), server("other", "10.0.0.2:11211"))},
	{"the third gets another address", pods(3), append(pods(2), server("memcached-2", "10.9.0.2:11211"))},
	{
		"the third gets twice its weight", pods(3),
		append(pods(2), route.Server{Name: "memcached-2", Addr: "10.0.0.2:11211", Weight: 2}),
	},
	{"the order is another", pods(3), []route.Server{pods(3)[2], pods(3)[0], pods(3)[1]}},
	{"of ten, an eleventh is added", pods(10), pods(11)},
	{"of ten, the tenth is removed", pods(10), pods(9)},
}

func TestOnlyKeysOfServersThatJoinOrLeaveMove(t *testing.T) {
	for _, c := range changesOfLists[:2] {
		_, between := moved(t, c.before, c.after, 1)
		require.Zero(t, between, c.what)
	}
}

func TestTheTableInTheDocumentationHasTheSharesOfKeysThatMove(t *testing.T) {
	text, err := os.ReadFile("../../docs/servers.md")
	require.NoError(t, err)
	for _, c := range changesOfLists {
		one, _ := moved(t, c.before, c.after, 1)
		two, _ := moved(t, c.before, c.after, 2)
		row := fmt.Sprintf("| %s | %.1f %% | %.1f %% |\n", c.what, 100*one, 100*two)
		require.True(t, strings.Contains(string(text), row), "docs/servers.md lacks the row %s", row)
	}
}
