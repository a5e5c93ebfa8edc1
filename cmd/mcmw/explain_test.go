package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
	"mcmw/internal/mctest/mwtest"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
)

func TestTheServersOfAKeyAreExplainedWithTheOptionsThatChooseThem(t *testing.T) {
	for args, want := range map[string]string{
		"k -m cache1": `k
  held by  cache1 (replicas 1 of 1 server)
           cache1 at cache1:11211
  get      cache1
  gets     cache1
  set      cache1
`,
		"user:42 --servers a=10.0.0.1,b=10.0.0.2@east,c=10.0.0.3@east --read nearest --zone east": `user:42
  held by  c, b, a (replicas 3 of 3 servers; ring rendezvous)
           c at 10.0.0.3:11211, zone east
           b at 10.0.0.2:11211, zone east
           a at 10.0.0.1:11211
  get      c, b (read nearest: those of zone east in turn)
  gets     c, b (read nearest: those of zone east in turn); c if items have no versions
  set      c, b, a
`,
		"k --servers a,b --writers several": `k
  held by  b, a (replicas 2 of 2 servers; ring rendezvous)
           b at b:11211
           a at a:11211
  get      b, a (read round-robin: in turn)
  gets     b, a (read round-robin: in turn)
  set      b, a
`,
		"{x}1 {x}2 --servers a,b,c --replicas 2 --ring twemproxy --hash-tag {} --read least-busy": `{x}1
  held by  a, c (replicas 2 of 3 servers; ring twemproxy, hash fnv1a_64; hash-tag {}: "x" is hashed)
           a at a:11211
           c at c:11211
  get      a, c (read least-busy: the least busy one)
  gets     a, c (read least-busy: the least busy one); a if items have no versions
  set      a, c

{x}2
  held by  a, c (replicas 2 of 3 servers; ring twemproxy, hash fnv1a_64; hash-tag {}: "x" is hashed)
           a at a:11211
           c at c:11211
  get      a, c (read least-busy: the least busy one)
  gets     a, c (read least-busy: the least busy one); a if items have no versions
  set      a, c
`,
	} {
		code, stdout, stderr := execute(t, append([]string{"config", "explain"}, strings.Fields(args)...)...)
		require.Equal(t, exitOK, code, stderr)
		require.Equal(t, want, stdout, args)
	}
}

func TestExplainRefusesInvalidKeysAndConfigurations(t *testing.T) {
	for _, c := range []struct {
		args    []string
		message string
	}{
		{[]string{"-m", "a"}, "requires at least 1 arg"},
		{[]string{"k"}, "servers: none given"},
		{[]string{"a b", "-m", "a"}, `the key "a b"; accepted: 1 to 250 bytes without spaces and control characters`},
		{[]string{"", "-m", "a"}, `the key ""; accepted: `},
		{[]string{strings.Repeat("k", 251), "-m", "a"}, "; accepted: 1 to 250 bytes"},
		{[]string{"k", "-m", "a", "--replicas", "2"}, "is more than there are servers"},
	} {
		code, stdout, stderr := execute(t, append([]string{"config", "explain"}, c.args...)...)
		require.NotEqual(t, exitOK, code, "%q", c.args)
		require.Empty(t, stdout)
		require.Contains(t, stderr, c.message)
	}
}

func TestAKeyIsOnTheServersThatExplainShows(t *testing.T) {
	servers := mctest.StartMemcacheds(t, 3)
	o := middleware.Options{Servers: mwtest.Servers(servers...), Placement: route.Options{Replicas: 2}}
	client := mwtest.Start(t, o).Dial(t)
	var list []string
	for _, s := range o.Servers {
		list = append(list, s.Name+"="+s.Addr)
	}
	held := regexp.MustCompile(`(?m)^  held by  (.+) \(`)
	for n := range 8 {
		key := fmt.Sprint("key-", n)
		require.Equal(t, "STORED\r\n", client.MustDo(t, "set "+key+" 0 0 1\r\nv\r\n"))
		code, stdout, stderr := execute(t, "config", "explain", key, "--servers", strings.Join(list, ","),
			"--replicas", "2")
		require.Equal(t, exitOK, code, stderr)
		explained := strings.Split(held.FindStringSubmatch(stdout)[1], ", ")
		for i, s := range servers {
			_, there := s.Get(key)
			require.Equal(t, there, slices.Contains(explained, o.Servers[i].Name), stdout)
		}
	}
}

func TestAKeysPoolIsExplainedByItsRoute(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcmw.yaml")
	require.NoError(t, os.WriteFile(file,
		[]byte("read: primary\npools:\n  sessions: {servers: [a, b], read: round-robin, writers: one, gutter: pages, "+
			"gutter-ttl: 30s}\n  pages: {servers: [c], replicas: 1}\n"+
			"routes:\n  - {prefix: \"s:\", pool: sessions}\n  - {default: pages}\n"), 0o600))
	code, stdout, stderr := execute(t, "config", "explain", "s:1", "x", "--config", file)
	require.Equal(t, exitOK, code, stderr)
	require.Equal(t, `s:1
  pool     sessions (prefix "s:" is the longest match of 1 route)
  held by  a, b (replicas 2 of 2 servers; ring rendezvous)
           a at a:11211
           b at b:11211
  get      a, b (read round-robin: in turn)
  gets     a, b (read round-robin: in turn); a if items have no versions
  set      a, b
  gutter   c of pool pages, for up to 30 s, while all of a, b are down

x
  pool     pages (the default: no prefix of 1 route matches)
  held by  c (replicas 1 of 1 server)
           c at c:11211
  get      c
  gets     c
  set      c
`, stdout)

	require.NoError(t, os.WriteFile(file,
		[]byte("pools:\n  bare: {servers: [a]}\n  pages: {servers: [c]}\nroutes:\n  - {prefix: \"s:\", pool: bare, "+
			"strip: true}\n  - {default: pages}\n"), 0o600))
	code, stdout, stderr = execute(t, "config", "explain", "s:1", "s:", "--config", file)
	require.Equal(t, exitOK, code, stderr)
	require.Equal(t, `s:1
  pool     bare (prefix "s:" is the longest match of 1 route)
  stored   as 1, without the prefix
  held by  a (replicas 1 of 1 server)
           a at a:11211
  get      a
  gets     a
  set      a

s:
  pool     bare (prefix "s:" is the longest match of 1 route)
  refused, because the key is empty without the prefix
`, stdout)
}

func TestAKeyThatIsReadInAnotherPoolIsExplainedWithBoth(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcmw.yaml")
	require.NoError(t, os.WriteFile(file,
		[]byte("pools:\n  main: {servers: [a, b, c], writers: one, replicas: 1, gutter: spare}\n  copy: {servers: "+
			"[x, y], read: least-busy}\n  spare: {servers: [s]}\n  test: {servers: [t]}\n"+
			"routes:\n  - {prefix: \"s:\", pool: main, reads: copy}\n  - {default: main}\nshadows:\n  - {of: copy, "+
			"to: test, share: 1}\n"), 0o600))
	code, stdout, stderr := execute(t, "config", "explain", "s:1", "--config", file)
	require.Equal(t, exitOK, code, stderr)
	require.Equal(t, `s:1
  pool     main (prefix "s:" is the longest match of 1 route)
  held by  a (replicas 1 of 3 servers; ring rendezvous)
           a at a:11211
  get      x, y (read least-busy: the least busy one): of pool copy, and sees only what is written there, not what is written to pool main
  gets     a
  set      a
  gutter   s of pool spare, for up to 60 s, while a is down
  shadow   t of pool test (the key is in the share of 1; reads; answers are compared)
`, stdout)
	code, stdout, stderr = execute(t, "config", "check", "--config", file)
	require.Equal(t, exitOK, code, stderr)
	require.Equal(t, "OK\n", stdout)
	require.Equal(t,
		"mcmw: routes: prefix \"s:\": reads go to pool copy and see only what is written there, not what is written "+
			"to pool main\n", stderr)
}

func TestAKeyThatIsCopiedToAShadowIsExplained(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcmw.yaml")
	require.NoError(t, os.WriteFile(file,
		[]byte("pools:\n  live: {servers: [a]}\n  pages: {servers: [b]}\n  test: {servers: [x, y], replicas: 2}\n"+
			"routes:\n  - {prefix: \"p:\", pool: pages}\n  - {default: live}\nshadows:\n  - {of: live, to: test, "+
			"share: 0.5, what: all}\n"), 0o600))
	lines := map[string]int{}
	for i := range 40 {
		code, stdout, stderr := execute(t, "config", "explain", fmt.Sprint("k", i), "--config", file)
		require.Equal(t, exitOK, code, stderr)
		for line := range strings.Lines(stdout) {
			if strings.HasPrefix(line, "  shadow ") {
				lines[line]++
			}
		}
	}
	const in = " of pool test (the key is in the share of 0.5; reads and writes; answers are compared)\n"
	out := lines["  shadow   none: the key is not in the share of 0.5 that is copied to pool test\n"]
	require.Equal(t, 40, out+lines["  shadow   x, y"+in]+lines["  shadow   y, x"+in], "%v", lines)
	require.Positive(t, out)
	require.Less(t, out, 40)
	_, stdout, _ := execute(t, "config", "explain", "p:1", "--config", file)
	require.NotContains(t, stdout, "shadow")
}

func TestAKeyOfAPoolThatIsFollowedIsExplained(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcmw.yaml")
	require.NoError(t, os.WriteFile(file,
		[]byte("pools:\n  main: {servers: [a], follow: [{pool: eu, what: purges, hold: 5s}, {pool: us, what: all}]}\n"+
			"  eu: {servers: [e]}\n  us: {servers: [u, v]}\nroutes:\n  - {default: main}\n"), 0o600))
	code, stdout, stderr := execute(t, "config", "explain", "k", "--config", file)
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, "  follow   e of pool eu, later (purges, hold 5s)\n"+
		"  follow   u, v of pool us, later (all)\n")
}

func TestAKeyThatMigratesIsExplained(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcmw.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`writers: several
pools:
  old: {servers: [a]}
  new: {servers: [b]}
routes: [{default: old}]
migrations:
  - {from: new, to: old, start: 2999-01-01T10:00:00Z, end: 2999-01-01T12:00:00Z}
  - {from: old, to: new, start: 2020-01-01T10:00:00Z, end: 2020-01-01T12:00:00Z}
`), 0o600))
	code, stdout, stderr := execute(t, "config", "explain", "k", "--config", file)
	require.Equal(t, exitOK, code, stderr)
	require.True(t, strings.HasSuffix(stdout, "  migrates to b of pool new: phase done since 2020-01-01T12:00:00Z\n"+
		"  get      b of pool new, which is read in phase done\n"+
		"  migrates to a of pool old: phase waiting until 2999-01-01T10:00:00Z\n"), stdout)
}

func TestThePoolThatIsReadDuringAWarmUpIsExplained(t *testing.T) {
	at := func(steps int) string {
		return time.Now().Add(time.Duration(steps)*time.Hour + 30*time.Minute).UTC().Format(time.RFC3339)
	}
	for name, c := range map[string]struct{ times, line string }{
		"before": {"start: " + at(0), "  get      those of pool warm until "},
		"warm-up": {
			"start: " + at(-3),
			"  get      first b of pool cold, which is being warmed up; after a miss or failure those of pool warm\n" +
				"           those of pool warm decide writes, and answer gets, gat and mg with effects or c; those " +
				"of pool cold are written after them\n",
		},
		"copy": {"start: " + at(-9) + ", end: " + at(2), "  get      those of pool warm until "},
		"both": {
			"start: " + at(-9) + ", end: " + at(0),
			"  get      b of pool cold, which is read in phase both\n",
		},
		"done": {
			"start: " + at(-9) + ", end: " + at(-1),
			"  get      b of pool cold, which is read in phase done\n",
		},
		"given up": {
			"start: " + at(-9) + ", back: " + at(0),
			"  get      only those of pool warm: the warm-up of pool cold was given up\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "mcmw.yaml")
			require.NoError(t, os.WriteFile(file,
				[]byte("writers: several\nchange-step: 1h\npools:\n  warm: {servers: [a]}\n  cold: {servers: "+
					"[b]}\nroutes: [{default: warm}]\n"+
					"migrations: [{from: warm, to: cold, copy: missed, "+c.times+"}]\n"), 0o600))
			code, stdout, stderr := execute(t, "config", "explain", "k", "--config", file)
			require.Equal(t, exitOK, code, stderr)
			require.Contains(t, stdout, "\n  migrates to b of pool cold: phase ")
			require.Contains(t, stdout, "\n"+c.line)
		})
	}
}

func TestServersThatAreFilledAreExplained(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcmw.yaml")
	require.NoError(t, os.WriteFile(file,
		fmt.Appendf(nil,
			"writers: several\nchange-step: 1h\npools:\n  one: {servers: [a, b@z]}\nroutes: [{default: one}]\n"+
				"migrations: [{pool: one, zone: z, start: %s}]\n",
			time.Now().Add(-3*time.Hour).UTC().Format(time.RFC3339)),
		0o600))
	code, stdout, stderr := execute(t, "config", "explain", "k", "--config", file)
	require.Equal(t, exitOK, code, stderr)
	require.Regexp(t,
		`\n  fills    zone z of pool one: phase warm-up since \S+\n           the key's other servers decide writes and answer reads that miss there; those are written after them\n$`, stdout)
}
