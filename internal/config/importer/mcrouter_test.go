package importer

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

const mcrouterFile = `{
  // mcrouter accepts comments, and commas after the last element.
  "pools": {
    "main": {
      "servers": [ "10.0.0.1:11211", "10.0.0.2:11211:ascii:plain", /* v6 */ "[::1]:11211", ],
      "server_timeout": 500, "connect_timeout": 100, "region": "//no comment"
    },
    "other": { "servers": ["b:11211"] },
  },
  "route": "PoolRoute|main"
}`

// withRoute returns a configuration with two pools and the route at line 5.
func withRoute(route string) string {
	return `{ "pools": {
  "A": { "servers": ["a1:11211", "a2:11211"] },
  "B": { "servers": ["b:11211"] },
  "C": { "servers": ["c:11211"] } },
"route": ` + route + "}"
}

// head begins every file.
const head = "# m.json (mcrouter), by mcmw config import.\n# mcrouter's port is a flag; in mcmw set listen-port, and " +
	"listen for the address.\n"

func TestAByteOrderMarkDoesNotHideThatAFileIsOfMcrouter(t *testing.T) {
	for _, mark := range []string{"", "\ufeff"} {
		result, err := Import("m.json", []byte(mark+withRoute(`"PoolRoute|A"`)), Options{})
		require.NoError(t, err)
		require.Contains(t, string(result), "servers: # pool A")
	}
}

func TestAFileOfMcrouterBecomesAFileWithTheReasonOfEachValue(t *testing.T) {
	for _, c := range mctest.Cases(t, "testdata/mcrouter.txt") {
		requireImported(t, "m.json", c.Text, Options{Now: time.Unix(1800000000, 5)}, head+c.Want)
	}
}

func TestWhatMcrouterDoesAndMcmwDoesNotIsRefusedWithItsLine(t *testing.T) {
	for _, c := range mctest.Cases(t, "testdata/mcrouter-refused.txt") {
		requireRefused(t, "m.json", c.Text, Options{}, c.Want)
	}
	requireRefused(t, "m.json", mcrouterFile, Options{Pool: "main"}, "--pool is for files of twemproxy")
}

// A route that is refused where it stands is refused as a whole: what is in it is not named, for it would be translated
// elsewhere.
func TestEachMistakeInAFileOfMcrouterIsReportedOnce(t *testing.T) {
	for content, messages := range map[string]string{
		withRoute(`{"type": "OperationSelectorRoute", "default_policy": "PoolRoute|A", "operation_policies": {"get":
{"type": "WarmUpRoute", "cold": "PoolRoute|A",
"warm": "PoolRoute|B", "enable_metaget": true}}}`): "m.json:6: WarmUpRoute below a choice by the command; accepted: " +
			"as the first route, or directly below a PrefixSelectorRoute",
		region(`"routes": {"/r/a/": "PoolRoute|D", "/s/a/": "PoolRoute|B"}`): `m.json:2: PoolRoute: no pool is called "D"`,
	} {
		_, err := Import("m.json", []byte(content), Options{})
		require.EqualError(t, err, messages)
	}
	result, err := Import("m.json", []byte(region(`"routes": {"/r/a/": {"type": "PoolRoute", "pool": "A", "shadows": []},
"/s/b/": "PoolRoute|A"}`)), Options{LeaveOut: []string{"shadows"}})
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(result), "Left out: shadows"))
}

func TestEveryRouteThatIsNotTranslatedSaysWhy(t *testing.T) {
	for name, why := range notTranslated {
		requireRefused(t, "m.json", withRoute(`"`+name+`|Pool|A"`), Options{}, "m.json:5: "+name+": "+why)
		requireRefused(t, "m.json", withRoute(`{"type": "`+strings.TrimSpace(name)+`", "anything": 1}`), Options{},
			"m.json:5: "+name+": "+why)
	}
}

// region returns a configuration with two pools and routes at line 2.
func region(routes string) string {
	return `{"pools": {"A": {"servers": ["a:1"]}, "B": {"servers": ["b:1", "c:1"]}},` + "\n" + routes + "}"
}
