package middleware_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"mcmw/internal/mctest"
)

// dataPath holds the packages that a request passes through, by layer: a package imports only packages of lower layers.
// The net stage and the workers share a layer, so neither knows the other: they meet in the queue and in the request.
var dataPath = [][]string{
	{"nonblock", "enum", "refusal"},
	{"protocol", "large", "wire", "route", "replica", "keylock", "budget", "secret", "hotkeys"},
	{"stats", "marker", "link"},
	{"request", "backend"},
	{"follow"},
	{"plan", "shadow"},
	{"queue"},
	{"netstage", "worker", "sweep"},
	{"middleware"},
}

// importRule forbids packages to import others. A name stands for a package and for everything below it.
type importRule struct {
	from, never []string
	// direct: imports through other packages don't count, for example fmt's import of time.
	direct bool
	why    string
}

// above are the packages around the data path: they may import it, and it must not import them.
var above = append(internal("admin", "buildinfo", "commandline", "config", "control", "demo", "discover", "faulty",
	"model", "spell", "statlog", "terminal", "tools", "userinput"), "mcmw/cmd", "mcmw/lab")

var importRules = []importRule{
	{
		from: internal(slices.Concat(dataPath...)...), never: above,
		why: "the data path works without the packages that configure, show and measure it",
	},
	{
		from:  internal(slices.Concat(dataPath...)...),
		never: []string{"github.com/prometheus", "net/http", "github.com/spf13", "go.yaml.in"},
		why:   "the data path has counters of its own and is configured by its Options",
	},
	{
		from:  internal("enum", "protocol", "route", "replica", "keylock", "plan"),
		never: []string{"os", "syscall", "time", "log/slog"}, direct: true,
		why: "it is pure: no sockets, clocks, files or logs",
	},
	{
		from: internal("protocol", "replica", "keylock", "stats", "request", "plan", "queue"), never: []string{"net"},
		direct: true,
		why:    "sockets belong to wire and to the stages at either end",
	},
	{
		from: internal("plan"), never: append(internal("wire", "backend"), "context", "sync"), direct: true,
		why: "it only decides; other packages send and wait",
	},
	{
		from: internal("admin"), never: internal("config", "control", "middleware", "netstage", "queue", "worker",
			"backend"),
		why: "it shows statistics and controls nothing",
	},
	{
		from: internal("terminal"), never: internal("config", "middleware", "netstage", "queue", "worker", "backend"),
		why: "it shows statistics from any source",
	},
	{
		from:  append(internal("model", "spell"), "mcmw/lab/factorial", "mcmw/lab/sample"),
		never: []string{"os", "net", "time", "log/slog"}, direct: true,
		why: "it computes from its arguments alone",
	},
	{
		from:  []string{"mcmw/lab/capacity", "mcmw/lab/check", "mcmw/lab/compare", "mcmw/lab/frame"},
		never: []string{"os", "net", "log/slog", "database/sql"}, direct: true,
		why: "it judges the contents of a record from any source",
	},
	{
		from: []string{"mcmw/lab/experiment", "mcmw/lab/collect"}, never: []string{"os", "os/exec", "net", "log/slog"},
		direct: true,
		why:    "it turns texts into values; other packages read the files",
	},
	{
		from: internal("discover"), never: internal("admin", "buildinfo", "config", "control", "middleware", "netstage",
			"queue", "worker", "backend"),
		why: "it finds servers and controls nothing",
	},
	{
		from: []string{"mcmw/lab"}, never: internal("admin", "config", "control"),
		why: "it measures programs from outside",
	},
	{
		from: []string{"mcmw/cmd/mcmw"}, never: []string{"mcmw/lab", "github.com/vishvananda"},
		why: "the lab is a program of its own",
	},
	{
		from: append(internal("middleware"), above...),
		never: append(internal("mctest"), "testing", "github.com/stretchr", "github.com/bradfitz",
			"go.uber.org/goleak"),
		why: "test doubles and test libraries stay out of the programs",
	},
}

// mustImport are imports that the program must have.
var mustImport = map[string][]string{
	"mcmw/cmd/mcmw":         internal("config", "control", "middleware", "admin"),
	"mcmw/internal/control": internal("config", "discover"),
}

// internal returns the paths of the module's packages with these names.
func internal(names ...string) []string {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = "mcmw/internal/" + name
	}
	return paths
}

// importGraph holds the direct imports of each package, without those of its tests.
type importGraph map[string][]string

// chain returns the packages by which from imports target or a package below it, beginning with from; nil if it
// doesn't.
func (g importGraph) chain(from, target string, direct bool) []string {
	seen := map[string]bool{from: true}
	for paths := [][]string{{from}}; len(paths) > 0; paths = paths[1:] {
		path := paths[0]
		for _, next := range g[path[len(path)-1]] {
			if seen[next] {
				continue
			}
			seen[next] = true
			longer := append(slices.Clip(path), next)
			if within(next, target) {
				return longer
			}
			if !direct {
				paths = append(paths, longer)
			}
		}
	}
	return nil
}

// within reports whether pkg is folder or below it. Packages of the standard library, such as net/http, are not below
// others.
func within(pkg, folder string) bool {
	host, _, _ := strings.Cut(folder, "/")
	standard := host != "mcmw" && !strings.Contains(host, ".")
	return pkg == folder || (!standard && strings.HasPrefix(pkg, folder+"/"))
}

// withinAny reports whether pkg is one of folders or below one.
func withinAny(pkg string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool { return within(pkg, folder) })
}

// importViolations returns the violations of the rules in g, one line each.
func importViolations(g importGraph) (violations []string) {
	var packages []string
	for pkg := range g {
		packages = append(packages, pkg)
	}
	slices.Sort(packages)
	complain := func(format string, args ...any) { violations = append(violations, fmt.Sprintf(format, args...)) }

	layer := map[string]int{}
	for n, names := range dataPath {
		for _, path := range internal(names...) {
			layer[path] = n
			if _, ok := g[path]; !ok {
				complain("%s is in the table of layers and not in the module", path)
			}
		}
	}
	for _, pkg := range packages {
		mine, known := layer[pkg]
		if !known {
			if within(pkg, "mcmw") && !withinAny(pkg, above) &&
				!withinAny(pkg, append(internal("mctest"), "mcmw/docs", "mcmw/test")) {
				complain("%s has no place in the table of layers", pkg)
			}
			continue
		}
		for _, imported := range g[pkg] {
			if theirs, ok := layer[imported]; ok && theirs >= mine {
				complain("%s imports %s, which is not in a lower layer", pkg, imported)
			}
		}
	}
	for _, rule := range importRules {
		for _, pkg := range packages {
			if !withinAny(pkg, rule.from) {
				continue
			}
			for _, never := range rule.never {
				if chain := g.chain(pkg, never, rule.direct); chain != nil && !within(pkg, never) {
					complain("%s: %s", strings.Join(chain, " imports "), rule.why)
				}
			}
		}
	}
	for pkg, wanted := range mustImport {
		for _, target := range wanted {
			if !slices.Contains(g[pkg], target) {
				complain("%s does not import %s", pkg, target)
			}
		}
	}
	return violations
}

// moduleImports returns the imports of the packages of both modules, and of everything they need.
func moduleImports(t *testing.T) importGraph {
	t.Helper()
	g := importGraph{}
	for _, module := range []string{"../..", "../../lab"} {
		cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports", "./...")
		cmd.Dir = module
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		require.NoError(t, err, "go list: %s", &stderr)
		for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
			var pkg struct {
				ImportPath string
				Imports    []string
			}
			err := decoder.Decode(&pkg)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			g[pkg.ImportPath] = pkg.Imports
		}
	}
	return g
}

// ruleProblems returns the problems of the rules themselves: missing reasons, and pairs of rules that forbid the same
// import.
func ruleProblems(rules []importRule) (problems []string) {
	meet := func(a, b []string) bool {
		return slices.ContainsFunc(a, func(x string) bool { return withinAny(x, b) }) ||
			slices.ContainsFunc(b, func(x string) bool { return withinAny(x, a) })
	}
	for i, rule := range rules {
		if rule.why == "" {
			problems = append(problems, fmt.Sprintf("the rule for %s gives no reason", rule.from))
		}
		for _, other := range rules[:i] {
			if meet(rule.from, other.from) && meet(rule.never, other.never) {
				problems = append(problems, fmt.Sprintf("the rules for %s and %s forbid the same import", other.from,
					rule.from))
			}
		}
	}
	return problems
}

func TestEveryImportRuleHasAReasonAndNoTwoForbidTheSameImport(t *testing.T) {
	require.Empty(t, ruleProblems(importRules))

	rule := importRule{from: []string{"mcmw/lab"}, never: []string{"net"}, why: "a reason"}
	for _, second := range []importRule{
		{from: internal("admin"), never: []string{"net"}},
		{from: []string{"mcmw/lab/check"}, never: []string{"os", "net"}, why: "a reason"},
		{from: []string{"mcmw"}, never: []string{"net"}, why: "a reason"},
	} {
		require.Len(t, ruleProblems([]importRule{rule, second}), 1, "%v", second)
	}
}

func TestImportsPointOneWay(t *testing.T) {
	g := moduleImports(t)
	require.Contains(t, g, "mcmw/internal/middleware", "go list found the module's packages")
	for _, violation := range importViolations(g) {
		t.Error(violation)
	}
}

func TestEveryImportRuleCatchesWhatItForbids(t *testing.T) {
	mctest.RaceSkips(t, mctest.Computes)
	graph := moduleImports(t)
	complains := func(from string, imports []string, complaint string) {
		t.Helper()
		broken := maps.Clone(graph)
		broken[from] = imports
		found := importViolations(broken)
		require.True(t, slices.ContainsFunc(found, func(v string) bool {
			return strings.Contains(v, from) && strings.HasSuffix(v, complaint)
		}), "expected %s and %q among:\n%s", from, complaint, strings.Join(found, "\n"))
	}
	imports := func(from, to, complaint string) {
		t.Helper()
		complains(from, append(slices.Clip(graph[from]), to), complaint)
	}
	for _, rule := range importRules {
		for i, to := range rule.never {
			from := rule.from[i%len(rule.from)]
			for pkg := range graph {
				if within(pkg, from) {
					from = pkg
					break
				}
			}
			imports(from, to, " imports "+to+": "+rule.why)
		}
	}
	for n, layer := range dataPath[1:] {
		imports(internal(dataPath[n]...)[0], internal(layer...)[0], ", which is not in a lower layer")
	}
	imports("mcmw/internal/netstage", "mcmw/internal/worker", "worker, which is not in a lower layer")
	imports("mcmw/internal/new", "fmt", "has no place in the table of layers")
	complains("mcmw/cmd/mcmw", internal("config", "control", "middleware"), "does not import mcmw/internal/admin")
	imports("mcmw/internal/config", "mcmw/internal/mctest", "mcmw/cmd/mcmw imports mcmw/internal/config imports "+
		"mcmw/internal/mctest: test doubles and test libraries stay out of the programs")
}
