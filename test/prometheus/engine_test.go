package prometheus

import (
	"context"
	"math"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"
)

// engine is the current Prometheus as a library: it scrapes, evaluates the rules, and answers.
type engine struct {
	storage *teststorage.TestStorage
	promql  *promql.Engine
}

// scraped configures one target. Only native histograms are stored, no classic ones.
const scraped = `
global: {scrape_interval: 1s, scrape_timeout: 1s, scrape_native_histograms: true}
scrape_configs: [{job_name: cache, static_configs: [{targets: ["unused"]}]}]
`

// startEngine scrapes target every second, and evaluates the rules, until the test ends.
func startEngine(t *testing.T, target string) *engine {
	t.Helper()
	e := &engine{
		storage: teststorage.New(t),
		promql:  promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: patience, Parser: grammar}),
	}
	scraper, err := scrape.NewManager(nil, promslog.NewNopLogger(), nil, nil, e.storage, prometheus.NewRegistry())
	require.NoError(t, err)
	c, err := config.Load(scraped, promslog.NewNopLogger())
	require.NoError(t, err)
	require.NoError(t, scraper.ApplyConfig(c))
	targets := make(chan map[string][]*targetgroup.Group, 1)
	targets <- map[string][]*targetgroup.Group{"cache": {{
		Source: "test", Targets: []model.LabelSet{{model.AddressLabel: model.LabelValue(target), "namespace": "here"}},
	}}}
	runUntilEnd(t, func() { _ = scraper.Run(targets) }, scraper.Stop)

	evaluator := rules.NewManager(&rules.ManagerOptions{
		ExternalURL: &url.URL{},
		QueryFunc:   rules.EngineQueryFunc(e.promql, e.storage),
		NotifyFunc:  func(context.Context, string, ...*rules.Alert) {},
		Appendable:  e.storage, Queryable: e.storage,
		Logger: promslog.NewNopLogger(), Registerer: prometheus.NewRegistry(),
	})
	require.NoError(t, evaluator.Update(time.Second, ruleFiles, labels.EmptyLabels(), "", nil))
	runUntilEnd(t, evaluator.Run, evaluator.Stop)
	return e
}

// runUntilEnd runs run in the background. At the end of the test it calls stop and waits.
func runUntilEnd(t *testing.T, run, stop func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		run()
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
}

// ask returns the current values of an expression.
func (e *engine) ask(expr string) (promql.Vector, error) {
	q, err := e.promql.NewInstantQuery(context.Background(), e.storage, nil, expr, time.Now())
	if err != nil {
		return nil, err
	}
	defer q.Close()
	result := q.Exec(context.Background())
	if result.Err != nil {
		return nil, result.Err
	}
	vector, err := result.Vector()
	for i := range vector {
		if vector[i].H != nil {
			vector[i].H = vector[i].H.Copy() // the original belongs to the query, which is closed
		}
	}
	return vector, err
}

// answered reports whether there is a value other than NaN.
func (e *engine) answered(expr string) (bool, error) {
	vector, err := e.ask(expr)
	for _, s := range vector {
		if s.H != nil || !math.IsNaN(s.F) {
			return true, err
		}
	}
	return false, err
}

// wrongLabels reports labels in an aggregation that no series has: the aggregation would have data nevertheless.
func (e *engine) wrongLabels(t *testing.T, expr parser.Expr) (all []string) {
	t.Helper()
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		sum, ok := node.(*parser.AggregateExpr)
		if !ok || sum.Without {
			return nil
		}
		var summed promql.Vector // all aggregated series, before any filter
		parser.Inspect(sum.Expr, func(node parser.Node, _ []parser.Node) error {
			if s, ok := node.(*parser.VectorSelector); ok {
				vector, err := e.ask(s.String())
				require.NoError(t, err)
				summed = append(summed, vector...)
			}
			return nil
		})
		for _, label := range sum.Grouping {
			if len(summed) > 0 && !slices.ContainsFunc(summed, func(s promql.Sample) bool {
				return s.Metric.Has(label)
			}) {
				all = append(all, "no series has the label "+label+": "+sum.String())
			}
		}
		return nil
	})
	return all
}

func TestEveryExpressionHasDataInTheCurrentEngineWithNativeHistograms(t *testing.T) {
	e := startEngine(t, startLoaded(t))
	requireAnswers(t, e.answered)

	vector, err := e.ask("sum(rate(mcmw_request_duration_seconds[1m]))")
	require.NoError(t, err)
	require.Len(t, vector, 1)
	require.NotNil(t, vector[0].H, "response times must be stored as native histograms")
	vector, err = e.ask(`{__name__=~"mcmw_request.*_duration_seconds_bucket"}`)
	require.NoError(t, err)
	require.Empty(t, vector, "classic histograms are also stored, so the expressions may have used those")

	for _, q := range questions(t) {
		expr, err := grammar.ParseExpr(q.expr)
		require.NoError(t, err)
		for _, wrong := range e.wrongLabels(t, expr) {
			t.Errorf("%s: %s", q.from, wrong)
		}
	}
	expr, err := grammar.ParseExpr("sum by (job, serve) (mcmw_server_state)")
	require.NoError(t, err)
	require.Len(t, e.wrongLabels(t, expr), 1)

	vector, err = e.ask(`ALERTS{alertstate="firing"}`)
	require.NoError(t, err)
	require.Empty(t, vector, "an alert fires although nothing is wrong")
}
