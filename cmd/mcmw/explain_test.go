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

// A case is a configuration, if the arguments in the last line are not all, and what is explained.
func TestTheServersOfAKeyAreExplainedWithWhatChoosesThem(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcmw.yaml")
	for _, c := range mctest.Cases(t, "testdata/explained.txt") {
		text := strings.TrimSuffix(c.Text, "\n")
		at := strings.LastIndex(text, "\n") + 1
		args := append([]string{"config", "explain"}, strings.Fields(text[at:])...)
		if at > 0 {
			require.NoError(t, os.WriteFile(file, []byte(text[:at]), 0o600))
			args = append(args, "--config", file)
		}
		code, stdout, stderr := execute(t, args...)
		require.Equal(t, exitOK, code, stderr)
		require.Equal(t, c.Want, stdout, c.Text)
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

func TestConfigCheckNotesThatReadsGoElsewhere(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcmw.yaml")
	require.NoError(t, os.WriteFile(file, []byte("pools: {main: {servers: [a]}, copy: {servers: [x]}}\n"+
		"routes: [{prefix: \"s:\", pool: main, reads: copy}, {default: main}]\n"), 0o600))
	code, stdout, stderr := execute(t, "config", "check", "--config", file)
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
