package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/config"
	"mcmw/internal/mctest"
)

// refused returns the problems of s, one per element, as the operator reads them.
func refused(t *testing.T, s sources) []string {
	t.Helper()
	_, err := config.Load(s.parsed(t))
	var problems config.Problems
	require.ErrorAs(t, err, &problems)
	var lines []string
	for _, p := range problems {
		lines = append(lines, p.String())
	}
	return lines
}

// requireRefused fails unless the only problem of a file with this text begins with message.
func requireRefused(t *testing.T, text, message string) {
	t.Helper()
	lines := refused(t, sources{yaml: text})
	require.Len(t, lines, 1, "%s\n%q", text, lines)
	require.Regexp(t, "^"+literal(message), lines[0], text)
}

func TestABadValueIsRefusedInEverySourceWithItsPlaceAndWhatIsAccepted(t *testing.T) {
	tested := make(map[string]bool)
	path, name := "unix:/"+strings.Repeat("x", 107), strings.Repeat("a.", 128)
	for _, c := range append(mctest.Cases(t, "testdata/values.txt"),
		mctest.Case{Text: "servers=n\x01=a", Want: `"n\x01=a" has '\x01' in its name; printable ASCII without space`},
		mctest.Case{Text: "listen=" + path, Want: `"` + path + `" has a path of 108 bytes; a unix socket's path has at most 107`},
		mctest.Case{Text: "servers=dns+" + name, Want: `"dns+` + name + `" has a name of 255 bytes to look up; a name has at most 253`}) {
		option, value, _ := strings.Cut(strings.TrimSuffix(c.Text, "\n"), "=")
		t.Run(c.Text, func(t *testing.T) {
			o := config.Find(option)
			require.NotNil(t, o)
			good := []string{"-m", "good"}
			if option == "servers" {
				good = nil
			}
			short := "--" + o.Name
			if o.Short != "" {
				short = "-" + o.Short + ", " + short
			}
			for place, s := range map[string]sources{
				"flag " + short:  {args: append([]string{"--" + option + "=" + value}, good...)},
				"env " + o.Env(): {args: good, env: []string{o.Env() + "=" + value}},
				"mcmw.yaml:2: " + o.Name: {args: good, yaml: "# the second line is bad\n" + o.Name + ": " +
					yamlQuote(value)},
			} {
				lines := refused(t, s)
				require.Len(t, lines, 1)
				require.Regexp(t, "^"+literal(place+": "+c.Want), lines[0])
			}
		})
		tested[option] = true
	}
	for _, o := range config.Options {
		require.True(t, tested[o.Name] || o.TakesFile() || o.InFileOnly(), "no bad value is tested for %s", o.Name)
	}
}

func TestABadValueIsRefusedEvenIfItIsOverridden(t *testing.T) {
	lines := refused(t, sources{
		args: []string{"-m", "a", "--depth", "1", "--queue", "0", "--queue", "1"},
		env:  []string{"MCMW_DEPTH=0"},
		yaml: "depth: none\n",
	})
	require.Equal(t, []string{
		`mcmw.yaml:1: depth: "none" is not a whole number; accepted: 1 to 4096 requests`,
		`env MCMW_DEPTH: "0" is too small; accepted: 1 to 4096 requests`,
		`flag --queue: "0" is too small; accepted: 1 to 1048576 batches`,
	}, lines)
}

func TestTheFileIsStrict(t *testing.T) {
	for text, message := range map[string]string{
		"depth: 1\nwrokers: 2\n":         `mcmw.yaml:2: unknown key "wrokers"; did you mean "workers"?`,
		"maxValue: 1m\n":                 `mcmw.yaml:1: unknown key "maxValue"; did you mean "max-value"?`,
		"max_value: 1m\n":                `mcmw.yaml:1: unknown key "max_value"; did you mean "max-value"?`,
		"port: 1\n":                      `mcmw.yaml:1: unknown key "port"; did you mean "listen-port"?`,
		"colour: red\n":                  "mcmw.yaml:1: unknown key \"colour\"; `mcmw config print` lists all",
		"config: x\n":                    `mcmw.yaml:1: the key "config" is not accepted in the file itself`,
		"depth: 1\nqueue: 1\ndepth: 2\n": `mcmw.yaml:3: depth: given twice; first on line 1`,
		"depth:\n":                       `mcmw.yaml:1: depth: no value; accepted: 1 to 4096 requests`,
		"depth: \"\"\n":                  `mcmw.yaml:1: depth: the value is empty; accepted: 1 to 4096 requests`,
		"depth: ~\n":                     `mcmw.yaml:1: depth: no value; accepted: 1 to 4096 requests`,
		"depth: [1]\n":                   `mcmw.yaml:1: depth: a list where one value belongs; accepted: 1 to 4096 requests`,
		"hash-tag: {}\n":                 `mcmw.yaml:1: hash-tag: a mapping where a value belongs (text with braces needs quotes); accepted: two characters such as {}, or none`,
		"listen: [a, [b]]\n":             `mcmw.yaml:1: listen: element 2 of the list is not a text; accepted: host, host:port, [ipv6]:port or unix:/path`,
		"listen: []\n":                   `mcmw.yaml:1: listen: an empty list; accepted: at least one of host, host:port, [ipv6]:port or unix:/path`,
		"listen:\n  - a\n  - b:x\n":      `mcmw.yaml:3: listen: "b:x" has the port "x"; a port is a number from 0 to 65535; accepted: host, host:port, [ipv6]:port or unix:/path`,
		"- depth: 1\n":                   `mcmw.yaml:1: not a mapping; accepted: lines of the form "option: value"`,
		"depth: 1\n---\ndepth: 2\n":      `mcmw.yaml:2: a second YAML document; accepted: one`,
		"depth: 1\n queue: 2\n":          `mcmw.yaml:2: not YAML: mapping values are not allowed in this context`,
		"depth: [1\n":                    `mcmw.yaml:1: not YAML: did not find expected ',' or ']'`,
		"? [a]\n: 1\n":                   "mcmw.yaml:1: unknown key \"\"; `mcmw config print` lists all",
		"depth: 1\n<<: {queue: 2}\n":     "mcmw.yaml:2: unknown key \"<<\"; `mcmw config print` lists all",
		"depth: 1\n---\n{\n":             `mcmw.yaml:3: not YAML: did not find expected node content`,
		"depth: &d {a: *d}\n":            `mcmw.yaml:1: depth: a mapping where a value belongs (text with braces needs quotes); accepted: 1 to 4096 requests`,
	} {
		require.Equal(t, []string{message}, refused(t, sources{args: []string{"-m", "a"}, yaml: text}), text)
	}
}

func TestAnEmptyFileSetsNothing(t *testing.T) {
	for _, text := range []string{" ", "\n", "# only a comment\n", "---\n", "{}\n", "---\n...\n"} {
		require.Equal(t, "default", sources{args: []string{"-m", "a"}, yaml: text}.load(t).Origin("depth").String(),
			text)
	}
}

func TestAMissingFileIsNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	require.Equal(t, []string{"flag --config: cannot read the file: open nowhere.yaml: no such file or directory"},
		refused(t, sources{args: []string{"-m", "a", "--config", "nowhere.yaml"}}))
	require.Equal(t, []string{"flag --config: cannot read the file: open nowhere.yaml: no such file or directory"},
		refused(t, sources{args: []string{"--config", "nowhere.yaml"}}), "the servers may be in it")
	require.Equal(t, []string{"env MCMW_CONFIG: cannot read the file: open nowhere.yaml: no such file or directory"},
		refused(t, sources{args: []string{"-m", "a"}, env: []string{"MCMW_CONFIG=nowhere.yaml"}}))
}

func TestOptionsThatContradictEachOtherAreRefused(t *testing.T) {
	for _, c := range mctest.Cases(t, "testdata/arguments.txt") {
		require.Regexp(t, "^"+literal(c.Want), refused(t, sources{args: strings.Fields(c.Text)})[0], c.Text)
	}
}

func TestAFileThatCannotBeUsedIsRefusedWithItsLine(t *testing.T) {
	for _, c := range mctest.Cases(t, "testdata/refused.txt") {
		requireRefused(t, c.Text, c.Want)
	}
}

func TestFreePortsDoNotCollide(t *testing.T) {
	c := sources{args: []string{"-m", "a", "-l", "127.0.0.1:0,127.0.0.1", "-p", "0", "--admin", "127.0.0.1:0"}}.load(t)
	require.Equal(t, []string{"127.0.0.1:0", "127.0.0.1:0"}, c.ListenAddrs())
}
