package experiment

import (
	"cmp"
	"maps"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Inventory lists the hosts of the testbed ssh.
type Inventory struct {
	// Config is the path of an ssh configuration file that replaces the user's own; "" if there is none.
	Config string
	Hosts  []InventoryHost
}

// InventoryHost is a host that is reached over ssh.
type InventoryHost struct {
	Name string
	SSH  string // destination for `ssh`: a host, or an alias in ssh's configuration
	// Address is the IP address or name at which the other hosts reach it and on which its programs listen.
	Address  string
	User     string // "": from ssh's configuration
	Port     int    // 0: from ssh's configuration
	Identity string // path of a private key on this machine; "": from ssh's configuration and agent
	Roles    []string
	// Directory is the parent of the temporary directory for copied programs; "": $TMPDIR of the host, or /tmp.
	Directory string
	// Programs has the paths of programs on the host by name: memcached, mcmw, mcmwlab. Without a path, mcmw and
	// mcmwlab are copied to the host, and memcached is the one in the host's PATH.
	Programs map[string]string
}

// hostForm matches host names. They become parts of file names and metrics.
var hostForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// addressForm matches addresses and users that ssh can neither take for a flag nor split.
var addressForm = regexp.MustCompile(`^[A-Za-z0-9_:\[][A-Za-z0-9._:%\[\]-]{0,252}$`)

// ParseInventory reads an inventory. file is its path: paths in it are relative to its directory, or to home after
// "~/". The error is *Problems.
func ParseInventory(file string, text []byte, home string) (*Inventory, error) {
	d := &decoder{}
	inventory := d.inventory(text, func(path string) string {
		switch rest, ofHome := strings.CutPrefix(path, "~/"); {
		case ofHome:
			return filepath.Join(home, rest)
		case path == "" || filepath.IsAbs(path):
			return path
		default:
			return filepath.Join(filepath.Dir(file), path)
		}
	})
	if err := d.err(file); err != nil {
		return nil, err
	}
	return inventory, nil
}

func (d *decoder) inventory(text []byte, resolve func(path string) string) *Inventory {
	inventory := &Inventory{}
	root := d.root(text, "an inventory: hosts with their names, addresses and roles (docs/testbeds.md)")
	if root == nil {
		return nil
	}
	var defaults InventoryHost
	if n := child(root, "defaults"); n != nil {
		d.mapping(n, "defaults", d.hostFields(&defaults, resolve))
	}
	var elements []*yaml.Node
	d.mapping(root, "", fields{
		"ssh_config": func(key string, n *yaml.Node) {
			inventory.Config = resolve(d.text(n, key, "the path of a file"))
		},
		"defaults": func(string, *yaml.Node) {}, // read before the hosts
		"hosts": func(key string, n *yaml.Node) {
			for _, element := range d.list(n, key, "hosts, each with name, address and roles") {
				elements = append(elements, element)
				inventory.Hosts = append(inventory.Hosts, d.host(element, key, defaults, resolve))
			}
		},
	})
	d.checkHosts(root, inventory.Hosts, elements)
	return inventory
}

// hostFields are the keys that both a host and the defaults can have.
func (d *decoder) hostFields(h *InventoryHost, resolve func(path string) string) fields {
	return fields{
		"user": func(key string, n *yaml.Node) {
			h.User = d.scalar(n, key, "a user's name", addressForm.MatchString)
		},
		"port": func(key string, n *yaml.Node) { h.Port = d.whole(n, key, 1, 65535) },
		"identity": func(key string, n *yaml.Node) {
			h.Identity = resolve(d.text(n, key, "the path of a private key"))
		},
		"directory": func(key string, n *yaml.Node) {
			h.Directory = d.text(n, key, "the path of a directory on the host")
		},
		"roles": func(key string, n *yaml.Node) {
			h.Roles = nil
			for _, element := range d.list(n, key, "roles: "+strings.Join(roles, ", ")) {
				h.Roles = append(h.Roles, d.word(element, key, roles))
			}
		},
		"programs": func(key string, n *yaml.Node) {
			paths := map[string]string{} // a copy: all hosts share the defaults
			maps.Copy(paths, h.Programs)
			h.Programs = paths
			keys := fields{}
			for _, name := range []string{"memcached", "mcmw", "mcmwlab"} {
				keys[name] = func(key string, n *yaml.Node) {
					paths[name] = d.text(n, key, "the path of the program on the host")
				}
			}
			d.mapping(n, key, keys)
		},
	}
}

// host reads a host; the defaults apply to keys that it doesn't have.
func (d *decoder) host(n *yaml.Node, key string, defaults InventoryHost,
	resolve func(path string) string,
) InventoryHost {
	h := defaults
	keys := d.hostFields(&h, resolve)
	keys["name"] = func(key string, n *yaml.Node) {
		h.Name = d.scalar(n, key, "letters, digits, . _ -, at most 64", hostForm.MatchString)
	}
	keys["ssh"] = func(key string, n *yaml.Node) {
		h.SSH = d.scalar(n, key,
			"a host, an address or an alias of ssh's configuration; user and port have keys of their own",
			addressForm.MatchString)
	}
	keys["address"] = func(key string, n *yaml.Node) {
		h.Address = d.scalar(n, key, "an IP address or a name, without a port", addressForm.MatchString)
	}
	seen := d.mapping(n, key, keys)
	for _, required := range []string{"name", "address"} {
		if n.Kind == yaml.MappingNode && !seen[required] {
			d.problem(n, key,
				"a host without %s; expected a line such as - {name: load1, address: 10.0.0.4, roles: [load]}",
				required)
		}
	}
	if n.Kind == yaml.MappingNode && len(h.Roles) == 0 && !seen["roles"] {
		d.problem(n, key, "a host without roles; expected a list of %s", strings.Join(roles, ", "))
	}
	h.SSH = cmp.Or(h.SSH, h.Name)
	return h
}

// checkHosts reports host names that occur twice and roles without a host.
func (d *decoder) checkHosts(root *yaml.Node, hosts []InventoryHost, at []*yaml.Node) {
	names, covered := map[string]bool{}, map[string]bool{}
	for i, h := range hosts {
		if h.Name != "" && names[h.Name] {
			d.problem(at[i], "hosts", "there are two hosts %q", h.Name)
		}
		names[h.Name] = true
		for _, role := range h.Roles {
			covered[role] = true
		}
	}
	for _, role := range roles {
		if !covered[role] && len(d.problems) == 0 {
			d.problem(root, "hosts", "no host has the role %s; expected at least one of each: %s", role,
				strings.Join(roles, ", "))
		}
	}
}

// text returns a text, which must not be empty; "" after a problem.
func (d *decoder) text(n *yaml.Node, key, accepts string) string {
	return d.scalar(n, key, accepts, func(s string) bool { return s != "" && !strings.ContainsAny(s, "\n\x00") })
}
