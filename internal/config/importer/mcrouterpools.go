package importer

import (
	"cmp"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/userinput"
)

// leaf returns the usage of the route at n, which must not choose between routes.
func (m *mcrouter) leaf(n *yaml.Node) (usage, bool) {
	name, arguments, short, ok := m.part(n)
	if !ok {
		return usage{}, false
	}
	if name == initialRoute {
		return m.initial(n, arguments)
	}
	use := usage{at: n, handle: name}
	_, toAll := writesToAll[name]
	_, ofAny := readsOfAny[name]
	why, known := notTranslated[name]
	misplaced := slices.Contains([]string{failoverRoute, migrateRoute, warmUpRoute}, name)
	target := short
	for _, f := range arguments {
		switch {
		case known, misplaced: // the route is refused whatever its arguments
		case name == poolRoute && f.key.Value == "pool", name != poolRoute && f.key.Value == "children":
			target = f.value
		case name == poolRoute && f.key.Value == "hash":
			if f.value.Kind == yaml.MappingNode {
				m.known(m.fields(f.value), hashKeys...)
			}
		case name == hashRoute && slices.Contains(hashKeys, f.key.Value), name != poolRoute && f.key.Value == "name":
		default:
			m.refuseOther(f.key)
		}
	}
	switch {
	case misplaced:
		m.refuse(n, "%s below a choice by the command; accepted: as the first route, or directly below a %s", name,
			prefixRoute)
	case known:
		m.refuse(n, "%s: %s; accepted: %s", name, why, translated())
	case name != poolRoute && name != hashRoute && !toAll && !ofAny:
		m.refuse(n, "%q is not a route that mcmw knows; accepted: %s", name, translated())
	case target == nil:
		m.refuse(n, "%s: has no pool", name)
	case name == poolRoute:
		return m.ofPool(use, target)
	default:
		return m.ofServers(use, target)
	}
	return usage{}, false
}

// initial returns the usage of the first of the routes at n; the others follow it.
func (m *mcrouter) initial(n *yaml.Node, arguments []field) (use usage, ok bool) {
	var children []*yaml.Node
	for _, f := range arguments {
		if f.key.Value != "children" || f.value.Kind != yaml.SequenceNode {
			m.refuseOther(f.key)
			return use, false
		}
		for i, child := range f.value.Content {
			name, inner, _, _ := m.part(child)
			if i > 0 && name == asyncRoute && len(inner) == 1 && inner[0].key.Value == "children" {
				children = append(children, inner[0].value.Content...)
				continue
			}
			children = append(children, child)
		}
	}
	var uses []usage
	for _, child := range children {
		if name, _, _, _ := m.part(child); name != poolRoute {
			return use, m.refuse(child, "%s of %s; accepted: %s with pools of their own", initialRoute, name, poolRoute)
		}
		one, ok := m.leaf(child)
		if !ok {
			return use, false
		}
		uses = append(uses, one)
	}
	if len(uses) < 2 {
		return use, m.refuse(n, "%s: accepted: two routes or more as \"children\"", initialRoute)
	}
	use = uses[0]
	use.follows = uses[1:]
	return use, true
}

// hashKeys are the arguments of a hash that only place keys on other servers.
var hashKeys = []string{"hash_func", "salt"}

// ofPool completes use, which hashes over the servers of the pool at n.
func (m *mcrouter) ofPool(use usage, n *yaml.Node) (usage, bool) {
	if n.Kind != yaml.ScalarNode {
		return usage{}, m.refuse(n, "%s: not the name of a pool; accepted: the name of a pool under \"pools\"",
			use.handle)
	}
	if m.pools[n.Value] == nil {
		return usage{}, m.refuse(n, "%s: no pool is called %q%s", use.handle, n.Value,
			userinput.DidYouMean(n.Value, m.poolNames()))
	}
	use.pools = []string{n.Value}
	return use, true
}

// ofServers completes use, which treats all servers of its children at n equally. The children are "Pool|name", or
// pools of one server each.
func (m *mcrouter) ofServers(use usage, n *yaml.Node) (usage, bool) {
	children := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		children = n.Content
	}
	for _, child := range children {
		name, _, short, ok := m.part(child)
		var pool usage
		switch {
		case !ok:
		case name == "Pool" && short != nil && len(children) == 1:
			pool, ok = m.ofPool(use, short)
		case name == poolRoute && use.handle != hashRoute:
			if pool, ok = m.leaf(child); !ok {
				break
			}
			if servers := m.serverNodes(pool.pools[0]); len(servers) != 1 {
				ok = m.refuse(child,
					"%s: stores a copy in each pool, but pool %q has %d servers; accepted: pools of one server each, "+
						"or one pool whose servers all hold every key, as in \"%s|Pool|%s\"",
					use.handle, pool.pools[0], len(servers), use.handle, pool.pools[0])
			}
		default:
			ok = m.refuse(child, "%s of %s: accepted: \"Pool|name\"", use.handle, cmp.Or(name, "nothing"))
		}
		if !ok {
			return usage{}, false
		}
		use.pools = append(use.pools, pool.pools...)
	}
	if len(children) == 0 {
		return usage{}, m.refuse(n, "%s: has no pool", use.handle)
	}
	if use.handle == hashRoute {
		use.handle = poolRoute
	}
	return use, true
}

func (m *mcrouter) poolNames() []string {
	return slices.Sorted(maps.Keys(m.pools))
}

// serverNodes returns the servers of the pool called name.
func (m *mcrouter) serverNodes(name string) []*yaml.Node {
	for i := 0; i+1 < len(m.pools[name].Content); i += 2 {
		if m.pools[name].Content[i].Value == "servers" {
			return m.pools[name].Content[i+1].Content
		}
	}
	return nil
}
