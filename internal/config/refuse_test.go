package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/config"
)

// badValues are refused values of every option with a range, and the start of the message after the place of the value.
var badValues = []struct {
	option, value, message string
}{
	{
		"listen", "127.0.0.1:x",
		`"127.0.0.1:x" has the port "x"; a port is a number from 0 to 65535; accepted: host, host:port, [ipv6]:port or unix:/path`,
	},
	{"announce", "cache", `"cache" has no port; accepted: host:port or [ipv6]:port, or none`},
	{"announce", ":5", `":5" has no host; accepted: `},
	{"announce", "a:0", `"a:0" has the port "0"; a port is a number from 1 to 65535; accepted: `},
	{
		"listen", "127.0.0.1:65536",
		`"127.0.0.1:65536" has the port "65536"; a port is a number from 0 to 65535; accepted: `,
	},
	{"listen", "127.0.0.1:", `"127.0.0.1:" has no port after the colon; accepted: `},
	{
		"listen", "fe80::1:70000",
		`"fe80::1:70000" has more than one colon; an IPv6 address with a port is written [address]:port; accepted: `,
	},
	{"listen", "[::1", `"[::1" has more than one colon; `},
	{"listen", "[::1]11", `"[::1]11" has no :port after the bracket; `},
	{"listen", "[a:b:c]:1", `"[a:b:c]:1" has "a:b:c" in brackets, which is not an IPv6 address; `},
	{
		"listen", "a/b:1",
		`"a/b:1" has '/' in its host name; only letters, digits, '-', '_' and '.' are allowed; accepted: `,
	},
	{"listen", "unix:", `"unix:" has no path after its prefix; accepted: `},
	{"listen", "unix:/a b", `"unix:/a b" has ' ' in its path; space, comma and * are not allowed; accepted: `},
	{"listen", "unix:/" + strings.Repeat("x", 107), `"unix:/` + strings.Repeat("x", 107) +
		`" has a path of 108 bytes; a unix socket's path has at most 107; accepted: `},
	{"listen", "a,,b", `the value is empty; accepted: host, `},
	{"listen", "a,a", `"a" is given twice; accepted: host, `},
	{"listen", "11311", `"11311" is a number, and not a host; accepted: host, `},
	{"servers", "x=11211", `"x=11211" is a number, and not a host; accepted: `},
	{"listen-port", "-1", `"-1" is too small; accepted: 0 to 65535`},
	{"listen-port", "65536", `"65536" is too large; accepted: 0 to 65535`},
	{"listen-port", "http", `"http" is not a whole number; accepted: 0 to 65535`},
	{"unix-mask", "0", `"0" is too small; accepted: 0001 to 0777, in octal`},
	{"unix-mask", "1000", `"1000" is too large; accepted: 0001 to 0777, in octal`},
	{"unix-mask", "u+w", `"u+w" is not an octal number; accepted: 0001 to 0777, in octal`},
	{
		"servers", "a:0",
		`"a:0" has the port "0"; a port is a number from 1 to 65535; accepted: [name=]host[:port][*weight][@zone], `,
	},
	{"servers", "a*0", `"a*0" has the weight "0"; a weight is a number from 1 to 1000000; accepted: [name=]host`},
	{"servers", "a:1:x", `"a:1:x" has the weight "x"; a weight is a number from 1 to 1000000; accepted: `},
	{"servers", "=a", `"=a" has no name before the =; accepted: `},
	{"servers", "n=", `"n=" has no host; accepted: `},
	{"servers", ":11211", `":11211" has no host; accepted: `},
	{
		"servers", "n\x01=a",
		`"n\x01=a" has '\x01' in its name; printable ASCII without space, comma, = and * is allowed; accepted: `,
	},
	{"servers", "a b", `"a b" has a space in it, but is not twemproxy's "host:port:weight name"; accepted: `},
	{"servers", "unix:/a b", `"unix:/a b" has the weight "/a"; `},
	{"servers", "dns+", `"dns+" has no host; accepted: `},
	{"servers", "dns+:5", `"dns+:5" has no host; accepted: `},
	{"servers", "dns+.", `"dns+." has no host; accepted: `},
	{"servers", "dns+a:x", `"dns+a:x" has the port "x"; a port is a number from 1 to 65535; accepted: `},
	{"servers", "dns+a:0", `"dns+a:0" has the port "0"; a port is a number from 1 to 65535; accepted: `},
	{
		"servers", "dns+a..b",
		`"dns+a..b" has the label "" in the name to look up; a label has 1 to 63 bytes; accepted: `,
	},
	{"servers", "dns+" + strings.Repeat("a", 64), `"dns+` + strings.Repeat("a", 64) + `" has the label "` +
		strings.Repeat("a", 64) + `" in the name to look up; `},
	{"servers", "dns+" + strings.Repeat("a.", 128), `"dns+` + strings.Repeat("a.", 128) +
		`" has a name of 255 bytes to look up; a name has at most 253; accepted: `},
	{
		"servers", "dns4+10.0.0.1:5",
		`"dns4+10.0.0.1:5" has the address 10.0.0.1 where a name to look up is expected; accepted: `,
	},
	{"servers", "cluster+", `"cluster+" has no host; accepted: `},
	{"servers", "cluster+a*record", `"cluster+a*record" has the weight "record", which only srv+ accepts; accepted: `},
	{"servers", "dns+[::1]:5", `"dns+[::1]:5" has the address ::1 where a name to look up is expected; accepted: `},
	{"servers", "dns+unix:/x", `"dns+unix:/x" is a unix socket, which has no name to look up; accepted: `},
	{"servers", "dns+a/b", `"dns+a/b" has '/' in its host name; `},
	{"servers", "dns+a*record", `"dns+a*record" has the weight "record", which only srv+ accepts; accepted: `},
	{"servers", "a*record", `"a*record" has the weight "record", which only srv+ accepts; accepted: `},
	{"servers", "srv+_a._b.c:5", `"srv+_a._b.c:5" has a port; SRV records have their own; accepted: `},
	{"servers", "srv+a", `"srv+a" is not of the form srv+_service._proto.host; accepted: `},
	{"servers", "srv+_a.b.c", `"srv+_a.b.c" is not of the form srv+_service._proto.host; accepted: `},
	{"servers", "srv+_a._b.", `"srv+_a._b." is not of the form srv+_service._proto.host; accepted: `},
	{"servers", "srv+_a._b", `"srv+_a._b" is not of the form srv+_service._proto.host; accepted: `},
	{
		"servers", "k8s+_a._b.c.d",
		`"k8s+_a._b.c.d" is not of the form k8s+_port._proto.service.namespace.svc[.domain]; accepted: `,
	},
	{"servers", "k8s+a", `"k8s+a" is not of the form k8s+_port._proto.service.namespace.svc[.domain]; accepted: `},
	{
		"servers", "k8s+_a._tcp.b.c.svc*record",
		`"k8s+_a._tcp.b.c.svc*record" has the weight "record", which only srv+ accepts; accepted: `,
	},
	{"servers", "srv+_a._b.c/d", `"srv+_a._b.c/d" has '/' in its host name; `},
	{"servers", "srv+_a._b.c*0", `"srv+_a._b.c*0" has the weight "0"; `},
	{
		"servers", "a@",
		`"a@" has the zone ""; a zone is 1 to 63 letters and digits, with -, _ and . between; accepted: `,
	},
	{"servers", "a@-b", `"a@-b" has the zone "-b"; `},
	{"servers", "a@b*2", `"a@b*2" has the zone "b*2"; `},
	{"servers", "a:1:2@b", `"a:1:2@b" has the weight "2@b"; `},
	{"resolve-interval", "99ms", `"99ms" is too short; accepted: 100ms to 1h, with a unit: us, ms, s, m, h`},
	{"remove-after", "0", `"0" is too small; accepted: 1 to 1000000 lookups`},
	{"resolver", "10.0.0.10", `"10.0.0.10" is not an IP address with a port; accepted: ip:port, or system`},
	{"resolver", "dns:53", `"dns:53" is not an IP address with a port; accepted: ip:port, or system`},
	{
		"resolver", "10.0.0.10:0",
		`"10.0.0.10:0" has the port "0"; a port is a number from 1 to 65535; accepted: ip:port, or system`,
	},
	{"watch-interval", "-1s", `"-1s" is too short; accepted: 0s to 1h`},
	{"replicas", "0", `"0" is too small; accepted: all, or 1 to 500`},
	{"replicas", "501", `"501" is too large; accepted: all, or 1 to 500`},
	{"replicas", "some", `"some" is not a whole number; accepted: all, or 1 to 500`},
	{"read", "random", `"random" is unknown; accepted: default, round-robin, primary, least-busy, nearest`},
	{"zone", "eu/1a", `"eu/1a" is not a zone; accepted: 1 to 63 letters and digits, with -, _ and . between, or none`},
	{"read", "roundrobbin", `"roundrobbin" is unknown; did you mean round-robin?; accepted: `},
	{"holds", "maybe", `"maybe" is neither true nor false; accepted: true, false, yes, no, on, off, 1, 0`},
	{"sharded", "maybe", `"maybe" is neither true nor false; accepted: true, false, yes, no, on, off, 1, 0`},
	{"ring", "modula", `"modula" is unknown; accepted: rendezvous, twemproxy, libmemcached, libmemcached-weighted`},
	{"hash", "sha1", `"sha1" is unknown; accepted: default, fnv1a_64, `},
	{"hash-tag", "abc", `"abc" has 3 bytes; accepted: two characters such as {}, or none`},
	{"workers", "-1", `"-1" is too small; accepted: 0 to 1024; 0 or auto: chosen at start`},
	{"workers", "1025", `"1025" is too large; accepted: 0 to 1024; `},
	{"workers", "99999999999999999999", `"99999999999999999999" is out of range; accepted: 0 to 1024; `},
	{"workers", "4.5", `"4.5" is not a whole number; accepted: `},
	{"depth", "0", `"0" is too small; accepted: 1 to 4096 requests`},
	{"depth", "4097", `"4097" is too large; accepted: 1 to 4096 requests`},
	{"queue", "0", `"0" is too small; accepted: 1 to 1048576 batches`},
	{"queue", "1048577", `"1048577" is too large; accepted: 1 to 1048576 batches`},
	{"queue-full", "drop", `"drop" is unknown; accepted: block, shed`},
	{"get-error", "hit", `"hit" is unknown; accepted: error, miss`},
	{"ready", "some", `"some" is unknown; accepted: keys, all, any`},
	{"change-step", "-1s", `"-1s" is too short; accepted: 0s to 1h`},
	{"failure-limit", "0", `"0" is too small; accepted: 1 to 1000`},
	{"rejoin", "maybe", `"maybe" is unknown; accepted: invalidate, flush, trust`},
	{"sweep-every", "1d", `"1d" is not a duration; accepted: 0s to 24h, with a unit: us, ms, s, m, h`},
	{"sweep-rate", "0", `"0" is too small; accepted: 1 to 10000000`},
	{"refill-rate", "-1", `"-1" is too small; accepted: 0 to 10000000`},
	{"missed-memory", "1", `"1" is too small; accepted: 1k to 16g bytes`},
	{"max-connections", "0", `"0" is too small; accepted: unlimited, or 1 to 1048576`},
	{"idle-timeout", "-1s", `"-1s" is too short; accepted: 0s to 24h`},
	{"max-connection-age", "25h", `"25h" is too long; accepted: 0s to 24h`},
	{"min-rate", "0", `"0" is too small; accepted: 1 to 1g`},
	{"max-output", "1", `"1" is too small; accepted: 1k to 16g bytes`},
	{"write-timeout", "0s", `"0s" is too short; accepted: 1ms to 1h`},
	{"client-memory", "1k", `"1k" is too small; accepted: 1m to 1024g bytes`},
	{"ack", "most", `"most" is unknown; accepted: all, live, quorum, any`},
	{"writers", "many", `"many" is unknown; accepted: auto, one, several`},
	{"pool", "none", `"none" is unknown; accepted: shared, per-server`},
	{"timeout", "1", `"1" has no unit; accepted: 1ms to 1h, with a unit: us, ms, s, m, h`},
	{"timeout", "soon", `"soon" is not a duration; accepted: 1ms to 1h`},
	{"timeout", "999us", `"999us" is too short; accepted: 1ms to 1h`},
	{"timeout", "-1s", `"-1s" is too short; accepted: 1ms to 1h`},
	{"stall-after", "-1ms", `"-1ms" is too short; accepted: 0s to 1h`},
	{"connect-timeout", "61m", `"61m" is too long; accepted: 1ms to 1h`},
	{"drain-timeout", "0s", `"0s" is too short; accepted: 1ms to 1h`},
	{"max-key", "0", `"0" is too small; accepted: 1 to 250 bytes; k, m and g multiply by 1024`},
	{"max-key", "251", `"251" is too large; accepted: 1 to 250 bytes`},
	{"max-value", "1023", `"1023" is too small; accepted: 1k to 1g bytes`},
	{"max-value", "1025m", `"1025m" is too large; accepted: 1k to 1g bytes`},
	{"max-value", "9223372036854775807g", `"9223372036854775807g" is too large; accepted: `},
	{"max-value", "99999999999999999999g", `"99999999999999999999g" is out of range; accepted: `},
	{"max-value", "-1m", `"-1m" is too small; accepted: `},
	{"max-value", "k", `"k" is not a size; accepted: `},
	{"max-value", "1mb", `"1mb" is not a size; accepted: `},
	{"large-values", "2g", `"2g" is too large; accepted: 0 to 1g bytes`},
	{"item-size", "15k", `"15k" is too small; accepted: 16k to 1g bytes`},
	{"max-line", "511", `"511" is too small; accepted: 512 to 1m bytes`},
	{"max-line", "2m", `"2m" is too large; accepted: 512 to 1m bytes`},
	{"max-multiget-line", "1k", `"1k" is too small; accepted: 2k to 1g bytes`},
	{"max-multiget-line", "2g", `"2g" is too large; accepted: 2k to 1g bytes`},
	{"listen", "notls:unix:/x", `"notls:unix:/x" is a unix socket, which never has TLS; accepted: host, `},
	{"listen", "notls:", `"notls:" is empty; accepted: host, `},
	{"listen", "notls:a", `"notls:a" needs tls-cert: without a certificate no address has TLS`},
	{"tls-cert", "nowhere", `"nowhere" needs tls-key, which is missing`},
	{"tls-key", "nowhere", `"nowhere" needs tls-cert, which is missing`},
	{"tls-client-ca", "nowhere", `"nowhere" needs tls-cert, which is missing`},
	{"handshake-timeout", "0s", `"0s" is too short; accepted: 1ms to 1h`},
	{"auth-file", "nowhere", `"nowhere": no such file or directory`},
	{"server-tls", "maybe", `"maybe" is neither true nor false; `},
	{"server-tls-ca", "nowhere", `"nowhere" has no meaning without server-tls`},
	{"server-tls-cert", "nowhere", `"nowhere" has no meaning without server-tls`},
	{"server-tls-key", "nowhere", `"nowhere" has no meaning without server-tls`},
	{"server-tls-name", "a b", `"a b" has ' ' in its host name; `},
	{"server-tls-name", "a", `"a" has no meaning without server-tls`},
	{"server-auth-file", "nowhere", `"nowhere": no such file or directory`},
	{"admin", "127.0.0.1", `"127.0.0.1" has no port; accepted: host:port, or off`},
	{
		"admin", "unix:/x",
		`"unix:/x" is a unix socket; the admin server speaks HTTP over TCP only; accepted: host:port, or off`,
	},
	{
		"admin", "127.0.0.1:http",
		`"127.0.0.1:http" has the port "http"; a port is a number from 0 to 65535; accepted: host:port, or off`,
	},
	{"stats-window", "99ms", `"99ms" is too short; accepted: 100ms to 1h`},
	{"sample", "10", `"10" is not of the form 1/N; accepted: 1/1 to 1/1000000000, or off`},
	{"sample", "1/x", `"1/x" is not of the form 1/N; `},
	{"sample", "1/0", `"1/0" is out of range; `},
	{"sample", "1/99999999999999999999", `"1/99999999999999999999" is out of range; `},
	{"slow", "-1ms", `"-1ms" is too short; accepted: 0s to 1h`},
	{"hot-keys", "maybe", `"maybe" is unknown; accepted: detect, off, serve`},
	{"hot-age", "2s", `"2s" is too long; accepted: 1ms to 1s`},
	{"prefixes", "a long delimiter.", `"a long delimiter." has 17 bytes; accepted: 1 to 16 characters, or none`},
	{"hot-memory", "1k", `"1k" is too small; accepted: 1m to 1024g bytes`},
	{"log-keys", "maybe", `"maybe" is neither true nor false; `},
	{"log-level", "loud", `"loud" is unknown; accepted: debug, info, warn, error`},
	{"log-format", "xml", `"xml" is unknown; accepted: auto, text, json`},
	{"procs", "1025", `"1025" is too large; accepted: 0 to 1024; 0 or auto: chosen at start`},
}

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
	for _, bad := range badValues {
		t.Run(bad.option+"="+bad.value, func(t *testing.T) {
			o := config.Find(bad.option)
			require.NotNil(t, o)
			good := []string{"-m", "good"}
			if bad.option == "servers" {
				good = nil
			}
			short := "--" + o.Name
			if o.Short != "" {
				short = "-" + o.Short + ", " + short
			}
			for place, s := range map[string]sources{
				"flag " + short:  {args: append([]string{"--" + bad.option + "=" + bad.value}, good...)},
				"env " + o.Env(): {args: good, env: []string{o.Env() + "=" + bad.value}},
				"mcmw.yaml:2: " + o.Name: {args: good, yaml: "# the second line is bad\n" + o.Name + ": " +
					yamlQuote(bad.value)},
			} {
				lines := refused(t, s)
				require.Len(t, lines, 1)
				require.Regexp(t, "^"+literal(place+": "+bad.message), lines[0])
			}
		})
		tested[bad.option] = true
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
	for _, bad := range []struct {
		args    []string
		message string
	}{
		{
			nil,
			"servers: none given; accepted: at least one of [name=]host[:port][*weight][@zone], " +
				"[name=]unix:/path[*weight], " +
				"twemproxy's host:port:weight [name], or names to look up: [name=]dns+host[:port][*weight][@zone] " +
				"(also dns4+ and dns6+), " +
				"[name=]srv+_service._proto.host[*weight|*record][@zone], " +
				"[name=]k8s+_port._proto.service.namespace.svc[.domain][*weight][@zone], " +
				"or a configuration endpoint: [name=]cluster+host[:port][*weight][@zone], by -m, --servers, " +
				"MCMW_SERVERS or the file",
		},
		{
			[]string{"a"},
			`flag arguments: "a" is unexpected; accepted: more servers, after -m or --servers and the first server`,
		},
		{
			[]string{"-m", "a", "--ack", "quorum"},
			`flag --ack: "quorum" needs two replicas or more, and a key has one; accepted: all, or more servers and replicas`,
		},
		{
			[]string{"-m", "a", "-m", "b", "--replicas", "1", "--ack", "quorum"},
			`flag --ack: "quorum" needs two replicas or more`,
		},
		{
			[]string{"-m", "a", "--replicas", "2"},
			`flag --replicas: "2" is more than there are servers (1); accepted: all, or 1 to 1`,
		},
		{
			[]string{"-m", "a", "b=a:11211"},
			`flag -m, --servers: "a" and "b" both have the address a:11211; accepted: distinct addresses`,
		},
		{
			[]string{"-m", "x=a", "x=b"},
			`flag -m, --servers: servers 1 and 2 are both named "x"; accepted: distinct names`,
		},
		{
			[]string{"-m", "a*2", "b", "--ring", "libmemcached"},
			`flag -m, --servers: server "a" has weight 2, but ring libmemcached has no weights`,
		},
		{
			[]string{"-m", "a", "--hash", "md5"},
			`flag --hash: "md5" needs a ketama ring, and ring is "rendezvous"; accepted: default, or one of the rings twemproxy, libmemcached`,
		},
		{
			[]string{"-m", "[0:0::1]:11211", "b=::1"},
			`flag -m, --servers: "[0:0::1]:11211" and "b" both have the address [::1]:11211; accepted: distinct addresses`,
		},
		{
			[]string{"-m", "::ffff:10.0.0.1", "10.0.0.1"},
			`flag -m, --servers: "::ffff:10.0.0.1" and "10.0.0.1" both have the address 10.0.0.1:11211; accepted: `,
		},
		{
			[]string{"-m", "Cache", "cache"},
			`flag -m, --servers: "Cache" and "cache" both have the address cache:11211; accepted: distinct addresses`,
		},
		{[]string{"-m", "a:011211", "a"}, `flag -m, --servers: "a:011211" has the port "011211"; a port is a number from 1`},
		{[]string{"-m", "a", "-l", "[0::1]:11311,::1"}, `flag -l, --listen: "[::1]:11311" is given twice`},
		{[]string{"-m", "dns+a,dns+a*2"}, `flag -m, --servers: "dns+a:11211" is given twice`},
		{
			[]string{"-m", "a", "dns+b", "a*2"},
			`flag -m, --servers: "a" and "a" both have the address a:11211; accepted: distinct addresses`,
		},
		{
			[]string{"-m", "dns+a", "--replicas", "1", "--ack", "quorum"},
			`flag --ack: "quorum" needs two replicas or more`,
		},
		{
			[]string{"-m", "127.0.0.1:11311"},
			`flag -m, --servers: "127.0.0.1:11311" is an address mcmw itself listens on`,
		},
		{[]string{"-m", "a", "-l", "127.0.0.1,127.0.0.1:11311"}, `flag -l, --listen: "127.0.0.1:11311" is given twice`},
		{
			[]string{"-m", "a", "-l", "127.0.0.1", "-p", "9150"},
			`admin: "127.0.0.1:9150" is already an address for clients; accepted: another address, or off`,
		},
		{
			[]string{"-m", "a", "--max-line", "32k", "--max-multiget-line", "16k"},
			`flag --max-multiget-line: "16k" is too small; accepted: at least max-line, 32k`,
		},
	} {
		lines := refused(t, sources{args: bad.args})
		require.Regexp(t, "^"+literal(bad.message), lines[0])
	}
}

func TestFreePortsDoNotCollide(t *testing.T) {
	c := sources{args: []string{"-m", "a", "-l", "127.0.0.1:0,127.0.0.1", "-p", "0", "--admin", "127.0.0.1:0"}}.load(t)
	require.Equal(t, []string{"127.0.0.1:0", "127.0.0.1:0"}, c.ListenAddrs())
}
