package importer

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/config"
	"mcmw/internal/mctest"
)

const twemproxyFile = `alpha:
  listen: 0.0.0.0:22121
  hash: one_at_a_time
  hash_tag: "{}"
  distribution: ketama
  timeout: 400
  preconnect: true
  auto_eject_hosts: false
  server_failure_limit: 2
  servers:
    - 10.0.0.1:11211:1 one
    - 10.0.0.2:11211:3
beta:
  listen: /run/nutcracker.sock 0660
  auto_eject_hosts: true
  redis: false
  distribution: modula
  hash: md5
  servers: [cache1:11211:1]
`

func TestAPoolOfTwemproxyBecomesAFileWithTheReasonOfEachValue(t *testing.T) {
	for _, c := range []struct {
		name, file string
		options    Options
		want       string
	}{
		{
			"the first pool", twemproxyFile,
			Options{Pool: "alpha"},
			`# Pool alpha of n.yml (twemproxy), by mcmw config import.
# No option is needed for preconnect (line 7): mcmw always connects when it starts.
listen: # line 2
  - 0.0.0.0:22121
hash-tag: '{}' # hash_tag, line 4
failure-limit: 2 # server_failure_limit, line 9
servers: # line 10; mcmw accepts twemproxy's form
  - 10.0.0.1:11211:1 one
  - 10.0.0.2:11211:3
replicas: 1 # twemproxy keeps a key on one server
ring: twemproxy # distribution: ketama, line 5: keys stay where they are
hash: one_at_a_time # line 3
timeout: 400ms # line 6
connect-timeout: 400ms # as timeout
`,
		},
		{
			"another pool, with what mcmw has nothing like left out", twemproxyFile,
			Options{Pool: "beta", LeaveOut: []string{"auto_eject_hosts"}},
			`# Pool beta of n.yml (twemproxy), by mcmw config import.
# Left out: auto_eject_hosts (line 15): mcmw does not move the keys of a failed server to another: gets of them are errors (or misses, with get-error), and sets are errors.
unix-mask: "0660" # line 14
listen: # line 14
  - unix:/run/nutcracker.sock
servers: # line 19; mcmw accepts twemproxy's form
  - cache1:11211:1
replicas: 1 # twemproxy keeps a key on one server
ring: rendezvous # distribution: modula, line 17: mcmw has no equivalent, so keys move and the cache starts cold
timeout: 1s # none here: twemproxy waits forever; mcmw always has a timeout
admin: 127.0.0.1:9151 # each mcmw on a machine needs its own; this is pool 2 of the file
`,
		},
		{
			"the only pool, with twemproxy's defaults", "p: {listen: '[::1]:1', timeout: 0, servers: ['a:1:1']}",
			Options{},
			`# Pool p of n.yml (twemproxy), by mcmw config import.
listen: # line 1
  - '[::1]:1'
servers: # line 1; mcmw accepts twemproxy's form
  - a:1:1
replicas: 1 # twemproxy keeps a key on one server
ring: twemproxy # distribution: ketama, twemproxy's default: keys stay where they are
hash: fnv1a_64 # twemproxy's default
timeout: 1s # none here: twemproxy waits forever; mcmw always has a timeout
`,
		},
	} {
		t.Run(c.name, func(t *testing.T) { requireImported(t, "n.yml", c.file, c.options, c.want) })
	}
}

// requireImported fails unless content becomes want, which mcmw accepts.
func requireImported(t *testing.T, name, content string, o Options, want string) {
	t.Helper()
	result, err := Import(name, []byte(content), o)
	require.NoError(t, err)
	require.Equal(t, want, string(result))
	require.NoError(t, config.CheckText("mcmw.yaml", result))
}

func TestWhatTwemproxyDoesAndMcmwDoesNotIsRefusedWithItsLine(t *testing.T) {
	for _, c := range mctest.Cases(t, "testdata/twemproxy-refused.txt") {
		requireRefused(t, "n.yml", c.Text, Options{}, c.Want)
	}
	requireRefused(t, "n.yml", "", Options{}, "n.yml: empty; accepted: a configuration of twemproxy")
	requireRefused(t, "n.yml", twemproxyFile, Options{}, "n.yml:1: 2 pools, each with its own port, so each needs its "+
		"own mcmw; accepted: one file for each, with --pool and one of alpha, beta")
	requireRefused(t, "n.yml", twemproxyFile, Options{Pool: "gamma"},
		`n.yml:1: no pool is called "gamma"; accepted: --pool with one of alpha, beta`)
}

func requireRefused(t *testing.T, name, content string, o Options, message string) {
	t.Helper()
	result, err := Import(name, []byte(content), o)
	require.ErrorContains(t, err, message, content)
	require.Empty(t, result)
}

func TestEveryMistakeIsReportedInTheOrderOfTheLines(t *testing.T) {
	_, err := Import("n.yml", []byte("p:\n  hash: x\n  redis: true\n  servers: 1\n  listen: a:1\n"), Options{})
	require.ErrorContains(t, err, "n.yml:2: ")
	lines := strings.Split(err.Error(), "\n")
	require.Len(t, lines, 3)
	for i, line := range lines {
		require.True(t, strings.HasPrefix(line, fmt.Sprintf("n.yml:%d: ", i+2)), line)
	}
}

func TestTextOfTheFileStaysInItsComment(t *testing.T) {
	result, err := Import("n.yml", []byte("\"p\\nservers: evil\": {listen: '/s 0600', servers: ['a:1:1']}"),
		Options{})
	require.NoError(t, err)
	require.NotContains(t, string(result), "\nservers: evil")
	require.Contains(t, string(result), "\nservers: # line ")
}

func FuzzAnImportIsRefusedOrIsAFileThatMcmwAccepts(f *testing.F) {
	f.Add([]byte(twemproxyFile), "alpha", "")
	f.Add([]byte(twemproxyFile), "beta", "auto_eject_hosts")
	f.Add([]byte(mcrouterFile), "", "")
	f.Add([]byte(`{"pools":{"A":{"servers":["a:1"]},"B":{"servers":["b:1"]}},"routes":{"/a/b/":{"type":"MigrateRoute","from":"PoolRoute|A","to":"PoolRoute|B","start_time":1800000000}}}`), "", "")
	f.Add([]byte(`{"pools":{"A":[1]},"route":{"type":"AllSyncRoute","children":["Pool|A","PoolRoute|A"]}}`), "", "")
	f.Fuzz(func(t *testing.T, content []byte, pool, leaveOut string) {
		result, err := Import("file", content, Options{Pool: pool, LeaveOut: []string{leaveOut}})
		if err == nil {
			require.NoError(t, config.CheckText("result", result))
		}
	})
}

func TestTheDocumentationHasEveryKeyAndEveryRoute(t *testing.T) {
	page, err := os.ReadFile("../../../docs/routes.md")
	require.NoError(t, err)
	names := append(operationRoutes, poolRoute, hashRoute, prefixRoute, failoverRoute, migrateRoute, warmUpRoute)
	names = slices.AppendSeq(names, maps.Keys(twemproxyKeys))
	names = slices.AppendSeq(names, maps.Keys(notTranslated))
	names = slices.AppendSeq(names, maps.Keys(writesToAll))
	names = slices.AppendSeq(names, maps.Keys(readsOfAny))
	for _, name := range names {
		require.Regexp(t, "`"+name+"\\b", string(page))
	}
}
