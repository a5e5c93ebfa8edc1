package importer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

func TestARouteOfMcrouterBecomesAFileWithTheReasonOfEachValue(t *testing.T) {
	requireImported(t, "m.json", mcrouterFile, Options{},
		head+`# No option is needed for region (line 6): mcmw shows servers by their addresses.
# No route leads to pool other.
servers: # pool main
  - 10.0.0.1:11211
  - 10.0.0.2:11211
  - '[::1]:11211'
timeout: 500ms # pool main
connect-timeout: 100ms # pool main
replicas: 1 # PoolRoute, line 10: a key is on one server
ring: rendezvous # mcmw has none of mcrouter's hashes, so keys move and the cache starts cold
`)
	const (
		others   = "# No route leads to pool B.\n# No route leads to pool C.\n"
		serversA = "servers: # pool A\n  - a1:11211\n  - a2:11211\n"
		sharded  = head + others + serversA + "replicas: 1 # PoolRoute, line 5: a key is on one server\n" +
			"ring: rendezvous # mcmw has none of mcrouter's hashes, so keys move and the cache starts cold\n"
		live = "; with live, mcmw's default, writes succeed while a server is down, which nobody reads then\n"
		sync = head + others + serversA +
			"replicas: all # AllSyncRoute, line 5: each server holds every key\nack: all # AllSyncRoute" + live
	)
	for route, want := range map[string]string{
		`"PoolRoute|A"`: sharded,
		`{"type": "PoolRoute", "pool": "A", "hash": {"hash_func": "Ch3", "salt": "x"}}`:                sharded,
		`{"type": "HashRoute", "children": "Pool|A", "hash_func": "Ch3"}`:                              sharded,
		`{"type": "PrefixSelectorRoute", "policies": {}, "wildcard": "PoolRoute|A"}`:                   sharded,
		`{"type": "OperationSelectorRoute", "default_policy": "PoolRoute|A"}`:                          sharded,
		`{"type": "PrefixSelectorRoute", "policies": {"a": "PoolRoute|A"}, "wildcard": "PoolRoute|A"}`: sharded,
		`{"type": "PrefixSelectorRoute", "policies": {"a": "PoolRoute|B", "ab": "AllSyncRoute|Pool|A", "b": "PoolRoute|B"}, "wildcard": {"type": "PrefixPolicyRoute", "default_policy": "AllFastestRoute|Pool|C", "operation_policies": {"get": "RandomRoute|Pool|C"}}}`: head + `pools:
  B:
    servers:
      - b:11211
    replicas: 1 # PoolRoute, line 5: a key is on one server
    ring: rendezvous # mcmw has none of mcrouter's hashes, so keys move and the cache starts cold
  A:
    servers:
      - a1:11211
      - a2:11211
    replicas: all # AllSyncRoute, line 5: each server holds every key
    ack: all # AllSyncRoute` + live +
			`    read: round-robin # AllSyncRoute, line 5, asks all servers; mcmw keeps replicas equal and asks one
  C:
    servers:
      - c:11211
    replicas: all # AllFastestRoute, line 5: each server holds every key
    ack: any # AllFastestRoute` + live + `    read: round-robin # RandomRoute, line 5; reads skip a server that fails
routes: # PrefixSelectorRoute
  - prefix: a
    pool: B
  - prefix: ab
    pool: A
  - prefix: b
    pool: B
  - default: C
`,
		`"AllSyncRoute|Pool|A"`: sync +
			"read: round-robin # AllSyncRoute, line 5, asks all servers; mcmw keeps replicas equal and asks one\n",
		`{"type": "OperationSelectorRoute", "operation_policies": {"get": "LatestRoute|Pool|A", "gets": "LatestRoute|Pool|A", "set": "AllSyncRoute|Pool|A", "delete": "AllSyncRoute|Pool|A"}}`: sync +
			"read: round-robin # LatestRoute, line 5; reads skip a server that fails\n",
		`{"type": "PrefixPolicyRoute", "default_policy": "AllSyncRoute|Pool|A", "operation_policies": {"get": "PoolRoute|A"}}`: sync +
			"read: primary # PoolRoute, line 5\n",
		`{"type": "OperationSelectorRoute", "default_policy": "AllSyncRoute|Pool|A", "operation_policies": {"get": {"type": "LoadBalancerRoute", "children": ["Pool|A"]}}}`: sync +
			"read: least-busy # LoadBalancerRoute, line 5; reads skip a server that fails\n",
		`{"type": "AllFastestRoute", "children": ["PoolRoute|B", {"type": "PoolRoute", "pool": "C"}]}`: head +
			"# No route leads to pool A.\n" +
			"servers: # pool B, C\n  - b:11211\n  - c:11211\nreplicas: all # AllFastestRoute, line 5: each server " +
			"holds every key\nack: any # AllFastestRoute" + live +
			"read: round-robin # AllFastestRoute, line 5, asks all servers; mcmw keeps replicas equal and asks one\n",
	} {
		requireImported(t, "m.json", withRoute(route), Options{}, want)
	}
	requireImported(t, "m.json", `{"pools": {"A": {"servers": ["a:1", "b:1", "c:1"]}, "B": {"servers": ["d:1"]}},
"route": {"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A", "failover": ["PoolRoute|B"], "failover_exptime": 30}}`, Options{}, head+`pools:
  A:
    servers:
      - a:1
      - b:1
      - c:1
    replicas: 1 # PoolRoute, line 2: a key is on one server
    ring: rendezvous # mcmw has none of mcrouter's hashes, so keys move and the cache starts cold
    gutter: B # FailoverWithExptimeRoute; mcmw uses it once all instances know that the servers are down; when they are back, each write deletes its key there
    gutter-ttl: 30s # failover_exptime
  B:
    servers:
      - d:1
    replicas: 1 # PoolRoute, line 2: a key is on one server
    ring: rendezvous # mcmw has none of mcrouter's hashes, so keys move and the cache starts cold
routes:
  - default: A
`)
	requireImported(t, "m.json",
		`{"pools": {"A": {"servers": ["a:1:ascii:ssl", "unix:/s"], "security_mech": "ssl"}}, "route": "AllMajorityRoute|Pool|A"}`, Options{}, head+`servers: # pool A
  - a:1
  - unix:/s
server-tls: true # ssl; mcrouter's flags --pem-* name the certificates: set server-tls-ca, server-tls-cert, server-tls-key
replicas: all # AllMajorityRoute, line 1: each server holds every key
ack: quorum # AllMajorityRoute; with live, mcmw's default, writes succeed while a server is down, which nobody reads then
read: round-robin # AllMajorityRoute, line 1, asks all servers; mcmw keeps replicas equal and asks one
`)
}

func TestPoolsOfMcrouterKeepTheirOwnTimeoutsAndTLS(t *testing.T) {
	requireImported(t, "m.json", `{"pools": {
"A": {"servers": ["a:1"], "server_timeout": 500, "connect_timeout": 100},
"B": {"servers": ["b:1"], "server_timeout": 200, "connect_timeout": 100, "security_mech": "ssl"}},
"route": {"type": "PrefixSelectorRoute", "policies": {"b": "PoolRoute|B"}, "wildcard": "PoolRoute|A"}}`, Options{},
		head+`connect-timeout: 100ms # pool B, A
pools:
  B:
    servers:
      - b:1
    replicas: 1 # PoolRoute, line 4: a key is on one server
    ring: rendezvous # mcmw has none of mcrouter's hashes, so keys move and the cache starts cold
    timeout: 200ms # pool B
    server-tls: true # ssl; mcrouter's flags --pem-* name the certificates: set server-tls-ca, server-tls-cert, server-tls-key
  A:
    servers:
      - a:1
    replicas: 1 # PoolRoute, line 4: a key is on one server
    ring: rendezvous # mcmw has none of mcrouter's hashes, so keys move and the cache starts cold
    timeout: 500ms # pool A
routes: # PrefixSelectorRoute
  - prefix: b
    pool: B
  - default: A
`)
	requireRefused(t, "m.json", `{"pools": {
"A": {"servers": ["a:1"], "server_timeout": 500},
"B": {"servers": ["b:1"], "server_timeout": 200}},
"route": {"type": "AllSyncRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}}`, Options{},
		"m.json:3: timeout: 200ms here and 500ms before; accepted: the same for all servers of a pool")
}

func TestWhatMcrouterDoesAndMcmwDoesNotIsRefusedWithItsLine(t *testing.T) {
	operations := func(policies string) string {
		return `{"type": "OperationSelectorRoute", "operation_policies": {` + policies + "}}"
	}
	for route, message := range map[string]string{
		`"FailoverRoute|Pool|A"`: "m.json:5: FailoverRoute: mcmw has no failover to another pool",
		`{"type": "FailoverRoute", "failover_errors": [], "children": [{"type": "PoolRoute"}]}`:                                                                               "m.json:5: FailoverRoute: ",
		`{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A"}`:                                                                                                       `m.json:5: FailoverWithExptimeRoute: accepted: one route as "normal" and one as "failover"`,
		`{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A", "failover": ["PoolRoute|B", "PoolRoute|C"]}`:                                                           `m.json:5: FailoverWithExptimeRoute: accepted: one route as "normal"`,
		`{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A", "failover": "PoolRoute|B", "failover_errors": ["x"]}`:                                                  `m.json:5: failover_errors: mcmw has no equivalent; remove it`,
		`{"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A", "failover": "PoolRoute|A"}`:                                                                            `m.json:5: pool "A" is used by two routes that differ`,
		`{"type": "FailoverWithExptimeRoute", "normal": {"type": "FailoverWithExptimeRoute", "normal": "PoolRoute|A", "failover": "PoolRoute|B"}, "failover": "PoolRoute|C"}`: `m.json:5: FailoverWithExptimeRoute with a route that uses several pools; accepted: routes that use one pool each`,
		operations(`"set": {"type": "FailoverWithExptimeRoute"}, "get": "PoolRoute|A"`):                                                                                       "m.json:5: FailoverWithExptimeRoute below a choice by the command",
		`"PollRoute|A"`: `m.json:5: "PollRoute" is not a route that mcmw knows; accepted: PoolRoute`,
		`"PoolRoute"`:   "m.json:5: PoolRoute: has no pool",
		`{"type": "AllSyncRoute", "children": []}`: "m.json:5: AllSyncRoute: has no pool",
		`"PoolRoute|D"`:   `m.json:5: PoolRoute: no pool is called "D"`,
		`7`:               `m.json:5: "7" is not a route that mcmw knows`,
		`["PoolRoute|A"]`: `m.json:5: not a route; accepted: "Name|argument", or an object with a type`,
		`{"pool": "A"}`:   "m.json:5: not a route",
		`{"type": "PoolRoute", "pool": {"name": "A"}}`: `m.json:5: PoolRoute: not the name of a pool`,
		`{"type": "PoolRoute", "pool": "A", "shadows": []}`: "m.json:5: shadows: mcmw chooses the " +
			"requests to copy by their keys; set shadows; remove it, or ignore it with --leave-out shadows",
		`{"type": "PoolRoute", "pool": "A", "rates": {}}`:      "m.json:5: rates: mcmw has queue-full shed; remove it",
		`{"type": "PoolRoute", "pool": "A", "asynclog": true}`: "m.json:5: asynclog: mcmw has no equivalent; remove it",
		`{"type": "PoolRoute", "pool": "A", "hash": {"x": 1}}`: "m.json:5: x: mcmw has no equivalent; remove it",
		`{"type": "PoolRoute", "pool": "A", "hash": {"weights": [1,2]}}`: "m.json:5: weights: in mcmw servers " +
			"have weights, as in host:port*2",
		`"LatestRoute|Pool|A"`: "m.json:5: LatestRoute: a write goes " +
			"to one server, but reads go to others; accepted: only for get",
		`{"type": "AllSyncRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}`: `m.json:5: AllSyncRoute: stores a copy in each pool, but pool "A" has 2 servers; accepted: pools of one server`,
		`"AllSyncRoute|A"`: `m.json:5: AllSyncRoute of A: accepted: "Pool|name"`,
		`{"type": "PrefixSelectorRoute", "policies": {"a": "PoolRoute|A"}, "wildcard": "AllSyncRoute|Pool|A"}`:                                      `m.json:5: pool "A" is used by two routes that differ`,
		`{"type": "PrefixSelectorRoute", "policies": {"": "PoolRoute|B"}, "wildcard": "PoolRoute|A"}`:                                               "m.json:5: PrefixSelectorRoute: an empty prefix; accepted: \"wildcard\"",
		`{"type": "PrefixSelectorRoute", "policies": {"a": {"type": "PrefixSelectorRoute", "wildcard": "PoolRoute|B"}}, "wildcard": "PoolRoute|A"}`: "m.json:5: PrefixSelectorRoute below another route; accepted: only as the first route",
		`{"type": "PrefixSelectorRoute", "policies": {"a": "WarmUpRoute"}, "wildcard": "PoolRoute|A"}`:                                              `m.json:5: WarmUpRoute: accepted: one route as "warm" and one as "cold"`,
		`{"type": "PrefixSelectorRoute", "policies": {}}`:                                                                                           "m.json:5: PrefixSelectorRoute: no \"wildcard\", so other keys have no servers",
		operations(`"get": "PoolRoute|A"`): "m.json:5: OperationSelectorRoute: no route for set; accepted: a route " +
			"for it, or a default_policy",
		operations("\"set\": \"PoolRoute|A\",\n\"add\": \"PoolRoute|B\""): "m.json:6: " +
			"add: has PoolRoute of B, but line 5 has PoolRoute of A",
		operations("\"set\": \"PoolRoute|A\", \"get\": \"PoolRoute|B\",\n\"gets\": \"PoolRoute|B\""): "m.json:6: " +
			"gets: goes to pool B, but it returns the cas or changes the item, so mcmw sends it to the pool of " +
			"set, A; accepted: the route of set",
		operations(`"set": "PoolRoute|A", "get": "PoolRoute|B", "gat": "PoolRoute|B"`): "m.json:5: gat: goes to " +
			"pool B, but it returns the cas or changes the item",
		operations("\"set\": \"PoolRoute|A\", \"get\": \"PoolRoute|B\",\n\"delete\": \"PoolRoute|C\""): "m.json:6: " +
			"delete: has PoolRoute of C, but line 5 has PoolRoute of A; accepted: one route for all commands that " +
			"write, and one for all that read",
		operations("\"set\": \"PoolRoute|A\", \"get\": \"PoolRoute|B\",\n\"metaget\": \"PoolRoute|A\""): "m.json:6: " +
			"metaget: has PoolRoute of A, but line 5 has PoolRoute of B",
		operations(`"set": "RandomRoute|Pool|A", "get": "PoolRoute|B"`):                                                 "m.json:5: RandomRoute: writes to only one of the servers; accepted: AllFastestRoute, AllMajorityRoute, AllSyncRoute, PoolRoute",
		operations(`"set": {"type": "AllSyncRoute", "children": ["PoolRoute|B", "PoolRoute|C"]}, "get": "PoolRoute|B"`): `m.json:5: pool "B" is used by two routes that differ`,
		operations(`"set": "WarmUpRoute", "get": "PoolRoute|A"`):                                                        "m.json:5: WarmUpRoute below a choice by the command",
		"{\"type\": \"OperationSelectorRoute\",\n\"default_policy\": \"PoolRoute|A\", \"operation_policies\": " +
			"{\"set\": \"PoolRoute|B\", \"delete\": \"PoolRoute|B\"}}": "m.json:6: default_policy: has PoolRoute " +
			"for add, replace, append, prepend, cas, incr, decr, touch, gets, gat, gats of A, but line 6 has " +
			"PoolRoute of B for writes; accepted: the same route for all but get",
		`{"type": "MigrateRoute", "from": "PoolRoute|A", "to": "PoolRoute|B"}`:                                                                                                                               "m.json:5: MigrateRoute: accepted: a start_time, in seconds since 1970, and an interval above 0",
		`{"type": "MigrateRoute", "from": "PoolRoute|A", "start_time": 7}`:                                                                                                                                   `m.json:5: MigrateRoute: accepted: one route as "from" and one as "to"`,
		`{"type": "MigrateRoute", "from": "PoolRoute|A", "to": "PoolRoute|B", "start_time": 1800000000, "interval": 0}`:                                                                                      "m.json:5: MigrateRoute: accepted: a start_time",
		`{"type": "MigrateRoute", "from": "PoolRoute|A", "to": "PoolRoute|B", "start_time": 1800000000, "interval": 20}`:                                                                                     "accepted: an end at least 1m15s after the start",
		`{"type": "MigrateRoute", "from": "PoolRoute|A", "to": "PoolRoute|B", "start_time": "now"}`:                                                                                                          `m.json:5: start_time: "now" is not a whole number`,
		`{"type": "MigrateRoute", "from": "PoolRoute|A", "to": "PoolRoute|A", "start_time": 1800000000}`:                                                                                                     `m.json:5: pool "A" is used by two routes that differ`,
		`{"type": "MigrateRoute", "from": {"type": "OperationSelectorRoute", "default_policy": "PoolRoute|A", "operation_policies": {"get": "PoolRoute|C"}}, "to": "PoolRoute|B", "start_time": 1800000000}`: "m.json:5: MigrateRoute with a route that uses several pools; accepted: routes that use one pool each",
		`{"type": "WarmUpRoute", "cold": "PoolRoute|A", "warm": "PoolRoute|B", "exptime": 10}`:                                                                                                               "m.json:5: exptime: mcmw copies the time that an item has left; instead of a small cache in front of another it has hot-keys serve; remove it, or ignore it with --leave-out exptime",
		`{"type": "WarmUpRoute", "cold": "PoolRoute|A", "warm": "PoolRoute|B", "ncache_exptime": 10}`:                                                                                                        "m.json:5: ncache_exptime: mcmw has no equivalent",
		operations(`"set": "RandomRoute|Pool|A", "get": "PoolRoute|A"`):                                                                                                                                      "m.json:5: RandomRoute: writes to only one of the servers that are read",
		operations(`"set": "PoolRoute|A", "get": "AllSyncRoute|Pool|A"`):                                                                                                                                     "m.json:5: AllSyncRoute: reads servers that set does not write to",
		operations(`"set": "AllSyncRoute|Pool|A", "get": "AllFastestRoute|Pool|A"`):                                                                                                                          "m.json:5: AllFastestRoute: accepted for get: ",
		`{"type": "OperationSelectorRoute", "default_policy": "AllFastestRoute|Pool|A", "operation_policies": {"set": "AllSyncRoute|Pool|A", "get": "PoolRoute|A"}}`:                                         "m.json:5: default_policy: neither the route of set nor that of get",
	} {
		requireRefused(t, "m.json", withRoute(route), Options{}, message)
	}
	for content, message := range map[string]string{
		"{":                                    "m.json: line 1: not JSON: the text ends too early",
		"{}":                                   `m.json:1: no key "route"`,
		"/* {}":                                "m.json: line 1: not JSON: ",
		"// nothing":                           "m.json: line 1: not JSON: the text ends too early",
		"{\n\"a\": 1,, }":                      "m.json: line 2: not JSON: ",
		"{} {}":                                "m.json: line 1: text after the object; accepted: one object",
		`{"route": "PoolRoute|A", "pools": 3}`: "m.json:1: not a mapping",
		`{"route": "PoolRoute|A", "pools": {"A": ["a:1", "b", "c"]}}`: "m.json:1: not a mapping",
		`{"route": "PoolRoute|A", "route": "x"}`:                      `m.json:1: "route" is given twice`,
		"{\"pools\": {},\n\"routes\": []}": "m.json:2: " +
			"routes: empty; accepted: routes for /region/cluster/",
		"{\"pools\": {},\n\"routes\": {}}": "m.json:2: " +
			"routes: empty",
		"{\"pools\": {},\n\"routes\": [{\"route\": \"x\"}]}":     `m.json:2: routes: accepted: entries with "aliases" and a "route"`,
		"{\"pools\": {},\n\"routes\": {\"a\": \"PoolRoute|A\"}}": `m.json:2: routes: "a"; accepted: names such as /region/cluster/`,
		`{"macros": {}, "route": "PoolRoute|A"}`: "m.json:1: macros: mcmw has " +
			"no equivalent; remove it, or ignore it with --leave-out macros",
		`{"pools": {"A": {}}, "route": "PoolRoute|A"}`: `m.json:1: pool "A" has no servers`,
		`{"pools": {"A": {"servers": []}}, "route": "PoolRoute|A"}`: "m.json:1: servers: accepted: " +
			"a list of texts",
		`{"pools": {"A": {"servers": ["a:1:caret"]}}, "route": "PoolRoute|A"}`:      `m.json:1: servers: "caret" in "a:1:caret"; accepted: ascii`,
		`{"pools": {"A": {"servers": ["a:1:ascii:fizz"]}}, "route": "PoolRoute|A"}`: `servers: "fizz" in "a:1:ascii:fizz"; accepted: plain, ssl`,
		`{"pools": {"A": {"servers": ["[::1"]}}, "route": "PoolRoute|A"}`:           `m.json:1: servers: "[::1"; accepted: [ipv6]:port`,
		"{\"pools\": {\"A\": {\"servers\": [\"a:1\",\n\"b:1:ascii:ssl\"]}}, \"route\": \"PoolRoute|A\"}": "m.json:2: " +
			"server-tls: ssl here and plain before; accepted: the same for all servers",
		`{"pools": {"A": {"servers": ["a:1"], "protocol": "caret"}}, "route": "PoolRoute|A"}`:     `m.json:1: protocol: "caret"; accepted: ascii`,
		`{"pools": {"A": {"servers": ["a:1"], "security_mech": "fizz"}}, "route": "PoolRoute|A"}`: `security_mech: "fizz"; accepted: plain, ssl`,
		`{"pools": {"A": {"servers": ["a:1"], "server_timeout": "1s"}}, "route": "PoolRoute|A"}`:  `server_timeout: "1s" is not a whole number`,
		`{"pools": {"A": {"servers": ["a:1"], "inherit": "B"}}, "route": "PoolRoute|A"}`:          "m.json:1: inherit: mcmw has no equivalent",
		`{"pools": {"A": {"servers": ["a:1"], "weights": [1]}}, "route": "PoolRoute|A"}`:          "m.json:1: weights: in mcmw servers have weights",
		`{"pools": {"A": {"servers": ["a"]}}, "route": "PoolRoute|A"}`:                            "has no port",
	} {
		requireRefused(t, "m.json", content, Options{}, message)
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

const (
	shardedA = "    servers:\n      - a:1\n    replicas: 1 # PoolRoute, line 2: a key is on one server\n    ring: " +
		"rendezvous # mcmw has none of mcrouter's hashes, so keys move and the cache starts cold\n"
	shardedB = "    servers:\n      - b:1\n      - c:1\n    replicas: 1 # PoolRoute, line 2: a key is on one " +
		"server\n    ring: rendezvous # mcmw has none of mcrouter's hashes, so keys move and the cache starts cold\n"
)

func TestAChoiceByTheCommandBetweenTwoPoolsOfMcrouterBecomesTheReadsOfARoute(t *testing.T) {
	for _, route := range []string{
		`{"type": "OperationSelectorRoute", "default_policy": "PoolRoute|A", "operation_policies": {"get": "LatestRoute|Pool|B"}}`,
		`{"type": "OperationSelectorRoute", "operation_policies": {"get": "LatestRoute|Pool|B", "metaget": "LatestRoute|Pool|B", "set": "PoolRoute|A", "delete": "PoolRoute|A", "gets": "PoolRoute|A"}}`,
		`{"type": "OperationSelectorRoute", "default_policy": "LatestRoute|Pool|B", "operation_policies": {"set": "PoolRoute|A", "add": "PoolRoute|A", "replace": "PoolRoute|A", "append": "PoolRoute|A",
"prepend": "PoolRoute|A", "cas": "PoolRoute|A", "incr": "PoolRoute|A", "decr": "PoolRoute|A", "touch": "PoolRoute|A", "delete": "PoolRoute|A", "gets": "PoolRoute|A", "gat": "PoolRoute|A", "gats": "PoolRoute|A"}}`,
	} {
		requireImported(t, "m.json", region(`"route": `+route), Options{}, head+"pools:\n  A:\n"+shardedA+`  B:
    servers:
      - b:1
      - c:1
    replicas: all # LatestRoute, line 2: each server holds every key
    read: round-robin # LatestRoute, line 2; reads skip a server that fails
routes:
  - default: A
    reads: B
`)
	}
	requireImported(t, "m.json",
		region(`"route": {"type": "PrefixSelectorRoute", "policies": {"a": {"type": "OperationSelectorRoute", "default_policy": "PoolRoute|A", "operation_policies": {"get": "PoolRoute|B"}}}, "wildcard": "PoolRoute|B"}`),
		Options{},
		head+"pools:\n  A:\n"+shardedA+"  B:\n"+shardedB+"routes: # PrefixSelectorRoute\n  - prefix: a\n    pool: "+
			"A\n    reads: B\n  - default: B\n")
}

func TestARouteOfMcrouterThatMovesKeysBecomesAMigration(t *testing.T) {
	pools := head + "pools:\n  A:\n" + shardedA +
		"    writers: several # needed for migrations; needs memcached 1.6.27\n  B:\n" + shardedB +
		"    writers: several # needed for migrations; needs memcached 1.6.27\n" +
		"routes:\n  - default: A\nmigrations: # each mcmw instance needs this file before start; mcmw copies values " +
		"and writes to both pools; no other client may write to them\n  - from: A\n    to: B\n"
	requireImported(t, "m.json",
		region(`"route": {"type": "MigrateRoute", "from": "PoolRoute|A", "to": "PoolRoute|B", "start_time": 1800000000, "interval": 1800}`), Options{},
		pools+"    start: \"2027-01-15T08:00:00Z\"\n    end: \"2027-01-15T09:00:00Z\"\n")
	requireImported(t, "m.json",
		region(`"route": {"type": "MigrateRoute", "from": "PoolRoute|A", "to": "PoolRoute|B", "start_time": 1800000000}`), Options{},
		pools+"    start: \"2027-01-15T08:00:00Z\"\n    end: \"2027-01-15T10:00:00Z\"\n")
	now := Options{Now: time.Unix(1800000000, 5)}
	requireImported(t, "m.json",
		region(`"route": {"type": "WarmUpRoute", "warm": "PoolRoute|A", "cold": "PoolRoute|B"}`), now,
		pools+"    start: \"2027-01-15T08:00:00Z\"\n    copy: missed\n")
	requireImported(t, "m.json",
		region(`"route": {"type": "WarmUpRoute", "warm": "PoolRoute|A", "cold": "PoolRoute|B", "enable_metaget": true}`), now,
		strings.Replace(pools, head,
			head+"# No option is needed for enable_metaget (line 2): mcmw copies the time that an item has left.\n",
			1)+"    start: \"2027-01-15T08:00:00Z\"\n    copy: missed\n")
}

func TestRoutesOfMcrouterByRegionAndClusterAreOneIfTheyAreAlike(t *testing.T) {
	result := "servers: # pool A\n  - a:1\nreplicas: 1 # PoolRoute, line 2: a key is on one server\nring: rendezvous " +
		"# mcmw has none of mcrouter's hashes, so keys move and the cache starts cold\n"
	for routes, names := range map[string]string{
		`"routes": {"/r/a/": "PoolRoute|A"}`:                                                                              "/r/a/",
		`"routes": {"/r/a/": "PoolRoute|A", "/r/b/": {"type": "PoolRoute", "pool": "A"}}`:                                 "/r/a/, /r/b/",
		`"routes": [{"aliases": ["/r/a/", "/r/b/"], "route": "PoolRoute|A"}]`:                                             "/r/a/, /r/b/",
		`"routes": [{"aliases": ["/r/a/"], "route": "PoolRoute|A"}, {"aliases": ["/r/b/"], "route": "HashRoute|Pool|A"}]`: "/r/a/, /r/b/",
		`"route": {"/r/a/": "PoolRoute|A"}`:                                                                               "/r/a/",
	} {
		requireImported(t, "m.json", region(routes), Options{},
			head+"# mcmw does not remove "+names+" from keys (line 2): clients must send keys without it.\n# No "+
				"route leads to pool B.\n"+result)
	}
	requireRefused(t, "m.json", region(`"routes": {"/r/a/": "PoolRoute|A",`+"\n"+`"/r/b/": "PoolRoute|B"}`), Options{},
		`m.json:3: /r/b/: not the same route as on line 2, and mcmw does not remove /region/cluster/ from keys; accepted: the same route for all, or a file with one "route" and an mcmw for the clients of each`)
	requireRefused(t, "m.json", region(`"routes": {"/r/a/": "PoolRoute|A"}, "route": "PoolRoute|B"`), Options{},
		"m.json:2: route: not the same route as on line 2")
	requireRefused(t, "m.json", region(`"routes": {"/r/a/": "NullRoute"}`), Options{},
		"m.json:2: NullRoute: mcmw drops no requests")
	requireRefused(t, "m.json", region(`"routes": [{"aliases": ["/r/a/"], "route": "PoolRoute|A", "x": 1}]`), Options{},
		"m.json:2: x: mcmw has no equivalent")
}

// twoRegions is the head of a configuration with pools A, of two servers, and B, up to the route.
const twoRegions = `{"pools": {"A": {"servers": ["a1:11211", "a2:11211"]}, "B": {"servers": ["b1:11211"]}},` + "\n"

// followedBy is what becomes of it if B follows A.
const followedBy = `pools:
  A:
    servers:
      - a1:11211
      - a2:11211
    replicas: 1 # PoolRoute, line 2: a key is on one server
    ring: rendezvous # mcmw has none of mcrouter's hashes, so keys move and the cache starts cold
    follow: # the requests are delivered later, and again if they fail
      - pool: B
        what: %s
  B:
    servers:
      - b1:11211
    replicas: 1 # PoolRoute, line 2: a key is on one server
    ring: rendezvous # mcmw has none of mcrouter's hashes, so keys move and the cache starts cold
routes:
  - default: A
`

func TestMcroutersRoutesThatNobodyWaitsForBecomePoolsThatFollow(t *testing.T) {
	initial := `{"type": "AllInitialRoute", "children": ["PoolRoute|A", {"type": "AllAsyncRoute", "children": ["PoolRoute|B"]}]}`
	for route, what := range map[string]string{
		initial: "all",
		`{"type": "AllInitialRoute", "children": ["PoolRoute|A", "PoolRoute|B"]}`:                                                "all",
		`{"type": "OperationSelectorRoute", "default_policy": "PoolRoute|A", "operation_policies": {"delete": ` + initial + `}}`: "purges",
		`{"type": "OperationSelectorRoute", "default_policy": "PoolRoute|A", "operation_policies": {"set": ` + initial + `}}`:    "all",
	} {
		requireImported(t, "m.json", twoRegions+`"route": `+route+"}", Options{}, head+fmt.Sprintf(followedBy, what))
	}
	requireRefused(t, "m.json", twoRegions+`"route": {"type": "AllInitialRoute", "children": ["PoolRoute|A"]}}`, Options{},
		`m.json:2: AllInitialRoute: accepted: two routes or more as "children"`)
	requireRefused(t, "m.json", twoRegions+`"route": {"type": "AllInitialRoute", "children": ["PoolRoute|A", "NullRoute"]}}`,
		Options{}, `m.json:2: AllInitialRoute of NullRoute; accepted: PoolRoute with pools of their own`)
}

func TestTheRegionsOfOneClusterFollowTheFirst(t *testing.T) {
	requireImported(t, "m.json", twoRegions+`"routes": {"/r/c/": "PoolRoute|A", "/s/c/": "PoolRoute|B"}}`, Options{},
		head+`# mcmw does not remove /r/c/, /s/c/ from keys (line 2): clients must send keys without it.
# The region of this mcmw is that of /r/c/, the first (mcrouter's flag --route-prefix). Deletes go to all regions, not only those for /*/.
`+fmt.Sprintf(followedBy, "purges"))
}
