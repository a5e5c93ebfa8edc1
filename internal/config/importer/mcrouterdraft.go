package importer

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/follow"
	"mcmw/internal/middleware"
	"mcmw/internal/route"
)

// emit sets the options for the choices: those of one pool if all have the same way, otherwise pools and routes.
func (m *mcrouter) emit(choices []choice) {
	var all, ways []way
	var used []string
	for _, c := range choices {
		all = append(all, c.ofPool())
	}
	for _, c := range choices {
		for _, other := range c.others() {
			if other != nil {
				all = append(all, *other)
			}
		}
		for _, f := range c.follows {
			all = append(all, way{writes: f, reads: f})
		}
	}
	for _, w := range all {
		if slices.ContainsFunc(ways, w.same) {
			continue
		}
		for _, name := range w.writes.pools {
			if slices.Contains(used, name) {
				m.refuse(w.writes.at, "pool %q is used by two routes that differ; accepted: each pool in one route",
					name)
				return
			}
		}
		ways, used = append(ways, w), append(used, w.writes.pools...)
	}
	lists, links := make([][]string, len(ways)), make([]map[string]string, len(ways))
	for i, w := range ways {
		m.link = make(map[string]string)
		lists[i], links[i] = m.servers(w.writes.pools), m.link
	}
	for _, name := range m.poolNames() {
		if !slices.Contains(used, name) {
			m.note("No route leads to pool %s.", name)
		}
	}
	why := strings.Join(used, ", ")
	if len(ways) == 1 {
		m.set("servers", lists[0], "pool %s", why)
		m.reach(links[0], why)
		m.treat(ways[0])
		return
	}
	shared := maps.Clone(links[0])
	maps.DeleteFunc(shared, func(option, value string) bool {
		return slices.ContainsFunc(links, func(l map[string]string) bool { return l[option] != value })
	})
	m.reach(shared, why)
	var pools settings
	var moves []settings
	var moving []string // the pools of moves
	for _, w := range ways {
		if w.to != nil {
			moves, moving = append(moves, w.move()), append(moving, w.pool(), w.to.pool())
		}
	}
	for i, w := range ways {
		of := &mcrouter{draft: &draft{}}
		of.set("servers", lists[i], "")
		of.treat(w)
		maps.DeleteFunc(links[i], func(option, _ string) bool { return shared[option] != "" })
		of.reach(links[i], strings.Join(w.writes.pools, ", "))
		if w.gutter != nil {
			of.set("gutter", w.gutter.pool(),
				"%s; mcmw uses it once all instances know that the servers are down; when they are back, each write "+
					"deletes its key there", failoverRoute)
			of.set("gutter-ttl", fmt.Sprintf("%ds", w.seconds), "failover_exptime")
		}
		var followers []settings
		for _, f := range w.follows {
			what := map[bool]string{false: follow.All, true: follow.Purges}[w.deletes]
			followers = append(followers, entry("pool", f.pool(), "what", what))
		}
		if followers != nil {
			of.set("follow", followers, "the requests are delivered later, and again if they fail")
		}
		if slices.Contains(moving, w.pool()) {
			of.set("writers", middleware.WritersSeveral.String(), "needed for migrations; needs memcached 1.6.27")
		}
		pools = append(pools, setting{option: w.pool(), value: of.settings})
	}
	m.set("pools", pools, "")
	var routes []settings
	for _, c := range choices {
		key, reads := "pool", ""
		if c.prefix == "" {
			key = "default"
		}
		if c.from != nil {
			reads = c.from.pool()
		}
		routes = append(routes, entry("prefix", c.prefix, key, c.pool(), "reads", reads))
	}
	why = ""
	if len(choices) > 1 {
		why = prefixRoute
	}
	m.set("routes", routes, "%s", why)
	if moves != nil {
		m.set("migrations", moves,
			"each mcmw instance needs this file before start; mcmw copies values and writes to both pools; no other "+
				"client may write to them")
	}
}

// move returns the entry of migrations for w.
func (w way) move() settings {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	end, copied := at(w.end), ""
	if w.missed {
		end, copied = "", "missed"
	}
	return entry("from", w.pool(), "to", w.to.pool(), "start", at(w.start), "end", end, "copy", copied)
}

// treat sets the options for writing and reading the keys of a pool.
func (m *mcrouter) treat(w way) {
	writes, reads := w.writes, w.reads
	if writes.sharded() {
		m.set("replicas", 1, "%s, line %d: a key is on one server", poolRoute, writes.at.Line)
		m.set("ring", route.RingRendezvous.String(),
			"mcmw has none of mcrouter's hashes, so keys move and the cache starts cold")
		return
	}
	m.set("replicas", "all", "%s, line %d: each server holds every key", writes.handle, writes.at.Line)
	if ack, toAll := writesToAll[writes.handle]; toAll {
		m.set("ack", ack.String(),
			"%s; with live, mcmw's default, writes succeed while a server is down, which nobody reads then",
			writes.handle)
	}
	switch policy, ofAny := readsOfAny[reads.handle]; {
	case ofAny:
		m.set("read", policy.String(), "%s, line %d; reads skip a server that fails", reads.handle, reads.at.Line)
	case reads.sharded():
		m.set("read", route.ReadPrimary.String(), "%s, line %d", reads.handle, reads.at.Line)
	default:
		m.set("read", route.ReadRoundRobin.String(),
			"%s, line %d, asks all servers; mcmw keeps replicas equal and asks one", reads.handle, reads.at.Line)
	}
}

// agree sets an option that all servers of a pool in mcmw share, and refuses a value that differs from an earlier one.
func (m *mcrouter) agree(at *yaml.Node, option, value string) {
	if before, given := m.link[option]; given && before != value {
		m.refuse(at, "%s: %s here and %s before; accepted: the same for all servers of a pool", option, value, before)
	}
	m.link[option] = value
}

// servers returns the servers of pools, and collects the options for connecting to them in link.
func (m *mcrouter) servers(pools []string) (servers []string) {
	for _, name := range pools {
		tls := "plain"
		var list field
		for _, f := range m.fields(m.pools[name]) {
			switch f.key.Value {
			case "servers":
				list = f
			case "server_timeout", "connect_timeout":
				option := map[string]string{
					"server_timeout":  "timeout",
					"connect_timeout": "connect-timeout",
				}[f.key.Value]
				if ms, ok := m.number(f); ok {
					m.agree(f.key, option, fmt.Sprintf("%dms", ms))
				}
			case "protocol":
				if f.value.Value != "ascii" {
					m.refuse(f.key, "protocol: %q; accepted: ascii", f.value.Value)
				}
			case "security_mech":
				if tls = f.value.Value; tls != "plain" && tls != "ssl" {
					m.refuse(f.key, "security_mech: %q; accepted: plain, ssl", tls)
				}
			case "hostnames", "failure_domains", "region", "cluster":
				m.note("No option is needed for %s (line %d): mcmw shows servers by their addresses.", f.key.Value,
					f.key.Line)
			case "name":
			default:
				m.refuseOther(f.key)
			}
		}
		if list.key == nil {
			m.refuse(m.pools[name], "pool %q has no servers", name)
			continue
		}
		for i, text := range m.texts(list.key, list.value) {
			at := list.value.Content[i]
			address, security, ok := m.server(at, text)
			if ok {
				servers = append(servers, address)
				m.agree(at, "server-tls", cmp.Or(security, tls))
			}
		}
	}
	return servers
}

// reach sets the options in link, for connecting to the servers of pools.
func (m *mcrouter) reach(link map[string]string, pools string) {
	for _, option := range []string{"timeout", "connect-timeout"} {
		if value, given := link[option]; given {
			m.set(option, value, "pool %s", pools)
		}
	}
	if link["server-tls"] == "ssl" {
		m.set("server-tls", true,
			"ssl; mcrouter's flags --pem-* name the certificates: set server-tls-ca, server-tls-cert, server-tls-key")
	}
}

// server parses mcrouter's host:port:protocol:security:compression. All but host and port may be missing.
func (m *mcrouter) server(at *yaml.Node, text string) (address, security string, ok bool) {
	host, rest, _ := strings.Cut(text, ":")
	var port string
	switch {
	case strings.HasPrefix(text, "unix:"):
		address, rest, _ = strings.Cut(rest, ":")
		address = "unix:" + address
	case strings.HasPrefix(text, "["):
		if host, rest, ok = strings.Cut(text[1:], "]:"); !ok {
			return "", "", m.refuse(at, "servers: %q; accepted: [ipv6]:port", text)
		}
		fallthrough
	default:
		port, rest, _ = strings.Cut(rest, ":")
		address = net.JoinHostPort(host, port)
	}
	parts := append(strings.Split(rest, ":"), "", "")
	for i, accepted := range [][]string{{"", "ascii"}, {"", "plain", "ssl"}, {"", "notcompressed"}} {
		if !slices.Contains(accepted, parts[i]) {
			return "", "", m.refuse(at, "servers: %q in %q; accepted: %s", parts[i], text,
				strings.Join(accepted[1:], ", "))
		}
	}
	return address, parts[1], true
}
