package importer

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/config"
	"mcmw/internal/route"
	"mcmw/internal/userinput"
)

// twemproxyKeys has the translation of every key of a pool of twemproxy. A key with a note has no counterpart and needs
// none: note says why. One without anything is translated together with others, after all keys are known.
var twemproxyKeys = map[string]struct {
	translate func(d *draft, f field)
	note      string
}{
	"listen":       {translate: (*draft).twemproxyListen},
	"hash":         {},
	"distribution": {},
	"hash_tag": {translate: func(d *draft, f field) {
		d.set("hash-tag", f.value.Value, "hash_tag, line %d", f.key.Line)
	}},
	"timeout": {},
	"server_failure_limit": {translate: func(d *draft, f field) {
		if limit, ok := d.number(f); ok {
			d.set("failure-limit", limit, "server_failure_limit, line %d", f.key.Line)
		}
	}},
	"servers": {translate: (*draft).twemproxyServers},

	"auto_eject_hosts": {translate: refusedTrue("mcmw does not move the keys of a failed server to another: gets of " +
		"them are errors (or misses, with get-error), and sets are errors")},
	"redis":      {translate: refusedTrue(noRedis)},
	"redis_auth": {translate: refusedRedis},
	"redis_db":   {translate: refusedRedis},

	"backlog":              {note: "the system's limit is used"},
	"client_connections":   {note: "twemproxy ignores it; mcmw has max-connections"},
	"preconnect":           {note: "mcmw always connects when it starts"},
	"reuseport":            {note: "one mcmw uses several processors"},
	"server_connections":   {note: "each worker has its own connections"},
	"server_retry_timeout": {note: "mcmw probes a server that is down, with back-off"},
	"tcpkeepalive":         {note: "always on"},
}

// importTwemproxy translates the pool called name, or the only pool if name is "".
func importTwemproxy(d *draft, root *yaml.Node, name string) {
	pools := d.fields(root)
	chosen := slices.IndexFunc(pools, func(f field) bool { return f.key.Value == name })
	if name == "" && len(pools) == 1 {
		chosen = 0
	}
	if chosen < 0 {
		var names []string
		for _, p := range pools {
			names = append(names, p.key.Value)
		}
		if name != "" {
			d.refuse(root, "no pool is called %q; accepted: --pool with one of %s", name, strings.Join(names, ", "))
		} else {
			d.refuse(root,
				"%d pools, each with its own port, so each needs its own mcmw; accepted: one file for each, with "+
					"--pool and one of %s",
				len(pools), strings.Join(names, ", "))
		}
		return
	}
	pool := pools[chosen]
	d.note("Pool %s of %s (twemproxy), by mcmw config import.", pool.key.Value, d.file)
	given := map[string]field{}
	for _, f := range d.fields(pool.value) {
		known, ok := twemproxyKeys[f.key.Value]
		switch {
		case !ok:
			d.refuse(f.key, "unknown key %q%s", f.key.Value,
				userinput.DidYouMean(f.key.Value, slices.Sorted(maps.Keys(twemproxyKeys))))
		case known.note != "":
			d.note("No option is needed for %s (line %d): %s.", f.key.Value, f.key.Line, known.note)
		case f.key.Value != "servers" && (f.value.Kind != yaml.ScalarNode || userinput.IsNull(f.value)):
			d.refuse(f.key, "%s: not a single value", f.key.Value)
		default:
			given[f.key.Value] = f
			if known.translate != nil {
				known.translate(d, f)
			}
		}
	}
	for _, key := range []string{"listen", "servers"} {
		if given[key].key == nil {
			d.refuse(pool.key, "%s: has no key %q", pool.key.Value, key)
		}
	}
	d.set("replicas", 1, "twemproxy keeps a key on one server")
	d.twemproxyPlacement(given["distribution"], given["hash"])
	d.twemproxyTimeout(given["timeout"])
	if chosen > 0 {
		d.set("admin", net.JoinHostPort("127.0.0.1", strconv.Itoa(9150+chosen)),
			"each mcmw on a machine needs its own; this is pool %d of the file", chosen+1)
	}
}

const noRedis = "mcmw speaks only memcached's protocol"

func refusedRedis(d *draft, f field) { d.refuseKey(f.key, noRedis) }

// refusedTrue refuses a switch that is on.
func refusedTrue(why string) func(*draft, field) {
	return func(d *draft, f field) {
		switch f.value.Value {
		case "true":
			d.refuseKey(f.key, why)
		case "false":
		default:
			d.refuse(f.key, "%s: %q is neither true nor false", f.key.Value, f.value.Value)
		}
	}
}

// number returns the value of f, a whole number.
func (d *draft) number(f field) (int, bool) {
	n, err := strconv.Atoi(f.value.Value)
	if err != nil {
		d.refuse(f.key, "%s: %q is not a whole number", f.key.Value, f.value.Value)
	}
	return n, err == nil
}

func (d *draft) twemproxyListen(f field) {
	address, why := f.value.Value, fmt.Sprintf("line %d", f.key.Line)
	if path, mode, given := strings.Cut(address, " "); strings.HasPrefix(path, "/") {
		if address = "unix:" + path; given {
			if n, err := strconv.ParseUint(mode, 8, 9); err != nil || n == 0 {
				d.refuse(f.key, "listen: the socket's mode %q is not 0001 to 0777, in octal", mode)
			}
			d.set("unix-mask", mode, "%s", why)
		}
	} else if i := strings.LastIndexByte(address, ':'); i >= 0 {
		address = net.JoinHostPort(strings.Trim(address[:i], "[]"), address[i+1:])
	}
	d.set("listen", []string{address}, "%s", why)
}

func (d *draft) twemproxyServers(f field) {
	servers := d.texts(f.key, f.value)
	for i, s := range servers {
		if _, name, _ := strings.Cut(s, " "); strings.HasSuffix(name, ":"+strconv.Itoa(config.DefaultServerPort)) {
			d.refuse(f.value.Content[i],
				"servers: the name %q ends with memcached's port, which mcmw does not hash; accepted: a name "+
					"without it", name)
		}
	}
	d.set("servers", servers, "line %d; mcmw accepts twemproxy's form", f.key.Line)
}

// twemproxyPlacement sets how keys are placed. Without a key a field is not given.
func (d *draft) twemproxyPlacement(of, by field) {
	where := func(f field, byDefault string) (value, why string) {
		if f.key == nil {
			return byDefault, "twemproxy's default"
		}
		return f.value.Value, fmt.Sprintf("line %d", f.key.Line)
	}
	distribution, why := where(of, "ketama")
	hash, hashWhy := where(by, "fnv1a_64")
	switch distribution {
	case "ketama":
		d.set("ring", route.RingTwemproxy.String(), "distribution: ketama, %s: keys stay where they are", why)
		if words := config.Find("hash").Words()[1:]; !slices.Contains(words, hash) {
			d.refuse(by.key, "hash: %q is unknown; accepted: %s", hash, strings.Join(words, ", "))
			return
		}
		d.set("hash", hash, "%s", hashWhy)
	case "modula":
		d.set("ring", route.RingRendezvous.String(),
			"distribution: modula, %s: mcmw has no equivalent, so keys move and the cache starts cold", why)
	case "random":
		d.refuseKey(of.key,
			"random sends each request to any server, so values are rarely found; mcmw places a key by its hash")
	default:
		d.refuse(of.key, "distribution: %q is unknown; accepted: ketama, modula", distribution)
	}
}

// twemproxyTimeout sets the timeouts. twemproxy's are in milliseconds; without one above 0 it has none.
func (d *draft) twemproxyTimeout(timeout field) {
	if timeout.key != nil {
		ms, ok := d.number(timeout)
		if !ok {
			return
		}
		if ms > 0 {
			value := fmt.Sprintf("%dms", ms)
			d.set("timeout", value, "line %d", timeout.key.Line)
			d.set("connect-timeout", value, "as timeout")
			return
		}
	}
	d.set("timeout", config.Find("timeout").Default, "none here: twemproxy waits forever; mcmw always has a timeout")
}
