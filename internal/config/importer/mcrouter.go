package importer

import (
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/replica"
	"mcmw/internal/route"
	"mcmw/internal/userinput"
)

// mcrouter's routes for servers that all hold every key, which are replicas in mcmw.
var (
	// writesToAll has mcmw's ack for each route that writes.
	writesToAll = map[string]replica.Ack{
		"AllSyncRoute": replica.AckAll, "AllMajorityRoute": replica.AckQuorum, "AllFastestRoute": replica.AckAny,
	}
	// readsOfAny has mcmw's read for each route that reads.
	readsOfAny = map[string]route.ReadPolicy{
		"LatestRoute": route.ReadRoundRobin, "RandomRoute": route.ReadRoundRobin, "HostIdRoute": route.ReadRoundRobin,
		"LoadBalancerRoute": route.ReadLeastBusy,
	}
)

// The routes that send a key to one of a pool's servers.
const (
	poolRoute = "PoolRoute"
	hashRoute = "HashRoute"
)

// initialRoute answers with its first route, and does not wait for the others, which may be in an asyncRoute.
const (
	initialRoute = "AllInitialRoute"
	asyncRoute   = "AllAsyncRoute"
)

const prefixRoute = "PrefixSelectorRoute"

// failoverRoute uses another pool while servers fail. failoverTime is the default lifetime of a value there, seconds.
const (
	failoverRoute = "FailoverWithExptimeRoute"
	failoverTime  = 60
)

// The routes that move keys to another pool. migrateTime is migrateRoute's default interval, half of the time it takes,
// seconds.
const (
	migrateRoute = "MigrateRoute"
	migrateTime  = 3600
	warmUpRoute  = "WarmUpRoute"
)

// notTranslated has mcrouter's routes that mcmw has no equivalent for, with the reasons.
var notTranslated = map[string]string{
	asyncRoute: "it answers before a server has; accepted: in an " + initialRoute + ", after the first route",
	"BigValueRoute": "it comes from mcrouter's flag big-value-split-threshold, which is not in the file; " +
		"set large-values and item-size",
	"BlackholeRoute": "mcmw drops no requests",
	"DevNullRoute":   "mcmw drops no requests",
	"ErrorRoute":     "mcmw refuses no keys",
	"FailoverRoute": "mcmw has no failover to another pool without an expiry; replicas are read in turn " +
		"until one answers",
	"HashStopAllowListRoute":  "mcmw hashes the whole key, or its hash-tag",
	"KeySplitRoute":           "for keys that are requested often mcmw has hot-keys serve and replicas",
	"L1L2CacheRoute":          "mcmw fills no pool from another",
	"L1L2SizeSplitRoute":      "mcmw places a value by its key, not its size",
	"LatencyInjectionRoute":   "mcmw does not delay requests on purpose",
	"LoggingRoute":            "mcmw has sample, slow and request-log",
	"MissFailoverRoute":       "mcmw asks one replica, and a miss is an answer",
	"ModifyExptimeRoute":      "mcmw does not change what the client sent",
	"ModifyKeyRoute":          "mcmw does not change what the client sent",
	"NullRoute":               "mcmw drops no requests",
	"OriginalClientHashRoute": "mcmw places a value by its key alone",
	"RateLimitRoute":          "mcmw has queue-full shed",
	"SaltedFailoverRoute": "mcmw has no failover to another pool without an expiry; replicas are read in turn " +
		"until one answers",
	"ShadowRoute": "mcmw chooses the requests to copy by their keys; set shadows",
}

// alike has the keys of mcrouter's routes and pools that mcmw has something like, with what that is.
var alike = map[string]string{
	"rates":        notTranslated["RateLimitRoute"],
	"shadows":      notTranslated["ShadowRoute"],
	"shard_splits": notTranslated["KeySplitRoute"],
	"weights":      "in mcmw servers have weights, as in host:port*2",
}

// usage is a route that sends requests to one pool, or to several pools of one server each.
type usage struct {
	at     *yaml.Node
	handle string   // a key of writesToAll or readsOfAny, or poolRoute
	pools  []string // one, or several pools of one server each
	// follows are the routes that get the same requests, and that nobody waits for.
	follows []usage
}

func (u usage) sharded() bool { return u.handle == poolRoute }

func (u usage) same(o usage) bool { return u.handle == o.handle && slices.Equal(u.pools, o.pools) }

// way is how keys are written and read.
type way struct {
	writes, reads usage
	// gutter is used while the servers are down, and its values live at most so many seconds; nil: there is none.
	gutter  *way
	seconds int
	// to is where the keys move between start and end, or, if missed, where keys that reads miss are copied from start
	// on; nil: nowhere.
	to         *way
	start, end time.Time
	missed     bool
	// from is where reads go; nil: to the pool of the writes.
	from *way
	// follows are the pools that follow; deletes: only the keys are deleted there.
	follows []usage
	deletes bool
}

// plain reports whether w uses one pool alone.
func (w way) plain() bool { return w.gutter == nil && w.to == nil && w.from == nil && w.follows == nil }

// followed returns w with the pools that follow it.
func (w way) followed(deletes bool, uses ...usage) way {
	w.deletes = deletes
	for _, use := range uses {
		for _, f := range use.follows {
			if !slices.ContainsFunc(w.follows, f.same) {
				w.follows = append(w.follows, f)
			}
		}
	}
	return w
}

// others returns the ways of the other pools that w uses, nil for those it does not.
func (w way) others() []*way { return []*way{w.gutter, w.to, w.from} }

func (w way) same(o way) bool {
	for i, mine := range w.others() {
		if other := o.others()[i]; (mine == nil) != (other == nil) || mine != nil && !mine.same(*other) {
			return false
		}
	}
	return slices.EqualFunc(w.follows, o.follows, usage.same) && w.deletes == o.deletes &&
		w.writes.same(o.writes) && w.reads.same(o.reads) && w.seconds == o.seconds && w.missed == o.missed &&
		w.start.Equal(o.start) && w.end.Equal(o.end)
}

// ofPool returns w for the pool of its writes, without another pool for reads.
func (w way) ofPool() way {
	w.from = nil
	return w
}

// pool returns the name of the pool in mcmw.
func (u usage) pool() string { return strings.Join(u.pools, "-") }

// pool returns the name of the pool of the writes.
func (w way) pool() string { return w.writes.pool() }

// choice is the way of the keys that begin with prefix; "": of all other keys.
type choice struct {
	prefix string
	way
}

// mcrouter is a configuration of mcrouter that is being translated.
type mcrouter struct {
	*draft
	now   time.Time
	pools map[string]*yaml.Node
	link  map[string]string // how mcmw connects to the servers of the current pool: option -> value
}

func importMcrouter(d *draft, root *yaml.Node, now time.Time) {
	m := &mcrouter{draft: d, now: now, pools: make(map[string]*yaml.Node)}
	d.note("%s (mcrouter), by mcmw config import.", d.file)
	d.note("mcrouter's port is a flag; in mcmw set listen-port, and listen for the address.")
	var trees []field
	for _, f := range d.fields(root) {
		switch f.key.Value {
		case "pools":
			for _, pool := range d.fields(f.value) {
				m.pools[pool.key.Value] = pool.value
			}
		case "route":
			if len(f.value.Content) > 0 && strings.HasPrefix(f.value.Content[0].Value, "/") {
				trees = append(trees, m.prefixed(f)...)
			} else {
				trees = append(trees, f)
			}
		case "routes":
			trees = append(trees, m.prefixed(f)...)
		default:
			d.refuseOther(f.key)
		}
	}
	if len(trees) == 0 && len(d.problems) == 0 {
		d.refuse(root, "no key \"route\"; accepted: a configuration of mcrouter")
	}
	choices := make([][]choice, len(trees))
	for i, f := range trees {
		var ok bool
		if choices[i], ok = m.tree(f.value); !ok {
			return
		}
	}
	if len(d.problems) == 0 && m.regions(trees, choices) {
		return
	}
	for i, f := range trees {
		if !slices.EqualFunc(choices[0], choices[i],
			func(a, b choice) bool { return a.prefix == b.prefix && a.same(b.way) }) {
			d.refuse(f.key,
				"%s: not the same route as on line %d, and mcmw does not remove /region/cluster/ from keys; "+
					"accepted: the same route for all, or a file with one \"route\" and an mcmw for the clients of "+
					"each",
				f.key.Value, trees[0].key.Line)
			return
		}
	}
	if len(d.problems) == 0 {
		m.emit(choices[0])
	}
}

// regions emits the pool of the first tree, followed by those of the others, if the trees are the regions of one
// cluster, as in MediaWiki's configuration: each has a pool of its own, and purges go to all. choices are those of the
// trees.
func (m *mcrouter) regions(trees []field, choices [][]choice) bool {
	var pools []usage
	for i, f := range trees {
		c, use := choices[i][0], choices[i][0].writes
		cluster := func(f field) string { return strings.Join(strings.Split(f.key.Value, "/")[2:], "/") }
		if len(choices[i]) > 1 || !c.plain() || !use.sharded() || !use.same(c.reads) || len(trees) < 2 ||
			strings.Count(f.key.Value, "/") != 3 || cluster(f) != cluster(trees[0]) ||
			slices.ContainsFunc(pools, use.same) {
			return false
		}
		pools = append(pools, use)
	}
	own := pools[0]
	own.follows = pools[1:]
	m.note("The region of this mcmw is that of %s, the first (mcrouter's flag --route-prefix). Deletes go to all "+
		"regions, not only those for /*/.", trees[0].key.Value)
	m.emit([]choice{{"", way{writes: own, reads: own}.followed(true, own)}})
	return true
}

// prefixed returns the routes that are chosen by /region/cluster/, each with that name.
func (m *mcrouter) prefixed(routes field) (trees []field) {
	if routes.value.Kind != yaml.SequenceNode {
		trees = m.fields(routes.value)
	} else {
		for _, n := range routes.value.Content {
			given := m.known(m.fields(userinput.Resolve(n)), "aliases", "route")
			names, route := given["aliases"], given["route"]
			if names.key == nil || route.key == nil {
				m.refuse(n, "routes: accepted: entries with \"aliases\" and a \"route\"")
				return nil
			}
			for i := range m.texts(names.key, names.value) {
				trees = append(trees, field{names.value.Content[i], route.value})
			}
		}
	}
	var names []string
	for _, f := range trees {
		names = append(names, f.key.Value)
		if !strings.HasPrefix(f.key.Value, "/") || !strings.HasSuffix(f.key.Value, "/") {
			m.refuse(f.key, "%s: %q; accepted: names such as /region/cluster/", routes.key.Value, f.key.Value)
			return nil
		}
	}
	if len(trees) == 0 {
		m.refuse(routes.key, "routes: empty; accepted: routes for /region/cluster/")
	}
	m.note("mcmw does not remove %s from keys (line %d): clients must send keys without it.", strings.Join(names, ", "),
		routes.key.Line)
	return trees
}

// part splits a route, "Name|argument" or an object with a type, into its name and its arguments.
func (m *mcrouter) part(n *yaml.Node) (name string, arguments []field, short *yaml.Node, ok bool) {
	switch n.Kind {
	case yaml.ScalarNode:
		name, argument, given := strings.Cut(n.Value, "|")
		if given {
			short = &yaml.Node{Kind: yaml.ScalarNode, Value: argument, Line: n.Line}
		}
		return name, nil, short, true
	case yaml.MappingNode:
		for _, f := range m.fields(n) {
			if f.key.Value == "type" {
				name = f.value.Value
			} else {
				arguments = append(arguments, f)
			}
		}
		if name != "" {
			return name, arguments, nil, true
		}
	}
	return "", nil, nil, m.refuse(n, "not a route; accepted: \"Name|argument\", or an object with a type")
}

// tree returns the choices of the route at n; the last one has no prefix.
func (m *mcrouter) tree(n *yaml.Node) (choices []choice, ok bool) {
	name, arguments, _, ok := m.part(n)
	switch {
	case !ok:
		return nil, false
	case name == prefixRoute:
		return m.prefixes(n, arguments)
	}
	w, ok := m.way(n)
	return []choice{{"", w}}, ok
}

// way returns the way of the route at n, which must not choose by a prefix.
func (m *mcrouter) way(n *yaml.Node) (w way, ok bool) {
	name, arguments, _, ok := m.part(n)
	switch {
	case !ok:
		return way{}, false
	case name == prefixRoute:
		return way{}, m.refuse(n, "%s below another route; accepted: only as the first route", name)
	case slices.Contains(operationRoutes, name):
		return m.operations(n, name, arguments)
	case name == failoverRoute:
		return m.failover(n, arguments)
	case name == migrateRoute, name == warmUpRoute:
		return m.moving(n, name, arguments)
	}
	use, ok := m.leaf(n)
	if _, readsOnly := readsOfAny[use.handle]; ok && readsOnly {
		return way{}, m.refuse(n,
			"%s: a write goes to one server, but reads go to others; accepted: only for get, with %s for set",
			use.handle, anyOf(writesToAll))
	}
	return way{writes: use, reads: use}.followed(false, use), ok
}

// pair returns the ways of two routes that are arguments of the route name at n. Each must use one pool alone.
func (m *mcrouter) pair(n *yaml.Node, name string, first, second *yaml.Node) (a, b way, ok bool) {
	a, okA := m.way(first)
	b, okB := m.way(second)
	if okA && okB && !(a.plain() && b.plain()) {
		return way{}, way{}, m.refuse(n,
			"%s with a route that uses several pools; accepted: routes that use one pool each", name)
	}
	return a, b, okA && okB
}

// failover translates a route that uses another route while its servers fail. The pool of that route becomes the
// gutter.
func (m *mcrouter) failover(n *yaml.Node, arguments []field) (w way, ok bool) {
	given := m.known(arguments, "normal", "failover", "failover_exptime")
	normal, instead := given["normal"].value, given["failover"].value
	if instead != nil && instead.Kind == yaml.SequenceNode && len(instead.Content) == 1 {
		instead = instead.Content[0]
	}
	seconds, ok := failoverTime, true
	if f := given["failover_exptime"]; f.key != nil {
		seconds, ok = m.number(f)
	}
	if normal == nil || instead == nil || instead.Kind == yaml.SequenceNode {
		return way{}, m.refuse(n, "%s: accepted: one route as \"normal\" and one as \"failover\"", failoverRoute)
	}
	w, gutter, valid := m.pair(n, failoverRoute, normal, instead)
	w.gutter, w.seconds = &gutter, seconds
	return w, ok && valid
}

// moving translates a route that moves keys to another pool: between two points in time, or when reads miss them there.
func (m *mcrouter) moving(n *yaml.Node, name string, arguments []field) (w way, ok bool) {
	sides := map[string]*yaml.Node{}
	begins, interval := 0, migrateTime
	from, to := "from", "to"
	if name == warmUpRoute {
		from, to = "warm", "cold"
	}
	ok = true
	for _, f := range arguments {
		valid := true
		switch key := f.key.Value; {
		case key == from, key == to:
			sides[key] = f.value
		case name == migrateRoute && key == "start_time":
			begins, valid = m.number(f)
		case name == migrateRoute && key == "interval":
			interval, valid = m.number(f)
		case name == warmUpRoute && key == "enable_metaget", name == warmUpRoute && key == "exptime" &&
			f.value.Value == "0":
			m.note("No option is needed for %s (line %d): mcmw copies the time that an item has left.", key, f.key.Line)
		case name == warmUpRoute && key == "exptime":
			m.refuseKey(f.key,
				"mcmw copies the time that an item has left; instead of a small cache in front of another it has "+
					"hot-keys serve")
		default:
			m.refuseOther(f.key)
		}
		ok = ok && valid
	}
	if sides[from] == nil || sides[to] == nil {
		return way{}, m.refuse(n, "%s: accepted: one route as %q and one as %q", name, from, to)
	}
	if name == migrateRoute && ok && (begins <= 0 || interval <= 0) {
		return way{}, m.refuse(n, "%s: accepted: a start_time, in seconds since 1970, and an interval above 0", name)
	}
	w, other, valid := m.pair(n, name, sides[from], sides[to])
	w.to, w.missed = &other, name == warmUpRoute
	if w.start = m.now; !w.missed {
		w.start = time.Unix(int64(begins), 0)
		w.end = w.start.Add(2 * time.Duration(interval) * time.Second)
	}
	return w, ok && valid
}

// prefixes translates a choice by the prefix of the key. In mcrouter and in mcmw the longest matching prefix counts.
func (m *mcrouter) prefixes(n *yaml.Node, arguments []field) (choices []choice, ok bool) {
	given := m.known(arguments, "wildcard", "policies")
	ok = true
	for _, policy := range m.fieldsOf(given["policies"]) {
		w, valid := m.way(policy.value)
		if policy.key.Value == "" {
			m.refuse(policy.key, "%s: an empty prefix; accepted: \"wildcard\" for all other keys", prefixRoute)
			valid = false
		}
		choices, ok = append(choices, choice{policy.key.Value, w}), ok && valid
	}
	wildcard := given["wildcard"].value
	if wildcard == nil {
		return nil, m.refuse(n,
			"%s: no \"wildcard\", so other keys have no servers; accepted: a route with a \"wildcard\"", prefixRoute)
	}
	w, valid := m.way(wildcard)
	return append(choices, choice{"", w}), ok && valid
}

// translated lists the routes that have an equivalent in mcmw.
func translated() string {
	return strings.Join([]string{
		poolRoute, hashRoute, initialRoute, anyOf(writesToAll), anyOf(readsOfAny),
		strings.Join(operationRoutes, ", "), prefixRoute, failoverRoute, migrateRoute, warmUpRoute,
	}, ", ")
}

// anyOf lists the names of m.
func anyOf[T any](m map[string]T) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}
