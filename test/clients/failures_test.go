package clients

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mcmw/internal/backend"
	"mcmw/internal/config"
	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
)

// page is where MCMW_UPDATE=1 writes what the libraries did.
const page = "../../docs/results/clients.md"

const head = `# Client libraries while servers fail

Written by the test in ` + "`test/clients`" +
	`, on a machine that also ran other things: times tell tenths of a second from seconds, not more. Each library
has its own defaults, except that Rust's ` + "`memcache`" +
	` is set to text. mcmw has three servers and its own defaults; the program does 8 gets and 8 sets, one after the other, for at most some 20 s.
A cell says how many of the 16 were not what they are while all servers work, the longest time of one, and the first such result.

`

const settingsHead = `## What to set

With text or meta all get what memcached itself gives them.

| client | protocol by default | set | timeout by default |
|---|---|---|---|
`

// otherRows are libraries that the programs do not run: they cannot be served, or are in no package of this machine's
// distribution.
const otherRows = `| Dalli 3.2.8, in Rails 7.2 | binary | ` + "`protocol: :meta`" + ` | 1 s |
| Dalli 5.0.6 | meta | nothing | 1 s |
| MediaWiki 1.43's own | text | nothing | 0.5 s |
| grafana/dskit 2026-08-21 (Mimir, Loki) | text | ` + "`timeout`" + `, above that of mcmw | 0.2 s |
| Dalli 3.0 (Debian 12), python-binary-memcached 0.33, memjs 1.3 | binary only | another library or version | |

`

// ownTests is about the libraries' own suites. Those that TestTheirOwnSuitesFailNoMoreThanOnMemcached does not run were
// run by hand.
const ownTests = `## Their own tests

Each was run in front of two servers with all copies, and on memcached 1.6.38 as the control. Tests that fail there, too, or need another server (SASL, Docker) are not counted.

| tests of | how many | fail only through mcmw |
|---|---|---|
| pymemcache 4.0.0, nightly | its integration tests | ` + "`stats cachedump`" +
	`, which is refused: a key could forge the end of the reply |
| gomemcache, memcache (Rust), nightly | those with a server | none |
| python-memcached 1.62 | 26 | none |
| pylibmc 1.6.3 | 41 | 14; with the text protocol none |
| emcache 1.3.3 | 76 of its acceptance tests | 1: ` + "`cache_memlimit`" + ` is for one server |
| Cache::Memcached 1.30 | 72 | none |
| Cache::Memcached::Fast 0.28 | all its files | none |
| PHP Memcached 3.3.0, with the extension 3.2.0 | 113 | 23; with the text protocol none |
| Dalli 5.0.6 | 332 | ` + "`stats reset`" + ` leaves mcmw's own counts; ` + "`mg`" + ` with ` + "`h`" + ` or ` + "`l`" +
	` tells of the copy that was read |

Applications with memcached, then mcmw in its place, gave the same: Rails 7.2 (cache, counters, sessions, threads), MediaWiki 1.43 with each of its two clients (object cache, locks, WAN cache, an edit), envoy's ratelimit (two instances share one limit), and dskit's cache client.

`

const columns = `| client | a server dies | it is back | a server stalls |
|---|---|---|---|
`

const multiHead = `
## A multi-get over a dead server

One copy, and some keys of the multi-get are on a dead server. Then the program gets a key of a server that works.

| client | --get-error error: the multi-get | the next get | --get-error miss: the multi-get | the next get |
|---|---|---|---|---|
`

// Whatever fails, a library gives the value of the key or none. What it does and how long it takes are recorded.
func TestLibrariesGiveNoOtherKeysValueWhileServersFail(t *testing.T) {
	rows := map[string]map[string]string{"All copies": {}, "One copy": {}, "multi": {}}
	var mu sync.Mutex
	t.Run("libraries", func(t *testing.T) {
		for _, l := range libraries {
			t.Run(l.name, func(t *testing.T) {
				t.Parallel()
				for name, replicas := range map[string]int{"All copies": 0, "One copy": 1} {
					cells := fails(t, l, replicas)
					mu.Lock()
					rows[name][l.name] = strings.Join(cells, " | ")
					mu.Unlock()
				}
				cells := append(deadMulti(t, l, false), deadMulti(t, l, true)...)
				mu.Lock()
				rows["multi"][l.name] = strings.Join(cells, " | ")
				mu.Unlock()
			})
		}
	})
	if os.Getenv("MCMW_UPDATE") == "" || t.Failed() {
		return
	}
	text := head
	table := func(cells map[string]string) {
		for _, l := range libraries {
			text += fmt.Sprintf("| %s %s | %s |\n", l.name, l.version, cells[l.name])
		}
	}
	text += settingsHead
	settings := map[string]string{}
	for _, l := range libraries {
		settings[l.name] = fmt.Sprintf("%s | %s | %s", l.protocol, cmp.Or(l.setting, "nothing"), l.wait)
	}
	table(settings)
	text += otherRows + ownTests
	for _, name := range []string{"All copies", "One copy"} {
		text += "## " + name + "\n\n" + columns
		table(rows[name])
		text += "\n"
	}
	text = strings.TrimSuffix(text, "\n") + multiHead
	table(rows["multi"])
	require.NoError(t, os.WriteFile(page, []byte(text), 0o644))
}

const keys = 8

// enough is the time after which a library that is slow in every request is asked nothing more.
const enough = 20 * time.Second

// measure lets the library get and set keys. healthy has its results while all servers work; it is filled if it is
// empty.
func measure(t *testing.T, s *session, healthy map[string]string) string {
	t.Helper()
	others, first, longest, began := 0, "", time.Duration(0), time.Now()
	asked := 2 * keys
	for n := range 2 * keys {
		command := fmt.Sprintf("get k%d", n%keys)
		if n >= keys {
			command = fmt.Sprintf("set k%d value%d", n%keys, n%keys)
		}
		result, took := s.do(t, command)
		longest = max(longest, took)
		want, known := healthy[command]
		if !known {
			healthy[command] = result
			continue
		}
		if result != want {
			assert.NotRegexp(t, `^value\d+`, result, command)
			if others++; first == "" {
				first = short(result)
			}
		}
		if result == hung {
			return fmt.Sprintf("%s within %.0f s to request %d", hung, patience.Seconds(), n+1)
		}
		if time.Since(began) > enough {
			asked = n + 1
			break
		}
	}
	seconds := fmt.Sprintf("%.1f s", longest.Seconds())
	if others == 0 {
		return "0, " + seconds
	}
	if asked < 2*keys {
		return fmt.Sprintf("%d of the first %d, %s: %s", others, asked, seconds, first)
	}
	return fmt.Sprintf("%d, %s: %s", others, seconds, first)
}

var address = regexp.MustCompile(`[\w./]*127\.0\.0\.1[:/]\d+`)

// short is a result for a table.
func short(result string) string {
	result = strings.ReplaceAll(address.ReplaceAllString(result, "ADDRESS"), "|", " ")
	if len(result) > 70 {
		result = result[:70] + "..."
	}
	return "`" + result + "`"
}

func begin(t *testing.T, replicas int, getErrorMiss bool) (*mwtest.MW, []*mctest.Server) {
	t.Helper()
	servers := mctest.StartNewMemcacheds(t, 3)
	flags := config.AddFlags(pflag.NewFlagSet("mcmw", pflag.PanicOnError))
	// the defaults
	c, err := config.Load(config.Sources{Flags: flags, Env: []string{"MCMW_SERVERS=" + servers[0].Addr()}})
	require.NoError(t, err)
	o := c.Options
	o.Listen, o.Servers = nil, mwtest.Servers(servers...)
	if replicas > 0 {
		o.Placement.Replicas = replicas
	}
	o.GetErrorMiss = getErrorMiss
	return mwtest.Start(t, o), servers
}

// fails returns what the library does after a server died, after it returned, and while a server is frozen.
func fails(t *testing.T, l library, replicas int) []string {
	t.Helper()
	m, servers := begin(t, replicas, false)
	s := start(t, l, m.Addr())
	for n := range keys { // the gets of the first measurement find values
		s.do(t, fmt.Sprintf("set k%d value%d", n, n))
	}
	healthy := map[string]string{}
	measure(t, s, healthy)
	servers[0].Stop()
	dies := measure(t, s, healthy)
	servers[0].Start()
	up(t, m)
	if replicas == 1 { // what the server held is gone; another client stores it again
		c := m.Dial(t)
		for n := range keys {
			value := fmt.Sprintf("value%d", n)
			require.Equal(t, "STORED\r\n", c.MustDo(t, fmt.Sprintf("set k%d 0 0 %d\r\n%s\r\n", n, len(value), value)))
		}
	}
	if s.hung {
		s = start(t, l, m.Addr())
	}
	back := measure(t, s, healthy)
	// A library that has given up on mcmw is started again.
	s = start(t, l, m.Addr())
	for n := range keys {
		s.do(t, fmt.Sprintf("set k%d value%d", n, n))
	}
	servers[1].Freeze()
	defer servers[1].Thaw()
	return []string{dies, back, measure(t, s, healthy)}
}

func up(t *testing.T, m *mwtest.MW) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, s := range m.Stats().Snapshot().Servers {
			if s.Health.State != backend.Up.String() {
				return false
			}
		}
		return true
	}, mctest.Patience, mctest.Tick)
}

// deadMulti returns what the library answers to a multi-get of which a server is dead, and to a get after it.
func deadMulti(t *testing.T, l library, getErrorMiss bool) []string {
	t.Helper()
	m, servers := begin(t, 1, getErrorMiss)
	s := start(t, l, m.Addr())
	var alive string
	for n := range 4 {
		s.do(t, fmt.Sprintf("set k%d v%d", n, n))
	}
	servers[0].Stop()
	c := m.Dial(t)
	for n := range 4 {
		if reply := c.MustDo(t, fmt.Sprintf("get k%d\r\n", n)); strings.HasPrefix(reply, "VALUE") {
			alive = fmt.Sprintf("k%d", n)
		}
	}
	require.NotEmpty(t, alive)
	var cells []string
	for _, command := range []string{"multi k0 k1 k2 k3", "get " + alive} {
		if len(cells) > 0 && strings.HasPrefix(cells[0], hung) {
			cells = append(cells, "")
			continue
		}
		result, took := s.do(t, command)
		if result == hung {
			cells = append(cells, hung)
			continue
		}
		cells = append(cells, fmt.Sprintf("%s, %.1f s", short(result), took.Seconds()))
	}
	return cells
}
