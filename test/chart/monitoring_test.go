package chart

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// dashboards returns the ConfigMaps with dashboards, by their names.
func dashboards(o *objects) map[string]*corev1.ConfigMap {
	found := map[string]*corev1.ConfigMap{}
	for _, c := range of[*corev1.ConfigMap](o) {
		if c.Labels["grafana_dashboard"] == "1" {
			found[c.Name] = c
		}
	}
	return found
}

func TestTheDashboardsAreThoseOfTheProjectWithTheNameOfTheRelease(t *testing.T) {
	paths, err := filepath.Glob("../../dashboards/mcmw-*.json")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	identifiers := map[any]bool{}
	for _, values := range [][]string{
		{"--values", "testdata/everything.yaml"},
		{"--set", "metrics.dashboards.enabled=true"},
		{"--set", "metrics.dashboards.enabled=true,metrics.dashboards.namespace=grafana", "--namespace", "other"},
	} {
		for version, h := range helms {
			o := render(t, h, values...)
			owner, _ := o.proxy(t)
			from, name := owner.owner.GetNamespace(), owner.owner.GetName()
			have := dashboards(o)
			require.Len(t, have, len(paths))
			for _, path := range paths {
				board := strings.TrimPrefix(strings.TrimSuffix(filepath.Base(path), ".json"), "mcmw-")
				called := name + "-dashboard-" + board
				c := have[called]
				if c == nil { // it is in another namespace, where other objects may have this name
					c = have[from+"-"+called]
					require.NotNil(t, c, called)
					require.Equal(t, "grafana", c.Namespace)
				} else {
					require.Equal(t, from, c.Namespace)
				}
				text, err := os.ReadFile(path)
				require.NoError(t, err)
				var want, got map[string]any
				require.NoError(t, yaml.Unmarshal(text, &want))
				require.NoError(t, yaml.UnmarshalStrict([]byte(c.Data[from+"-"+name+"-"+board+".json"]), &got))
				require.Equal(t, want["title"].(string)+" ("+from+"/"+name+")", got["title"])
				require.NotEqual(t, want["uid"], got["uid"])
				require.LessOrEqual(t, len(got["uid"].(string)), 40, "Grafana allows no more")
				identifiers[got["uid"]] = true
				want["title"], want["uid"] = got["title"], got["uid"]
				require.True(t, reflect.DeepEqual(want, got), "%s of %s differs from what it is made from", board,
					version)
			}
		}
	}
	require.Len(t, identifiers, 3*len(paths), "every release has its own identifiers")
}

func TestAnInstanceHasTheNameOfItsPodAndKEDAQueriesTheRightJob(t *testing.T) {
	relabeling := monitoringv1.RelabelConfig{
		SourceLabels: []monitoringv1.LabelName{"__meta_kubernetes_pod_name"},
		TargetLabel:  "instance",
	}
	const keda = "keda.enabled=true,keda.prometheusAddress=http://prometheus:9090"
	eachHelm(t, "", func(t *testing.T, h *helm) {
		o := render(t, h, "--set", keda+",metrics.serviceMonitor.enabled=true")
		require.Equal(t, relabeling, of[*monitoringv1.ServiceMonitor](o)[0].Spec.Endpoints[0].RelabelConfigs[0])
		query := of[*scaledObject](o)[0].Spec.Triggers[0].Metadata["query"]
		require.Contains(t, query, `{namespace="cache",job="mcmw-metrics"}`)

		o = render(t, h, "--set", keda+",metrics.podMonitor.enabled=true,metrics.podMonitor.namespace=monitoring")
		monitor := of[*monitoringv1.PodMonitor](o)[0]
		require.Equal(t, relabeling, monitor.Spec.PodMetricsEndpoints[0].RelabelConfigs[0])
		query = of[*scaledObject](o)[0].Spec.Triggers[0].Metadata["query"]
		require.Contains(t, query, `{namespace="cache",job="`+monitor.Namespace+"/"+monitor.Name+`"}`)
	})
	o := render(t, helms["v4"], "--values", "testdata/everything.yaml")
	require.Len(t, of[*monitoringv1.ServiceMonitor](o)[0].Spec.Endpoints[0].RelabelConfigs, 2, "the user's follow it")
}

func TestAlertsNameTheirRunbooks(t *testing.T) {
	for set, want := range map[string]string{
		"": "docs/runbooks/McmwSlow.md",
		",metrics.prometheusRule." +
			"runbookURL=https://example.com/mcmw/runbooks/": "https://example.com/mcmw/runbooks/McmwSlow.md",
	} {
		rule := of[*monitoringv1.PrometheusRule](render(t, helms["v4"], "--set",
			"metrics.prometheusRule.enabled=true"+set))[0]
		found := 0
		for _, group := range rule.Spec.Groups {
			for _, r := range group.Rules {
				if r.Alert != "" {
					require.Equal(t, strings.ReplaceAll(want, "McmwSlow", r.Alert), r.Annotations["runbook_url"])
					found++
				}
			}
		}
		require.NotZero(t, found)
	}
}

// ruleGroups returns the groups of the project's rules.
func ruleGroups(t *testing.T) (groups []monitoringv1.RuleGroup) {
	t.Helper()
	for _, file := range []string{"recording.yml", "alerts.yml"} {
		text, err := os.ReadFile(filepath.Join("../../rules", file))
		require.NoError(t, err)
		var spec monitoringv1.PrometheusRuleSpec
		require.NoError(t, yaml.UnmarshalStrict(text, &spec))
		require.NotEmpty(t, spec.Groups)
		groups = append(groups, spec.Groups...)
	}
	return groups
}

func TestTheRulesAreThoseOfTheProject(t *testing.T) {
	eachHelm(t, "", func(t *testing.T, h *helm) {
		rule := of[*monitoringv1.PrometheusRule](render(t, h, "--set", "metrics.prometheusRule.enabled=true"))[0]
		require.Equal(t, ruleGroups(t), rule.Spec.Groups)
	})
}

func TestAlertsHaveTheLabelsInTheValues(t *testing.T) {
	rule := of[*monitoringv1.PrometheusRule](render(t, helms["v4"], "--values", "testdata/everything.yaml"))[0]
	alerts := 0
	for _, group := range rule.Spec.Groups {
		for _, r := range group.Rules {
			if r.Alert != "" {
				alerts++
				require.Equal(t, "storage", r.Labels["team"])
				require.NotEmpty(t, r.Labels["severity"])
			} else {
				require.NotContains(t, r.Labels, "team", "the label would change the recorded series")
			}
		}
	}
	require.NotZero(t, alerts)
}
