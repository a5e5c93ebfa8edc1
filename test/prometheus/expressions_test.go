package prometheus

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
)

var (
	grammar   = parser.NewParser(parser.Options{})
	ruleFiles = []string{root + "/rules/recording.yml", root + "/rules/alerts.yml"}
)

// question is an expression that must have a value while mcmw is under load.
type question struct {
	from string // the dashboard or rule that has it
	expr string
}

// questions are the expressions of all dashboards and rules.
func questions(t *testing.T) []question {
	t.Helper()
	return append(dashboardQuestions(t), ruleQuestions(t)...)
}

// dashboardQuestions are the expressions of all panels, for all namespaces, jobs, instances and servers.
func dashboardQuestions(t *testing.T) (all []question) {
	t.Helper()
	files, err := filepath.Glob(root + "/dashboards/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	variables := strings.NewReplacer("$__rate_interval", "1m", "$namespace", ".*", "$job", ".+", "$instance", ".+",
		"$server", ".+")
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var board struct {
			Panels []struct {
				Title, Type string
				Targets     []struct{ Expr string }
			}
		}
		require.NoError(t, json.Unmarshal(text, &board))
		for _, p := range board.Panels {
			require.True(t, p.Type == "row" || len(p.Targets) > 0, "panel %q of %s asks for nothing", p.Title, file)
			for _, target := range p.Targets {
				expr := variables.Replace(target.Expr)
				require.NotContains(t, expr, "$", "a variable without a value in %s, %q", file, p.Title)
				all = append(all, question{filepath.Base(file) + ", " + p.Title, expr})
			}
		}
	}
	return all
}

// ruleQuestions are the expressions of all rules; for alerts, the vectors that they compare.
func ruleQuestions(t *testing.T) (all []question) {
	t.Helper()
	for _, rule := range rulesOf(t) {
		expr, err := grammar.ParseExpr(rule.Expr)
		require.NoError(t, err)
		if rule.Record != "" {
			all = append(all, question{rule.Record, rule.Expr})
			continue
		}
		for _, e := range compared(expr) {
			all = append(all, question{rule.Alert, e})
		}
	}
	return all
}

func rulesOf(t *testing.T) (all []rulefmt.Rule) {
	t.Helper()
	for _, file := range ruleFiles {
		groups, errs := rulefmt.ParseFile(file, false, model.LegacyValidation, grammar, promslog.NewNopLogger())
		require.Empty(t, errs)
		for _, g := range groups.Groups {
			all = append(all, g.Rules...)
		}
	}
	return all
}

// compared returns the vectors that an alert's condition compares: they have values even while the condition does not
// hold. Offsets are removed, because the Prometheus has just started.
func compared(e parser.Expr) []string {
	switch e := e.(type) {
	case *parser.ParenExpr:
		return compared(e.Expr)
	case *parser.BinaryExpr:
		switch {
		case e.Op == parser.LUNLESS:
			return compared(e.LHS)
		case e.Op == parser.LAND || e.Op == parser.LOR:
			return append(compared(e.LHS), compared(e.RHS)...)
		case e.Op.IsComparisonOperator():
			return append(compared(e.LHS), compared(e.RHS)...)
		}
	case *parser.NumberLiteral:
		return nil
	}
	if e.Type() == parser.ValueTypeScalar {
		return nil
	}
	parser.Inspect(e, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			s.OriginalOffset, s.Offset = 0, 0
		}
		return nil
	})
	return []string{e.String()}
}

// requireAnswers repeats the questions until each has had at least one value, while scraping continues.
func requireAnswers(t *testing.T, ask func(expr string) (answered bool, err error)) {
	t.Helper()
	open := map[question]bool{}
	for _, q := range questions(t) {
		open[q] = true
	}
	t.Logf("%d expressions", len(open))
	deadline := time.Now().Add(patience)
	retry := time.NewTicker(500 * time.Millisecond)
	defer retry.Stop()
	for ; len(open) > 0 && time.Now().Before(deadline); <-retry.C {
		for q := range open {
			answered, err := ask(q.expr)
			require.NoError(t, err, "%s asks %s", q.from, q.expr)
			if answered {
				delete(open, q)
			}
		}
	}
	for _, q := range slices.SortedFunc(maps.Keys(open), func(a, b question) int {
		return strings.Compare(a.from, b.from)
	}) {
		t.Errorf("%s has no data: %s", q.from, q.expr)
	}
}
