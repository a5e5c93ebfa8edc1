package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestTheDashboardsAreThoseOfTheProject(t *testing.T) {
	paths, err := filepath.Glob("../../dashboards/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	want := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		want[filepath.Base(path)] = string(text)
	}
	for version, h := range helms {
		t.Run(version, func(t *testing.T) {
			have := map[string]string{}
			for _, c := range of[*corev1.ConfigMap](render(t, h, "--values", "testdata/everything.yaml")) {
				for file, text := range c.Data {
					if strings.HasSuffix(file, ".json") {
						have[file] = text
						require.Equal(t, "grafana", c.Namespace)
						require.Equal(t, "1", c.Labels["grafana_dashboard"])
						require.Equal(t, "mcmw", c.Annotations["grafana_folder"])
					}
				}
			}
			require.Equal(t, want, have)
		})
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
	for version, h := range helms {
		t.Run(version, func(t *testing.T) {
			rule := of[*monitoringv1.PrometheusRule](render(t, h, "--set", "metrics.prometheusRule.enabled=true"))[0]
			require.Equal(t, ruleGroups(t), rule.Spec.Groups)
		})
	}
}

func TestAlertsGetTheLabelsThatAreAskedFor(t *testing.T) {
	rule := of[*monitoringv1.PrometheusRule](render(t, helms["v4"], "--values", "testdata/everything.yaml"))[0]
	alerts := 0
	for _, group := range rule.Spec.Groups {
		for _, r := range group.Rules {
			if r.Alert != "" {
				alerts++
				require.Equal(t, "storage", r.Labels["team"])
				require.NotEmpty(t, r.Labels["severity"])
			} else {
				require.NotContains(t, r.Labels, "team", "it would be another series")
			}
		}
	}
	require.NotZero(t, alerts)
}
