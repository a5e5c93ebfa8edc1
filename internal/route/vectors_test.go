package route

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// vectors are placements by another program; testdata/README.md says how they were obtained.
type vectors struct {
	Program string
	Cases   []vector
}

type vector struct {
	Name, Ring, Hash string
	HashTag          string `json:"hash_tag"`
	Servers          []Server
	// Owners has one digit per key of keys.json: the index of the server where that program put the key.
	Owners string
}

func (v *vector) router(t *testing.T) *Router {
	t.Helper()
	ring, err := RingNames.Parse(v.Ring)
	require.NoError(t, err)
	hash, err := HashNames.Parse(v.Hash)
	require.NoError(t, err)
	return router(t, v.Servers, Options{Replicas: 1, Ring: ring, Hash: hash, HashTag: v.HashTag})
}

func TestEveryKeyLivesWhereTheOtherProgramPutIt(t *testing.T) {
	var keys []string
	readJSON(t, "keys.json", &keys)
	require.GreaterOrEqual(t, len(keys), 600)
	for file, cases := range map[string]int{"twemproxy.json": 25, "libmemcached.json": 23} {
		var v vectors
		readJSON(t, file, &v)
		require.Len(t, v.Cases, cases, file)
		for _, c := range v.Cases {
			t.Run(v.Program+"/"+c.Name, func(t *testing.T) {
				r := c.router(t)
				require.Len(t, c.Owners, len(keys))
				differ := 0
				for i, key := range keys {
					if got, want := r.Primary([]byte(key)), int(c.Owners[i]-'0'); got != want {
						if differ++; differ == 1 {
							t.Errorf("key %q: got server %d (%s), %s put it on %d (%s)",
								key, got, c.Servers[got].Name, v.Program, want, c.Servers[want].Name)
						}
					}
				}
				require.Zero(t, differ, "keys placed elsewhere, of %d", len(keys))
			})
		}
	}
}

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, into), name)
}

// Two servers are added to three. As many keys move as the other program moved, only to the new servers, and, with a
// hash that spreads keys well, no more than the new servers' share.
func TestAddingServersMovesAsManyKeysAsTheOtherProgramMoves(t *testing.T) {
	var keys []string
	readJSON(t, "keys.json", &keys)
	for file, names := range map[string][2]string{
		"libmemcached.json": {
			"KETAMA, md5, three servers on the default port",
			"KETAMA, md5, five servers on the default port",
		},
		"twemproxy.json": {"defaults, three servers on the default port", "five servers on the default port"},
	} {
		var v vectors
		readJSON(t, file, &v)
		var owners [2]string
		var routers [2]*Router
		for _, c := range v.Cases {
			for i, name := range names {
				if c.Name == name {
					owners[i] = c.Owners
					routers[i] = c.router(t)
				}
			}
		}
		theirs, ours := 0, 0
		for i, key := range keys {
			if owners[0][i] != owners[1][i] {
				theirs++
			}
			if before, after := routers[0].Primary([]byte(key)), routers[1].Primary([]byte(key)); before != after {
				ours++
				require.GreaterOrEqual(t, after, 3, "key %q moved between old servers", key)
			}
		}
		require.Equal(t, theirs, ours, v.Program)
		if routers[0].pools[0].hash == HashMD5 { // fnv1a_64 puts similar keys close together, so shares are uneven
			require.InDelta(t, 2.0/5, float64(ours)/float64(len(keys)), 0.1, "the share of two servers of five")
		}
	}
}
