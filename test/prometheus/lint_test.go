package prometheus

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

// board has the fields of a dashboard that the rules check.
type board struct {
	Editable   bool
	Panels     []boardPanel
	Templating struct{ List []boardVariable }
}

type boardPanel struct {
	Type, Title, Description string
	Datasource               boardSource
	Targets                  []struct {
		Expr       string
		Datasource boardSource
	}
	FieldConfig struct{ Defaults struct{ Unit string } }
}

type boardVariable struct {
	Name, Type, Label, Query, AllValue string
	Refresh                            int
	Multi                              bool
	Datasource                         boardSource
}

type boardSource struct{ UID string }

// Grafana's units that the dashboards use.
var units = []string{"s", "reqps", "percentunit", "short", "none", "bytes", "Bps"}

// rateInterval replaces $__rate_interval; no expression contains it otherwise.
const rateInterval = 77 * time.Second

// complaints returns the violations of the rules of Grafana's dashboard-linter (its docs/rules), with which a dashboard
// works in any installation: with its data source, jobs and instances, and any scrape interval.
func complaints(b *board) (all []string) {
	complain := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if b.Editable {
		complain("it is editable, and the next import would undo edits")
	}
	if len(b.Templating.List) == 0 || b.Templating.List[0].Name != "datasource" ||
		b.Templating.List[0].Query != "prometheus" {
		complain("it has no variable for the data source")
	}
	for _, name := range []string{"namespace", "job", "instance"} {
		if !slices.ContainsFunc(b.Templating.List, func(v boardVariable) bool { return v.Name == name }) {
			complain("it has no variable %s", name)
		}
	}
	for _, v := range b.Templating.List {
		if v.Type != "query" {
			continue
		}
		everything := ".+"
		if v.Name == "namespace" {
			everything = ".*" // the label may be missing
		}
		if v.Datasource.UID != "$datasource" || !v.Multi || v.AllValue != everything || v.Refresh != 2 ||
			v.Label == "" {
			complain("variable %s: want the variable data source, many values, all of them as %s, a label, and new "+
				"values on a change of time", v.Name, everything)
		}
		inner, _, _ := strings.Cut(strings.TrimPrefix(v.Query, "label_values("), ", ")
		if _, err := grammar.ParseExpr(replaced(inner)); err != nil || inner == v.Query {
			complain("variable %s: its query is no label_values(metric, label): %s", v.Name, v.Query)
		}
	}
	for _, p := range b.Panels {
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 || p.Datasource.UID != "$datasource" {
			complain("panel %q: want a title, a description, a query and the variable data source", p.Title)
		}
		if !slices.Contains(units, p.FieldConfig.Defaults.Unit) {
			complain("panel %q: its unit %q is none of %v", p.Title, p.FieldConfig.Defaults.Unit, units)
		}
		for _, target := range p.Targets {
			if target.Datasource.UID != "$datasource" {
				complain("panel %q: a query does not use the variable data source", p.Title)
			}
			for _, c := range targetComplaints(target.Expr) {
				complain("panel %q: %s: %s", p.Title, c, target.Expr)
			}
		}
	}
	return all
}

// targetComplaints returns the violations of the rules in an expression.
func targetComplaints(text string) (all []string) {
	expr, err := grammar.ParseExpr(replaced(text))
	if err != nil {
		return []string{err.Error()}
	}
	parser.Inspect(expr, func(node parser.Node, path []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			selected := n.String()
			if !strings.Contains(selected, `namespace=~"NAMESPACE"`) || !strings.Contains(selected, `job=~"JOB"`) ||
				!strings.Contains(selected, `instance=~"INSTANCE"`) {
				all = append(all, "a selector without the namespace, the job and the instance")
			}
			if strings.HasSuffix(n.Name, "_total") {
				call := len(path) >= 2
				if call {
					_, call = path[len(path)-2].(*parser.Call)
				}
				if !call {
					all = append(all, "a counter whose rate is not taken")
				}
			}
		case *parser.MatrixSelector:
			if n.Range != rateInterval {
				all = append(all, "a range that is not $__rate_interval")
			}
		}
		return nil
	})
	return all
}

// replaced replaces every variable of a query by a value that can be recognised.
func replaced(expr string) string {
	return strings.NewReplacer("$__rate_interval", rateInterval.String(), "$namespace", "NAMESPACE", "$job", "JOB",
		"$instance", "INSTANCE", "$server", "SERVER").Replace(expr)
}

func readBoard(t *testing.T, file string) *board {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	b := &board{}
	require.NoError(t, json.Unmarshal(text, b))
	return b
}

func TestTheDashboardsFollowTheRulesOfGrafanasLinter(t *testing.T) {
	files, err := filepath.Glob(root + "/dashboards/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			require.Empty(t, complaints(readBoard(t, file)))
		})
	}
}

func TestEveryRuleOfTheLinterDetectsAViolation(t *testing.T) {
	for complaint, spoil := range map[string]func(b *board){
		"it is editable":          func(b *board) { b.Editable = true },
		"it has no variable for":  func(b *board) { b.Templating.List = b.Templating.List[1:] },
		"it has no variable job":  func(b *board) { b.Templating.List[2].Name = "task" },
		"variable instance: want": func(b *board) { b.Templating.List[3].AllValue = ".*" },
		"its query is no label":   func(b *board) { b.Templating.List[3].Query = "label_values({, instance)" },
		"want a title":            func(b *board) { b.Panels[1].Description = "" },
		"its unit":                func(b *board) { b.Panels[1].FieldConfig.Defaults.Unit = "requests" },
		"a query does not use":    func(b *board) { b.Panels[1].Targets[0].Datasource.UID = "prometheus" },
		"without the namespace": func(b *board) {
			b.Panels[1].Targets[0].Expr = `mcmw_workers{job=~"$job",instance=~"$instance"}`
		},
		"whose rate is not taken": func(b *board) {
			b.Panels[1].Targets[0].Expr = `a_total{job=~"$job",instance=~"$instance"}`
		},
		"a range that is not": func(b *board) {
			b.Panels[1].Targets[0].Expr = `rate(a_total{job=~"$job",instance=~"$instance"}[5m])`
		},
		"parse error": func(b *board) { b.Panels[1].Targets[0].Expr = "sum(" },
	} {
		b := readBoard(t, root+"/dashboards/mcmw-overview.json")
		spoil(b)
		require.Contains(t, strings.Join(complaints(b), "\n"), complaint)
	}
}
