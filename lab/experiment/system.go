package experiment

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"mcmw/internal/userinput"
	"mcmw/lab/record"
)

// The systems that every experiment knows. A file can change their binaries and flags, and describe further systems.
const (
	Direct    = "direct" // none: the load goes to the servers
	Mcmw      = "mcmw"
	Twemproxy = "twemproxy"
	Proxy     = "proxy" // memcached's own: a memcached with proxy_config
	Floor     = "floor" // the least that a proxy can do, which mcmwlab bench builds
)

// AsDefault is the value of a setting that stands for the program's default.
const AsDefault = string(record.AsDefault)

// SystemKind describes a system between clients and servers.
type SystemKind struct {
	Kind   string // Mcmw, Twemproxy, Proxy or Floor
	Binary string // a path, or a name in PATH; "": the mcmw that the lab uses
	Flags  []string
}

// builtIn has the systems that every experiment knows, except Direct.
var builtIn = map[string]SystemKind{
	Mcmw: {Kind: Mcmw}, Twemproxy: {Kind: Twemproxy, Binary: "nutcracker"},
	Proxy: {Kind: Proxy, Binary: "memcached"},
}

// systemForm matches the names of systems and cases.
var systemForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._ -]{0,63}$`)

// systems reads the systems of a file and adds the built-in ones.
func (d *decoder) systems(n *yaml.Node, key string) map[string]SystemKind {
	systems := maps.Clone(builtIn)
	for name, value := range d.named(n, key) {
		s, known := builtIn[name]
		if !known {
			s.Kind = Mcmw
		}
		s.Binary = "" // of another kind if that is given
		key := key + "." + name
		if name == Direct {
			d.problem(value, key, "direct stands for no system between clients and servers; expected another name")
		}
		d.mapping(value, key, fields{
			"kind": func(key string, n *yaml.Node) {
				s.Kind = d.word(n, key, []string{Mcmw, Twemproxy, Proxy, Floor})
			},
			"binary": func(key string, n *yaml.Node) { s.Binary = d.text(n, key, "the path of a program") },
			"flags": func(key string, n *yaml.Node) {
				s.Flags = strings.Fields(d.scalar(n, key, "flags separated by spaces, such as --a=1 --b=2",
					func(string) bool { return true }))
			},
		})
		s.Binary = cmp.Or(s.Binary, builtIn[s.Kind].Binary)
		systems[name] = s
	}
	return systems
}

// cases reads named groups of settings.
func (d *decoder) cases(n *yaml.Node, key string) map[string]Values {
	cases := map[string]Values{}
	for name, value := range d.named(n, key) {
		cases[name] = d.values(value, key+"."+name, map[string]*yaml.Node{})
	}
	return cases
}

// named returns an iterator over the entries of a mapping whose keys are names chosen by the user.
func (d *decoder) named(n *yaml.Node, key string) func(yield func(string, *yaml.Node) bool) {
	return func(yield func(string, *yaml.Node) bool) {
		if n.Kind != yaml.MappingNode {
			d.problem(n, key, "not a mapping; expected names, each with a mapping")
			return
		}
		seen := map[string]bool{}
		for i := 0; i < len(n.Content); i += 2 {
			name := n.Content[i]
			switch {
			case !systemForm.MatchString(name.Value):
				d.problem(name, key, "%.60q; expected letters, digits, . _ - and spaces, at most 64", name.Value)
			case seen[name.Value]:
				d.problem(name, key, "%q occurs twice", name.Value)
			case !yield(name.Value, userinput.Resolve(n.Content[i+1])):
				return
			}
			seen[name.Value] = true
		}
	}
}

// complete adds the settings of a point's case and system to it. own reports whether a setting comes from the factors
// or the listed point.
func (f *file) complete(point Values, own func(name string) bool) error {
	if name := point[Case]; name != "" {
		settings, ok := f.cases[name]
		if !ok {
			return fmt.Errorf("case %q; expected one of those under cases: %s", name,
				strings.Join(slices.Sorted(maps.Keys(f.cases)), ", "))
		}
		for setting, value := range settings {
			if setting == Case || own(setting) {
				return fmt.Errorf("case %s has %s, which the factors or the point itself set, too; expected it in "+
					"only one of them", name, setting)
			}
			point[setting] = value
		}
	}
	if point[System] == Direct {
		point[Middlewares] = "0"
	}
	return nil
}

func (e *Experiment) checkSystems() error {
	for _, p := range e.Points {
		name := p.Values[System]
		if _, ok := e.Systems[name]; !ok && name != Direct {
			return fmt.Errorf("system %q; expected direct, one of %s, or one that is described under systems", name,
				strings.Join(slices.Sorted(maps.Keys(e.Systems)), ", "))
		}
		if remote := e.Testbed == SSHTestbed || e.Testbed == KubernetesTestbed; remote && name != Direct &&
			name != Mcmw {
			return fmt.Errorf("system %s on the testbed %s: only the testbeds local and vm have other systems than "+
				"mcmw and direct", name, e.Testbed)
		}
	}
	return nil
}
